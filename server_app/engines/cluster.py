"""The machines that train virtual clients: this one, or a Ray cluster that runs already."""

import logging
import os
import socket
import warnings
from dataclasses import dataclass

import joblib
import torch

from task.causes import explained
from task.errors import ConfigError

ADDRESS = "RAY_ADDRESS"
FIND_ONE = "auto"  # Ray's word for a cluster that this machine is part of
SECONDS = 5.0


@dataclass(frozen=True)
class Machines:
    """What a run may use.

    Attributes:
        cpus: for a worker each.
        gpus: which the workers share.
        running: whether they are a Ray cluster's, and Ray is not to be started.
    """

    cpus: int
    gpus: int
    running: bool


def machines() -> Machines:
    """Those of the cluster that ``$RAY_ADDRESS`` names, else this one.

    Raises:
        ConfigError: no cluster answers there.
    """
    address = os.environ.get(ADDRESS)
    return cluster_at(address) if address else here()


def check_address() -> None:
    """Refuse a ``$RAY_ADDRESS`` at which nobody answers.

    Raises:
        ConfigError: so it is.
    """
    if address := os.environ.get(ADDRESS):
        try:
            knock(address)
        except (OSError, ValueError) as error:
            raise unanswered(address, error) from None


def unanswered(address: str, error: Exception) -> ConfigError:
    """What to say of an address, and what to do."""
    why = f"no Ray cluster of this version answers there: {explained(error)}"
    cure = "start one with 'ray start --head', as HOST:PORT, or unset it"
    return ConfigError(ADDRESS, address, f"{why}; {cure}")


def here() -> Machines:
    """This machine."""
    return Machines(joblib.cpu_count(), torch.cuda.device_count(), running=False)


def cluster_at(address: str) -> Machines:
    """A cluster's machines, each with a worker for a whole CPU.

    Raises:
        ConfigError: it does not answer.
    """
    import ray  # noqa: PLC0415  (takes seconds, and is not needed without a cluster)

    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        found = [node["Resources"] for node in nodes if node["Alive"]]
    except (OSError, RuntimeError, ValueError) as error:
        raise unanswered(address, error) from None
    finally:
        ray.shutdown()
    cpus = sum(int(node.get("CPU", 0)) for node in found)
    gpus = sum(int(node.get("GPU", 0)) for node in found)
    if not cpus:
        raise ConfigError(ADDRESS, address, "no machine of that cluster has a CPU to give")
    return Machines(cpus, gpus, running=True)


def knock(address: str) -> None:
    """Try an address, at which Ray would itself wait for minutes.

    Raises:
        OSError: nobody is there.
        ValueError: it is no address.
    """
    if address == FIND_ONE:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise ValueError("it is no HOST:PORT")
    socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
