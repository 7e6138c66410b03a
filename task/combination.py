"""Several local methods at once: ``method=univarfl+fedprox``."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from task import registry
from task.errors import ConfigError
from task.extensions import PLUS
from task.methods.base import LocalRound, Method, Outcome, ServerUpdate, Term
from task.methods.families.conflicts import conflict
from task.models.base import Output
from task.tensors import Tensors


@dataclass
class Combination(Method):
    """Several methods as one: each hook calls every member in order, and the losses add up.

    A member that perturbs the weights changes them after every other ``batch``, and restores them
    before every other ``gradients``. Members that bound gradients get them last.

    Attributes:
        by_name: the members by name, at least two.
    """

    by_name: dict[str, Method]

    def members(self) -> Sequence[Method]:
        return list(self.by_name.values())

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        for member in self.members():
            model = member.build(model, generator)
        return model

    def added_numbers(self, model: nn.Module) -> int:
        return sum(member.added_numbers(model) for member in self.members())

    def personal(self, model: nn.Module) -> Collection[str]:
        return {name for member in self.members() for name in member.personal(model)}

    def measures_statistics(self) -> bool:
        return any(member.measures_statistics() for member in self.members())

    def frozen(self, model: nn.Module, epoch: int, epochs: int) -> Collection[nn.Parameter]:
        return [one for member in self.members() for one in member.frozen(model, epoch, epochs)]

    def start(self, model: nn.Module, this: LocalRound) -> None:
        for name, member in self.by_name.items():
            member.start(model, replace(this, state=state_of(this.state, name)))

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        for member in sorted(self.members(), key=lambda member: member.perturbs):
            x, y = member.batch(x, y)
        return x, y

    def logits(self, logits: Tensor) -> Tensor:
        for member in self.members():
            logits = member.logits(logits)
        return logits

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        return {
            name: term for member in self.members() for name, term in member.loss(out, x, y).items()
        }

    def gradients(self, model: nn.Module) -> None:
        for member in sorted(self.members(), key=when_it_gets_gradients):
            member.gradients(model)

    def finish(self, model: nn.Module) -> Outcome:
        state: dict[str, Tensor] = {}
        extra: dict[str, Tensor] = {}
        in_order = sorted(self.by_name.items(), key=lambda entry: entry[1].server_update)
        for name, member in in_order:
            outcome = member.finish(model)
            state |= {f"{name}/{key}": value for key, value in outcome.state.items()}
            extra |= outcome.extra
        return Outcome(state, extra)

    def clean(self, model: nn.Module) -> None:
        for member in self.members():
            member.clean(model)

    def server(self, weights: Tensors) -> ServerUpdate | None:
        updates = (member.server(weights) for member in self.members())
        return next((update for update in updates if update), None)


def when_it_gets_gradients(member: Method) -> tuple[bool, bool]:
    """Return the key by which members are sorted before their ``gradients``."""
    return not member.perturbs, member.bounds_gradients


def state_of(state: Tensors, name: str) -> Tensors:
    """Return the state of one member, from the state of a combination."""
    head = f"{name}/"
    return {key.removeprefix(head): value for key, value in state.items() if key.startswith(head)}


def combine(settings: dict[str, Any]) -> Combination:
    """Return the combination of the methods that ``settings["name"]`` joins with ``+``.

    Raises:
        ConfigError: a name or setting is unknown or out of range, or the methods do not combine.
    """
    name = settings["name"]
    names = name.split(PLUS)
    for member in names:
        registry.require_component("method", member)
    if len(set(names)) < len(names):
        raise ConfigError("method", name, "names a method twice")
    kinds = {member: registry.component_class("method", member) for member in names}
    if reason := conflict(kinds):
        raise ConfigError("method", name, reason)
    left = {key: value for key, value in settings.items() if key != "name"}
    members = {}
    for member, kind in kinds.items():
        own = {field.name: left.pop(field.name) for field in fields(kind) if field.name in left}
        members[member] = registry.create("method", {"name": member, **own})
    if left:
        key, value = next(iter(left.items()))
        raise ConfigError(f"method.{key}", value, "unknown key")
    return Combination(members)
