"""How a training step is computed: in which precision, and whether it is compiled."""

import os
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from task.config import Runtime
from task.data.store import store_root
from task.models.base import Output


class Forward:
    """A model's forward pass in training.

    Every choice of `task.config.Runtime` has its own rounding, and with it bits of its own; with
    the same one, equal seeds give equal bits.

    Args:
        model: on its device; trained and loaded in place.
        runtime: how to compute it.
        batch_size: the rows for which it is compiled. A client's last batch, which has more or
            fewer, is computed uncompiled: each other number of rows would be compiled anew.

    Attributes:
        autocast: the context of the forward pass and of all losses.
        compiled: whether full batches go through the compiler.
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
        """The model's output for [n, C, H, W]."""
        return (self._of_full_batches if len(x) == self._rows else self._model)(x)

    def compile(self, x: Tensor) -> None:
        """Compile for batches like `x`, or warn and stay without.

        The model's statistics move; its parameters have gradients afterwards.
        """
        found = compiled(self._model)
        try:
            with self.autocast:
                total = found(x).logits.float().sum()
            total.backward()
        except Exception as error:
            reason = str(error).strip().split("\n")[0]
            warnings.warn(
                f"runtime.compiled: the compiler failed ({type(error).__name__}: {reason}); "
                "training goes on without it",
                stacklevel=2,
            )
        else:
            self._of_full_batches, self.compiled = found, True


def compiled(model: nn.Module) -> Callable[[Tensor], Output]:
    """The model compiled for one batch size at its first call; what is compiled is kept on disk."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(store_root() / "compiled"))
    torch.use_deterministic_algorithms(True)  # again, and the compiler is told this time
    found: Callable[[Tensor], Output] = torch.compile(model, dynamic=False)
    return found
