"""One-line messages for errors, those of the system among them."""

import errno
from pathlib import Path

import pytest
import torch

from task.error_messages import describe_error
from task.errors import ConfigError

DISK = OSError(errno.ENOSPC, "No space left on device", "/data/model.safetensors")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DISK, "the disk is full: free some space (/data/model.safetensors)"),
        (OSError(errno.EMFILE, "..."), "too many open files: raise the limit (ulimit -n)"),
        (
            torch.cuda.OutOfMemoryError("Tried to allocate 2.00 GiB.\nGPU 0 has ..."),
            (
                "the GPU has too little memory: use a smaller batch_size, a smaller model or a "
                "lower federation.workers (Tried to allocate 2.00 GiB.)"
            ),
        ),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
            (
                "the GPU has too little memory: use a smaller batch_size, a smaller model or a "
                "lower federation.workers (CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
                "`cublasCreate`)"
            ),
        ),
        (
            MemoryError(),
            (
                "this machine has too little memory: use a smaller model, a smaller "
                "data.image_size or a lower rho (MemoryError)"
            ),
        ),
        (ConfigError("alpha", 0, "must be above 0"), "alpha=0: must be above 0"),
        (ValueError("two\nlines"), "ValueError: two"),
        (ValueError(), "ValueError"),
        (OSError(errno.EACCES, "denied", "x"), "PermissionError: [Errno 13] denied: 'x'"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(error: BaseException, message: str) -> None:
    assert describe_error(error) == message


def test_a_real_full_disk_is_described() -> None:
    """Every write to Linux's /dev/full fails with ENOSPC."""
    with (
        pytest.raises(OSError, match="No space left") as caught,
        Path("/dev/full").open("wb") as file,
    ):
        file.write(b"x" * 100_000)
    assert describe_error(caught.value) == "the disk is full: free some space"
