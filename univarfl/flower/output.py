"""Texts that Flower's programs print and that no exit code or file replaces.

``tests/server_app/flower/test_internals.py`` fails when a new version of Flower changes one.
"""

import re

NODE_ACTIVATED = re.compile(r"SuperNode ID: (\d{1,20})\b")  # from a SuperNode that has joined
IGNORED_MESSAGE = "Ignoring message"  # from a SuperNode whose run ended while it fetched a message
STARTED_RUN = re.compile(r"Successfully started run (\d+)")  # from `flwr run`
STOPPED = "finished:stopped"  # the status of a run that a person stopped
FAILED = "finished:failed"  # the status of a run that failed, or whose ServerApp is gone
NO_HEARTBEAT = "No heartbeat received"  # in the status of a run whose ServerApp was killed
