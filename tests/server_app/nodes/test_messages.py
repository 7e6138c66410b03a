"""Replies to something else, lost workers, and replies that come too late."""

import time
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Context, Error, Message
from flwr.clientapp import ClientApp

from client_app.app import app as client_app
from client_app.messages import read_request, write_reply
from server_app.config.composition import compose_experiment
from server_app.nodes.assignment import WorkUnit
from server_app.nodes.failure import Failure, last_line
from server_app.nodes.late_replies import LateReplies
from server_app.nodes.messages import LIFETIME, AddressedRequest, Exchange, RecordWriter
from server_app.nodes.registration import NodeInfo
from server_app.rounds.errors import WorkerLostError
from task.fingerprint import fingerprint
from task.protocol.packed import DATA, Packed, place_of
from task.protocol.registration import (
    FORGET,
    REGISTER,
    ForgetReply,
    ForgetRequest,
    RegistrationReply,
    RegistrationRequest,
)
from task.protocol.tensors import PackedTensors
from task.protocol.training import TRAIN, TrainRequest
from task.training.device import choose_device
from univarfl.engines.local.inprocess_grid import InProcessGrid

EXPERIMENT = compose_experiment(["num_clients=2"]).local().model_dump_json()
RAYS = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died unexpectedly'>"


class Failing(InProcessGrid):
    """A grid whose every reply is an error with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(client_app, 1)
        self.reason = reason

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [
            Message(Error(0, self.reason), reply_to=message)
            for name, message in self._sent.items()
            if name in set(message_ids)
        ]


def replies(grid: InProcessGrid, simulated: bool) -> Sequence[RegistrationReply | Failure]:
    (node,) = grid.get_node_ids()
    request = RegistrationRequest(
        run="run", experiment=EXPERIMENT, fingerprint=fingerprint(), round=1
    )
    return Exchange(grid, REGISTER, [AddressedRequest(node, request)], 60, simulated).replies()


def test_a_worker_that_ray_has_lost_ends_the_run() -> None:
    with pytest.raises(WorkerLostError, match=r"a worker's process has ended \(ActorDiedError\)"):
        replies(Failing(RAYS), simulated=True)


@pytest.mark.parametrize(("reason", "simulated"), [(RAYS, False), ("ValueError: x", True)])
def test_any_other_error_is_one_failed_reply(reason: str, simulated: bool) -> None:
    (reply,) = replies(Failing(reason), simulated)
    assert isinstance(reply, Failure)
    assert reply.reason.startswith("the worker failed: ")


@pytest.mark.parametrize("name", ["run", "round", "attempt", "nonce"])
def test_a_reply_to_something_else_is_a_failure(name: str) -> None:
    other = ClientApp()
    wrong = {"run": "other", "round": 7, "attempt": 2, "nonce": "0" * 32}

    @other.query()
    def answer(message: Message, context: Context) -> Message:
        request = read_request(REGISTER, message, context.node_config)
        own = RegistrationReply.unpack(Packed.of(client_app(message, context).content))
        assert own.round == request.round
        changed = own.model_copy(update={name: wrong[name]})
        return write_reply(REGISTER, changed, message, context.node_config)

    (reply,) = replies(InProcessGrid(other, 1), simulated=True)
    assert isinstance(reply, Failure)
    assert f"its reply is for another {name}" in reply.reason


def test_a_reply_with_an_array_that_was_not_asked_for_is_a_failure() -> None:
    """It is refused before its pieces are put together."""
    other = ClientApp()

    @other.query()
    def answer(message: Message, context: Context) -> Message:
        reply = client_app(message, context)
        reply.content[place_of("more", 0)] = ConfigRecord({DATA: b"x" * 100})
        return reply

    (reply,) = replies(InProcessGrid(other, 1), simulated=True)
    assert isinstance(reply, Failure)
    assert "it holds an array that was not asked for" in reply.reason


def test_a_reply_that_answers_is_returned() -> None:
    (reply,) = replies(InProcessGrid(client_app, 1), simulated=True)
    assert isinstance(reply, RegistrationReply)
    assert reply.device == choose_device("auto").type


class Slow(InProcessGrid):
    """A grid whose worker takes a moment for every reply."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = list(super().pull_messages(message_ids))
        time.sleep(0.05)
        return found


def forget_requests(grid: InProcessGrid) -> list[AddressedRequest[ForgetRequest]]:
    request = ForgetRequest(run="run", experiment=EXPERIMENT, fingerprint=fingerprint())
    return [AddressedRequest(node_id, request) for node_id in sorted(grid.get_node_ids())]


def units(count: int, name: Callable[[int], str]) -> list[WorkUnit]:
    return [
        WorkUnit(NodeInfo(1000 + i, i, "cpu", "process", "", site=name(i)), [i])
        for i in range(count)
    ]


@pytest.mark.parametrize(("site", "named"), [("ward", True), ("", False)])
def test_a_reply_that_was_pulled_after_the_deadline_is_named_late(site: str, named: bool) -> None:
    """The reply is off the grid when the round ends, so that nobody can pull it again."""
    grid = Slow(client_app, 1)
    exchange = Exchange(grid, FORGET, forget_requests(grid), 0.01, simulated=True)
    (reply,) = exchange.replies()
    assert reply == Failure("no answer before the round's timeout")
    notes: list[tuple[str, str]] = []
    late = LateReplies(grid, lambda site, what: notes.append((site, what)))
    late.expect(exchange, units(1, lambda _: site), "model of round 3")
    late.drop_arrived()
    expected = ("ward", "late: its model of round 3 came after the deadline and was dropped")
    assert notes == ([expected] if named else [])


def test_a_reply_that_arrives_in_a_later_round_is_named_late() -> None:
    grid = InProcessGrid(client_app, 2)
    exchange = Exchange(grid, FORGET, forget_requests(grid), -1.0, simulated=True)
    assert all(isinstance(reply, Failure) for reply in exchange.replies())
    notes: list[str] = []
    late = LateReplies(grid, lambda site, what: notes.append(site))
    late.expect(exchange, units(2, lambda i: f"ward {i}"), "model of round 3")
    while len(notes) < 2:
        late.drop_arrived()
    assert sorted(notes) == ["ward 0", "ward 1"]


def test_the_servers_own_work_takes_no_time_from_the_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It adds up one reply for 1.5 of 2 seconds before it looks for the next."""
    now = 0.0
    clock = SimpleNamespace(monotonic=lambda: now, sleep=lambda _: None)
    monkeypatch.setattr("server_app.nodes.messages.time", clock)
    grid = InProcessGrid(client_app, 3)
    exchange = Exchange(grid, FORGET, forget_requests(grid), 2.0, simulated=True)
    found = []
    for _, reply in exchange.arrivals():
        found.append(reply)
        now += 1.5
    assert [type(reply) for reply in found] == [ForgetReply] * 3


def test_a_message_expires_soon_after_its_timeout(flower_identity: None) -> None:
    """A site that returns later finds no outdated work."""
    request = ForgetRequest(run="run", experiment="{}", fingerprint=fingerprint(), seconds=30.0)
    message = RecordWriter().message(FORGET, AddressedRequest(1, request))
    assert message.metadata.ttl == LIFETIME * 30


class Keeping(InProcessGrid):
    """A grid that has all replies at the first look, and keeps them as Flower's simulation may."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        self.kept = [
            reply for name in message_ids for reply in super(Keeping, self).pull_messages([name])
        ]
        return self.kept


def test_a_message_is_empty_once_it_is_read() -> None:
    """Replies hold models, and all of a round's may have come."""
    grid = Keeping(client_app, 3)
    exchange = Exchange(grid, FORGET, forget_requests(grid), 60, simulated=True)
    left = [sum(bool(reply.content) for reply in grid.kept) for _ in exchange.arrivals()]
    assert left == [2, 1, 0]


def test_the_requests_of_a_round_share_the_record_with_the_weights() -> None:
    weights = PackedTensors(b"weights")
    writer = RecordWriter()
    first, second = (
        writer.message(
            TRAIN,
            AddressedRequest(
                node,
                TrainRequest(
                    run="run", experiment="{}", fingerprint=fingerprint(), clients=[node],
                    accepted=[0], shares=[], weights=weights,
                ),
            ),
        )
        for node in (1, 2)
    )  # fmt: skip
    assert first.content["weights.0"] is second.content["weights.0"]
    assert first.content["header"] is not second.content["header"]


def test_no_site_knows_the_name_of_a_record_before_it_is_sent() -> None:
    """Flower names a record by its hash, and refuses one whose name came with other parts."""
    request = TrainRequest(
        run="run", experiment="{}", fingerprint=fingerprint(), clients=[1], accepted=[0],
        shares=[], weights=PackedTensors(b"weights"),
    )  # fmt: skip
    first, second = (RecordWriter().message(TRAIN, AddressedRequest(1, request)) for _ in range(2))
    assert first.content["weights.0"].object_id != second.content["weights.0"].object_id
    assert Packed.of(first.content) == Packed.of(second.content)


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (RAYS, "a worker's process has ended (ActorDiedError)"),
        (
            (
                "<class 'ray.exceptions.OutOfMemoryError'>:<'1 worker(s) were killed due to the "
                "node running low on memory. Memory on the node (IP: 10.0.0.1) was 23.1GB / "
                f"23.5GB (0.98); {'- bytes in use: 0; ' * 50}\nTo disable this, set a variable.'>"
            ),
            (
                "this machine has too little memory, so Ray ended a worker; use fewer workers "
                "(federation.workers), a smaller batch_size or a smaller model"
            ),
        ),
    ],
    ids=["actor", "memory"],
)
def test_rays_errors_are_one_short_line(reason: str, line: str) -> None:
    assert last_line(reason) == line
    with pytest.raises(WorkerLostError) as caught:
        replies(Failing(reason), simulated=True)
    assert str(caught.value) == line
