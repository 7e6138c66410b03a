"""One-line messages for any error, with what to do about it where that is known."""

import errno
import sys

OUR_PACKAGES = ("client_app", "server_app", "task", "univarfl")

SYSTEM_ERRORS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "the file system is read-only",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine",
    errno.EIO: "the disk has failed to read or write",
}

# Texts of CUDA's libraries when the GPU's memory is used up. PyTorch raises its own class only if
# its allocator fails; cuDNN without memory for a convolution reports that no engine was found.
NO_ENGINE = "unable to find an engine to execute this computation"
GPU_SHORTAGES = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", NO_ENGINE)


def is_gpu_shortage(error: BaseException) -> bool:
    """Return whether an error says that the GPU has too little memory, in any of its forms."""
    torch = sys.modules.get("torch")  # without PyTorch, the error is none of PyTorch's
    if torch is None or not isinstance(error, RuntimeError):
        return False
    own = isinstance(error, torch.cuda.OutOfMemoryError)
    return own or any(text in str(error) for text in GPU_SHORTAGES)


def describe_error(error: BaseException) -> str:
    """Return one line that says what went wrong and, where known, what to do about it.

    An error class of this project is shown by its first line alone. Out-of-memory errors and the
    system errors in `SYSTEM_ERRORS` are put in plain words; any other error is shown as "type:
    first line".
    """
    text = str(error).strip().split("\n")[0]
    if text and type(error).__module__.partition(".")[0] in OUR_PACKAGES:
        return text
    if is_gpu_shortage(error):
        return (
            "the GPU has too little memory: use a smaller batch_size, a smaller model or a lower "
            f"federation.workers ({text})"
        )
    if isinstance(error, MemoryError):
        return (
            "this machine has too little memory: use a smaller model, a smaller data.image_size or "
            f"a lower rho ({text or 'MemoryError'})"
        )
    if isinstance(error, OSError) and error.errno in SYSTEM_ERRORS:
        place = f" ({error.filename})" if error.filename else ""
        return f"{SYSTEM_ERRORS[error.errno]}{place}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
