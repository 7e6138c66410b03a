"""FedDF: the clients' models of the last round are distilled into the global model.

Stage: the student starts at the global model, and the teachers are the accepted clients' models of
the last round. Loss on images without labels: KL(softmax(mean of the teachers' logits) ||
softmax(student's logits)), a mean over the batch. Teachers are in eval mode, the student in train
mode.
Paper: Lin et al., "Ensemble Distillation for Robust Model Fusion in Federated Learning", NeurIPS
2020. Release: github.com/epfml/federated-learning-public-code (codes/FedDF-code).
Upload: none beyond the models. Extra memory at the server: the model of each client of a round.

Where the paper differs from ours: it distils after every round, and the next round starts at the
student. Here it is done once, after the last round. It takes up to 10,000 steps, tests the student
every 100 steps on 10 % of the data at the server, stops after 1,000 steps without a gain and keeps
the best student. Ours takes `steps` steps and keeps the last student, as no data with labels are
used. Its release can drop teachers at chance level; ours keeps all.

Our choices:

* Without ``after.images`` the images are the test images, without their labels. The student has
  then seen the images on which it is tested (transductive); name a directory for other results.
* The images are not augmented, so the teachers' logits are computed once.
* Teachers have equal weights. The student starts at the result of the strategy, which FedAvg
  weights by images.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from server_app.rounds.after.base import AfterTraining, StageResult
from task.errors import ConfigError, refuse
from task.tensors import Tensors

if TYPE_CHECKING:
    from torch import nn

    from server_app.config.experiment import Experiment
    from server_app.rounds.context import RoundContext
    from task.data.dataset import ImageDataset
    from task.data.sources.base import Source

LEAST_IMAGES = 2  # batch norm needs two in a batch


@dataclass
class FedDf(AfterTraining):
    """Distils the clients' models into the global model.

    Attributes:
        images: a directory of images without labels, in any layout; null for the test images,
            without their labels. They are resized and normalised like the data set.
        steps: the number of optimizer steps, at least 1.
        batch_size: images per step, at least 2.
        lr: the first learning rate of Adam, above 0; it falls to 0 along a cosine.
        max_gradient_norm: the largest norm of the gradient, above 0.
    """

    reads: ClassVar = "the models of single clients"
    needs_models: ClassVar = True

    images: str | None
    steps: int
    batch_size: int
    lr: float
    max_gradient_norm: float

    def __post_init__(self) -> None:
        if self.steps < 1:
            refuse(self, "steps", "must be at least 1")
        if self.batch_size < LEAST_IMAGES:
            refuse(self, "batch_size", f"must be at least {LEAST_IMAGES}")
        for name in ("lr", "max_gradient_norm"):
            if getattr(self, name) <= 0:
                refuse(self, name, "must be above 0")

    def check_model(
        self, experiment: "Experiment", network: "nn.Module", dataset: "ImageDataset"
    ) -> None:
        if self.images is not None:
            if len(self._unlabelled(experiment.source()).train) < LEAST_IMAGES:
                allowed = f"fewer than {LEAST_IMAGES} images can be read; name another directory"
                raise ConfigError("after.images", self.images, allowed)
        elif len(dataset.test) < LEAST_IMAGES:
            allowed = "there are no test images to distil on; name a directory of images"
            raise ConfigError("after.images", None, allowed)

    def data_version(self, like: "Source") -> str | None:
        return None if self.images is None else self._unlabelled(like).content

    def _unlabelled(self, like: "Source") -> "ImageDataset":
        """Return the images without labels.

        Raises:
            ConfigError, DataError: they cannot be read.
        """
        from server_app.rounds.after.distillation.unlabelled import open_unlabelled  # noqa: PLC0415

        assert self.images is not None
        return open_unlabelled(self.images, like)

    def apply(self, context: "RoundContext", models: Mapping[int, Tensors]) -> StageResult:
        from server_app.rounds.after.distillation.student import (  # noqa: PLC0415
            Distillation,
            batches,
            distil,
            ensemble_logits,
        )
        from task.data.batches import DeviceImages  # noqa: PLC0415
        from task.training.transfer import to_cpu  # noqa: PLC0415

        worker, experiment = context.worker, context.experiment
        if not models:
            reason = "the last round accepted no client's model, so there are no teachers"
            return StageResult(context.model.weights, {"teachers": 0}, reason)
        images, places = worker.images, worker.data.dataset.test
        if self.images is not None:
            dataset = self._unlabelled(experiment.source())
            images = DeviceImages(dataset, worker.device, experiment.mean_and_std)
            places = dataset.train
        how = Distillation(self.steps, self.batch_size, self.lr, self.max_gradient_norm)
        steps = batches(len(places), how, experiment.seed)
        used, rows = steps.unique(return_inverse=True)
        positions = images.index(places[used.numpy()])
        teachers = [models[client] for client in sorted(models)]
        toward = ensemble_logits(worker, teachers, images, positions).to(worker.device)
        worker.load(context.model.weights)
        rows = rows.to(worker.device)
        distil(worker, images, ((positions[row], toward[row]) for row in rows), how)
        facts = {
            "teachers": len(teachers),
            "images": len(places),
            "transductive": self.images is None,
        }
        return StageResult(to_cpu(worker.model.state_dict()), facts)
