"""A systemd unit for a coordinator or a site."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

UNIT = """\
# /etc/systemd/system/univarfl-{name}.service; systemctl enable --now univarfl-{name}
[Unit]
Description=univarfl {name}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
User={user}
Restart=on-failure
RestartSec=30
# systemd stops the command, which ends its processes in order; any that are left are killed.
KillMode=mixed
TimeoutStopSec=60
# The service may write to this directory only, and cannot gain privileges.
ReadWritePaths={writable}
ReadOnlyPaths={readable}
Environment=UNIVARFL_CACHE={writable}/cache XDG_STATE_HOME={writable}/state
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=true
NoNewPrivileges=true

[Install]
WantedBy=multi-user.target
"""


def unit(name: str, words: Sequence[str], writable: Path, readable: Sequence[Path]) -> str:
    """Return the unit that keeps a ``univarfl deploy`` command running.

    Args:
        name: the coordinator's or site's name.
        words: the arguments of ``univarfl deploy``.
        writable: the directory that the command may write to.
        readable: other directories, which it may only read.
    """
    program = Path(sys.executable).parent / "univarfl"
    return UNIT.format(
        name=name, command=shlex.join([str(program), "deploy", *words]),
        user=os.environ.get("USER", "root"), writable=writable,
        readable=" ".join(map(str, readable)) or "/",
    )  # fmt: skip
