"""The resident worker against Flower's own local API, with children that misbehave."""

import hashlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat
from flwr.app import Message, RecordDict
from flwr.supercore.constant import TaskType
from flwr.supercore.corestate import in_memory_corestate

from server_app.config.composition import compose_experiment
from server_app.nodes.messages import AddressedRequest, RecordWriter
from task.fingerprint import fingerprint
from task.protocol.envelope import Kind, Request
from task.protocol.packed import Packed
from task.protocol.registration import (
    FORGET,
    REGISTER,
    ForgetRequest,
    RegistrationReply,
    RegistrationRequest,
)
from task.training.device import choose_device
from tests.hostile.growing import growing
from tests.machines import until
from tests.task.data import making
from tests.univarfl.deploy.site.supernode import BUNDLE, FAB_HASH, NODE, RUN, SECRET, SuperNode
from univarfl.deploy.keys import new_key, write_key
from univarfl.deploy.site import tasks, worker
from univarfl.deploy.site.fork_server import require_one_thread
from univarfl.deploy.site.forks import ForkServer, ForkServerFailedError
from univarfl.deploy.site.tasks import RuntimeApi, SecretRefusedError, TaskGoneError
from univarfl.deploy.site.worker import TaskWorker
from univarfl.engines.local.internals import set_task_identity

FAULTY = "tests.univarfl.deploy.site.faulty"
MEMORY = 1_500_000_000
WORDS = [
    "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "partition=sites",
    "partition.names=[north]",
]  # fmt: skip


class Scene:
    """A worker between a SuperNode and a fork server whose children misbehave."""

    def __init__(self, node: SuperNode, server: ForkServer, settings: dict[str, Any]) -> None:
        self.node, self.server = node, server
        self.api = RuntimeApi(node.address, SECRET)
        self.worker = TaskWorker(self.api, server, settings)

    def answer(self) -> Message:
        """Let the worker answer the message that was put in; return the reply."""
        task = self.api.acquire()
        assert task is not None
        self.worker.answer(task)
        task.close()
        return self.node.reply()

    def obey(self, order: str, seconds: float = 0.0) -> Message:
        """Return the reply to an order."""
        self.node.order(order, seconds)
        return self.answer()

    def send(self, kind: Kind[Any, Any], request: Request) -> None:
        """Put a request of this project in."""
        set_task_identity(RUN)
        message = RecordWriter().message(kind, AddressedRequest(NODE, request))
        self.node.offer(kind.message_type, message.content)

    def register(self, experiment: str) -> RegistrationReply:
        """Return the answer to a registration."""
        request = RegistrationRequest(run="run", experiment=experiment, fingerprint=fingerprint())
        self.send(REGISTER, request)
        return RegistrationReply.unpack(Packed.of(self.answer().content))

    def reason(self) -> str:
        """Return the reason of the error reply to the message that was put in."""
        return str(self.answer().error.reason)

    def facts(self) -> Any:
        """Return what a child that works says of itself."""
        return self.obey("nothing").content["facts"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("site")
    images = making.tree(place / "images", ["cat", "dog"], 12)
    key = place / "north.key"
    write_key(key, new_key(), PrivateFormat.OpenSSH)
    return {
        "site": "north", "data-dir": str(images), "memory-dir": str(place / "memory"),
        "key": str(key),
    }  # fmt: skip


@pytest.fixture(scope="module")
def scene(settings: dict[str, Any]) -> Iterator[Scene]:
    server = ForkServer(FAULTY, MEMORY)
    with SuperNode(settings) as node:
        yield Scene(node, server, settings)
    server.stop()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """The worker's own log, whatever other tests have done to its logger."""
    logger = logging.getLogger("univarfl.client")
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    monkeypatch.setattr(logger, "propagate", False)
    caplog.set_level(logging.INFO, "univarfl.client")
    return caplog


def test_each_message_has_a_process_of_its_own_from_a_parent_with_one_thread(scene: Scene) -> None:
    first, second = scene.facts(), scene.facts()
    assert first["pid"] != second["pid"]
    assert first["parent"] == second["parent"]
    assert not psutil.pid_exists(first["pid"])
    assert psutil.Process(first["parent"]).num_threads() == 1
    assert first["score"] == "1000"


@pytest.mark.parametrize(
    ("order", "seconds", "reason"),
    [
        ("crash", 0.0, "it ended with signal SIGSEGV"),
        ("exit", 0.0, "it ended with code 3"),
        ("hang", 0.1, "it took longer than the coordinator waits"),
        pytest.param("grow", 0.0, "it needed more than 1,500 MB of memory", marks=pytest.mark.slow),
    ],
)
def test_a_child_that_is_lost_costs_an_error_reply_and_nothing_else(
    scene: Scene, order: str, seconds: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.1)
    before = scene.facts()["parent"]
    reply = scene.obey(order, seconds)
    assert str(reply.error.reason) == f"site north could not answer a message: {reason}"
    assert scene.facts()["parent"] == before


def test_a_site_ends_work_for_which_the_coordinator_would_wait(
    scene: Scene, settings: dict[str, Any]
) -> None:
    """A registration has no time limit of the coordinator's, such as 0 seconds here."""
    limited = {**settings, "max-seconds": 1}
    with SuperNode(limited) as node:
        reply = Scene(node, scene.server, limited).obey("hang", 0.0)
    assert str(reply.error.reason).endswith("than this site allows (its max-seconds)")


def test_secrets_of_a_masked_round_are_handed_on_in_memory_and_are_lost_with_a_child(
    scene: Scene,
) -> None:
    """A round whose answer is lost could otherwise be masked twice with the same secrets."""
    assert scene.facts()["secrets"] == ""
    assert scene.obey("keep").content["facts"]["secrets"] == "a secret"
    assert [scene.facts()["secrets"] for _ in range(2)] == ["a secret", "a secret"]
    scene.obey("crash")
    assert scene.facts()["secrets"] == ""


def test_an_exceptions_text_stays_at_the_site(scene: Scene) -> None:
    reply = scene.obey("raise")
    assert str(reply.error.reason) == "site north failed; see the site's log for the reason"


def test_a_message_that_cannot_be_read_gets_an_error_reply(scene: Scene) -> None:
    damaged = scene.node.offer("query", RecordDict(), damaged=True)
    assert scene.reason() == "a message could not be read"
    scene.node.offer("query", RecordDict({"weights": growing()}))
    assert scene.reason() == "a message could not be read"
    scene.node.offer("train", RecordDict())
    assert "a record is missing" in scene.reason()
    scene.node.offer("query.other", RecordDict())
    assert scene.reason() == "a message of an unknown kind"
    assert scene.node.objects.get(damaged) is None, "the SuperNode has let go of it"


@pytest.mark.slow
def test_a_fork_server_that_is_killed_is_replaced_even_at_work(scene: Scene) -> None:
    before = scene.facts()["parent"]
    timer = threading.Timer(1.0, psutil.Process(before).kill)
    timer.start()
    reply = scene.obey("hang")
    timer.join()
    assert str(reply.error.reason).endswith("the process that forked it has ended")
    assert scene.facts()["parent"] != before


def test_a_registration_is_loaded_for_later_messages_until_the_images_change(
    scene: Scene, settings: dict[str, Any]
) -> None:
    assert scene.facts()["loaded"] == 0
    experiment = compose_experiment(WORDS).local().model_dump_json()
    assert scene.register(experiment).error == ""
    facts = scene.facts()
    assert facts["loaded"] == (choose_device("auto").type == "cpu"), "forks cannot share CUDA"
    assert psutil.Process(facts["parent"]).num_threads() == 1
    assert scene.register(experiment).error == ""
    scene.obey("crash")
    assert scene.facts()["loaded"] == 0, "what is loaded may have been the reason"
    assert scene.register(experiment).error == ""
    making.save(Path(settings["data-dir"]) / "cat" / "new.png", 99)
    assert "its images have changed" in scene.register(experiment).error


@pytest.mark.slow
def test_what_cannot_be_loaded_costs_the_fork_server_alone(scene: Scene) -> None:
    before = scene.facts()["parent"]
    scene.server.load(b"nothing that can be loaded")
    after = scene.facts()["parent"]
    assert after != before
    scene.server.load(b"nothing that can be loaded")
    assert scene.facts()["parent"] == after, "it was not tried again"


def test_other_code_is_refused_and_its_bundle_named(
    scene: Scene, log: pytest.LogCaptureFixture
) -> None:
    scene.send(FORGET, ForgetRequest(run="theirs", experiment="{}", fingerprint="0" * 64))
    assert "runs other code than the coordinator" in scene.reason()
    bundle = hashlib.sha256(BUNDLE).hexdigest()
    assert "run theirs is refused: the coordinator runs other code (000000000000)" in log.text
    assert f"bundle (SHA-256 {bundle}) was not used" in log.text


def test_a_worker_with_another_secret_gets_no_task(scene: Scene) -> None:
    with pytest.raises(SecretRefusedError):
        RuntimeApi(scene.node.address, b"another secret").acquire()


def test_a_task_with_other_settings_than_the_sites_is_not_answered(
    scene: Scene, settings: dict[str, Any]
) -> None:
    """Another program may have taken the port of the SuperNode."""
    with SuperNode({**settings, "data-dir": "/etc", "max-epochs": 9}) as node:
        other = Scene(node, scene.server, settings)
        with pytest.raises(TaskGoneError, match="than this site's: data-dir, max-epochs"):
            other.facts()


def test_a_task_that_the_supernode_has_given_up_ends_its_child(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "HEARTBEAT_SECONDS", 0.1)
    scene.node.order("hang")
    task = scene.api.acquire()
    assert task is not None
    (offered,) = scene.node.state.get_tasks(statuses=["starting"])
    end = lambda: scene.node.state.finish_task(offered.task_id, "failed", "")  # noqa: E731
    timer = threading.Timer(1.0, end)
    timer.start()
    with pytest.raises(TaskGoneError):
        scene.worker.answer(task)
    timer.join()
    assert scene.facts()["pid"], "the next message is answered"


def test_a_message_that_arrives_slowly_is_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower offers a task before it has the message, and ends it without heartbeats."""
    monkeypatch.setattr(in_memory_corestate, "HEARTBEAT_DEFAULT_INTERVAL", 0.5)
    monkeypatch.setattr(tasks, "HEARTBEAT_SECONDS", 0.1)
    scene.node.order("answer", arrives_after=3.0)
    assert not scene.answer().has_error()


def test_a_task_whose_message_was_cancelled_is_given_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MESSAGE_SECONDS", 0.2)
    scene.node.state.create_task(task_type=TaskType.CLIENT_APP, run_id=RUN, fab_hash=FAB_HASH)
    task = scene.api.acquire()
    assert task is not None
    with pytest.raises(TaskGoneError, match="a task without a message"):
        scene.worker.answer(task)


@pytest.mark.slow
def test_a_fork_server_that_cannot_start_is_given_up() -> None:
    server = ForkServer("tests.univarfl.deploy.site.no_such_module")
    with pytest.raises(ForkServerFailedError, match="ended 5 times within 10 minutes"):
        until(server.watch, "the end of its attempts")


def test_a_process_with_threads_does_not_fork() -> None:
    thread = threading.Thread(target=time.sleep, args=[1])
    thread.start()
    with pytest.raises(RuntimeError, match="threads"):
        require_one_thread()
    thread.join()
