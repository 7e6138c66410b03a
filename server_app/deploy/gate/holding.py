"""Requests for messages: each stays open until there is a message, so that no site asks in vain.

Flower's SuperNode sleeps for 3 s after each request that found no message.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from server_app.deploy.gate.authentication import Caller
from server_app.deploy.gate.changes import Changes
from server_app.deploy.gate.superlink import Answer

HELD_SECONDS = 25.0  # a SuperNode waits 30 s
EXPIRY_SECONDS = 2.0  # the last question is asked this long before its timestamp expires
LOOK_SECONDS = 0.05  # how often the database's version is read
ASK_SECONDS = 1.0  # how often the SuperLink is asked although nothing has changed
# How soon it is asked again while changes follow one another, as when a site sends its model.
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.1, 0.5, 1.5

# A site that has received a message asks for one of these next.
RECEIVED = frozenset({"get-run", "get-fab", "pull-object", "confirm-message-received"})
LEFT = frozenset({"deactivate-node", "unregister-node"})
KEPT_SECONDS = 60.0  # after as long without a heartbeat, Flower itself answers for a site


class ClientGoneError(Exception):
    """The client closed the connection."""


class Messages:
    """Requests for messages, and the messages on their way to a site.

    The SuperLink hands a message out once. A site that is cut off meanwhile would never receive it,
    so the gate keeps each message until the site has asked for what the message refers to.

    Args:
        changes: tells when it is worth to ask the SuperLink.
    """

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._handed_out: dict[bytes, tuple[Answer, float]] = {}

    async def pull(
        self, ask: Callable[[], Awaitable[Answer]], caller: Caller, gone: "asyncio.Task[None]"
    ) -> Answer:
        """Ask until there is a message or the time is up, and return the last answer.

        Args:
            ask: asks the SuperLink once; raises an error to end the wait.
            caller: the site that asks for messages.
            gone: ends when the client closes the connection.

        Raises:
            ClientGoneError: the client has gone; nothing was asked for it since.
        """
        end = min(time.monotonic() + HELD_SECONDS, caller.expires - EXPIRY_SECONDS)
        pause = FIRST_PAUSE
        while not gone.done():
            if (kept := self._kept(caller)) is not None:
                return kept
            version = self._changes.version()
            answer = await ask()
            if answer.status != 200:
                return answer
            if answer.body:
                self._handed_out[caller.key.pem] = answer, time.monotonic() + KEPT_SECONDS
                continue
            asked = time.monotonic()
            if asked >= end:
                return answer
            latest = min(end, asked + ASK_SECONDS)
            await self._until_worth_asking(version, asked + pause, latest, gone)
            was_quiet = time.monotonic() >= asked + ASK_SECONDS
            pause = FIRST_PAUSE if was_quiet else min(pause * GROWTH, LONGEST_PAUSE)
        raise ClientGoneError

    def heard(self, caller: Caller, route: str) -> None:
        """Note another request of a site, which may show that it has its message, or has left."""
        if route in RECEIVED or route in LEFT:
            self._handed_out.pop(caller.key.pem, None)

    def _kept(self, caller: Caller) -> Answer | None:
        """Return a message that was handed out for a site and that it has not acted on."""
        answer, until = self._handed_out.get(caller.key.pem, (None, 0.0))
        if answer is not None and time.monotonic() > until:
            del self._handed_out[caller.key.pem]
            return None
        return answer

    async def _until_worth_asking(
        self, version: int | None, earliest: float, latest: float, gone: "asyncio.Task[None]"
    ) -> None:
        """Wait until the database has changed, between two times, or until the client has gone."""
        while True:
            await asyncio.wait([gone], timeout=LOOK_SECONDS)
            now = time.monotonic()
            changed = now >= earliest and self._changes.version() != version
            if changed or gone.done() or now >= latest:
                return
