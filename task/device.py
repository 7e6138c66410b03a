"""The training device, and the process settings that make equal seeds give equal bits."""

import os

import torch

from task.config import Device
from task.errors import DeviceError


def prepare_process() -> None:
    """One thread per worker and deterministic algorithms, in this thread and on every device.

    Sums over threads depend on how many there are, so every engine computes with one: a federation
    gains its speed from several workers, not from several threads in each.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # A check for reads of fresh memory that deterministic mode brings, at the price of filling it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def choose_device(wanted: Device) -> torch.device:
    """The device to compute on; ``auto`` is CUDA where this process sees a GPU.

    Raises:
        DeviceError: CUDA was asked for and this process sees no GPU.
    """
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise DeviceError("device=cuda, but this process sees no CUDA GPU")
    return torch.device("cuda" if has_cuda and wanted != "cpu" else "cpu")
