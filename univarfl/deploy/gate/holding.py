"""Requests for messages: each stays open until there is a message, so that no site asks in vain.

Flower's SuperNode sleeps for 3 s after each request that found no message.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from univarfl.deploy.gate.authentication import Caller
from univarfl.deploy.gate.mailboxes import Mailboxes
from univarfl.deploy.gate.superlink import Answer

HELD_SECONDS = 25.0  # a SuperNode waits 30 s
EXPIRY_SECONDS = 2.0  # the last question is asked this long before its timestamp expires
LOOK_SECONDS = 0.05  # how often the database is looked at
ASK_SECONDS = 5.0  # how often the SuperLink is asked although the database has no message
FIRST_PAUSE, GROWTH = 0.1, 1.5  # between questions, when it gives no message that it should have

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
        mailboxes: tells for which sites the SuperLink has a message.
    """

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._handed_out: dict[bytes, tuple[Answer, float]] = {}

    async def pull(
        self,
        ask: Callable[[], Awaitable[Answer]],
        check: Callable[[], None],
        caller: Caller,
        gone: "asyncio.Task[None]",
    ) -> Answer:
        """Ask until there is a message or the time is up, and return the last answer.

        Args:
            ask: asks the SuperLink once.
            check: raises an error to end the wait.
            caller: the site that asks for messages.
            gone: ends when the client closes the connection.

        Raises:
            ClientGoneError: the client has gone; nothing was asked for it since.
        """
        end = min(time.monotonic() + HELD_SECONDS, caller.expires - EXPIRY_SECONDS)
        asked, pause = -ASK_SECONDS, FIRST_PAUSE
        while not gone.done():
            check()
            if (kept := self._kept(caller)) is not None:
                return kept
            now = time.monotonic()
            has_message = self._mailboxes.has_message(caller.key.pem)
            if now >= min(end, asked + (pause if has_message else ASK_SECONDS)):
                answer, asked = await ask(), now
                if answer.status != 200:
                    return answer
                if answer.body:
                    self._handed_out[caller.key.pem] = answer, time.monotonic() + KEPT_SECONDS
                    continue
                if time.monotonic() >= end:
                    return answer
                pause = min(pause * GROWTH, ASK_SECONDS) if has_message else FIRST_PAUSE
            await asyncio.wait([gone], timeout=LOOK_SECONDS)
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
