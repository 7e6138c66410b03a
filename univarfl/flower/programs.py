"""Flower's programs as supervised processes: they end with this process, however it ends."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

from task.errors import RunError
from univarfl.flower import supervisor
from univarfl.flower.health import LOOPBACK_NAMES

# Containers often set it. Each message to a site starts a process, and without compiled files
# that start takes twice as long.
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
CONNECTION = "univarfl"  # Flower's name for the connection to our SuperLink
START_SECONDS = 60.0
STOP_SECONDS = 2 * (supervisor.POLITE_SECONDS + supervisor.FORCE_SECONDS)


class FlowerError(RunError):
    """One of Flower's programs could not be started or ended early."""


def installed_program(name: str) -> str:
    """Return the path of a program installed with this Python, or on the ``PATH``.

    Raises:
        FlowerError: there is no such program.
    """
    scripts = Path(sys.executable).parent
    path = shutil.which(name, path=f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        raise FlowerError(f"{name} is not installed beside {sys.executable}")
    return path


def environment(home: Path) -> dict[str, str]:
    """Return the environment for Flower's programs, with `home` as their ``FLWR_HOME``.

    A proxy is not used for connections within this machine.
    """
    kept = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    no_proxy = ",".join(filter(None, [direct, *LOOPBACK_NAMES]))
    return {
        **kept,
        "no_proxy": no_proxy,
        "NO_PROXY": no_proxy,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLWR_HOME": str(home),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        # Otherwise Ray starts one worker per core, and Flower's clients use none of them.
        "RAY_prestart_worker_first_driver": "0",
        "RAY_enable_worker_prestart": "0",
    }


def start(
    command: Sequence[str],
    home: Path,
    directory: Path,
    output: IO[str] | int,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """Start a program under a supervisor, and return the supervisor's process.

    The supervisor ends when the program and every process started by it have ended, with the
    program's exit code. It ends them itself when it receives SIGTERM or when this process ends.

    Args:
        command: the program's name and its arguments.
        home: Flower's own directory.
        directory: the working directory.
        output: where standard output and standard error go, as for `subprocess.Popen`.
        variables: environment variables besides those of Flower's programs.

    Raises:
        FlowerError: the program is not installed.
    """
    supervised = [sys.executable, "-P", supervisor.__file__, str(os.getpid())]
    return subprocess.Popen(  # noqa: S603  (our own arguments, no shell)
        [*supervised, installed_program(command[0]), *command[1:]],
        cwd=directory,
        env={**environment(home), **variables},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def run_to_end(command: Sequence[str], home: Path) -> tuple[int, str]:
    """Run a program in Flower's directory; return its exit code and everything it printed."""
    process = start(command, home, home, subprocess.PIPE)
    output, _ = process.communicate()
    return process.returncode, output.decode(errors="replace")


def stop(processes: Sequence[subprocess.Popen[bytes]], at_once: bool = False) -> None:
    """End supervised programs and every process they started, and wait until they have ended.

    Args:
        processes: the supervisors.
        at_once: whether to kill the programs, because they have nothing left to do.
    """
    for process in processes:
        process.send_signal(supervisor.AT_ONCE if at_once else signal.SIGTERM)
    for process in processes:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # the inner supervisor ends the program


def write_connection(home: Path, address: str, authority: Path | None = None) -> None:
    """Make a SuperLink the default connection of the ``flwr`` commands that use `home`.

    Args:
        home: Flower's own directory.
        address: HOST:PORT.
        authority: the certificate that signed the SuperLink's own; None for no TLS.
    """
    trust = f"root-certificates = {json.dumps(str(authority))}" if authority else "insecure = true"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "{CONNECTION}"\n\n'
        f'[superlink.{CONNECTION}]\naddress = "{address}"\n{trust}\n'
    )


def wait_until_ready(
    is_ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    log: Path,
    name: str = "flower-superlink",
) -> None:
    """Wait until a program answers.

    Args:
        is_ready: whether it answers; may raise an `OSError` if it does not.
        process: the program.
        log: its output, quoted in the error.
        name: its name, used in the error.

    Raises:
        FlowerError: the program ended or did not answer within `START_SECONDS`.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise FlowerError(f"{name} ended at its start: {last_line(log)}")
        with contextlib.suppress(OSError):
            if is_ready():
                return
        time.sleep(0.1)
    raise FlowerError(f"{name} was not ready within {START_SECONDS:g} s")


def free_ports(count: int) -> list[int]:
    """Return `count` TCP ports on which no program listens."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def last_line(path: Path) -> str:
    """Return the last line of a text file that is not blank."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
