"""The settings of local training, which the server sends to every client."""

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from task import registry
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

COMBINE = "task.combination:combine"  # several methods at once

Settings = dict[str, Any]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "tf32", "bfloat16"]
LastBatch = Literal["merge", "drop"]


class Strict(BaseModel):
    """Settings that refuse unknown keys, other types and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Runtime(Strict):
    """How a training step is computed; see `task.training.loop`."""

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

    def source(self) -> "Source":
        """Return the data set."""
        found: Source = self.component("data")
        return found

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
        found: Partitioner = self.component("partition")
        return found

    def augmenter(self) -> "Augmentation":
        """Return the augmentation of the training images."""
        found: Augmentation = self.component("augmentation")
        return found

    def network(self) -> "ModelSettings":
        """Return the settings of the network."""
        found: ModelSettings = self.component("model")
        return found

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
