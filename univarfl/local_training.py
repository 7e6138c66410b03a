"""Local methods around a network and batches of one's own."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import univarfl.application  # noqa: F401

# isort: split

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from torch import Tensor, nn

from server_app.config.composition import compose_experiment
from task.config import LocalConfig, Sgd
from task.errors import ConfigError, UntrainableDataError, diverged
from task.methods.base import Method, ServerUpdate
from task.models.base import Network, Output
from task.models.layers.backbone import without_last_linear
from task.optim.parameters import CLASSIFIER, trained_parameters, without_gradients
from task.protocol.tensors import check_tensors
from task.seeding import torch_generator
from task.tensors import Tensors
from task.training.device import choose_device, prepare_process
from task.training.loop import Key, LocalResult, LocalTrainer
from task.training.losses import LossMeter
from task.training.personal.part import PersonalPart, without_personal
from task.training.worker import NOTHING
from univarfl.words import words_of

Batches = Iterable[tuple[Tensor, Tensor]]

SETTINGS = ("device", "local_epochs", "optim", "rounds", "seed", "train")
ENCODER = "encoder."  # begins our names of what comes before the classifier
STATE, BROADCAST, EXTRA = "univarfl.state", "univarfl.broadcast", "univarfl.extra"
ARRAYS, METRICS, CONFIG, EXAMPLES = "arrays", "metrics", "config", "num-examples"  # Flower's


class OwnNetwork(Network):
    """A network of one's own, divided before its last linear layer.

    Args:
        encoder: maps inputs to features [n, d].
        classifier: maps features to logits [n, D].
    """

    def __init__(self, encoder: nn.Module, classifier: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = classifier

    def forward(self, x: Tensor) -> Output:
        features = self.encoder(x)
        if not isinstance(features, Tensor) or features.ndim != 2:
            raise ConfigError("head", "", "must be the layer whose input are features [n, d]")
        return Output(self.classifier(features), features, None)


class Logits(nn.Module):
    """A divided network that returns logits [n, D]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x).logits
        return logits


class BatchTrainer(LocalTrainer):
    """Trains on batches of one's own in place of images of ours."""

    def take_epochs(self, batches: Batches, key: Key, meter: LossMeter) -> None:
        """Take the steps of all local epochs.

        Args:
            batches: inputs and classes [n] int64; each epoch passes over them once.
            key: what makes the training unique.
            meter: adds up the loss terms.
        """
        epochs = self.config.local_epochs
        device = next(self.model.parameters()).device
        for epoch in range(epochs):
            self._frozen = self.method.frozen(self.model, epoch, epochs)
            with without_gradients(self._frozen):
                before = meter.images
                for x, y in batches:
                    if len(x) < 2:
                        raise UntrainableDataError(
                            "a batch has one row, of which no variance exists; use another batch "
                            "size, or drop_last=True"
                        )
                    meter.images += len(x)
                    self.step(x.to(device), y.to(device), meter)
            if meter.images == before:
                raise UntrainableDataError(
                    "there is no batch; pass a DataLoader, or a list that can be passed over again"
                )
            if problem := meter.not_finite():
                raise diverged(f"{problem} in epoch {epoch + 1} of {epochs}")


class LocalTraining:
    """Any of our local methods around a network and a ``DataLoader`` of one's own.

    For example::

        training = LocalTraining(resnet18(num_classes=10), "scaffold", optim={"lr": 0.05})
        result = training.train(weights, loader, server_round=1, client=3)

    Weights have the names of the network's own ``state_dict``. One object trains any number of
    clients one after another. With equal batches, the same seed gives the same bits; for this it
    sets PyTorch to one thread and to deterministic algorithms.

    Args:
        network: maps inputs to logits [n, D]; it ends in a linear layer. A copy is trained.
        method: the name of a local method; a dictionary with its ``name`` and settings; or a
            `Method` of one's own.
        head: the name of the last linear layer, whose input are the features; empty for the last
            of all linear layers. Its output must be that of the network.
        settings: those of ``univarfl train`` among `SETTINGS`, such as ``optim={"lr": 0.1}``.

    Attributes:
        method: the local method.

    Raises:
        ConfigError: a setting is not allowed, or the method needs what the network has not.
    """

    method: Method

    def __init__(
        self,
        network: nn.Module,
        method: str | Mapping[str, Any] | Method = "fedavg",
        *,
        head: str = "",
        **settings: Any,
    ) -> None:
        for key, value in settings.items():
            if key not in SETTINGS:
                raise ConfigError(key, value, f"must be one of {', '.join(SETTINGS)}")
        own = isinstance(method, Method)
        words = {"model": "module", "method": "fedavg" if own else method, **settings}
        config = compose_experiment(words_of(words)).local()
        self.method = method if isinstance(method, Method) else config.local_method()
        check_method(self.method, config)
        prepare_process()
        self._undivided: nn.Module | None = network  # until it was compared
        self._head, divided = divided_before(network, head)
        self._classes = divided.classifier.out_features
        generator = torch_generator(config.seed, "method")
        model = self.method.build(divided, generator).to(choose_device(config.device))
        self._personal = PersonalPart(model, self.method.personal(model))
        self._trained = list(trained_parameters(model))
        self._trainer = BatchTrainer(model, self.method, config)

    def initial_weights(self) -> dict[str, Tensor]:
        """Return the weights before round 1: those of the network, and what the method changed.

        A part that stays with each client is not among them.
        """
        return self.own_names(self._personal.shared)

    def train(
        self,
        weights: Tensors,
        batches: Batches,
        server_round: int,
        client: int = 0,
        state: Tensors = NOTHING,
        broadcast: Tensors = NOTHING,
        counts: Tensor | None = None,
    ) -> LocalResult:
        """Train one client for the local epochs, starting from the global weights.

        Args:
            weights: the global weights.
            batches: such as a ``DataLoader``: inputs, and classes [n] int64.
            server_round: the round, from 1.
            client: the client's number, from which its random draws follow.
            state: the ``state`` of this client's last result; empty before that.
            broadcast: what the method's server part sends to every client.
            counts: the number of the client's rows of each class, [D]; None: they are counted in a
                pass over the batches.

        Raises:
            TrainingError: a batch has one row, or a loss or weight is not finite.
            ConfigError: the network's output is not that of the layer `head`.
            ProtocolError: the weights do not fit the network.
        """
        prepare_process()
        shared = self.our_names(weights)
        if self._undivided is not None:
            check_division(self._undivided, self._head, batches)
            self._undivided = None
        if counts is None:
            counts = class_counts(batches, self._classes)
        device = next(self._trainer.model.parameters()).device
        with torch.random.fork_rng():  # training seeds what a loader's order is drawn from
            result = self._trainer.train_with(
                partial(self._trainer.take_epochs, batches),
                self._personal.complete(shared, state), counts.to(device), int(counts.sum()),
                server_round, client,
                without_personal(state), broadcast,
            )  # fmt: skip
        sent = self._personal.split(result)
        return replace(sent, weights=self.own_names(sent.weights))

    def trained(self, weights: Tensors, state: Tensors = NOTHING) -> nn.Module:
        """Return a copy of the network with some weights, in evaluation mode; it returns logits.

        It has what the method has changed, such as FedETF's classifier.

        Args:
            weights: the global weights.
            state: of a client, if a part of the network stays with it.

        Raises:
            ProtocolError: the weights do not fit the network.
        """
        network = copy.deepcopy(self._trainer.model)
        network.load_state_dict(self._personal.complete(self.our_names(weights), state))
        return Logits(network).eval()

    def answer(self, message: Message, context: Context, batches: Batches) -> Message:
        """Return the reply of a Flower ClientApp to a message that asks it to train.

        What the method keeps of a client stays in the context's state. The client is the node's
        ``partition-id``.

        Args:
            message: of one of Flower's strategies, or of one in a `MethodStrategy`.
            context: the client's.
            batches: as for `train`.
        """
        content, kept = message.content, context.state.array_records.get(STATE)
        sent = content.array_records.get(BROADCAST)
        settings = content.config_records[CONFIG]
        result = self.train(
            content.array_records[ARRAYS].to_torch_state_dict(),
            batches,
            whole(settings["server-round"]),
            whole(context.node_config["partition-id"]),
            kept.to_torch_state_dict() if kept else NOTHING,
            sent.to_torch_state_dict() if sent else NOTHING,
        )
        context.state[STATE] = ArrayRecord(result.state)
        metrics = MetricRecord({EXAMPLES: result.examples, **result.losses})
        reply = RecordDict({ARRAYS: ArrayRecord(result.weights), METRICS: metrics})
        if result.extra:
            reply[EXTRA] = ArrayRecord(result.extra)
        return Message(reply, reply_to=message)

    def server_part(self, weights: Tensors) -> ServerUpdate | None:
        """Return the server's part of the method; None if it has none.

        Args:
            weights: the global weights before round 1.
        """
        ours = self.our_names(weights)
        return self.method.server({name: ours[name] for name in self._trained if name in ours})

    def our_names(self, weights: Tensors) -> dict[str, Tensor]:
        """Return weights by the names of the divided network, in its types.

        Raises:
            ProtocolError: they do not fit the network, or are not finite.
        """
        expected, head = self._personal.shared, f"{self._head}."
        ours = {}
        for name, value in weights.items():
            at_head = name.startswith(head)
            own = f"{CLASSIFIER}{name.removeprefix(head)}" if at_head else f"{ENCODER}{name}"
            ours[own] = value.to(expected[own].dtype) if own in expected else value
        check_tensors(ours, expected)
        return ours

    def own_names(self, weights: Tensors) -> dict[str, Tensor]:
        """Return weights by the names of the network that was given."""
        return {
            f"{self._head}.{name.removeprefix(CLASSIFIER)}"
            if name.startswith(CLASSIFIER)
            else name.removeprefix(ENCODER): value
            for name, value in weights.items()
        }


def check_method(method: Method, config: LocalConfig) -> None:
    """Refuse a method that cannot train a network of one's own.

    Raises:
        ConfigError: it cannot.
    """
    for member in method.members():
        name = type(member).__name__
        if member.closed_form:
            raise ConfigError("method", name, "trains nothing; choose another method")
        if problem := member.problem_with(config.network(), "your own", config.local_epochs):
            raise ConfigError("method", name, problem)
        if member.needs_sgd and not isinstance(config.optim, Sgd):
            raise ConfigError("optim", config.optim.name, f"must be sgd with {name}")


def divided_before(network: nn.Module, head: str) -> tuple[str, OwnNetwork]:
    """Return the name of a network's last linear layer, and the network divided before it.

    Args:
        network: it stays, and a copy is divided.
        head: the name of the layer; empty for the last of all linear layers.

    Raises:
        ConfigError: there is no such layer.
    """
    if isinstance(network, nn.Linear):
        raise ConfigError("head", head, "needs a network around it: nn.Sequential(nn.Linear(...))")
    copied = copy.deepcopy(network)
    linear = {n: layer for n, layer in copied.named_modules() if isinstance(layer, nn.Linear)}
    encoder = without_last_linear(copied, head)
    name = head or list(linear)[-1]
    return name, OwnNetwork(encoder, linear[name])


def check_division(network: nn.Module, head: str, batches: Batches) -> None:
    """Refuse a network whose output is not that of its last linear layer.

    Args:
        network: before it was divided; its mode stays.
        head: the name of the layer.
        batches: of which the first is computed both ways.

    Raises:
        ConfigError: it is not; the network has another last layer, or something after it.
    """
    training, (_, divided) = network.training, divided_before(network, head)
    device = next(network.parameters()).device
    for x, _ in batches:
        with torch.no_grad():
            whole, logits = network.eval()(x.to(device)), divided.eval()(x.to(device)).logits
        network.train(training)
        if whole.shape != logits.shape or not torch.allclose(whole, logits):
            allowed = "must name the layer whose output is that of the network, the logits"
            raise ConfigError("head", head, allowed)
        return


def class_counts(batches: Batches, classes: int) -> Tensor:
    """Return the number of rows of each class, [D] int64.

    Raises:
        UntrainableDataError: there is no row, or a class is not from 0 to D - 1.
    """
    counts = torch.zeros(classes, dtype=torch.int64)
    for _, y in batches:
        if y.is_floating_point() or y.ndim != 1 or not 0 <= int(y.min()) <= int(y.max()) < classes:
            raise UntrainableDataError(f"classes must be whole numbers from 0 to {classes - 1}")
        counts += torch.bincount(y.cpu(), minlength=classes)
    if not counts.any():
        raise UntrainableDataError("there are no rows")
    return counts


def whole(value: object) -> int:
    """Return a setting of Flower as a whole number."""
    assert isinstance(value, int | float)
    return int(value)
