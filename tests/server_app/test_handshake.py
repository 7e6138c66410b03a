"""Meeting the workers: other code, a hidden GPU and silence are told apart."""

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

import client_app.app
from client_app.request import CodeMismatchError, Request
from server_app.composition import compose_experiment
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.exchange import Run
from server_app.handshake import (
    HandshakeError,
    Seat,
    federation_advice,
    hidden_gpu_warning,
)
from server_app.roster import Roster
from task import fingerprint, wire
from task.config import Device

EXPERIMENT = compose_experiment([]).local().model_dump_json()
RUN = Run("run", EXPERIMENT)


def meet(grid: InProcessGrid, run: Run, device: Device) -> list[Seat]:
    return Roster(grid, run, compose_experiment([f"device={device}"]), lambda *_: None).meet(60)


def introducing(**changes: str | bool | int) -> ClientApp:
    """A ClientApp that introduces itself as the real one does, but for the changes."""
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        reply = client_app.app.query(message, context)
        record = reply.content.config_records[wire.INTRODUCTION]
        changed = ConfigRecord({**record, **changes})
        return Message(RecordDict({wire.INTRODUCTION: changed}), reply_to=message)

    return app


def test_seats_are_known_by_their_index() -> None:
    seats = meet(InProcessGrid(client_app.app.app, 3), RUN, "auto")
    assert [seat.index for seat in seats] == [0, 1, 2]
    assert {(seat.device, seat.runtime) for seat in seats} == {("cpu", "process")}


def test_other_code_is_refused_and_both_places_named() -> None:
    grid = InProcessGrid(introducing(fingerprint="0" * 64, code="/another/tree"), 1)
    with pytest.raises(HandshakeError, match="import their code from '/another/tree', the server"):
        meet(grid, RUN, "auto")


def test_a_client_refuses_a_server_of_other_code() -> None:
    request = Request("run", EXPERIMENT, "0" * 64, 1, [0], [0], [], 0.0, 0.0, {}, {}, {})
    with pytest.raises(CodeMismatchError, match="the server runs other code"):
        _ = request.worker


def test_the_fingerprint_follows_the_files() -> None:
    folders = fingerprint.code_directories()
    assert {"client_app", "conf", "task"} == folders.keys()
    assert all(folder.is_dir() for folder in folders.values())
    assert len(fingerprint.fingerprint()) == 64


def test_device_cuda_fails_where_the_clients_see_no_gpu_with_the_option_that_shows_it() -> None:
    grid = InProcessGrid(introducing(cuda=False), 2)
    with pytest.raises(HandshakeError) as caught:
        meet(grid, RUN, "cuda")
    assert "device=cuda, but the clients see no GPU" in str(caught.value)
    assert (
        '--federation-config "num-supernodes=2 client-resources-num-cpus=1 '
        'client-resources-num-gpus=0.5"'
    ) in str(caught.value)


@pytest.mark.parametrize("counts", [{"train": 0}, {"train": -5}, {"validation": -1}])
def test_a_site_with_impossible_counts_is_refused(counts: dict[str, int]) -> None:
    claims: dict[str, str | int] = {"site": "ward", "train": 9, "validation": 1, **counts}
    with pytest.raises(HandshakeError, match=r"site '?ward'? says that it trains on -?\d+ images"):
        meet(InProcessGrid(introducing(**claims), 1), RUN, "auto")


def test_a_client_that_cannot_train_says_why() -> None:
    broken = EXPERIMENT.replace('"image_size":32', '"image_size":16')
    with pytest.raises(HandshakeError, match=r"data.image_size=16: model cnn needs 32 pixels"):
        meet(InProcessGrid(client_app.app.app, 1), Run("run", broken), "auto")


def test_an_introduction_of_another_form_is_refused() -> None:
    with pytest.raises(HandshakeError, match="introduction cannot be read"):
        meet(InProcessGrid(introducing(seats="two"), 1), RUN, "auto")


def test_two_sites_of_one_name_are_refused() -> None:
    grid = InProcessGrid(introducing(site="clinic", train=5, validation=1), 2)
    with pytest.raises(HandshakeError, match="two SuperNodes call themselves clinic"):
        meet(grid, RUN, "auto")


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
def test_the_advised_shares_fit_on_one_gpu(count: int) -> None:
    share = float(federation_advice(count).rstrip('"').rpartition("=")[2])
    assert int(1 / share) == count


def test_a_hidden_gpu_is_worth_one_warning_and_a_chosen_cpu_none() -> None:
    on_cpu = [Seat(1, 0, "cpu", "ray", "host")]
    assert "client-resources-num-gpus=1" in hidden_gpu_warning(on_cpu, "auto", True)
    assert hidden_gpu_warning(on_cpu, "auto", False) == ""
    assert hidden_gpu_warning(on_cpu, "cpu", True) == ""
    assert hidden_gpu_warning([Seat(1, 0, "cuda", "ray", "host")], "auto", True) == ""
