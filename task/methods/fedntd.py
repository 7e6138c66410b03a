"""FedNTD: distillation from the global model over the classes that are not the true one.

Loss: cross-entropy + beta * tau^2 * KL(p' || q') over D - 1 classes: p' and q' are the softmax of
the global model's and the local model's logits / tau, each without the image's true class.
Paper: Lee et al., "Preservation of the Global Knowledge by Not-True Distillation in Federated
Learning", NeurIPS 2022. We have not read it: the equation is that of the authors' release,
github.com/Lee-Gihun/FedNTD (algorithms/fedntd/criterion.py).
Hooks: ``build``, ``start``, ``loss``. Client state: none. Extra upload: none.
Extra compute: one more forward pass per step. Extra memory: one more model.

Where the release differs from ours: its global model stays in training mode, so its answer to an
image depends on the rest of the batch. Ours is in eval mode, as MOON's is.

Our choice: the temperature is 1, that of the release's configuration; its class has 3.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Term
from task.models.base import Output
from task.optim.parameters import teacher
from task.training.losses import divergence


def not_true(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logits without each row's true class, [n, D - 1].

    Args:
        logits: [n, D].
        labels: the true classes, [n] int64.
    """
    places = torch.arange(logits.shape[1] - 1, device=logits.device)
    return logits.gather(1, places + (places >= labels[:, None]))


def not_true_distillation(
    logits: Tensor, toward: Tensor, labels: Tensor, temperature: float
) -> Tensor:
    """Return ``tau^2 * KL(softmax(toward' / tau) || softmax(logits' / tau))``, a mean over rows.

    Args:
        logits: of the model in training, [n, D].
        toward: of the global model, [n, D].
        labels: the true classes, [n] int64, which both leave out.
        temperature: tau, above 0.
    """
    student, target = (not_true(each, labels) / temperature for each in (logits, toward))
    return divergence(student, target) * temperature**2


@dataclass
class FedNTD(Method):
    """Cross-entropy + beta * not-true distillation.

    Attributes:
        distillation_weight: beta, at least 0; 0 gives FedAvg.
        temperature: tau, above 0.
    """

    terms: ClassVar = ("l_ntd",)
    separable: ClassVar = True
    needs_classes: ClassVar = True
    replayable: ClassVar = True

    distillation_weight: float
    temperature: float

    def __post_init__(self) -> None:
        if self.distillation_weight < 0:
            refuse(self, "distillation_weight", "must be at least 0")
        if self.temperature <= 0:
            refuse(self, "temperature", "must be above 0")

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        self._teacher: nn.Module | None = None
        return model

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self._teacher = teacher(model, self._teacher)

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        if not self.distillation_weight or self._teacher is None:
            return {}
        with torch.no_grad():
            toward = self._teacher(x).logits
        value = not_true_distillation(out.logits, toward, y, self.temperature)
        return {"l_ntd": Term(value, self.distillation_weight)}
