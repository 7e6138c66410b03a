"""The work of the bare loop by Apple's pfl (0.6.0), user after user in one process.

pfl averages the parameters' changes, not the batch-norm statistics: these continue from user to
user in its one model. It never reshuffles a user's batches. A user's optimizer is new each round,
as ours is. The augmentation is part of the loss, where batches arrive whole. In its first round pfl
evaluates users before and after training; here without metrics.
"""

import time
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from pfl.aggregate.simulate import SimulatedBackend  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pfl.algorithm import FederatedAveraging, NNAlgorithmParams  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pfl.callback.base import TrainingProcessCallback  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pfl.data import FederatedDataset, get_user_sampler  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pfl.data.pytorch import PyTorchTensorDataset  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pfl.hyperparam import NNTrainHyperParams  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pfl.metrics import Metrics  # type: ignore[import-not-found, import-untyped, unused-ignore]
from pfl.model.pytorch import PyTorchModel  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

from benchmarks.bare_loop import Work
from benchmarks.peers.shared import Layout, Logits, crop_and_flip, tensors


class Learner(Logits):
    """The network with the interface that pfl expects."""

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch in training mode, which pfl does not set."""
        self.train()
        return F.cross_entropy(self(crop_and_flip(images)), labels)

    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Any]:
        """Return no metrics."""
        return {}


class Clock(TrainingProcessCallback):  # type: ignore[misc, unused-ignore]
    """A callback that notes the time at the start and after every round."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_begin(self, **_: Any) -> Any:
        self.times.append(time.perf_counter())
        return Metrics()

    def after_central_iteration(self, *_: Any, **__: Any) -> Any:
        self.times.append(time.perf_counter())
        return False, Metrics()


def run(work: Work, layout: Layout) -> list[float]:
    """Run federated averaging by pfl, and return the seconds of each round."""
    torch.set_num_threads(2)
    users = [PyTorchTensorDataset(tensors(work, positions, layout)) for positions in work.clients]
    sampler = get_user_sampler("minimize_reuse", range(len(users)))  # one after another: all
    data = FederatedDataset(users.__getitem__, sampler)
    sgd = partial(torch.optim.SGD, momentum=0.9, weight_decay=1e-5)  # pfl gives it lr
    learner, clock = Learner(), Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=work.rounds, evaluation_frequency=work.rounds,
            train_cohort_size=len(users), val_cohort_size=None,
        ),
        SimulatedBackend(data, data),
        PyTorchModel(learner, sgd, torch.optim.SGD(learner.parameters(), 1.0)),
        NNTrainHyperParams(
            local_batch_size=work.batch_size, local_num_epochs=work.epochs,
            local_learning_rate=0.01,
        ),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )  # fmt: skip
    return [end - start for start, end in pairwise(clock.times)]
