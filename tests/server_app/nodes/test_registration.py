"""Registration of the workers: other code, a hidden GPU, impossible counts."""

import re
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import client_app.app
from client_app.handlers import answer
from client_app.kinds import HANDLERS
from client_app.messages import write_reply
from client_app.session import Session
from server_app.config.composition import compose_experiment
from server_app.nodes.manager import NodeManager
from server_app.nodes.messages import RunIdentity
from server_app.nodes.registration import (
    NodeInfo,
    RegistrationError,
    federation_advice,
    hidden_gpu_warning,
)
from task import fingerprint
from task.config import Device
from task.errors import CodeMismatchError
from task.protocol.packed import Packed
from task.protocol.registration import REGISTER, RegistrationReply, RegistrationRequest
from task.training.device import choose_device
from tests.site_grid import SiteGrid
from univarfl.engines.local.inprocess_grid import InProcessGrid

EXPERIMENT = compose_experiment([]).local().model_dump_json()
RUN = RunIdentity("run", EXPERIMENT)


def registered(grid: InProcessGrid, run: RunIdentity, device: Device) -> list[NodeInfo]:
    experiment = compose_experiment([f"device={device}", "federation.join_timeout=60"])
    return NodeManager(grid, run, experiment, lambda *_: None).wait_for_all()


def registering(**changes: str | bool | int) -> ClientApp:
    """A ClientApp that registers as the real one does, but for the changes."""
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        sent = answer(HANDLERS["query"], message, context).content
        reply = RegistrationReply.unpack(Packed.of(sent)).model_copy(update=changes)
        return write_reply(REGISTER, reply, message, context.node_config)

    return app


def test_nodes_are_ordered_by_their_index() -> None:
    nodes = registered(InProcessGrid(client_app.app.app, 3), RUN, "auto")
    assert [node.index for node in nodes] == [0, 1, 2]
    assert {(node.device, node.runtime) for node in nodes} == {
        (choose_device("auto").type, "process")
    }


def test_other_code_is_refused_and_both_places_named() -> None:
    grid = InProcessGrid(registering(fingerprint="0" * 64, code="/another/tree"), 1)
    with pytest.raises(
        RegistrationError, match="import their code from '/another/tree', the server"
    ):
        registered(grid, RUN, "auto")


def test_a_client_refuses_a_server_of_other_code() -> None:
    request = RegistrationRequest(run="run", experiment=EXPERIMENT, fingerprint="0" * 64)
    with pytest.raises(CodeMismatchError, match="the server runs other code"):
        _ = Session(request, {}).worker


def test_the_fingerprint_follows_the_files() -> None:
    folders = fingerprint.code_directories()
    assert {"client_app", "conf", "task"} == folders.keys()
    assert all(folder.is_dir() for folder in folders.values())
    assert len(fingerprint.fingerprint()) == 64


def test_device_cuda_fails_where_the_clients_see_no_gpu_with_the_option_that_shows_it() -> None:
    grid = InProcessGrid(registering(cuda=False), 2)
    with pytest.raises(RegistrationError) as caught:
        registered(grid, RUN, "cuda")
    assert "device=cuda, but the clients see no GPU" in str(caught.value)
    assert (
        '--federation-config "num-supernodes=2 client-resources-num-cpus=1 '
        'client-resources-num-gpus=0.5"'
    ) in str(caught.value)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({"train": 0}, "site ward claims 0 training images and 1 validation images"),
        ({"train": 10**11}, "site ward claims 100000000000 training images"),
        ({"validation": 10**11}, "site ward claims 9 .* and 100000000000 validation images"),
        ({"train": -5}, "train: Input should be greater than or equal to 0"),
        ({"labels": [11, 0]}, "site ward counts 11 images of a class, and has 10"),
        ({"validation": -1}, "validation: Input should be greater than or equal to 0"),
    ],
)
def test_a_site_with_impossible_counts_is_refused(
    counts: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    claims: dict[str, Any] = {"error": "", "train": 9, "validation": 1, **counts}
    experiment = compose_experiment(
        ["partition=sites", "partition.names=[ward]", "data=folder", "data.classes=[cat,dog]",
         "federation.join_timeout=0.1"]
    )  # fmt: skip
    grid = SiteGrid(registering(**claims), tmp_path, ["ward"], tmp_path)
    run = RunIdentity("run", experiment.local().model_dump_json())
    notes: list[tuple[str, str]] = []
    manager = NodeManager(grid, run, experiment, lambda site, what: notes.append((site, what)))
    with pytest.raises(RegistrationError, match=reason):
        manager.wait_for_all()
    ((site, what),) = notes
    assert site == "ward"
    assert re.search(reason, what)


def test_a_client_that_cannot_train_says_why() -> None:
    broken = EXPERIMENT.replace('"image_size":32', '"image_size":16')
    with pytest.raises(RegistrationError, match=r"data.image_size=16: model cnn needs 32 pixels"):
        registered(InProcessGrid(client_app.app.app, 1), RunIdentity("run", broken), "auto")


def test_a_registration_of_another_form_is_refused() -> None:
    with pytest.raises(RegistrationError, match="registration cannot be read"):
        registered(InProcessGrid(registering(nodes="two"), 1), RUN, "auto")


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
def test_the_advised_shares_fit_on_one_gpu(count: int) -> None:
    share = float(federation_advice(count).rstrip('"').rpartition("=")[2])
    assert int(1 / share) == count


def test_a_hidden_gpu_is_worth_one_warning_and_a_chosen_cpu_none() -> None:
    on_cpu = [NodeInfo(1, 0, "cpu", "ray", "host")]
    assert "client-resources-num-gpus=1" in hidden_gpu_warning(on_cpu, "auto", True)
    assert hidden_gpu_warning(on_cpu, "auto", False) == ""
    assert hidden_gpu_warning(on_cpu, "cpu", True) == ""
    assert hidden_gpu_warning([NodeInfo(1, 0, "cuda", "ray", "host")], "auto", True) == ""
