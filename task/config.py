"""The settings of local training, which the server sends to every client."""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from task import registry
from task.errors import ConfigError
from task.extensions import PLUS
from task.given_weights import without_weights
from task.privacy.settings import Privacy

# The components bring PyTorch, which takes seconds to import. They are imported by name when they
# are built, so that a wrong number is refused without it.
if TYPE_CHECKING:
    from task.data.augmentations.base import Augmentation
    from task.data.partitions.base import Partitioner
    from task.data.sources.base import Source
    from task.methods.base import Method
    from task.models.base import ModelSettings
    from task.tuning.base import Tuning

MEASURED = "measured"  # in `data`: what clients have been asked for before round 1
COMBINE = "task.combination:combine"  # several methods at once

Settings = dict[str, Any]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "tf32", "bfloat16"]
LastBatch = Literal["merge", "drop"]
RoundingRule = Literal["stochastic", "nearest"]


class Strict(BaseModel):
    """Settings that refuse unknown keys, other types and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Runtime(Strict):
    """How a training step is computed; see `task.training.loop`."""

    precision: Precision
    compiled: bool
    graphed: bool


class Optimizer(Strict):
    """What all optimizers of local training have.

    Attributes:
        lr: the largest learning rate.
        schedule: how the rate changes over the rounds; see `rate`.
        warmup_rounds: how many rounds, the first ones, have a rate that rises to `lr`.
        backbone_scale: what the rate of all layers before the classifier is multiplied by.
        keep_momentum: whether a client begins a round with the optimizer's state of its last
            accepted one, as in FedAlign's release, instead of none.
        weight_decay: how much weights shrink: for SGD the factor of the L2 penalty, for AdamW the
            share of the weights that a step subtracts, times the learning rate.
        max_gradient_norm: the L2 norm to which each batch's gradient is clipped; None: no clipping.
    """

    steps: ClassVar[str]  # the class that takes them, as ``module:NAME``
    kept_models: ClassVar[int]  # the size of its state, in sizes of the model

    lr: Annotated[float, Field(gt=0)]
    schedule: Literal["constant", "cosine"]
    warmup_rounds: Annotated[int, Field(ge=0)]
    backbone_scale: Annotated[float, Field(gt=0)]
    keep_momentum: bool
    weight_decay: Annotated[float, Field(ge=0)]
    max_gradient_norm: Annotated[float, Field(gt=0)] | None

    @property
    def varies(self) -> bool:
        """Whether rounds have different learning rates."""
        return self.schedule != "constant" or self.warmup_rounds > 0

    def rate(self, server_round: int, rounds: int) -> float:
        """Return the learning rate of a round, the same for each of its clients and steps.

        ``cosine`` is ``lr * (1 + cos(pi * (t - 1) / T)) / 2`` for round t of T, as in FedUV's
        release (`CosineAnnealingLR` with one step per round): it begins at `lr` and stays above 0.
        With W rounds of warm-up, round t of them has ``lr * t / (W + 1)``; t and T count from
        their end afterwards.

        Args:
            server_round: the round, from 1.
            rounds: the rounds of the whole run.
        """
        if server_round <= self.warmup_rounds:
            return self.lr * server_round / (self.warmup_rounds + 1)
        if self.schedule == "constant":
            return self.lr
        past, whole = server_round - self.warmup_rounds - 1, rounds - self.warmup_rounds
        return self.lr * (1 + math.cos(math.pi * past / whole)) / 2


class Sgd(Optimizer):
    """Stochastic gradient descent; a client keeps at most its momentum from round to round.

    Attributes:
        momentum: the share of the previous step that is added.
        nesterov: whether the momentum is Nesterov's.
    """

    steps: ClassVar = "task.optim.sgd:LocalSgd"
    kept_models: ClassVar = 1

    momentum: Annotated[float, Field(ge=0, lt=1)]
    nesterov: bool

    @model_validator(mode="after")
    def _check_nesterov_has_momentum(self) -> "Sgd":
        if self.nesterov and not self.momentum:
            raise ConfigError("nesterov", True, "needs optim.momentum above 0")
        if self.keep_momentum and not self.momentum:
            raise ConfigError("keep_momentum", True, "needs optim.momentum above 0")
        return self


class AdamW(Optimizer):
    """Adam with decoupled weight decay; a client keeps at most its moments from round to round.

    Attributes:
        name: tells it from SGD, which has none.
        beta_1: the share of the previous first moment.
        beta_2: the share of the previous second moment.
        eps: is added to the root of the second moment.
    """

    steps: ClassVar = "task.optim.adamw:LocalAdamW"
    kept_models: ClassVar = 2
    momentum: ClassVar = 0.0
    nesterov: ClassVar = False

    name: Literal["adamw"]
    beta_1: Annotated[float, Field(ge=0, lt=1)]
    beta_2: Annotated[float, Field(ge=0, lt=1)]
    eps: Annotated[float, Field(gt=0)]


def read_optimizer(settings: Any) -> Any:
    """Return the settings of the optimizer that they name: AdamW, or SGD without a name.

    Raises:
        ConfigError: a setting is missing, unknown or out of its range.
    """
    if not isinstance(settings, dict):
        return settings
    try:
        return (AdamW if "name" in settings else Sgd).model_validate(settings)
    except ValidationError as error:
        raise registry.first_error(error).under("optim") from None


class Loss(Strict):
    """The cross-entropy of local training; see `task.training.losses`.

    Attributes:
        class_weights: ``balanced`` multiplies an image's part by the inverse frequency of its class
            among the client's training images.
        label_smoothing: the share of each label that is spread evenly over all classes.
    """

    class_weights: Literal["none", "balanced"]
    label_smoothing: Annotated[float, Field(ge=0, lt=1)]

    @property
    def plain(self) -> bool:
        """Whether it is the cross-entropy without weights and smoothing."""
        return self.class_weights == "none" and not self.label_smoothing


GIVEN_ABOVE = 0.5  # with several labels: the probability above which one counts as given


class Task(Strict):
    """What a network learns to say of an example.

    Attributes:
        name: ``classes`` for one of several classes; ``multilabel`` for yes or no to each of them.
    """

    name: Literal["classes", "multilabel"] = "classes"

    @property
    def multilabel(self) -> bool:
        """Whether an example has any number of classes, which are then called labels."""
        return self.name == "multilabel"


PLAIN_LOSS = Loss(class_weights="none", label_smoothing=0.0)


class Secure(Strict):
    """Whether participants mask their updates; see `task.secure`.

    Attributes:
        mode: whether they do; ``rounded`` for the arithmetic of masked rounds without masks.
        rounding: how updates are rounded before they are masked.
        colluding: how many of them may work with the coordinator; None for just below a third.
        max_share: the largest weight of one participant in a sum that a participant accepts.
        max_norm: the largest norm of an update, which each participant applies; None for any.
        start: the hash of the weights that round 1 starts from, by
            `task.secure.transcript.weights_hash`; None for the initial weights of the seed.
    """

    mode: Literal["none", "masked", "rounded"] = "none"
    rounding: RoundingRule = "stochastic"
    colluding: Annotated[int, Field(ge=0)] | None = None
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.75
    max_norm: Annotated[float, Field(gt=0)] | None = None
    start: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    @property
    def masked(self) -> bool:
        """Whether updates are masked."""
        return self.mode == "masked"

    @property
    def rounded(self) -> bool:
        """Whether updates are rounded as masked rounds need it."""
        return self.mode != "none"


class Update(Strict):
    """The numbers in which a client's update travels; see `task.protocol.number_formats`.

    Attributes:
        format: float32 sends them as they are.
        error_feedback: whether a client adds what rounding changed to its next update.
    """

    format: Literal["float32", "bfloat16", "int8"] = "float32"
    error_feedback: bool = False

    @property
    def rounded(self) -> bool:
        """Whether the numbers are rounded."""
        return self.format != "float32"

    @property
    def keeps_error(self) -> bool:
        """Whether clients keep what rounding changed."""
        return self.rounded and self.error_feedback


class LocalConfig(Strict):
    """The settings of local training.

    The groups `data`, `partition`, `augmentation`, `model`, `tune` and `method` name a component of
    `task` by ``name``; their other keys are its fields. The name of a method may join several with
    ``+``. `after` names the stage after training, with the settings of it that clients need.
    """

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)]
    num_clients: Annotated[int, Field(ge=1)]
    rounds: Annotated[int, Field(ge=1, lt=10**9)]
    local_epochs: Annotated[int, Field(ge=1)]
    batch_size: Annotated[int, Field(ge=2)]
    last_batch: LastBatch
    device: Device
    data: Settings
    partition: Settings
    augmentation: Settings
    model: Settings
    method: Settings
    optim: Annotated[Sgd | AdamW, BeforeValidator(read_optimizer)]
    train: Loss
    runtime: Runtime
    privacy: Privacy
    after: Settings
    secure: Secure = Secure()
    tune: Settings = {"name": "all"}
    update: Update = Update()
    task: Task = Task()

    def source(self) -> "Source":
        """Return the data set.

        Raises:
            ConfigError: it does not have the labels of the task.
        """
        found: Source = self.component("data")
        return found.with_labels() if self.task.multilabel else found

    @property
    def models_kept(self) -> int:
        """How many times the size of the model a client keeps between rounds, at most."""
        members = self.local_method().members()
        kept = sum(member.keeps_state + member.personalises for member in members)
        kept += self.optim.kept_models * self.optim.keep_momentum
        return kept + self.update.keeps_error

    @property
    def personalised(self) -> bool:
        """Whether a part of the model stays with each client."""
        return any(member.personalises for member in self.local_method().members())

    @property
    def validation_share(self) -> float:
        """The share of a client's images that it validates on.

        0 with noise at the clients: scores are not sent then, and which images are held out
        would depend on how many there are.
        """
        return 0.0 if self.privacy.private else self.source().validation_share

    def partitioner(self) -> "Partitioner":
        """Return the rule that divides the data set among the clients."""
        found: Partitioner = self.component("partition")
        return found

    def augmenter(self) -> "Augmentation":
        """Return the augmentation of the training images."""
        found: Augmentation = self.component("augmentation")
        return found

    def network(self) -> "ModelSettings":
        """Return the settings of the network, without the weights that it starts from."""
        if "model" not in self._components:
            self._components["model"] = registry.create("model", without_weights(self.model))
        found: ModelSettings = self._components["model"]
        return found

    def tuning(self) -> "Tuning":
        """Return what chooses the trained parameters."""
        found: Tuning = self.component("tune")
        return found

    @property
    def closed_form(self) -> bool:
        """Whether nothing is trained; such a method is not combined with others."""
        return self.local_method().closed_form

    @property
    def passes(self) -> int:
        """How often a round reads each training image of a client."""
        return 1 if self.closed_form else self.local_epochs

    @property
    def keeps_statistics(self) -> bool:
        """Whether training changes statistics of batch norm; with a frozen network, the head's."""
        network = self.network()
        changes = self.tuning().whole or network.projector == "normalised"
        return changes and network.keeps_statistics

    @property
    def mean_and_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What is subtracted from each channel of images in [0, 1], and what divides it then.

        A network that others have trained has its own constants.
        """
        source = self.source()
        return self.network().scaling(source.channels) or source.mean_and_std

    def methods(self) -> list[str]:
        """Return the names of the local methods: one, unless several are combined."""
        return str(self.method["name"]).split(PLUS)

    def local_method(self) -> "Method":
        """Return a new object of the local method, which keeps state while a client trains."""
        name = self.method.get("name")
        if isinstance(name, str) and PLUS in name:
            found: Method = registry.named(COMBINE)(self.method)
        else:
            found = registry.create("method", self.method)
        return found

    @cached_property
    def _components(self) -> dict[str, Any]:
        return {}

    def component(self, group: str) -> Any:
        """Return the component of a configuration group; it is built at its first use."""
        if group not in self._components:
            self._components[group] = registry.create(group, getattr(self, group))
        return self._components[group]
