"""What the system's own errors mean to a person, and what helps."""

import errno

import torch

OUR_PACKAGES = ("client_app", "server_app", "task")

CURES = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "the file system can only be read",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine",
    errno.EIO: "the disk has failed to read or write",
}


def explained(error: BaseException) -> str:
    """An error as one line: what it means where that is known, else its type and text.

    The texts of our own errors stand for themselves.
    """
    text = str(error).strip().split("\n")[0]
    if text and type(error).__module__.partition(".")[0] in OUR_PACKAGES:
        return text
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return (
            f"GPU memory is short: a smaller batch_size, model or federation.workers helps ({text})"
        )
    if isinstance(error, MemoryError):
        return (
            f"memory is short: a smaller model, data.image_size or rho helps ({text or 'no more'})"
        )
    if isinstance(error, OSError) and error.errno in CURES:
        place = f" ({error.filename})" if error.filename else ""
        return f"{CURES[error.errno]}{place}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
