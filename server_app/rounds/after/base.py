"""The base class of stages after training, and what all of them refuse."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from server_app.aggregation.guards.base import guard_of
from server_app.config.experiment import Experiment
from task.errors import ConfigError, refuse
from task.tensors import Tensors

if TYPE_CHECKING:  # commands that read records need neither PyTorch nor Flower
    from torch import nn

    from server_app.nodes.registration import NodeInfo
    from server_app.rounds.context import RoundContext
    from task.data.dataset import ImageDataset
    from task.data.sources.base import Source
    from task.training.evaluation import Score


@dataclass(frozen=True)
class StageResult:
    """What a stage results in.

    Attributes:
        weights: the new global weights, with the names and shapes of the old ones.
        facts: what the record says about it, such as how many clients took part.
        reason: why the weights stay as they are; empty if they are new.
        at_clients: by client, the scores before and after, if the stage gives every client a model
            of its own; `weights` are then the old ones.
    """

    weights: Tensors
    facts: Mapping[str, Any]
    reason: str = ""
    at_clients: "tuple[Mapping[int, Score], Mapping[int, Score]] | None" = None


@dataclass
class AfterTraining(ABC):
    """A stage after the last round, which changes the global model once.

    A subclass is a dataclass whose fields are the settings of its YAML file. Equal seeds give equal
    bits: `apply` reads the model of the last round, and draws from generators of its own.

    Attributes:
        changes_model: whether there is a stage: False only for ``after=none``.
        reads: the data of single clients that it reads; error messages name them.
        needs_models: whether it needs the last round's model of each client.
        masks: whether it gets sums over clients, also with masks.
        at_clients: whether it gives every client a model of its own, and leaves the global one.
        told: the settings that clients need, and owners of sites see; others stay at the server.
    """

    changes_model: ClassVar[bool] = True
    reads: ClassVar[str] = ""
    needs_models: ClassVar[bool] = False
    masks: ClassVar[bool] = False
    at_clients: ClassVar[bool] = False
    told: ClassVar[tuple[str, ...]] = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def problems(self, experiment: Experiment) -> Iterator[ConfigError]:
        """Yield settings that do not fit this stage."""
        if not self.changes_model:
            return
        name = experiment.after["name"]
        if experiment.local().personalised and not self.at_clients:
            allowed = (
                f"changes one model of all clients, and each client of method="
                f"{experiment.method['name']} has its own; add after=none"
            )
            yield ConfigError("after", name, allowed)
        if experiment.secure.rounded and not self.masks:
            mode = experiment.secure.mode
            allowed = f"reads {self.reads}, which secure={mode} hides; add after=none"
            yield ConfigError("after", name, allowed)
        if private := experiment.source_of_noise:
            allowed = f"reads {self.reads} without noise, and {private} protects them"
            yield ConfigError("after", name, f"{allowed}; add after=none")
        if not self.at_clients:
            yield from self._bypassed(experiment)

    def _bypassed(self, experiment: Experiment) -> Iterator[ConfigError]:
        """Yield a guard or strategy against hostile clients that this stage would bypass."""
        guard, strategy = experiment.guard["name"], experiment.strategy["name"]
        name = experiment.after["name"]
        bypasses = f"reads {self.reads} unguarded, which bypasses"
        if guard_of(experiment).clips or (guard != "none" and not self.needs_models):
            yield ConfigError("after", name, f"{bypasses} guard={guard}; add after=none")
        if experiment.component("strategy").needs_each_update:
            yield ConfigError("after", name, f"{bypasses} strategy={strategy}; add after=none")

    def of_classifier(self, experiment: Experiment, does: str) -> Iterator[ConfigError]:
        """Yield a network or a method whose classifier this stage cannot change.

        Args:
            experiment: what is run.
            does: what the stage does to the classifier, for the message.
        """
        name, model = experiment.after["name"], experiment.model["name"]
        if not experiment.network().trained_features:
            allowed = (
                f"{does} of features, and model={model} has no layers before its classifier; "
                "add model=cnn, or after=none"
            )
            yield ConfigError("after", name, allowed)
        members = experiment.local_method().members()
        for member, method in zip(members, experiment.methods(), strict=True):
            if member.sets_classifier:
                allowed = (
                    f"{does}, and method={method} sets it; choose another method, or after=none"
                )
                yield ConfigError("after", name, allowed)

    def check_model(  # noqa: B027  (most fit)
        self, experiment: Experiment, network: "nn.Module", dataset: "ImageDataset"
    ) -> None:
        """Refuse data and models that do not fit this stage, before anything is started.

        Args:
            experiment: what is run.
            network: the experiment's, with any weights.
            dataset: the images; with sites, the coordinator's test images.

        Raises:
            ConfigError: they do not; the text names what to choose instead.
        """

    def data_version(self, like: "Source") -> str | None:
        """Return a hash of images that this stage reads beside those of the run; None if none.

        Args:
            like: the run's data set.

        Raises:
            ConfigError, DataError: they cannot be read.
        """
        del like
        return None

    def check_sites(self, sites: Sequence["NodeInfo"]) -> None:  # noqa: B027  (most need no site)
        """Refuse to start if none of the connected sites would take part.

        Raises:
            RunFailedError: no connected site would take part.
        """

    @abstractmethod
    def apply(self, context: "RoundContext", models: Mapping[int, Tensors]) -> StageResult:
        """Return the new global weights; `context.model` stays as it is.

        Args:
            context: the run, after its last round.
            models: by client, the model that it sent in the last round, if it was accepted; empty
                unless `needs_models`.

        Raises:
            RunFailedError: the stage cannot be completed.
        """


def check_sgd(stage: AfterTraining, lr: float, momentum: float) -> None:
    """Refuse settings with which SGD cannot train.

    Args:
        stage: has them as fields of these names.
        lr: the learning rate, above 0.
        momentum: from 0 to below 1.

    Raises:
        ConfigError: one of them is out of its range.
    """
    if lr <= 0:
        refuse(stage, "lr", "must be above 0")
    if not 0 <= momentum < 1:
        refuse(stage, "momentum", "must be from 0 to below 1")


def stage_of(experiment: Experiment) -> AfterTraining:
    """Return the stage after the last round of an experiment."""
    found: AfterTraining = experiment.component("after")
    return found
