"""MOON: features close to the global model's and far from the client's previous model's.

Loss: cross-entropy + mu * L_con (Eq. 3).
Paper: Li, He, Song, "Model-Contrastive Federated Learning", CVPR 2021, Eq. 3.
Hooks: ``build``, ``start``, ``loss``, ``finish``. Client state: the client's last trained model.
Extra upload: none. Extra compute: two more forward passes per step. Extra memory: two more models.

Our choices:

* The global and the previous model run in eval mode, on copies that are not trained. In training
  mode, as in FedAlign's program, an image's features would depend on the rest of its batch.
* A client without a previous model takes the global model instead, as the first round of the
  authors' release does. Both similarities are then equal, and the term has no gradient.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.errors import refuse
from task.methods.base import LocalRound, Method, Outcome, Term
from task.models.base import Output
from task.optim.parameters import teacher
from task.training.losses import wide


def model_contrastive(features: Tensor, toward: Tensor, away: Tensor, temperature: float) -> Tensor:
    """Model-contrastive loss, ``-log(e^(s+/t) / (e^(s+/t) + e^(s-/t)))`` (Eq. 3).

    s+ and s- are the cosine similarities with the global and the previous model's features.

    Args:
        features: [n, d], of the model in training.
        toward: [n, d], of the global model.
        away: [n, d], of the client's previous model.
        temperature: t, above 0.

    Returns:
        The mean over the batch, a scalar; log 2 where both similarities are equal.
    """
    near = F.cosine_similarity(wide(features), wide(toward)) / temperature
    far = F.cosine_similarity(wide(features), wide(away)) / temperature
    return F.softplus(far - near).mean()


@dataclass
class Moon(Method):
    """Cross-entropy + mu * L_con (Eq. 3).

    Attributes:
        contrastive_weight: mu, at least 0; 0 gives FedAvg.
        temperature: t of Eq. 3, above 0.
    """

    terms: ClassVar = ("l_con",)
    trains_features: ClassVar = True
    keeps_state: ClassVar = True
    separable: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True

    contrastive_weight: float
    temperature: float

    def __post_init__(self) -> None:
        if self.contrastive_weight < 0:
            refuse(self, "contrastive_weight", "must be at least 0")
        if self.temperature <= 0:
            refuse(self, "temperature", "must be above 0")

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        self._teachers: tuple[nn.Module, nn.Module] | None = None
        return model

    def start(self, model: nn.Module, this: LocalRound) -> None:
        if self._teachers is None:
            self._teachers = (teacher(model), teacher(model))
        self._has_previous = bool(this.state)
        toward, away = self._teachers
        toward.load_state_dict(model.state_dict())
        if self._has_previous:
            away.load_state_dict(this.state)

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        if not self.contrastive_weight or self._teachers is None:
            return {}
        global_model, previous = self._teachers
        with torch.no_grad():
            toward = global_model(x).features
            away = previous(x).features if self._has_previous else toward
        value = model_contrastive(out.features, toward, away, self.temperature)
        return {"l_con": Term(value, self.contrastive_weight)}

    def finish(self, model: nn.Module) -> Outcome:
        if not self.contrastive_weight:
            return Outcome()
        return Outcome(state={name: value.clone() for name, value in model.state_dict().items()})
