"""The base class of local methods, hooks around the training loop, and of their server updates."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from task.models.base import ModelSettings, Output
from task.tensors import Tensors


class Contribution(NamedTuple):
    """A round's accepted clients as one mean; a server update never sees a single client.

    Attributes:
        share: the accepted clients' share of the federation's objective, in (0, 1]; 1 if every
            client took part.
        weights: the weighted mean of their trained models, float64.
        extra: the weighted mean of what their ``finish`` sent, float64.
        known: the share of the present objective that belongs to clients known at the previous
            update, in (0, 1]. It is below 1 if sites have joined since; a mean over all clients
            shrinks by this factor.
    """

    share: float
    weights: Mapping[str, Tensor]
    extra: Mapping[str, Tensor]
    known: float


class ServerUpdate(ABC):
    """The server's part of a method, called once per round after the aggregation.

    Attributes:
        state: everything that it keeps between rounds, by name; saved in checkpoints.
    """

    state: dict[str, Tensor]

    def broadcast(self) -> Mapping[str, Tensor]:
        """Return what every client receives in addition to the global weights."""
        return {}

    def problem_with(self, extra: Mapping[str, Tensor]) -> str:
        """Return why what one client sent in addition cannot be used; "" if it can.

        Args:
            extra: finite, with the names and shapes of the broadcast.
        """
        return ""

    @abstractmethod
    def update(
        self, before: Mapping[str, Tensor], after: Mapping[str, Tensor], clients: Contribution
    ) -> dict[str, Tensor]:
        """Return the next global weights.

        Args:
            before: the weights that the clients started from.
            after: the aggregated weights.
            clients: what the accepted clients sent.
        """


class Term(NamedTuple):
    """One term of the local loss: its value, a scalar tensor, and its coefficient."""

    value: Tensor
    weight: float | Tensor


@dataclass(frozen=True)
class LocalRound:
    """The client and the round of one local training.

    Attributes:
        round: the server's round, from 1.
        client: the client's number, from 0.
        generator: for the method's own random draws; on the CPU.
        counts: the number of the client's training images of each class, [D] int64.
        state: what ``finish`` kept when this client's update was last accepted; empty before that.
        broadcast: what the method's server update sends to every client.
        momentum: that of SGD; 0 with another optimizer.
        nesterov: whether SGD's momentum is Nesterov's.
    """

    round: int
    client: int
    generator: torch.Generator
    counts: Tensor
    state: Tensors = field(default_factory=dict)
    broadcast: Tensors = field(default_factory=dict)
    momentum: float = 0.0
    nesterov: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a method returns after a client's last step, in addition to the weights.

    Attributes:
        state: kept on the client for its next round.
        extra: sent to the method's server update, in the names and shapes of its broadcast.
    """

    state: Tensors = field(default_factory=dict)
    extra: Tensors = field(default_factory=dict)


@dataclass
class Method:
    """A local method; without overridden hooks it trains with the cross-entropy alone.

    A worker calls ``build`` and ``personal`` once. For each client, `task.training.loop` calls
    ``start`` once, and ``frozen`` before each epoch. For each batch it calls ``batch``, the forward
    pass, ``logits``, ``loss``, the backward pass, ``gradients`` and the optimizer step. After the
    last batch it calls ``finish``, and ``clean`` also after a failure. A subclass is a dataclass
    whose fields are the settings of its YAML file.

    Attributes:
        terms: the names of the terms that ``loss`` returns; each is a column in ``clients.csv``.
        residual: whether it needs a residual network.
        trains_features: whether it acts through the features alone; the network must then have
            layers before the classifier.
        keeps_state: whether ``finish`` keeps something for the client's next round.
        server_update: whether ``server`` is overridden, which sets it; the strategy must then move
            to a mean. In a combination, its ``finish`` runs last and may change the weights that
            are sent.
        scales_update: whether ``finish`` scales the update, so that no trained model is sent.
        follows_global: whether it uses how the whole global model moved since the client's last
            round.
        scales_step: whether its server update multiplies the strategy's step; the strategy must
            then keep nothing between rounds, as momentum would be multiplied too.
        narrows: whether it runs the network, or a part of it, with fewer channels.
        varies_network: whether the network's computation changes while a client trains.
        varies_cost: whether the number of operations changes from batch to batch.
        replayable: whether ``batch``, ``logits``, ``loss`` and ``gradients`` do the same in every
            step of an epoch: they draw nothing, count nothing and read nothing from the device. A
            step that is recorded once can then be replayed (``runtime.graphed``).
        separable: whether the loss is a mean over the images of a batch, and each image's part
            depends on no other image: the condition of DP-SGD, which ignores ``frozen``.
            ``gradients`` need not fulfil it.
        sets_classifier: whether ``build`` replaces the classifier or stops its training, or each
            client has a classifier of its own.
        personalises: whether ``personal`` is overridden, which sets it: a part of the model stays
            with the client. No test accuracy of one model exists then.
        mixes_labels: whether ``batch`` returns class probabilities.
        needs_levels: whether it needs the network's levels; see `task.models.base.Output`.
        needs_classes: whether it needs one class per image, so that no labels may be mixed.
        perturbs: whether ``batch`` changes the weights and ``gradients`` restores them. In a
            combination, its ``batch`` then runs last and its ``gradients`` first.
        adjusts_logits: whether ``logits`` is overridden, which sets it.
        uses_entropy: whether ``loss`` uses the cross-entropy of the network's own logits.
        needs_sgd: whether it computes with local steps as sums of gradients, which those of AdamW
            are not.
        bounds_gradients: whether ``gradients`` limits the gradients. In a combination, its
            ``gradients`` then runs after all others.
        multilabel: whether it fits images with any number of labels: it reads neither classes nor a
            softmax of the logits, and takes any loss that is a mean over images.
        cure_for_labels: the setting that makes it so, for the message; empty if there is none.
        closed_form: whether nothing is trained: the server solves the classifier from sums of all
            clients' features.
    """

    terms: ClassVar[tuple[str, ...]] = ()
    residual: ClassVar[bool] = False
    narrows: ClassVar[bool] = False
    trains_features: ClassVar[bool] = False
    needs_levels: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    server_update: ClassVar[bool] = False
    scales_update: ClassVar[bool] = False
    follows_global: ClassVar[bool] = False
    scales_step: ClassVar[bool] = False
    varies_network: ClassVar[bool] = False
    varies_cost: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    separable: ClassVar[bool] = False
    sets_classifier: ClassVar[bool] = False
    personalises: ClassVar[bool] = False
    mixes_labels: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = False
    perturbs: ClassVar[bool] = False
    adjusts_logits: ClassVar[bool] = False
    uses_entropy: ClassVar[bool] = False
    needs_sgd: ClassVar[bool] = False
    bounds_gradients: ClassVar[bool] = False
    closed_form: ClassVar[bool] = False
    multilabel: ClassVar[bool] = False
    cure_for_labels: ClassVar[str] = ""
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def __init_subclass__(cls) -> None:
        cls.personalises = cls.personal is not Method.personal
        cls.adjusts_logits = cls.logits is not Method.logits
        cls.server_update = cls.server is not Method.server

    def members(self) -> Sequence["Method"]:
        """Return the methods that this one combines; itself, unless it is a combination."""
        return [self]

    def problem_with(self, network: ModelSettings, name: str, epochs: int) -> str:
        """Return why the network or number of epochs does not suit the method; "" if it does."""
        if self.residual and not network.residual:
            cure = "add model=resnet18, model=resnet50 or model=resnet56"
            cure = cure if network.takes_images else "choose another method"
            return f"needs residual blocks, but model={name} has none; {cure}"
        if self.trains_features and not network.trained_features:
            cure = "add model=cnn, or choose another method"
            return f"trains the layers before the classifier, but model={name} has none; {cure}"
        if self.needs_levels and not network.has_levels:
            return f"needs the network's levels, but model={name} has none; add model=cnn"
        return ""

    def reported_terms(self) -> list[str]:
        """Return the names of all terms whose means a client reports, the cross-entropy first."""
        terms = ["ce", *(term for member in self.members() for term in member.terms)]
        return list(dict.fromkeys(terms))

    def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Change the new model, once per worker.

        Args:
            model: with its initial weights, on the CPU.
            generator: for random draws, on the CPU.
        """
        return model

    def added_numbers(self, model: nn.Module) -> int:
        """Return how many numbers `build` adds to a model; sites limit the size of models.

        Args:
            model: before `build`; it may be on PyTorch's meta device, and have no values.
        """
        return 0

    def personal(self, model: nn.Module) -> Collection[str]:
        """Return the names in the built model's ``state_dict`` of what stays with the client."""
        return ()

    def measures_statistics(self) -> bool:
        """Whether a client measures batch norm's statistics on its images before it is scored."""
        return False

    def start(self, model: nn.Module, this: LocalRound) -> None:
        """Prepare one client's round; `model` holds the weights that the client starts from."""

    def frozen(self, model: nn.Module, epoch: int, epochs: int) -> Collection[nn.Parameter]:
        """Return the parameters that an epoch leaves as they are.

        Args:
            model: the client's.
            epoch: from 0.
            epochs: the number of local epochs.
        """
        return ()

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Change a batch before the forward pass.

        Args:
            x: images [n, C, H, W], float32, normalised.
            y: classes [n], int64, or class probabilities [n, D]; either may be returned.
        """
        return x, y

    def logits(self, logits: Tensor) -> Tensor:
        """Return what the cross-entropy is computed from; `loss` and evaluation use `logits`.

        Args:
            logits: the network's, [n, D].
        """
        return logits

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        """Return the terms that are added to the cross-entropy, by the names in `terms`.

        Args:
            out: the network's output for `x`.
            x: the batch after ``batch``.
            y: its labels after ``batch``.
        """
        return {}

    def gradients(self, model: nn.Module) -> None:
        """Change the gradients in place, between the backward pass and the optimizer step."""

    def finish(self, model: nn.Module) -> Outcome:
        """Return what to keep and what to send, after the client's last step."""
        return Outcome()

    def clean(self, model: nn.Module) -> None:
        """Undo what the other hooks changed in the layers; called also if the training failed.

        The weights need no care: they are loaded for every client.
        """

    def server(self, weights: Tensors) -> ServerUpdate | None:
        """Return the method's server update, or None if aggregation alone sets the global weights.

        Args:
            weights: the initial global values of the trained parameters.
        """
        return None
