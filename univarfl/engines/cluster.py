"""The machines that train virtual clients: this one, or a Ray cluster that already runs."""

import logging
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from task.error_messages import describe_error
from task.errors import ConfigError

ADDRESS = "RAY_ADDRESS"
FIND_CLUSTER = "auto"  # Ray's word for the cluster that this machine belongs to
CONNECT_SECONDS = 5.0
LOST_SECONDS = 90.0  # until Ray has noticed that a machine is gone; it needs some 20 s
POLL_SECONDS = 0.5
GPU_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")  # of NVIDIA's driver, of WSL, of AMD's
WORKERS_PER_CPU = 8  # more only compete for the CPUs, and each needs several hundred MB of memory


@dataclass(frozen=True)
class Machines:
    """The processors that a run may use.

    Attributes:
        cpus: the number of CPUs, one for each worker.
        gpus: the number of GPUs, shared by the workers.
        running: whether they belong to a Ray cluster that already runs.
    """

    cpus: int
    gpus: int
    running: bool


def machines() -> Machines:
    """Return the machines of the cluster at ``$RAY_ADDRESS``, or else this machine.

    Raises:
        ConfigError: no cluster answers at that address.
    """
    address = os.environ.get(ADDRESS)
    return cluster_at(address) if address else this_machine()


def require_allowed_workers(workers: int, cpus: int) -> None:
    """Refuse more than `WORKERS_PER_CPU` workers for each CPU.

    Raises:
        ConfigError: there are more.
    """
    most = WORKERS_PER_CPU * cpus
    if workers > most:
        allowed = f"must be at most {most}, which is {WORKERS_PER_CPU} for each of {cpus} CPU cores"
        raise ConfigError("federation.workers", workers, allowed)


def require_reachable_cluster() -> None:
    """Refuse a ``$RAY_ADDRESS`` at which no program answers.

    Raises:
        ConfigError: no program answers there.
    """
    if address := os.environ.get(ADDRESS):
        try:
            connect(address)
        except (OSError, ValueError) as error:
            raise address_error(address, error) from None


def address_error(address: str, error: Exception) -> ConfigError:
    """Return the error for an address at which no cluster answers."""
    why = f"no Ray cluster of this version answers there: {describe_error(error)}"
    cure = f"start one with 'ray start --head' and set {ADDRESS} to its HOST:PORT, or unset it"
    return ConfigError(ADDRESS, address, f"{why}; {cure}")


def this_machine() -> Machines:
    """Return this machine."""
    import joblib  # noqa: PLC0415  (takes a fifth of a second)

    return Machines(joblib.cpu_count(), gpu_count(), running=False)


def gpu_count() -> int:
    """Return the number of GPUs.

    PyTorch's import takes seconds, so it is asked only if there may be one.
    """
    if not may_have_gpus():
        return 0
    import torch  # noqa: PLC0415

    return torch.cuda.device_count()


def may_have_gpus() -> bool:
    """Return whether this machine has a file of a GPU's driver, or is not Linux."""
    return sys.platform != "linux" or any(Path(path).exists() for path in GPU_FILES)


def cluster_at(address: str) -> Machines:
    """Return the machines of a Ray cluster, counting whole CPUs and GPUs.

    Raises:
        ConfigError: the cluster or one of its machines does not answer, or it has no CPU.
    """
    import ray  # noqa: PLC0415  (takes seconds; needed for a cluster only)

    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        resources = [node["Resources"] for node in answering_nodes(ray.nodes)]
    except (OSError, RuntimeError, ValueError) as error:
        raise address_error(address, error) from None
    finally:
        ray.shutdown()
    cpus = sum(int(node.get("CPU", 0)) for node in resources)
    gpus = sum(int(node.get("GPU", 0)) for node in resources)
    if not cpus:
        allowed = f"the cluster has no CPU; add a machine with CPUs to it, or unset {ADDRESS}"
        raise ConfigError(ADDRESS, address, allowed)
    return Machines(cpus, gpus, running=True)


def answering_nodes(
    nodes: Callable[[], Sequence[Mapping[str, Any]]], seconds: float = LOST_SECONDS
) -> list[Mapping[str, Any]]:
    """Return a cluster's nodes once all that Ray believes to be alive answer.

    Ray notices a lost machine only after some 20 s. A run that counts on it would wait for its
    workers for ever.

    Args:
        nodes: asks Ray for its nodes.
        seconds: how long to wait until Ray has noticed each node that does not answer.

    Raises:
        ConnectionError: a node does not answer, and Ray still believes it to be alive.
    """
    deadline = time.monotonic() + seconds
    while True:
        alive = [node for node in nodes() if node["Alive"]]
        silent = next((place for place in map(place_of, alive) if not answers(place)), None)
        if silent is None:
            return alive
        if time.monotonic() >= deadline:
            raise ConnectionError(f"its machine {silent} does not answer")
        time.sleep(POLL_SECONDS)


def place_of(node: Mapping[str, Any]) -> str:
    """Return the HOST:PORT of a node's raylet."""
    return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"


def answers(address: str) -> bool:
    """Return whether a program listens at HOST:PORT."""
    try:
        connect(address)
    except OSError:
        return False
    return True


def connect(address: str) -> None:
    """Open a connection to an address and close it, as Ray itself would wait for minutes.

    Raises:
        OSError: no program answers there.
        ValueError: it is not an address.
    """
    if address == FIND_CLUSTER:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535 or "/" in host:
        raise ValueError("it is not HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
