"""The type of named tensors: a model's weights, a client's state, or what is sent."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who only names the type does not need PyTorch
    from torch import Tensor

Tensors = Mapping[str, "Tensor"]
