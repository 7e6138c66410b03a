"""The settings of local training: all that a client is told, nothing that only a server needs."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from task import registry
from task.combination import create_method
from task.data.augmentations.base import Augmentation
from task.data.partitions.base import Partition
from task.data.sources.base import Source
from task.errors import ConfigError
from task.methods.base import Method
from task.models.base import ModelSettings

Settings = dict[str, Any]
Device = Literal["auto", "cpu", "cuda"]


class Strict(BaseModel):
    """Settings that refuse unknown keys, other types and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Sgd(Strict):
    """Stochastic gradient descent, made anew for each client and round."""

    lr: Annotated[float, Field(gt=0)]
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: Annotated[float, Field(ge=0)]
    nesterov: bool
    max_gradient_norm: Annotated[float, Field(gt=0)] | None

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> "Sgd":
        if self.nesterov and not self.momentum:
            raise ConfigError("optim.nesterov", True, "needs optim.momentum above 0")
        return self


class Runtime(Strict):
    """How a training step is computed; see `task.runtime`."""

    precision: Literal["float32", "bfloat16"]
    compiled: bool


class LocalConfig(Strict):
    """What local training is made of.

    These groups name a component of `task` by ``name``; their other keys are its fields. A
    method's name may join several by ``+``.
    """

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)]
    num_clients: Annotated[int, Field(ge=1)]
    local_epochs: Annotated[int, Field(ge=1)]
    batch_size: Annotated[int, Field(ge=2)]
    device: Device
    data: Settings
    partition: Settings
    augmentation: Settings
    model: Settings
    method: Settings
    optim: Sgd
    runtime: Runtime

    @model_validator(mode="after")
    def _components_fit(self) -> "LocalConfig":
        self.source(), self.augmenter()
        if self.divider().sites:
            self.source().at_site("a site's own directory")
        network, method = self.network(), self.local_method()
        if any(member.residual for member in method.members()) and not network.residual:
            allowed = (
                f"needs residual blocks, which model={self.model['name']} has not; add "
                "model=resnet18, model=resnet50 or model=resnet56"
            )
            raise ConfigError("method", self.method["name"], allowed)
        for name, member in zip(self.methods(), method.members(), strict=True):
            if self.runtime.compiled and member.varies_network:
                allowed = (
                    f"method={name} changes the network with each batch, and each variant would be "
                    "compiled anew; leave it out"
                )
                raise ConfigError("runtime.compiled", True, allowed)
        return self

    def source(self) -> Source:
        """The data set."""
        return registry.create("data", "task.data.sources", Source, self.data)

    def divider(self) -> Partition:
        """How the data set is divided among the clients."""
        return registry.create("partition", "task.data.partitions", Partition, self.partition)

    def augmenter(self) -> Augmentation:
        """How training images are varied."""
        return registry.create(
            "augmentation", "task.data.augmentations", Augmentation, self.augmentation
        )

    def network(self) -> ModelSettings:
        """The architecture."""
        return registry.create("model", "task.models", ModelSettings, self.model)

    def methods(self) -> list[str]:
        """The names of the local methods, one unless they are combined."""
        return str(self.method["name"]).split(registry.PLUS)

    def local_method(self) -> Method:
        """The local method."""
        return create_method(self.method)
