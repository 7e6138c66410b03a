"""NVIDIA's Multi-Process Service (MPS), which lets kernels of several processes run at once."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 30


class MpsError(RuntimeError):
    """MPS cannot be used here."""


@contextmanager
def mps() -> Iterator[dict[str, str]]:
    """Start a control daemon of our own, and stop it at the end; no setting of the GPU is changed.

    Yields:
        The environment variables with which a process becomes the daemon's client.

    Raises:
        MpsError: the daemon is not installed or does not start.
    """
    if shutil.which(CONTROL) is None:
        raise MpsError(f"{CONTROL} is not installed")
    with tempfile.TemporaryDirectory(prefix="mps") as place:
        names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
        environment = dict.fromkeys(names, place)
        started = control(environment, "-d")
        if started.returncode:
            output = f"{started.stdout} {started.stderr}".strip()
            raise MpsError(f"{CONTROL} -d ended with code {started.returncode}: {output}")
        try:
            yield environment
        finally:
            control(environment, command="quit")


@contextmanager
def mps_if_installed() -> Iterator[dict[str, str]]:
    """Yield the environment of processes that share a GPU; empty without MPS."""
    with ExitStack() as stack:
        try:
            environment = stack.enter_context(mps())
        except MpsError:
            environment = {}
        yield environment


def servers(environment: dict[str, str]) -> list[str]:
    """Return the process ids of the daemon's servers; none if no process uses MPS."""
    return control(environment, command="get_server_list").stdout.split()


def control(
    environment: dict[str, str], *words: str, command: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run the control program with words, or send a command to the daemon.

    Raises:
        MpsError: it does not answer.
    """
    try:
        return subprocess.run(
            [CONTROL, *words], input=command, capture_output=True, text=True, timeout=SECONDS,
            check=False, env={**os.environ, **environment},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise MpsError(f"{CONTROL} did not answer within {SECONDS} s") from None
