"""The gate's log: a line about each refusal, in files that are replaced when they are full."""

import logging
import logging.handlers
import time
from pathlib import Path
from typing import Any

from univarfl.deploy.gate.requests import RefusedError, shown

FILE_BYTES, OLD_FILES = 2 * 2**20, 4
LINE = "%(asctime)s.%(msecs)03dZ %(message)s"

refusals = logging.getLogger("univarfl.gate")


def open_log(path: Path) -> None:
    """Write everything that this process logs into a file, which at 2 MiB is put aside."""
    handler = logging.handlers.RotatingFileHandler(path, "a", FILE_BYTES, OLD_FILES, "utf-8")
    formatter = logging.Formatter(LINE, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def log_refusal(scope: dict[str, Any], site: str, refused: RefusedError) -> None:
    """Log who asked for what and why it was refused; no header and no body."""
    host, port = scope["client"] or ("-", 0)
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    refusals.warning(
        "%s:%s site=%s %s %s %s: %s",
        host, port, site or "-", shown(scope["method"]), shown(scope["raw_path"] + query),
        refused.status, refused.reason,
    )  # fmt: skip
