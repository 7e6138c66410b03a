"""The training device, and the process settings that make equal seeds give equal bits."""

import ctypes
import functools
import os

import torch

from task.config import Device
from task.errors import DeviceError

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # as glibc's malloc.h numbers them


def prepare_process() -> None:
    """One thread per worker and deterministic algorithms, in this thread and on every device.

    Sums over threads depend on how many there are, so every engine computes with one: a federation
    gains its speed from several workers, not from several threads in each.
    """
    keep_freed_memory()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(1)
    # As `torch.use_deterministic_algorithms`, which imports PyTorch's compiler to tell it, too.
    torch.set_deterministic_debug_mode("error")
    # A check for reads of fresh memory that deterministic mode brings, at the price of filling it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@functools.cache
def keep_freed_memory() -> None:
    """Have this process keep the memory that a batch frees, for the next batch.

    Left to itself, glibc gives large blocks back to the system at once, and each batch's
    activations are paged in and zeroed anew: at 96x96 that is half of a step. So no block is mapped
    apart, the heap is trimmed only from 2 GB on, and new threads share the one heap that can grow
    at will. Elsewhere than on Linux with glibc, nothing is changed.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_ARENA_MAX, 1)


def choose_device(wanted: Device) -> torch.device:
    """The device to compute on; ``auto`` is CUDA where this process sees a GPU.

    Raises:
        DeviceError: CUDA was asked for and this process sees no GPU.
    """
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise DeviceError("device=cuda, but this process sees no CUDA GPU")
    return torch.device("cuda" if has_cuda and wanted != "cpu" else "cpu")
