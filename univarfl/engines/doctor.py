"""The state of this machine: versions, devices, memory, disk, Flower, Ray and ports."""

import importlib.metadata
import importlib.util
import os
import platform
import pwd
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from packaging.requirements import Requirement

from server_app.runs.lookup import runs_parent
from task.data.image_store.store import store_root
from task.errors import ConfigError, system_reason
from task.machine.files import existing_parent
from task.machine.memory import available_bytes
from univarfl.deploy.places import DEFAULT_PORT
from univarfl.engines.cluster import ADDRESS, require_reachable_cluster
from univarfl.engines.superlink import rays_root

OK, NOTE, FAIL = "ok", "note", "FAIL"
PACKAGES = ("flwr", "ray", "torch", "torchvision", "hydra-core", "numpy")
PROGRAMS = ("flwr", "flower-superlink", "flower-supernode", "flower-superexec")
EXTRAS = {
    "datasets": "data=hub needs it: uv sync --extra hub",
    "tensorboard": "watch.tensorboard needs it: uv sync --extra tensorboard",
    "mlflow": "watch.mlflow needs it: uv sync --extra mlflow",
    "onnx": "'univarfl export' needs it for ONNX: uv sync --extra onnx",
}
GIGABYTE = 1e9
LEAST_MEMORY, LEAST_DISK = 2.0, 2.0  # GB; a run of the smallest experiment needs less
LEAST_SHARED = 0.5
PEOPLE = range(1000, 65534)  # user ids; the others belong to the system's own services
SHOWN_USERS = 3
NO_LOGIN = ("/nologin", "/false")

Finding = tuple[str, str]


def findings() -> Iterator[Finding]:
    """Yield the state and the text of each check."""
    yield from versions()
    yield from devices()
    yield from memory()
    yield from directories()
    yield from programs()
    yield ray_cluster()
    yield port(DEFAULT_PORT)
    yield local_users()
    yield from extras()


def versions() -> Iterator[Finding]:
    """Check that each package is installed in a version that univarfl allows."""
    yield OK, f"univarfl {importlib.metadata.version('univarfl')}, Python {sys.version.split()[0]}"
    yield OK, f"{platform.platform()}, {os.cpu_count()} CPU cores"
    needed = {
        Requirement(text).name: Requirement(text)
        for text in importlib.metadata.requires("univarfl") or ()
    }
    for name in PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield FAIL, f"{name} is not installed; install univarfl again (uv sync)"
            continue
        if name in needed and not needed[name].specifier.contains(version, prereleases=True):
            yield FAIL, f"{name} {version} is not {needed[name].specifier}; use uv sync"
        else:
            yield OK, f"{name} {version}"


def devices() -> Iterator[Finding]:
    """Yield the GPUs that PyTorch sees."""
    if not torch.cuda.is_available():
        yield NOTE, "no CUDA GPU is seen; runs use the CPU (device=cpu)"
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        yield OK, f"GPU {index}: {gpu.name}, {gpu.total_memory / GIGABYTE:.0f} GB"


def memory() -> Iterator[Finding]:
    """Check the memory that is free, and the shared memory that Ray uses (``engine=flower``)."""
    free = available_bytes() / GIGABYTE
    yield enough(free, LEAST_MEMORY), f"{free:.1f} GB of memory are free"
    shared = Path("/dev/shm")  # noqa: S108  (where Ray keeps its objects on Linux)
    if shared.is_dir():
        size = shutil.disk_usage(shared).total / GIGABYTE
        small = "; Ray then uses files, which is slower" if size < LEAST_SHARED else ""
        yield OK if size >= LEAST_SHARED else NOTE, f"{size:.1f} GB of shared memory{small}"


def directories() -> Iterator[Finding]:
    """Check that records, images and temporary files can be written."""
    places = {
        "runs": runs_parent(),
        "image cache": store_root(),
        "temporary files": Path(tempfile.gettempdir()),
    }
    for what, place in places.items():
        existing = place
        try:
            existing = existing_parent(place)
            with tempfile.TemporaryFile(dir=existing):
                pass
        except OSError as error:
            yield FAIL, f"{what}: {existing} cannot be written: {system_reason(error)}"
            continue
        free = shutil.disk_usage(existing).free / GIGABYTE
        yield enough(free, LEAST_DISK), f"{what}: {free:.0f} GB are free in {place}"


def enough(found: float, least: float) -> str:
    """Return whether there is enough of something: a note if it is short."""
    return OK if found >= least else NOTE


def programs() -> Iterator[Finding]:
    """Check that Flower's programs are found."""
    beside = Path(sys.executable).parent
    missing = [name for name in PROGRAMS if not (beside / name).exists() and not shutil.which(name)]
    if missing:
        yield FAIL, f"Flower's {', '.join(missing)} not found in {beside}; use uv sync"
    else:
        yield OK, "Flower's programs are found"


def ray_cluster() -> Finding:
    """Check the cluster at ``$RAY_ADDRESS`` if it is set, and the directory of a Ray of our own."""
    address = os.environ.get(ADDRESS)
    if not address:
        try:
            rays_root()
        except ConfigError as error:
            return NOTE, f"engine=flower cannot run: {error}"
        return OK, f"with engine=flower, Ray starts on this machine ({ADDRESS} is not set)"
    try:
        require_reachable_cluster()
    except ConfigError as error:
        return FAIL, str(error)
    return OK, f"a Ray cluster answers at {address}"


def port(number: int) -> Finding:
    """Check whether the coordinator's usual port is free; simulations choose free ports."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", number))
        except OSError as error:
            taken = f"port {number} is not free ({system_reason(error)})"
            return NOTE, f"{taken}; 'univarfl deploy coordinator --port' takes another"
    return OK, f"port {number}, which a coordinator listens on, is free"


def local_users() -> Finding:
    """Say which accounts could use a SuperLink, which listens on 127.0.0.1 without a login."""
    others = sorted(
        account.pw_name
        for account in pwd.getpwall()
        if account.pw_uid in PEOPLE and account.pw_uid != os.getuid()
        and not account.pw_shell.endswith(NO_LOGIN)
    )  # fmt: skip
    if not others:
        return OK, "no other account here could run code as you through a SuperLink"
    named = ", ".join(others[:SHOWN_USERS]) + (", ..." if len(others) > SHOWN_USERS else "")
    return NOTE, (
        f"other users of this machine can run code as you through a SuperLink that you start: "
        f"{named}; to prevent it, see the page Deploy of the documentation"
    )


def extras() -> Iterator[Finding]:
    """Yield the optional packages."""
    for name, needed in EXTRAS.items():
        if importlib.util.find_spec(name) is None:
            yield NOTE, f"{name} is not installed; {needed}"
        else:
            yield OK, f"{name} is installed"
