"""Flower's grid of sites, with a runtime that delivers hostile objects in place of a SuperLink."""

from collections.abc import Callable, Iterator

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ConfirmMessageReceivedResponse,
    ObjectTree,
    PullObjectRequest,
    PullObjectResponse,
)
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.superlink.grid import http_grid

from server_app.nodes.collection import collect
from server_app.nodes.failure import last_line
from task.protocol.limits import ReplyLimits
from task.protocol.packed import DATA, HEADER, JSON
from tests.hostile.growing import growing
from univarfl.engines.local.internals import Run, set_message_id, set_task_identity

LIMITS = ReplyLimits(10_000, {"weights/0": 100_000})
ASKED = "the request"


class Runtime:
    """Delivers one reply.

    Args:
        record: the reply's one record beside its header.

    Attributes:
        message: the reply.
        tree: its objects.
        objects: their content, by id; None for one that is announced and never sent.
    """

    def __init__(self, record: ArrayRecord | ConfigRecord) -> None:
        set_task_identity(1)
        request = Message(RecordDict(), 7, "train")
        set_message_id(request, ASKED)
        header = ConfigRecord({JSON: b"{}"})
        reply = Message(RecordDict({HEADER: header, "weights/0.0": record}), reply_to=request)
        with no_object_id_recompute():
            set_message_id(reply, reply.object_id)
            found = get_all_nested_objects(reply)
            self.objects: dict[str, bytes | None] = {
                object_id: value.deflate() for object_id, value in found.items()
            }
            self.tree = get_object_tree(reply)
            self.message = message_to_proto(remove_content_from_message(reply))

    def PullMessages(self, _: PullAppMessagesRequest) -> PullAppMessagesResponse:  # noqa: N802
        return PullAppMessagesResponse(
            messages_list=[self.message], message_object_trees=[self.tree]
        )

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:  # noqa: N802
        if request.object_id not in self.objects:
            return PullObjectResponse(object_found=False)
        content = self.objects[request.object_id]
        return PullObjectResponse(
            object_found=True, object_available=content is not None, object_content=content or b""
        )

    def ConfirmMessageReceived(  # noqa: N802
        self, _: ConfirmMessageReceivedRequest
    ) -> ConfirmMessageReceivedResponse:
        return ConfirmMessageReceivedResponse()


def grid_of(runtime: Runtime) -> http_grid.HttpGrid:
    """Return Flower's real grid of sites, with a runtime of ours."""
    grid = http_grid.HttpGrid(token="none")
    grid.set_run(Run.create_empty(1))
    grid._client = runtime  # type: ignore[assignment]
    return grid


def collected(runtime: Runtime) -> Message:
    """Return the one reply that a server gets from it."""
    ((message_id, reply),) = collect(grid_of(runtime), {ASKED: LIMITS}, 1.0)
    assert message_id == ASKED
    return reply


def missing(runtime: Runtime) -> None:
    """Announce an object and say later that there is none."""
    del runtime.objects[max(runtime.objects, key=lambda name: len(runtime.objects[name] or b""))]


def never_sent(runtime: Runtime) -> None:
    """Announce an object and never send it."""
    runtime.objects[max(runtime.objects, key=lambda name: len(runtime.objects[name] or b""))] = None


def cut_off(runtime: Runtime) -> None:
    """Send a part of an object."""
    for name, found in runtime.objects.items():
        assert found is not None
        if found.startswith(b"ConfigRecord "):
            runtime.objects[name] = found[:-1]


def empty(runtime: Runtime) -> None:
    """Send a message that has neither content nor an error."""
    body = ProtoMessage(metadata=runtime.message.metadata).SerializeToString()
    written = b"Message  %d\0" % len(body) + body
    runtime.tree = ObjectTree(object_id=get_object_id(written))
    runtime.message.metadata.message_id = runtime.tree.object_id
    runtime.objects = {runtime.tree.object_id: written}


@pytest.fixture(autouse=True)
def fetches_as_before() -> Iterator[None]:
    """Check that Flower is left as it was."""
    names = ("pull_objects", "inflate_object_from_contents")
    before = [vars(http_grid)[name] for name in names]
    yield
    assert [vars(http_grid)[name] for name in names] == before


def piece(size: int) -> ConfigRecord:
    """Return a record of bytes."""
    return ConfigRecord({DATA: bytes(size)})


def test_an_honest_reply_is_returned() -> None:
    reply = collected(Runtime(piece(1000)))
    found = reply.content["weights/0.0"]
    assert isinstance(found, ConfigRecord)
    assert found[DATA] == bytes(1000)


@pytest.mark.parametrize(
    ("record", "change", "reason"),
    [
        (growing(), None, "the reply holds something other than bytes"),
        (ConfigRecord({DATA: [1] * 90_000}), None, "the reply holds something other than bytes"),
        (piece(3_000_000), None, "the reply is larger than any valid one"),
        (piece(1000), missing, "the object could not be found"),
        (piece(1000), never_sent, "timeout or retry limit reached"),
        (piece(1000), cut_off, "the reply is malformed: "),
        (piece(1000), empty, "the reply is malformed: "),
    ],
    ids=["20 GB from 100 kB", "numbers", "too large", "missing", "never sent", "cut off", "empty"],
)
def test_a_hostile_reply_is_an_error_and_costs_nothing(
    record: ArrayRecord | ConfigRecord, change: Callable[[Runtime], None] | None, reason: str
) -> None:
    runtime = Runtime(record)
    if change:
        change(runtime)
    reply = collected(runtime)
    assert reply.has_error()
    assert reason in last_line(reply.error.reason or "")


def test_a_reply_that_cannot_be_built_costs_no_other() -> None:
    hostile, honest = Runtime(piece(1000)), Runtime(piece(2000))
    empty(hostile)
    hostile.message.metadata.reply_to_message_id = "another request"
    answer = PullAppMessagesResponse(
        messages_list=[hostile.message, honest.message],
        message_object_trees=[hostile.tree, honest.tree],
    )
    honest.objects |= hostile.objects
    honest.PullMessages = lambda _: answer  # type: ignore[method-assign]
    found = dict(collect(grid_of(honest), {ASKED: LIMITS, "another request": LIMITS}, 1.0))
    assert found["another request"].has_error()
    assert found[ASKED].has_content()
