"""Fine-tuning: each client trains the final model on its own images, and is scored.

Stage: a client starts from the final global model, with its own part of it if it keeps one. It
trains all layers with the cross-entropy for `epochs` epochs. It is scored on its held-out images
before and after. The fine-tuned models are not sent, and the global model stays as it is.
Paper: Oh, Kim, Yun, "FedBABU: Toward Enhanced Representation for Federated Image Classification",
ICLR 2022, section 5. Release: github.com/jhoon-oh/FedBABU, analysis.ipynb. ``method=freeze
after=finetune`` is FedBABU.
Upload: a client's scores. Client state: none.

The release fine-tunes for 5 epochs with SGD at 0.001, momentum 0.9, no weight decay and batches of
50, from the best global model over the rounds.

Our choices:

* It starts from the model of the last round.
* Images are augmented as in training.
* Batch norm's statistics move with the fine-tuning. With ``method.statistics=measured`` they are
  measured again after it, as before it.
* A client that fails is left out; events.csv names it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from server_app.rounds.after.base import AfterTraining, StageResult, check_sgd
from task.errors import ConfigError, refuse
from task.protocol.after.bounds import MOST_BATCH, MOST_EPOCHS
from task.tensors import Tensors

if TYPE_CHECKING:
    from server_app.config.experiment import Experiment
    from server_app.rounds.context import RoundContext


@dataclass
class Finetune(AfterTraining):
    """Fine-tunes the final model at each client.

    Attributes:
        epochs: the number of passes over a client's training images, from 1 to 1,000,000.
        batch_size: images of a batch, from 2 to 1,000,000.
        lr: the learning rate of SGD, above 0.
        momentum: the momentum of SGD, from 0 to below 1.
    """

    reads: ClassVar = "the scores of single clients"
    at_clients: ClassVar = True
    told: ClassVar = ("epochs", "batch_size", "lr", "momentum")

    epochs: int
    batch_size: int
    lr: float
    momentum: float

    def __post_init__(self) -> None:
        for name, least, most in (("epochs", 1, MOST_EPOCHS), ("batch_size", 2, MOST_BATCH)):
            if not least <= getattr(self, name) <= most:
                refuse(self, name, f"must be from {least} to {most:,}")
        check_sgd(self, self.lr, self.momentum)

    def problems(self, experiment: "Experiment") -> Iterator[ConfigError]:
        yield from super().problems(experiment)
        if not experiment.validation_share:
            allowed = "scores clients on images that they hold out; add data.validation_share=0.1"
            yield ConfigError("after", "finetune", allowed)

    def apply(self, context: "RoundContext", models: Mapping[int, Tensors]) -> StageResult:
        from server_app.rounds.after.personal.asking import finetuned_scores  # noqa: PLC0415
        from server_app.rounds.errors import RunFailedError  # noqa: PLC0415

        found = finetuned_scores(context)
        if not found.after:
            first = next(iter(found.missing.values()), "no client has a model and images")
            raise RunFailedError(f"after=finetune: no client was fine-tuned; the first: {first}")
        missing = {str(client): reason for client, reason in found.missing.items()}
        facts = {"clients": len(found.after), "missing": missing}
        return StageResult(context.model.weights, facts, at_clients=(found.before, found.after))
