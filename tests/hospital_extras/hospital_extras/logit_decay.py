"""A penalty on large logits."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from univarfl.extend import Method, Output, Term


@dataclass
class LogitDecay(Method):
    """Cross-entropy + decay_weight * mean squared logit."""

    terms: ClassVar = ("logits",)

    decay_weight: float

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        return {"logits": Term(out.logits.square().mean(), self.decay_weight)}
