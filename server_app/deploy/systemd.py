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
# What it runs may write here alone, and nowhere gain rights.
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
    """The unit that keeps a ``univarfl deploy`` command running.

    Args:
        name: of the coordinator or site.
        words: the command's.
        writable: the directory it may write to.
        readable: what else it reads, and must not change.
    """
    program = Path(sys.executable).parent / "univarfl"
    return UNIT.format(
        name=name, command=shlex.join([str(program), "deploy", *words]),
        user=os.environ.get("USER", "root"), writable=writable,
        readable=" ".join(map(str, readable)) or "/",
    )  # fmt: skip
