"""The settings of local training, which the server sends to every client."""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from task import registry
from task.errors import ConfigError
from task.extensions import PLUS
from task.optim.settings import Sgd
from task.privacy.settings import Privacy
from task.secure.settings import Secure

# The components bring PyTorch, which takes seconds to import. The methods below import what they
# build, so that a wrong number is refused without it.
if TYPE_CHECKING:
    from task.data.augmentations.base import Augmentation
    from task.data.partitions.base import Partitioner
    from task.data.sources.base import Source
    from task.methods.base import Method
    from task.models.base import ModelSettings

Settings = dict[str, Any]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "tf32", "bfloat16"]
LastBatch = Literal["merge", "drop"]

T = TypeVar("T")


class Strict(BaseModel):
    """Settings that refuse unknown keys, other types and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Runtime(Strict):
    """How a training step is computed; see `task.training.forward`."""

    precision: Precision
    compiled: bool


class LocalConfig(Strict):
    """The settings of local training.

    The groups `data`, `partition`, `augmentation`, `model` and `method` name a component of `task`
    by ``name``; their other keys are its fields. The name of a method may join several with ``+``.
    `after` names the stage after training, with the settings of it that clients need.
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
    optim: Sgd
    runtime: Runtime
    privacy: Privacy
    after: Settings
    secure: Secure = Secure()

    @model_validator(mode="after")
    def _check_components(self) -> "LocalConfig":
        """Build each component, and refuse those that do not fit together."""
        from task.privacy.separable import check_separable  # noqa: PLC0415
        from task.privacy.whole_clients import check_whole_clients  # noqa: PLC0415
        from task.secure.rules.masked_experiment import check_masked_experiment  # noqa: PLC0415

        source = self.source()
        if sites := self.partitioner().sites:
            source.at_site("a site's own directory")
            if self.num_clients != len(sites):
                allowed = f"must be {len(sites)}, the number of sites in partition.names"
                raise ConfigError("num_clients", self.num_clients, f"{allowed}; leave it out")
        self.augmenter()
        network, method = self.network(), self.local_method()
        for name, member in zip(self.methods(), method.members(), strict=True):
            if problem := member.problem_with(network, self.model["name"], self.local_epochs):
                raise ConfigError("method", self.method["name"], problem)
            if self.runtime.compiled and member.varies_network:
                allowed = (
                    f"method={name} changes the network while it trains, and every variant would "
                    "be compiled again; leave it out"
                )
                raise ConfigError("runtime.compiled", True, allowed)
            if member.personalises and not self.source().validation_share:
                allowed = "needs validation images at the clients; add data.validation_share=0.1"
                raise ConfigError("method", self.method["name"], allowed)
        if self.secure.rounded:
            check_masked_experiment(self)
        if self.privacy.per_example:
            check_separable(self)
        if self.privacy.per_client:
            check_whole_clients(self)
        return self

    def source(self) -> "Source":
        """Return the data set."""
        from task.data.sources.base import Source  # noqa: PLC0415

        return self._component("data", Source)

    @property
    def models_kept(self) -> int:
        """How many times the size of the model a client keeps between rounds, at most."""
        members = self.local_method().members()
        kept = sum(member.keeps_state + member.personalises for member in members)
        return kept + self.optim.keep_momentum

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
        from task.data.partitions.base import Partitioner  # noqa: PLC0415

        return self._component("partition", Partitioner)

    def augmenter(self) -> "Augmentation":
        """Return the augmentation of the training images."""
        from task.data.augmentations.base import Augmentation  # noqa: PLC0415

        return self._component("augmentation", Augmentation)

    def network(self) -> "ModelSettings":
        """Return the settings of the network."""
        from task.models.base import ModelSettings  # noqa: PLC0415

        return self._component("model", ModelSettings)

    def methods(self) -> list[str]:
        """Return the names of the local methods: one, unless several are combined."""
        return str(self.method["name"]).split(PLUS)

    def local_method(self) -> "Method":
        """Return a new object of the local method, which keeps state while a client trains."""
        from task.combination import create_method  # noqa: PLC0415

        return create_method(self.method)

    @cached_property
    def _components(self) -> dict[str, Any]:
        return {}

    def _component(self, group: str, base: type[T]) -> T:
        """Return the component of a configuration group; it is built at its first use."""
        if group not in self._components:
            settings = getattr(self, group)
            self._components[group] = registry.create(group, base, settings)
        built: T = self._components[group]
        return built


@lru_cache(maxsize=8)
def read_local_config(text: str) -> LocalConfig:
    """Read the settings of local training from JSON; a process parses each text once.

    Raises:
        ConfigError: a key or value is not allowed.
    """
    try:
        return LocalConfig.model_validate_json(text)
    except ValidationError as error:
        raise registry.first_error(error) from None
