"""Flower's undocumented interfaces that we use; a failure here names the one that has changed."""

import inspect
import os
import re
import sys
from pathlib import Path

import flwr
import pytest
from flwr.app import Message, RecordDict
from flwr.common import constant
from flwr.supercore.error.base import ApiErrorCode
from flwr.superlink.grid import HttpGrid

from server_app.flower import internals
from task import site
from univarfl.deploy.joining import admission, reach
from univarfl.engines.local import internals as engine_internals
from univarfl.flower import output
from univarfl.flower.programs import environment

FLOWER = Path(inspect.getfile(flwr)).parent


def test_the_task_identity_is_the_sender_of_new_messages() -> None:
    engine_internals.set_task_identity(5)
    metadata = Message(RecordDict(), 7, "train").metadata
    assert (metadata.run_id, metadata.src_node_id) == (5, constant.SUPERLINK_NODE_ID)
    engine_internals.set_task_identity(1)


def test_a_message_id_can_be_set_and_a_reply_names_it() -> None:
    engine_internals.set_task_identity(1)
    message = Message(RecordDict(), 7, "train")
    engine_internals.set_message_id(message, "an id")
    assert message.metadata.message_id == "an id"
    assert Message(RecordDict(), reply_to=message).metadata.reply_to_message_id == "an id"


def test_the_reply_for_an_unknown_message() -> None:
    reply = internals.unavailable_reply("an id", 1)
    assert reply.metadata.reply_to_message_id == "an id"
    assert reply.error.code == internals.ErrorCode.MESSAGE_UNAVAILABLE


def test_the_module_of_the_grid_of_sites() -> None:
    """`bounded_pull` limits nothing while this module is not imported."""
    assert HttpGrid.__module__ == internals.HTTP_GRID
    assert {internals.FETCH, internals.BUILD} <= vars(sys.modules[internals.HTTP_GRID]).keys()


def test_an_empty_run() -> None:
    assert engine_internals.Run.create_empty(1).run_id == 1


@pytest.mark.parametrize(
    "name", ["UNKNOWN", "CLIENT_APP_RAISED_EXCEPTION", "MESSAGE_UNAVAILABLE", "NODE_UNAVAILABLE"]
)
def test_the_error_codes(name: str) -> None:
    assert isinstance(getattr(internals.ErrorCode, name), int)


def test_the_keys_of_a_simulated_nodes_config() -> None:
    keys = (constant.PARTITION_ID_KEY, constant.NUM_PARTITIONS_KEY)
    assert keys == (site.PARTITION_ID, site.NUM_PARTITIONS)


def test_the_texts_that_flowers_programs_print() -> None:
    assert ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED == admission.NOT_ACTIVATED
    assert ApiErrorCode.FLEET_NODE_DEACTIVATION_FAILED == admission.NOT_DEACTIVATED
    joined = re.search(r'"(SuperNode ID: %s)"', source("supernode", "start_client_internal.py"))
    assert joined
    assert output.NODE_ACTIVATED.fullmatch(joined[1] % 12)
    ignored = "is not in `RUNNING` status. " + output.IGNORED_MESSAGE
    assert ignored in source("supernode", "start_client_internal.py")
    started = re.search(
        r'f"(Successfully started run {res.run_id})"', source("cli", "run", "run.py")
    )
    assert started
    found = output.STARTED_RUN.fullmatch(started[1].replace("{res.run_id}", "12"))
    assert found
    assert found[1] == "12"
    assert output.NO_HEARTBEAT in source("supercore", "corestate", "sql_corestate.py")
    status = constant.Status.FINISHED
    assert f"{status}:{constant.SubStatus.STOPPED}" == output.STOPPED
    assert f"{status}:{constant.SubStatus.FAILED}" == output.FAILED


def source(*words: str) -> str:
    return FLOWER.joinpath(*words).read_text()


@pytest.mark.parametrize("home", ["", "/another/home"])
def test_the_environment_variables_that_flowers_programs_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    for name in [name for name in os.environ if name.startswith("FLWR_")]:
        monkeypatch.delenv(name)
    if home:
        monkeypatch.setenv("FLWR_HOME", home)
    assert environment(tmp_path)["FLWR_HOME"] == str(tmp_path)
    names = {name for name in environment(tmp_path) if name.startswith("FLWR_")}
    assert len(names) == 4
    sources = "".join(path.read_text() for path in FLOWER.rglob("*.py"))
    assert {name for name in names if f'"{name}"' not in sources} == set()


def test_the_clocks_that_flower_accepts() -> None:
    ahead = constant.SYSTEM_TIME_TOLERANCE
    behind = constant.TIMESTAMP_TOLERANCE + ahead
    assert (reach.MOST_AHEAD.seconds + 1, reach.MOST_BEHIND.seconds + 1) == (ahead, behind)
