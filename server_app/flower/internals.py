"""What the server uses of Flower and Flower does not document.

Flower's public packages are `flwr.app`, `flwr.clientapp` and `flwr.serverapp`. In `server_app`,
this module alone imports from others; in `univarfl`, `univarfl.engines.local.internals` and
`univarfl.deploy` do. ``tests/server_app/flower/test_internals.py`` fails and names the interface
when a new version of Flower changes one of these:

- ``flwr.common.constant``: the error codes of `flwr.app.Error`, which has no public names for them.
- ``flwr.supercore.run.RunNotRunningException`` and `httpx.HTTPError`: what a grid raises if the
  SuperLink is gone or has ended the run.
- ``create_message_error_unavailable_ins_message`` and ``make_message``: how Flower answers a pull
  for an unknown id. `refused_reply` answers so for a reply that Flower 1.43 leaves out.
- ``flwr.superlink.grid.http_grid``: its ``pull_objects`` and ``inflate_object_from_contents`` fetch
  and build a reply. `bounded_pull` replaces them for a moment; Flower itself sets no limit but two
  hours, and asks again for an object that is still on its way after 1 s, 2 s, 4 s and so on.
- The head and body of Flower's objects, and their types. An ``Array`` can name one chunk as
  often as it likes, so that a reply of 200 bytes grows to terabytes; a list of numbers grows
  eightfold. So a reply with an object or entry of a type that ours have not is refused unbuilt.

`univarfl.deploy.joining.fleet` has the requests that a site makes with its own key.
`univarfl.flower.output` has the texts of Flower's programs that we rely on.
`univarfl.flower.programs` has the environment variables that these programs read.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import httpx
from flwr.app import ConfigRecord, Error, Message
from flwr.common.constant import ErrorCode
from flwr.proto.recorddict_pb2 import ConfigRecord as ProtoConfigRecord
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_head_values_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.run import RunNotRunningException

from task.plain_text import one_line

STRUCTURE_BYTES = 1_000_000  # of a reply's objects beside its header and its arrays
FIRST_BACKOFF, LONGEST_BACKOFF = 0.05, 1.0  # seconds between two requests for the same object
HTTP_GRID = "flwr.superlink.grid.http_grid"  # the module of the only grid that fetches replies
FETCH, BUILD = "pull_objects", "inflate_object_from_contents"
RECORD, FRAME = "ConfigRecord", frozenset({"Message", "RecordDict"})  # the types of objects
# What a grid raises if the SuperLink is gone, or has ended the run.
GRID_ERRORS = (httpx.HTTPError, RunNotRunningException)

__all__ = [
    "GRID_ERRORS",
    "ErrorCode",
    "bounded_pull",
    "refused_reply",
    "unavailable_reply",
]


def unavailable_reply(message_id: str, run_id: int) -> Message:
    """Return Flower's error reply for a message that was pulled before or never sent."""
    # Imported here because it imports a database layer, which takes a second and a half.
    from flwr.server.superlink.linkstate.utils import (  # noqa: PLC0415
        create_message_error_unavailable_ins_message,
    )

    return create_message_error_unavailable_ins_message(message_id, run_id)


def refused_reply(message_id: str, run_id: int, reason: str) -> Message:
    """Return an error reply in place of a reply that was refused unbuilt."""
    from flwr.app.message import make_message  # noqa: PLC0415  (few runs need it)

    metadata = unavailable_reply(message_id, run_id).metadata
    return make_message(metadata=metadata, error=Error(ErrorCode.MESSAGE_UNAVAILABLE, reason))


@contextmanager
def bounded_pull(record: int, total: int, seconds: float) -> Iterator[list[str]]:
    """Limit what Flower's grid fetches and builds in memory; a reply beyond it is refused.

    So is a reply that cannot be built, which would otherwise cost all replies of the pull. Up to
    version 1.42, Flower returns an error reply for each refused one, and later none.

    Args:
        record: the bytes in one of a reply's records, at most.
        total: the bytes in all its records, at most.
        seconds: how long a sender may take to deliver what it has announced.

    Yields:
        The reasons of refused replies, which are added while the grid pulls.
    """
    refused: list[str] = []
    if HTTP_GRID not in sys.modules:  # the grid is in this process, and fetches nothing
        yield refused
        return
    # Imported here because it takes a second, and only a grid of sites needs it.
    from flwr.superlink.grid import http_grid  # noqa: PLC0415

    names = vars(http_grid)  # the module imports the functions, and does not export them
    before = names[FETCH], names[BUILD]
    fetch = partial(_pull_within, *before, record, total, seconds)
    names[FETCH] = partial(_noting, refused, fetch)
    names[BUILD] = lambda _, contents: contents.message
    try:
        yield refused
    finally:
        names[FETCH], names[BUILD] = before


class _Built(dict[str, bytes]):
    """A reply's objects by id, and the reply that was built from them."""

    def __init__(self, contents: Mapping[str, bytes], message: Message) -> None:
        super().__init__(contents)
        self.message = message


def _noting(
    refused: list[str],
    fetch: Callable[..., _Built],
    object_ids: list[str],
    pull_object_fn: Callable[[str], bytes],
) -> _Built:
    """Fetch and build a reply; note the reason if it is refused.

    Raises:
        ObjectPullError: as for `_pull_within`.
    """
    try:
        return fetch(object_ids, pull_object_fn)
    except ObjectPullError as error:
        refused.append(str(error))
        raise


def _pull_within(
    fetch: Callable[..., dict[str, bytes]],
    build: Callable[[str, dict[str, bytes]], Message],
    record: int,
    total: int,
    seconds: float,
    object_ids: list[str],
    pull_object_fn: Callable[[str], bytes],
) -> _Built:
    """Fetch a reply's objects, check their sizes, and build the reply, whose id is the last one.

    Raises:
        ObjectPullError: an object is missing, late, malformed or too large.
    """
    fetched, lock = 0, threading.Lock()

    def pull(object_id: str) -> bytes:
        nonlocal fetched
        content = pull_object_fn(object_id)
        with lock:
            fetched += len(content)
        if fetched > STRUCTURE_BYTES + total:
            raise ObjectPullError(object_id, "the reply is larger than any valid one")
        return content

    contents = fetch(
        object_ids,
        pull,
        max_time=seconds,
        max_tries_per_object=None,
        initial_backoff=FIRST_BACKOFF,
        backoff_cap=LONGEST_BACKOFF,
    )
    try:
        check_objects(contents, record)
        message = build(object_ids[-1], contents)
        complete = message.has_error() or message.has_content()
    except ObjectPullError:
        raise
    except Exception as error:  # whatever Flower raises for a malformed object
        reason = one_line(f"the reply is malformed: {type(error).__name__}: {error}", 200)
        raise ObjectPullError(object_ids[-1], reason) from None
    if not complete:
        raise ObjectPullError(object_ids[-1], "the reply is empty")
    return _Built(contents, message)


def check_objects(contents: Mapping[str, bytes], record: int) -> None:
    """Refuse objects that are none of this project's replies, or may grow when they are built.

    Args:
        contents: each object, by id; together they are not too large.
        record: the bytes in one record, at most.

    Raises:
        ObjectPullError: they are not.
        ValueError, LookupError, TypeError, RecursionError, DecodeError: an object is malformed.
    """
    frame = 0
    for object_id, content in contents.items():
        kind, _, _ = get_object_head_values_from_object_content(content)
        if kind in FRAME:
            frame += len(content)
        elif kind != RECORD:
            raise ObjectPullError(object_id, "the reply holds something other than bytes")
        elif len(content) > STRUCTURE_BYTES + record:
            raise ObjectPullError(object_id, "the reply has a record larger than any valid one")
        else:
            # One at a time, as a list of numbers needs eight times its bytes.
            found = ProtoConfigRecord.FromString(get_object_body(content, ConfigRecord))
            if any(item.value.WhichOneof("value") != "bytes" for item in found.items):
                raise ObjectPullError(object_id, "the reply holds something other than bytes")
        if frame > STRUCTURE_BYTES:
            raise ObjectPullError(object_id, "the reply names more than any valid one")
