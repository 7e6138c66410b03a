"""The forward pass of training: its precision, and its compilation."""

import os
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from task.config import Runtime
from task.data.image_store.store import store_root
from task.models.base import Output


class Forward:
    """A model's forward pass in training.

    Each setting of `task.config.Runtime` rounds in its own way. With the same setting, equal seeds
    give equal bits.

    Args:
        model: on its device; its weights are loaded and trained in place.
        runtime: precision and compilation.
        batch_size: the number of rows to compile for. A client's last batch may have another number
            of rows and runs uncompiled, since each number of rows needs its own compilation.

    Attributes:
        autocast: the context manager for the forward pass and the losses.
        compiled: whether full batches run compiled.
    """

    def __init__(self, model: nn.Module, runtime: Runtime, batch_size: int) -> None:
        device = next(model.parameters()).device
        narrow = runtime.precision == "bfloat16"
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=narrow)
        self.compiled = False
        self._model = model
        self._rows = batch_size
        self._of_full_batches: Callable[[Tensor], Output] = model

    def __call__(self, x: Tensor) -> Output:
        """Return the model's output for images [n, C, H, W]."""
        return (self._of_full_batches if len(x) == self._rows else self._model)(x)

    def compile(self, x: Tensor) -> None:
        """Compile for batches shaped like `x`; if the compiler fails, warn and run uncompiled.

        Changes the batch-norm statistics and leaves gradients on the parameters.
        """
        compiled = compile_model(self._model)
        try:
            with self.autocast:
                total = compiled(x).logits.float().sum()
            total.backward()
        except Exception as error:
            reason = str(error).strip().split("\n")[0]
            warnings.warn(
                f"runtime.compiled: the compiler failed ({type(error).__name__}: {reason}); "
                "training continues uncompiled",
                stacklevel=2,
            )
        else:
            self._of_full_batches, self.compiled = compiled, True


def compile_model(model: nn.Module) -> Callable[[Tensor], Output]:
    """Return the model compiled for the batch size of its first call, with a cache on disk."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(store_root() / "compiled"))
    torch.use_deterministic_algorithms(True)  # this call also sets it for the compiler
    compiled: Callable[[Tensor], Output] = torch.compile(model, dynamic=False)
    return compiled
