"""The settings of PyTorch that a run changes, and that the caller gets back."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def settings_kept() -> Iterator[None]:
    """Restore the number of threads and the deterministic mode at the end."""
    import torch  # noqa: PLC0415

    memory = torch.utils.deterministic
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    fill = memory.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        memory.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
