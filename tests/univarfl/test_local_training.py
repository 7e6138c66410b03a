"""Our local methods around a network and batches of one's own."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import univarfl
from task.errors import ConfigError, ProtocolError, TrainingError
from task.methods.base import LocalRound, Method, Term
from task.models.base import Output
from tests.conftest import with_slow
from univarfl import LocalTraining, MethodStrategy
from univarfl.local_training import ARRAYS, BROADCAST, EXTRA

RESIDUAL = {"fedalign", "gradaug", "stochdepth"}  # they need residual blocks of ours
CLOSED = {"ridge", "ncm"}
REFUSED = {*RESIDUAL, *CLOSED, "fedrcl"}
ABLE = sorted({*univarfl.methods()} - REFUSED)
QUICK = {"fedetf", "moon", "univarfl"}


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8),
        nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3),
    )  # fmt: skip


def rows(seed: int = 0) -> TensorDataset:
    draws = torch.Generator().manual_seed(seed)
    labels = torch.arange(24) % 3
    images = torch.randn(24, 1, 8, 8, generator=draws) + labels[:, None, None, None]
    return TensorDataset(images, labels)


def loader(shuffle: bool = True) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(rows(), batch_size=8, shuffle=shuffle)


def two_rounds(training: LocalTraining) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Train client 1 in rounds 1 and 2; return the second round's weights and losses."""
    weights = training.initial_weights()
    part = training.server_part(weights)
    broadcast = part.broadcast() if part else {}
    first = training.train(weights, loader(), 1, client=1, broadcast=broadcast)
    second = training.train(
        {**weights, **first.weights}, loader(), 2, client=1, state=first.state, broadcast=broadcast
    )
    return second.weights, second.losses


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("method", with_slow(ABLE, {*ABLE} - QUICK))
def test_a_method_trains_a_network_of_ones_own_with_the_same_bits(method: str) -> None:
    weights, losses = two_rounds(LocalTraining(network(), method, seed=3))
    torch.rand(7)  # what a program draws beside it changes nothing
    again, _ = two_rounds(LocalTraining(network(), method, seed=3))
    assert equal(weights, again)
    assert losses["ce"] > 0
    assert not torch.equal(weights["0.weight"], network().state_dict()["0.weight"])


@pytest.mark.parametrize("method", with_slow(sorted(REFUSED), RESIDUAL | {"ncm"}))
def test_a_method_that_cannot_is_refused_by_name(method: str) -> None:
    with pytest.raises(ConfigError, match="method"):
        LocalTraining(network(), method)


def test_without_a_term_it_is_sgd() -> None:
    fixed = network()
    fixed[6] = nn.Identity()  # dropout would draw in another order
    ours = LocalTraining(
        copy.deepcopy(fixed), optim={"lr": 0.1, "weight_decay": 0.0}, local_epochs=2
    )
    ours.train(fixed.state_dict(), loader(), 1)  # another client before
    found = ours.train(fixed.state_dict(), loader(shuffle=False), 1)
    optimizer = torch.optim.SGD(fixed.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        for x, y in loader(shuffle=False):
            optimizer.zero_grad()
            nn.functional.cross_entropy(fixed(x), y).backward()
            optimizer.step()
    wanted = fixed.state_dict()
    assert found.weights.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found.weights[name], value)
    assert found.examples == 24
    x = next(iter(loader()))[0]
    torch.testing.assert_close(ours.trained(found.weights)(x), fixed.eval()(x))


def test_a_part_that_stays_with_the_client_is_in_its_state() -> None:
    training = LocalTraining(network(), "fedper")
    weights = training.initial_weights()
    assert "7.weight" not in weights
    result = training.train(weights, loader(), 1)
    assert "7.weight" not in result.weights
    x = next(iter(loader()))[0]
    own, first = (training.trained(result.weights, state)(x) for state in (result.state, {}))
    assert not torch.equal(own, first)


@dataclass
class Pulled(Method):
    """Cross-entropy, and the mean square of the logits."""

    terms = ("square",)

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self.counts = this.counts

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        return {"square": Term(out.logits.square().mean(), 0.5)}


def test_a_method_object_of_ones_own() -> None:
    method = Pulled()
    training = LocalTraining(network(), method)
    result = training.train(training.initial_weights(), loader(), 1)
    assert result.losses["square"] > 0
    assert method.counts.tolist() == [8, 8, 8]


class Scaled(nn.Sequential):
    """A network with something after its last linear layer."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return x / 0.01


def after_the_head() -> object:
    training = LocalTraining(Scaled(*network()))
    return training.train(training.initial_weights(), loader(), 1)


def passed_once() -> object:
    training = LocalTraining(network())
    return training.train(training.initial_weights(), iter([next(iter(loader()))]), 1)


def one_epoch_of_two() -> object:
    training = LocalTraining(network(), local_epochs=2)
    counts, batches = torch.tensor([8, 8, 8]), iter([*loader(), *loader()])
    return training.train(training.initial_weights(), batches, 1, counts=counts)


def one_row() -> object:
    training = LocalTraining(network())
    return training.train(training.initial_weights(), DataLoader(rows(), batch_size=23), 1)


def another_class() -> object:
    training = LocalTraining(network())
    batch = torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 2, 3])
    return training.train(training.initial_weights(), [batch], 1)


def no_rows() -> object:
    training = LocalTraining(network())
    return training.train(training.initial_weights(), [], 1)


def other_weights() -> object:
    training = LocalTraining(network())
    return training.train({"0.weight": torch.zeros(2)}, loader(), 1)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (one_row, TrainingError, "drop_last=True"),
        (another_class, TrainingError, "from 0 to 2"),
        (no_rows, TrainingError, "no rows"),
        (other_weights, ProtocolError, "other names"),
        (after_the_head, ConfigError, "whose output is that of the network"),
        (passed_once, TrainingError, "no rows"),
        (one_epoch_of_two, TrainingError, "passed over again"),
        (lambda: LocalTraining(nn.Linear(2, 2)), ConfigError, "network around it"),
        (lambda: LocalTraining(network(), alpha=0.1), ConfigError, "must be one of device"),
        (lambda: LocalTraining(network(), head="0"), ConfigError, "linear layer"),
        (lambda: LocalTraining(nn.Conv2d(1, 1, 1)), ConfigError, "no linear layer"),
        (lambda: LocalTraining(network(), "fednova", optim="adamw"), ConfigError, "optim"),
    ],
)
def test_what_is_wrong_is_named(
    wrong: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        wrong()


@pytest.fixture
def a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message needs the identity of the run that it belongs to."""
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)
    monkeypatch.setattr(TaskIdentity, "_run_id", 1)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)


class Nodes:
    """What a strategy asks of Flower's grid: who is there."""

    def get_node_ids(self) -> list[int]:
        return [1, 2, 3]


def replies_to(messages: list[Message], clients: list[LocalTraining]) -> list[Message]:
    answers = []
    for number, (message, training) in enumerate(zip(messages, clients, strict=True)):
        context = Context(1, number, {"partition-id": number}, RecordDict(), {})
        answers.append(training.answer(message, context, loader()))
    return answers


@pytest.mark.usefixtures("a_run")
def test_scaffolds_control_variates_travel_with_flowers_fedavg() -> None:
    clients = [LocalTraining(network(), "scaffold", seed=3) for _ in range(3)]
    weights = clients[0].initial_weights()
    strategy = MethodStrategy(FedAvg(fraction_evaluate=0), clients[0])
    arrays = ArrayRecord(weights)
    sums = []
    for server_round in (1, 2):
        messages = list(
            strategy.configure_train(server_round, arrays, ConfigRecord(), Nodes())  # type: ignore[arg-type]
        )
        found = replies_to(messages, clients)
        sums.append(
            sum(reply.content.array_records[EXTRA].to_torch_state_dict()["classifier.bias"]
                for reply in found)
        )  # fmt: skip
        new, metrics = strategy.aggregate_train(server_round, found)
        assert new is not None
        assert metrics is not None
        arrays = new
    (sent, *_) = strategy.configure_train(3, arrays, ConfigRecord(), Nodes())  # type: ignore[arg-type]
    broadcast = sent.content.array_records[BROADCAST].to_torch_state_dict()
    # Each of three clients has a third of the rows, and all took part.
    torch.testing.assert_close(broadcast["classifier.bias"], (sums[0] + sums[1]) / 3)
    assert arrays.to_torch_state_dict().keys() == weights.keys()


@pytest.mark.usefixtures("a_run")
def test_a_reply_that_the_method_cannot_use_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    clients = [LocalTraining(network(), "scaffold", seed=3) for _ in range(3)]
    strategy = MethodStrategy(FedAvg(fraction_evaluate=0), clients[0])
    arrays = ArrayRecord(clients[0].initial_weights())
    messages = list(strategy.configure_train(1, arrays, ConfigRecord(), Nodes()))  # type: ignore[arg-type]
    found = replies_to(messages, clients)
    del found[0].content[EXTRA]
    broken = found[1].content.array_records[EXTRA].to_torch_state_dict()
    broken["classifier.bias"] = torch.full_like(broken["classifier.bias"], torch.nan)
    found[1].content[EXTRA] = ArrayRecord(broken)
    kept = found[2].content.array_records[ARRAYS].to_torch_state_dict()
    new, metrics = strategy.aggregate_train(1, found)
    assert new is not None
    assert isinstance(metrics, MetricRecord)
    torch.testing.assert_close(new.to_torch_state_dict()["0.weight"], kept["0.weight"])
    assert "other names" in caplog.text
    assert "not finite" in caplog.text
