"""One server step of FedBuff with known numbers, and the files of weights."""

from pathlib import Path

import pytest
import torch

from server_app.aggregation.accumulator import SumSettings, UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.guards.none import NoGuard
from server_app.aggregation.strategies.base import strategy_of
from server_app.aggregation.strategies.families.buffered import BufferedSettings
from server_app.config.composition import compose_experiment
from server_app.rounds.errors import RunFailedError
from server_app.rounds.pace.buffer import rebased
from server_app.rounds.pace.received_weights import ReceivedWeights
from task.tensors import Tensors


def stepped(starts: list[list[float]], trained: list[list[float]], behind: list[int]) -> Tensors:
    """Return the mean that the server moves to, from [1, -1], by two clients' models."""
    words = ["strategy=fedbuff", "clock=virtual", "strategy.buffer_size=2"]
    strategy = strategy_of(compose_experiment(words))
    assert isinstance(strategy, BufferedSettings)
    now = {"w": torch.tensor([1.0, -1.0], dtype=torch.float64)}

    def rebase(client: int, weights: Tensors) -> Tensors:
        start = {"w": torch.tensor(starts[client], dtype=torch.float64)}
        return rebased(weights, start, now, strategy.step(behind[client]))

    accumulator = UpdateAccumulator(
        now, {}, {0: 0.5, 1: 0.5}, {0: 9, 1: 9}, SumSettings(NoGuard(most_images=100), {"w"}, []),
        rebase=rebase,
    )  # fmt: skip
    assert not accumulator.adds_up
    for client, weights in enumerate(trained):
        model = {"w": torch.tensor(weights, dtype=torch.float64)}
        accumulator.add(ClientUpdate(client, ""), model, {})
    return accumulator.mean()


def test_the_paper_equation() -> None:
    """The updates w_start - w are [0.2, -0.4], and three steps behind [0.6, 0.1]; K = 2."""
    found = stepped([[1.0, -1.0], [5.0, 3.0]], [[0.8, -0.6], [4.4, 2.9]], [0, 3])
    expected = torch.tensor([0.75, -0.825], dtype=torch.float64)
    assert torch.allclose(found["w"], expected, rtol=0, atol=1e-12)


def test_counters_are_not_moved() -> None:
    count = {"n": torch.tensor(7)}
    assert rebased(count, {"n": torch.tensor(3)}, {"n": torch.tensor(5)}, 0.5)["n"] == 7


def test_weights_are_kept_on_disk_and_damage_is_named(tmp_path: Path) -> None:
    received = ReceivedWeights(tmp_path)
    for number in (1, 2, 3):
        received.keep(number, {"w": torch.full((3,), float(number)), "n": torch.tensor(number)})
    received.drop_others({1, 3})
    assert torch.equal(received.load(3)["w"], torch.full((3,), 3.0))
    with pytest.raises(RunFailedError, match=r"round-000002\.safetensors cannot be read.*again"):
        received.load(2)
    (file,) = tmp_path.rglob("round-000001.safetensors")
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(RunFailedError, match="cannot be read"):
        received.load(1)
    received.delete()
    assert not list(tmp_path.iterdir())
