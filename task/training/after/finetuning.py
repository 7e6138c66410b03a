"""Fine-tuning: the final model, trained on one client's images with the cross-entropy alone."""

import copy
import math

from task.methods.base import Tensors
from task.methods.fedavg import FedAvg
from task.optim.settings import Sgd
from task.training.evaluation import Score, evaluate
from task.training.loop import LocalTrainer
from task.training.worker import NOTHING, Worker


class Finetuner:
    """Trains copies of a worker's model; the model itself stays as it is.

    All parameters are trained, also those of a classifier that the method does not train.

    Args:
        worker: the worker.
        epochs: the number of passes over a client's training images.
        batch_size: images of a batch.
        lr: the learning rate of SGD.
        momentum: the momentum of SGD.
    """

    def __init__(
        self, worker: Worker, epochs: int, batch_size: int, lr: float, momentum: float
    ) -> None:
        self._worker = worker
        optim = Sgd(
            lr=lr, schedule="constant", momentum=momentum, weight_decay=0.0, keep_momentum=False,
            nesterov=False, max_gradient_norm=None,
        )  # fmt: skip
        changes = {"local_epochs": epochs, "batch_size": batch_size, "optim": optim}
        model = copy.deepcopy(worker.model).requires_grad_(True)
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
