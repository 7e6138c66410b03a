"""The training device, and the process settings that make equal seeds give equal bits."""

import ctypes
import functools
import os

import torch

from task.config import Device, Precision
from task.errors import DeviceError

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # as glibc's malloc.h numbers them


def prepare_process() -> None:
    """Set one thread per process and deterministic algorithms, for this thread and every device.

    The rounding of a sum depends on the number of threads, so every engine uses one. Speed comes
    from several workers instead of several threads in each.
    """
    keep_freed_memory()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(1)
    # The same as `torch.use_deterministic_algorithms`, which also imports PyTorch's compiler.
    torch.set_deterministic_debug_mode("error")
    # Deterministic mode fills new memory with NaN, to find reads of it; that takes time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@functools.cache
def keep_freed_memory() -> None:
    """Make this process keep the memory that a batch frees, for the next batch.

    By default glibc returns large blocks to the system at once, so the system zeroes and maps the
    memory of every batch's activations again: half of a step's time at 96x96 pixels. Here no block
    is mapped separately, the heap is trimmed only above 2 GB, and all threads share one heap.
    Without glibc, nothing changes.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_ARENA_MAX, 1)


def return_freed_memory() -> None:
    """Return the memory that this process has freed and keeps to the system.

    Kept memory is in pieces, and a large array does not fit into one of them. Without glibc,
    nothing changes.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def set_precision(precision: Precision, device: torch.device) -> None:
    """Set whether this process rounds the factors of convolutions and matrix products to TF32.

    By default PyTorch uses TF32 in convolutions of float32 tensors on a GPU. A CPU has no TF32 and
    computes in float32 instead.
    """
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def choose_device(wanted: Device) -> torch.device:
    """Return the device to compute on; ``auto`` means CUDA if this process sees a GPU, else CPU.

    Raises:
        DeviceError: `wanted` is ``cuda`` and this process sees no GPU.
    """
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise DeviceError(
            "device=cuda: this process sees no CUDA GPU; use device=cpu or device=auto"
        )
    return torch.device("cuda" if has_cuda and wanted != "cpu" else "cpu")
