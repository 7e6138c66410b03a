"""A request for messages stays open until there is one, so that a site need not ask again."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from server_app.deploy.gate.authentication import Caller
from server_app.deploy.gate.superlink import Answer

HELD_SECONDS = 25.0  # a SuperNode waits 30 s
EXPIRY_SECONDS = 2.0  # the last question is asked this long before its timestamp expires
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.1, 0.5, 1.1  # seconds between two questions


class ClientGoneError(Exception):
    """The client closed the connection."""


async def hold(
    ask: Callable[[], Awaitable[Answer]], caller: Caller, gone: "asyncio.Task[None]"
) -> Answer:
    """Ask until there is a message or the time is up, and return the last answer.

    A message that the SuperLink has handed out is not handed out again. So nothing is asked for a
    client that has gone.

    Args:
        ask: asks the SuperLink once; raises an error to end the wait.
        caller: the sender.
        gone: ends when the client closes the connection.

    Raises:
        ClientGoneError: the client has gone.
    """
    end = min(time.monotonic() + HELD_SECONDS, caller.expires - EXPIRY_SECONDS)
    pause = FIRST_PAUSE
    while not gone.done():
        answer = await ask()
        if is_message(answer) or time.monotonic() + pause > end:
            return answer
        await asyncio.wait([gone], timeout=pause)
        pause = min(pause * GROWTH, LONGEST_PAUSE)
    raise ClientGoneError


def is_message(answer: Answer) -> bool:
    """Whether an answer to a request for messages is anything but "none": an empty body."""
    return answer.status != 200 or bool(answer.body)
