"""What is said of the errors that a machine can make."""

import errno
from pathlib import Path

import pytest
import torch

from task.causes import explained
from task.errors import ConfigError

FULL = Path("/dev/full")
DISK = OSError(errno.ENOSPC, "No space left on device", "/data/model.safetensors")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DISK, "the disk is full: free some space (/data/model.safetensors)"),
        (OSError(errno.EMFILE, "..."), "too many open files: raise the limit (ulimit -n)"),
        (
            torch.cuda.OutOfMemoryError("Tried to allocate 2.00 GiB.\nGPU 0 has ..."),
            (
                "GPU memory is short: a smaller batch_size, model or federation.workers helps "
                "(Tried to allocate 2.00 GiB.)"
            ),
        ),
        (
            MemoryError(),
            "memory is short: a smaller model, data.image_size or rho helps (no more)",
        ),
        (ConfigError("alpha", 0, "must be above 0"), "alpha=0: must be above 0"),
        (ValueError("two\nlines"), "ValueError: two"),
        (ValueError(), "ValueError"),
        (OSError(errno.EACCES, "denied", "x"), "PermissionError: [Errno 13] denied: 'x'"),
    ],
)
def test_a_line_says_what_it_means_and_what_helps(error: BaseException, said: str) -> None:
    assert explained(error) == said


def test_a_full_disk_is_a_real_one() -> None:
    """Linux's /dev/full refuses every write for want of space."""
    with (
        pytest.raises(OSError, match="No space left") as caught,
        Path("/dev/full").open("wb") as file,
    ):
        file.write(b"x" * 100_000)
    assert explained(caught.value) == "the disk is full: free some space"
