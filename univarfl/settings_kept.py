"""The settings of PyTorch that a run changes, and that the caller gets back.

One thing stays: the process keeps the memory that it has freed (`task.training.device`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def settings_kept() -> Iterator[None]:
    """Restore the number of threads, the deterministic mode and TF32 at the end."""
    import torch  # noqa: PLC0415

    workspace = os.environ.get(WORKSPACE)
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    rounded = convolutions.allow_tf32, products.allow_tf32

    memory = torch.utils.deterministic
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    fill = memory.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        memory.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        convolutions.allow_tf32, products.allow_tf32 = rounded
        if workspace is None:
            os.environ.pop(WORKSPACE, None)
