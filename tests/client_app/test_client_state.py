"""What clients keep between rounds: exactly the accepted round, whatever happened since."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from client_app.app import app
from client_app.client_state import ClientState, StateLostError, state_root
from client_app.session import Session
from client_app.work_unit import train_clients
from server_app.config.composition import compose_experiment
from server_app.nodes.messages import AddressedRequest, Exchange
from task.errors import DataError
from task.fingerprint import fingerprint
from task.machine.files import SpaceError
from task.protocol.registration import FORGET, ForgetReply, ForgetRequest
from task.protocol.tensors import PackedTensors
from task.protocol.training import TrainRequest
from task.site import IN_PROCESS, Site
from task.training.worker import Worker, shared_worker
from tests.task.data import making
from univarfl.engines.local.inprocess_grid import InProcessGrid

KEPT = {"h": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNIVARFL_MEMORY", str(tmp_path))
    return tmp_path


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.rglob("*") if path.is_file())


def equal(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def state(most_bytes: int = 10_000) -> ClientState:
    return ClientState("run", most_bytes)


def test_what_is_kept_comes_back_bit_for_bit() -> None:
    state().keep(3, 1, 0, KEPT)
    assert equal(state().load(3, 1), KEPT)
    assert state().load(3, 0) == {}


def test_every_type_of_number_can_be_kept() -> None:
    kept = {"b": torch.tensor([0.5, -2.0], dtype=torch.bfloat16), "empty": torch.zeros(0, 3)}
    state().keep(3, 1, 0, kept)
    assert equal(state().load(3, 1), kept)


def test_a_state_without_a_hash_is_of_an_earlier_version(root: Path) -> None:
    state().keep(3, 1, 0, KEPT)
    (path,) = (path for path in root.rglob("*") if path.is_file())
    path.write_bytes(save(KEPT, {"started_from": "0"}))
    with pytest.raises(StateLostError, match="written by an earlier version"):
        state().load(3, 1)


def test_the_accepted_round_and_the_newest_stay(root: Path) -> None:
    """Round 1 was accepted, 2 was refused, so 1 must still be there after 4.

    4 began with 1, which a server needs that goes back to before 4.
    """
    for server_round in (1, 2, 4):
        state().keep(3, server_round, min(server_round - 1, 1), {"x": torch.tensor(server_round)})
    assert files(root) == ["round-1.safetensors", "round-4.safetensors"]
    assert state().load(3, 1)["x"].item() == 1
    state().keep(3, 5, 4, KEPT)
    assert files(root) == [f"round-{kept}.safetensors" for kept in (1, 4, 5)]
    state().keep(3, 6, 5, KEPT)
    assert files(root) == [f"round-{kept}.safetensors" for kept in (4, 5, 6)]


def test_a_straggler_leaves_later_rounds_alone(root: Path) -> None:
    """Accepted in 4; 5 timed out but goes on; 6 was accepted on another worker; then 5 ends."""
    for server_round, accepted in ((4, 0), (6, 4), (5, 4)):
        state().keep(3, server_round, accepted, {"x": torch.tensor(server_round)})
    assert state().load(3, 6)["x"].item() == 6
    state().keep(3, 7, 6, KEPT)
    assert files(root) == [f"round-{kept}.safetensors" for kept in (4, 6, 7)]


def test_of_many_later_rounds_the_newest_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a server that went back to before round 5."""
    monkeypatch.setattr("client_app.client_state.MAX_ROUNDS", 2)
    for server_round, accepted in ((7, 0), (8, 7), (9, 8), (5, 0)):
        state().keep(3, server_round, accepted, KEPT)
    assert files(root) == [f"round-{kept}.safetensors" for kept in (5, 8, 9)]


def test_the_states_of_too_many_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a coordinator could fill the disk under names of its choice."""
    monkeypatch.setattr("client_app.client_state.MAX_RUNS", 2)
    for run in ("a", "b"):
        assert ClientState(run).first("x", run) == run
    with pytest.raises(StateLostError, match="the states of 2 runs; delete old ones"):
        ClientState("c").first("x", "c")
    assert ClientState("a").first("x", "other") == "a"


def test_states_of_another_experiment_are_refused() -> None:
    """Another experiment under the same run id may have had less noise."""
    state().require_experiment("{}")
    state().keep(0, 1, 0, KEPT)
    state().require_experiment("{}")
    with pytest.raises(StateLostError, match="of another experiment"):
        state().require_experiment('{"seed": 1}')


def test_states_of_an_unknown_experiment_are_refused() -> None:
    state().keep(0, 1, 0, KEPT)
    with pytest.raises(StateLostError, match="of an earlier version"):
        state().require_experiment("{}")


def test_a_relative_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIVARFL_MEMORY", "state")
    with pytest.raises(StateLostError, match="UNIVARFL_MEMORY=state must be an absolute path"):
        state()


def test_clients_and_runs_do_not_share(root: Path) -> None:
    state().keep(3, 1, 0, KEPT)
    with pytest.raises(StateLostError):
        state().load(4, 1)
    with pytest.raises(StateLostError):
        ClientState("another", 10_000).load(3, 1)


def test_a_lost_memory_says_where_it_should_be_and_what_helps(root: Path) -> None:
    with pytest.raises(StateLostError, match=r"round is 2, .*\$UNIVARFL_MEMORY must name") as found:
        state().load(3, 2)
    assert str(root) in str(found.value)


def test_a_damaged_or_oversized_memory_is_not_used(root: Path) -> None:
    state().keep(3, 1, 0, KEPT)
    (path,) = (path for path in root.rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateLostError, match="cannot be read"):
        state().load(3, 1)
    state().keep(3, 1, 0, {"x": torch.zeros(300_000)})
    with pytest.raises(StateLostError, match="is larger than 1010000 bytes"):
        state().load(3, 1)


def test_a_changed_byte_or_another_name_is_noticed(root: Path) -> None:
    state().keep(3, 1, 0, KEPT)
    (path,) = (path for path in root.rglob("*") if path.is_file())
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StateLostError):
            state().load(3, 1)
    path.with_name("round-2.safetensors").write_bytes(whole)
    with pytest.raises(StateLostError, match="is damaged: its checksum is wrong"):
        state().load(3, 2)


def test_a_write_that_fails_leaves_the_last_one_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state().keep(3, 1, 0, KEPT)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        state().keep(3, 1, 0, {"h": torch.zeros(2)})
    assert files(root) == ["round-1.safetensors"]
    assert equal(state().load(3, 1), KEPT)


@pytest.mark.parametrize("run", ["../../elsewhere", "/etc", "a/b", "."])
def test_a_run_id_names_no_path(root: Path, run: str) -> None:
    assert ClientState(run, 0).directory.parent == root


def test_the_default_place_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNIVARFL_MEMORY")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_root() == Path("/state/univarfl")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_root() == Path(os.path.expanduser("~/.local/state/univarfl"))  # noqa: PTH111


class TestWorkUnit:
    """Requests to the ClientApp's own functions, with the rounds that a server accepted."""

    experiment = compose_experiment(["method=moon", "local_epochs=1"]).local().model_dump_json()

    def reply(self, server_round: int, accepted: int) -> tuple[str, bytes]:
        weights = shared_worker(self.experiment).initial_weights()
        request = TrainRequest(
            run="run", experiment=self.experiment, fingerprint=fingerprint(), round=server_round,
            clients=[1], accepted=[accepted], shares=[], weights=PackedTensors.of(weights),
        )  # fmt: skip
        reply = train_clients(Session(request, {IN_PROCESS: True}))
        reason = reply.row(1).reason
        return (reason, b"") if reason else ("", reply.weights["1"].data)

    def test_a_refused_round_is_as_if_it_had_not_been(self, root: Path) -> None:
        self.reply(1, 0)
        without = self.reply(3, 1)
        self.reply(2, 1)  # the server refuses this one
        assert self.reply(3, 1) == without
        assert without[1]
        assert self.reply(3, 0) != without

    def test_a_client_whose_memory_is_gone_fails_and_says_so(self, root: Path) -> None:
        reason, _ = self.reply(2, 1)
        assert reason.startswith("this client's last accepted round is 1")

    def test_the_states_of_a_finished_run_are_deleted(self, root: Path) -> None:
        self.reply(1, 0)
        ClientState("another", 0).keep(1, 1, 0, KEPT)
        grid = InProcessGrid(app, 1)
        (node,) = grid.get_node_ids()
        request = ForgetRequest(run="run", experiment="{}", fingerprint=fingerprint(), round=1)
        (reply,) = Exchange(
            grid, FORGET, [AddressedRequest(node, request)], 60, simulated=True
        ).replies()
        assert isinstance(reply, ForgetReply)
        assert files(root) == ["round-1.safetensors"]
        assert ClientState("another", 10_000).load(1, 1)


def test_a_site_keeps_a_part_of_its_disk_free(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At once, and before images are decoded."""
    images = making.tree(tmp_path_factory.mktemp("images"), ["east/cat", "east/dog"], 10) / "east"
    words = ["data=folder", "data.classes=[cat,dog]", "data.image_size=32", "partition=sites",
             "partition.names=[east,west]", "local_epochs=1"]  # fmt: skip
    settings = {"site": "east", "data-dir": str(images), "memory-dir": str(root)}

    def reason(word: str, **more: object) -> str:
        experiment = compose_experiment([*words, word]).local()
        weights = Worker(experiment, Site.from_node_config(settings | more)).initial_weights()
        request = TrainRequest(
            run="run", experiment=experiment.model_dump_json(), fingerprint=fingerprint(), round=1,
            clients=[0], accepted=[0], shares=[], weights=PackedTensors.of(weights),
        )  # fmt: skip
        return train_clients(Session(request, settings | more)).row(0).reason

    full = {"keep-free-megabytes": 10**9}
    with pytest.raises(DataError, match="keep-free-megabytes"):
        reason("method=fedavg", **full)
    assert reason("method=fedavg") == ""
    with pytest.raises(SpaceError, match="keep-free-megabytes"):
        reason("method=fedavg", **full)


def test_a_state_that_does_not_fit_is_refused_before_training() -> None:
    with pytest.raises(SpaceError, match="too little free space"):
        state(10**15).require_space()
