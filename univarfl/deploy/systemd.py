"""A systemd unit for a coordinator or a site."""

import os
import pwd
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from task.errors import ConfigError

PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")  # characters that systemd takes as they are

PASSED_ON = (
    "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy",
    "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
ROOT_WARNING = "# Do not run it as root: use an account of its own, and write its name here."
FILE_NOTE = """\
# The value holds a password, which all users can read here. Write the lines NAME=VALUE for
# {names} into this file, and run chmod 600 on it.
EnvironmentFile={file}
"""
UNIT = """\
# /etc/systemd/system/univarfl-{unit}.service; systemctl enable --now univarfl-{unit}
[Unit]
Description=univarfl {name}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
{user}
Restart=on-failure
SuccessExitStatus=130
RestartSec=30
# systemd stops the command, which ends its processes in order; any that are left are killed.
KillMode=mixed
# A process that needs more than MemoryMax is ended, and the service goes on.
OOMPolicy=continue
TimeoutStopSec=60
# The service may write to these directories only, and cannot gain privileges.
ReadWritePaths={writable}
ReadOnlyPaths={readable}
Environment={cache} {state}
{environment}ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=true
NoNewPrivileges=true

[Install]
WantedBy=multi-user.target
"""


def unit(
    name: str, words: Sequence[str], writable: Sequence[Path], readable: Sequence[Path]
) -> str:
    """Return the unit that keeps a ``univarfl deploy`` command running.

    Args:
        name: the coordinator's or site's name.
        words: the arguments of ``univarfl deploy``.
        writable: the directories that the command may write to; the first is its own.
        readable: other directories, which it may only read.

    Raises:
        ConfigError: a name or path holds a line end or another control character.
    """
    program = Path(sys.executable).parent / "univarfl"
    command = [quoted(word).replace("$", "$$") for word in (str(program), "deploy", *words)]
    return UNIT.format(
        unit=re.sub(r"[^A-Za-z0-9_.-]", "-", name), name=literal(name), command=" ".join(command),
        user=user_lines(), writable=paths(writable),
        readable=paths(readable) or "/",
        cache=quoted(f"UNIVARFL_CACHE={writable[0]}/cache"),
        state=quoted(f"XDG_STATE_HOME={writable[0]}/state"),
        environment=environment_lines(writable[0]),
    )  # fmt: skip


def user_lines() -> str:
    """Return the setting of the user who runs this command, with a warning about root."""
    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container that was started with a number
        name = str(number)
    setting = f"User={literal(name)}"
    return setting if number else f"{ROOT_WARNING}\n{setting}"


def environment_lines(directory: Path) -> str:
    """Return the settings that pass on what this command's environment says of the network.

    Args:
        directory: holds the file with what other users must not read.
    """
    found = {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
    hidden = ", ".join(name for name, value in found.items() if "@" in value)
    text = "".join(
        f"Environment={quoted(f'{name}={value}')}\n"
        for name, value in found.items()
        if "@" not in value
    )
    if hidden:
        text += FILE_NOTE.format(names=hidden, file=literal(str(directory / "environment")))
    return text


def paths(found: Sequence[Path]) -> str:
    """Return directories as the value of a unit's setting."""
    return " ".join(quoted(str(path)) for path in found)


def quoted(word: str) -> str:
    """Return a word of a unit's setting, which systemd reads as this word.

    Raises:
        ConfigError: it holds a control character.
    """
    text = literal(word)
    if PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def literal(text: str) -> str:
    """Return text for a unit in which systemd replaces nothing.

    Raises:
        ConfigError: it holds a control character.
    """
    if not text.isprintable():
        raise ConfigError("--systemd", ascii(text), "must be printable, on one line")
    return text.replace("%", "%%")
