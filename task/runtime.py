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
    """

    def __init__(self, model: nn.Module, runtime: Runtime, batch_size: int) -> None:
        device = next(model.parameters()).device
        narrow = {"auto": device.type == "cuda", "float32": False, "bfloat16": True}
        self.autocast = torch.autocast(
            device.type, torch.bfloat16, enabled=narrow[runtime.precision]
        )
        self._model = model
        self._rows = batch_size
        self._compiled = compiled(model) if runtime.compiled else None
        self._has_compiled = False

    def __call__(self, x: Tensor) -> Output:
        """The model's output for [n, C, H, W]."""
        if self._compiled is None or len(x) != self._rows:
            out: Output = self._model(x)
            return out
        try:
            out = self._compiled(x)
        except Exception as error:
            if self._has_compiled:
                raise
            self._compiled = None
            reason = str(error).strip().split("\n")[0]
            warnings.warn(
                f"runtime.compiled: the compiler failed ({type(error).__name__}: {reason}); "
                "training goes on without it",
                stacklevel=2,
            )
            out = self._model(x)
        self._has_compiled = True
        return out


def compiled(model: nn.Module) -> Callable[[Tensor], Output]:
    """The model compiled for one batch size at its first call; what is compiled is kept on disk."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(store_root() / "compiled"))
    torch.use_deterministic_algorithms(True)  # again, and the compiler is told this time
    found: Callable[[Tensor], Output] = torch.compile(model, dynamic=False)
    return found
