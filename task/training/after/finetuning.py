"""Fine-tuning: the final model, trained on one client's images with the cross-entropy alone."""

import copy
import math
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from task.config import PLAIN_LOSS, Settings, Sgd, Strict
from task.methods.fedavg import FedAvg
from task.protocol.after.bounds import MOST_BATCH, MOST_EPOCHS
from task.registry import first_error
from task.tensors import Tensors
from task.training.evaluation import Score, evaluate
from task.training.loop import LocalTrainer
from task.training.worker import NOTHING, Worker


class Finetuning(Strict):
    """How the final model is fine-tuned, from the experiment's ``after``.

    Attributes:
        name: of the stage.
        epochs: the number of passes over a client's training images.
        batch_size: images of a batch.
        lr: the learning rate of SGD.
        momentum: the momentum of SGD.
    """

    name: Literal["finetune"]
    epochs: Annotated[int, Field(ge=1, le=MOST_EPOCHS)]
    batch_size: Annotated[int, Field(ge=2, le=MOST_BATCH)]
    lr: Annotated[float, Field(gt=0)]
    momentum: Annotated[float, Field(ge=0, lt=1)]


def read_finetuning(settings: Settings) -> Finetuning:
    """Return how the final model is fine-tuned.

    Raises:
        ConfigError: a setting is missing, unknown or out of its range.
    """
    try:
        return Finetuning.model_validate(settings)
    except ValidationError as error:
        raise first_error(error).under("after") from None


class Finetuner:
    """Trains copies of a worker's model; the model itself stays as it is.

    All parameters are trained, also those of a classifier that the method does not train.

    Args:
        worker: the worker.
        settings: how they are trained.
    """

    def __init__(self, worker: Worker, settings: Finetuning) -> None:
        self._worker = worker
        optim = Sgd(
            lr=settings.lr, schedule="constant", warmup_rounds=0, backbone_scale=1.0,
            momentum=settings.momentum, weight_decay=0.0, keep_momentum=False, nesterov=False,
            max_gradient_norm=None,
        )  # fmt: skip
        changes = {
            "local_epochs": settings.epochs, "batch_size": settings.batch_size, "optim": optim,
            "train": PLAIN_LOSS,
        }  # fmt: skip
        model = copy.deepcopy(worker.model).requires_grad_(True)
        worker.config.tuning().freeze(model)
        self._trainer = LocalTrainer(model, FedAvg(), worker.config.model_copy(update=changes))

    def scores(
        self, weights: Tensors, client: int, state: Tensors, deadline: float = math.inf
    ) -> tuple[Score, Score]:
        """Return a client's scores on its validation images, before and after fine-tuning.

        Args:
            weights: the global weights.
            client: the client.
            state: what it keeps, with its own part of the model.
            deadline: when training must be finished, in seconds of `time.monotonic`.

        Raises:
            TrainingError: as for `LocalTrainer.train`.
        """
        worker = self._worker
        before = worker.validate_personal(weights, client, state)
        train, validation = (worker.images.index(part) for part in worker.data.clients[client])
        beyond = worker.config.rounds + 1  # its batches are those of no round
        whole = worker.personal.complete(weights, state)
        self._trainer.train(whole, worker.images, train, beyond, client, NOTHING, NOTHING, deadline)
        worker.measure_own_statistics(self._trainer.model, client)
        (after,) = evaluate(self._trainer.model, worker.images, [validation])
        return before, after
