"""What clients keep between rounds: exactly the accepted round, whatever happened since."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from flwr.app import Message, MessageType
from torch import Tensor

from client_app.app import app
from client_app.cohort import train_cohort
from client_app.memory import ClientMemory, MemoryLostError, memory_root
from client_app.request import Request
from server_app.composition import compose_experiment
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.exchange import Run, request
from task import wire
from task.fingerprint import fingerprint
from task.worker import shared_worker

KEPT = {"h": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path))
    return tmp_path


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.rglob("*") if path.is_file())


def equal(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def memory(most_bytes: int = 10_000) -> ClientMemory:
    return ClientMemory("run", most_bytes)


def test_what_is_kept_comes_back_bit_for_bit() -> None:
    memory().keep(3, 1, 0, KEPT)
    assert equal(memory().load(3, 1), KEPT)
    assert memory().load(3, 0) == {}


def test_the_accepted_round_and_the_newest_stay(root: Path) -> None:
    """Round 1 was accepted, 2 was refused, so 1 must still be there after 4.

    4 began with 1, which a server needs that goes back to before 4.
    """
    for server_round in (1, 2, 4):
        memory().keep(3, server_round, min(server_round - 1, 1), {"x": torch.tensor(server_round)})
    assert files(root) == ["round-1.safetensors", "round-4.safetensors"]
    assert memory().load(3, 1)["x"].item() == 1
    memory().keep(3, 5, 4, KEPT)
    assert files(root) == [f"round-{kept}.safetensors" for kept in (1, 4, 5)]
    memory().keep(3, 6, 5, KEPT)
    assert files(root) == [f"round-{kept}.safetensors" for kept in (4, 5, 6)]


def test_a_straggler_leaves_later_rounds_alone(root: Path) -> None:
    """Accepted in 4; 5 timed out but goes on; 6 was accepted on another worker; then 5 ends."""
    for server_round, accepted in ((4, 0), (6, 4), (5, 4)):
        memory().keep(3, server_round, accepted, {"x": torch.tensor(server_round)})
    assert memory().load(3, 6)["x"].item() == 6
    memory().keep(3, 7, 6, KEPT)
    assert files(root) == [f"round-{kept}.safetensors" for kept in (4, 6, 7)]


def test_a_relative_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIVARFL_MEMORY", "memory")
    with pytest.raises(MemoryLostError, match="UNIVARFL_MEMORY=memory must be an absolute path"):
        memory()


def test_clients_and_runs_do_not_share(root: Path) -> None:
    memory().keep(3, 1, 0, KEPT)
    with pytest.raises(MemoryLostError):
        memory().load(4, 1)
    with pytest.raises(MemoryLostError):
        ClientMemory("another", 10_000).load(3, 1)


def test_a_lost_memory_says_where_it_should_be_and_what_helps(root: Path) -> None:
    with pytest.raises(
        MemoryLostError, match=r"round 2 was .*\$UNIVARFL_MEMORY must name"
    ) as found:
        memory().load(3, 2)
    assert str(root) in str(found.value)


def test_a_damaged_or_oversized_memory_is_not_used(root: Path) -> None:
    memory().keep(3, 1, 0, KEPT)
    (path,) = (path for path in root.rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MemoryLostError, match="cannot be read"):
        memory().load(3, 1)
    memory().keep(3, 1, 0, {"x": torch.zeros(300_000)})
    with pytest.raises(MemoryLostError, match="is larger than 1010000 bytes"):
        memory().load(3, 1)


def test_a_write_that_fails_leaves_the_last_one_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory().keep(3, 1, 0, KEPT)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        memory().keep(3, 1, 0, {"h": torch.zeros(2)})
    assert files(root) == ["round-1.safetensors"]
    assert equal(memory().load(3, 1), KEPT)


@pytest.mark.parametrize("run", ["../../elsewhere", "/etc", "a/b", "."])
def test_a_run_id_names_no_path(root: Path, run: str) -> None:
    assert ClientMemory(run, 0).directory.parent == root


def test_the_default_place_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNIVARFL_MEMORY")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert memory_root() == Path("/state/univarfl")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert memory_root() == Path(os.path.expanduser("~/.local/state/univarfl"))  # noqa: PTH111


class TestCohort:
    """Requests to the ClientApp's own functions, with a server's words for what was accepted."""

    experiment = compose_experiment(["method=moon", "local_epochs=1"]).local().model_dump_json()

    def reply(self, server_round: int, accepted: int) -> tuple[str, bytes]:
        weights = shared_worker(self.experiment).initial_weights()
        asked = Request(
            "run",
            self.experiment,
            fingerprint(),
            server_round,
            [1],
            [accepted],
            [],
            0.0,
            0.0,
            weights,
            {},
            {wire.IN_PROCESS: True},
        )
        reply = train_cohort(asked)
        status = wire.rows(reply.config_records[wire.CLIENTS])[1]
        if status["status"] != "ok":
            return str(status["reason"]), b""
        arrays = reply.array_records[wire.key(wire.ARRAYS, 1)]
        return "", b"".join(array.data for array in arrays.values())

    def test_a_refused_round_is_as_if_it_had_not_been(self, root: Path) -> None:
        self.reply(1, 0)
        without = self.reply(3, 1)
        self.reply(2, 1)  # the server refuses this one
        assert self.reply(3, 1) == without
        assert without[1]
        assert self.reply(3, 0) != without

    def test_a_client_whose_memory_is_gone_fails_and_says_so(self, root: Path) -> None:
        reason, _ = self.reply(2, 1)
        assert reason.startswith("round 1 was this client's last")

    def test_a_finished_run_is_forgotten(self, root: Path) -> None:
        self.reply(1, 0)
        ClientMemory("another", 0).keep(1, 1, 0, KEPT)
        grid = InProcessGrid(app, 1)
        (node,) = grid.get_node_ids()
        kind = f"{MessageType.QUERY}.{wire.FORGET}"
        run = Run("run", json.dumps(None))
        (answer,) = grid.send_and_receive([request(kind, node, run, 1)])
        assert isinstance(answer, Message)
        assert not answer.has_error()
        assert files(root) == ["round-1.safetensors"]
        assert ClientMemory("another", 10_000).load(1, 1)
