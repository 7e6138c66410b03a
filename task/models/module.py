"""Any network of one's own: a class or function that returns an ``nn.Module``.

It is imported by the name that the settings give. So a site runs it only if the ``extensions`` in
its owner's ``site.toml`` list its package; see `task.extensions.target_of`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from torch import nn

from task.errors import refuse
from task.extensions import target_of
from task.models.base import Scaling
from task.models.layers.backbone import BackboneSettings, without_last_linear
from task.plain_text import one_line
from task.registry import named


@dataclass
class ModuleSettings(BackboneSettings):
    """Settings of a network of one's own.

    Attributes:
        target: ``PACKAGE.MODULE:NAME`` of what returns the network when it is called without
            arguments.
        head: the name of the network's last linear layer, which is taken away, so that its input
            are the features; None if the network returns features.
        mean: of each colour, subtracted from pixels in [0, 1]; None for the data set's.
        std: of each colour, by which they are divided then; None for the data set's.
    """

    chosen_by: ClassVar[str] = "target"

    target: str = field(kw_only=True)
    head: str | None = field(default=None, kw_only=True)
    mean: list[float] | None = field(default=None, kw_only=True)
    std: list[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if target_of({"name": "module", "target": self.target}) is None:
            refuse(self, "target", "must be PACKAGE.MODULE:NAME, and Python must find the package")
        if (self.mean is None) != (self.std is None):
            refuse(self, "std", "mean and std are given both, or neither")
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values is not None and len(values) != 3:
                refuse(self, name, "must be three numbers, one for each colour")
        if self.std is not None and min(self.std) <= 0:
            refuse(self, "std", "must be above 0")
        super().__post_init__()

    def encoder(self) -> nn.Module:
        try:
            create = named(self.target)
        except (ImportError, AttributeError) as error:
            refuse(self, "target", f"cannot be imported: {error}")
        try:
            network = create()
        except Exception as error:
            refuse(self, "target", f"fails without arguments: {one_line(str(error))}")
        if not isinstance(network, nn.Module):
            refuse(
                self, "target", f"must return an nn.Module, and returns {type(network).__name__}"
            )
        return network if self.head is None else without_last_linear(network, self.head)

    def own_scaling(self) -> Scaling | None:
        if self.mean is None or self.std is None:
            return None
        return tuple(self.mean), tuple(self.std)
