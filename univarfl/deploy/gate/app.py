"""The gate: an ASGI application between the sites and the SuperLink.

Flower serves its routes for sites, for operators and for its own programs on one port, and the
latter two ask nobody for a key. The gate forwards the twelve routes for sites alone. It is a small
application on uvicorn and httpx, which Flower brings along, and no packaged proxy: those cannot
check a SuperNode's signature before they read a body, and cannot hold a request for messages open.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from univarfl.deploy.gate.announcements import require_reply
from univarfl.deploy.gate.authentication import Authentication, Caller
from univarfl.deploy.gate.callers.machines import Machines
from univarfl.deploy.gate.holding import ClientGoneError, Messages
from univarfl.deploy.gate.limits import Limits, seconds_for
from univarfl.deploy.gate.log import log_refusal
from univarfl.deploy.gate.requests import (
    NOTICE,
    PULL_MESSAGES,
    PUSH_MESSAGES,
    Head,
    RefusedError,
    asks_for_health,
    require_head,
    require_small_head,
)
from univarfl.deploy.gate.superlink import Answer, SuperLinkConnections

Receive = Callable[[], Any]
Send = Callable[[dict[str, Any]], Any]

JSON = (b"content-type", b"application/json")
PIECE = 2**16  # bytes of an answer that are written at a time
DISCARDED = 2**16  # a longer body that is not read ends the connection


class Gate:
    """The application.

    Args:
        authentication: recognises the sites.
        machines: refuses a second machine with a site's key.
        superlink: receives what may pass.
        messages: holds the requests for messages.
        is_closing: whether the gate is about to end.
    """

    def __init__(
        self,
        authentication: Authentication,
        machines: Machines,
        superlink: SuperLinkConnections,
        messages: Messages,
        is_closing: Callable[[], bool],
    ) -> None:
        self._authentication, self._superlink = authentication, superlink
        self._machines, self._messages = machines, messages
        self._is_closing = is_closing
        self._limits = Limits()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        site = ""
        try:
            if crowded := scope["state"].get("crowded"):
                raise RefusedError(503, crowded)
            require_small_head(scope)
            if asks_for_health(scope):
                await write(await self._health(), scope, send)
                return
            head = require_head(scope)
            caller = self._authentication.recognise(head)
            site = caller.key.site
            self._limits.count(site)
            with self._limits.progress(site, head.length):
                self._authentication.use(head, caller)
                self._machines.require_only(caller, head, host_of(scope))
                body = await read(receive, head.length)
                answer = await self._forward(head, body, caller, receive)
                await write(answer.noting(NOTICE, self._machines.notice(caller)), scope, send)
        except ClientGoneError:
            return
        except RefusedError as refused:
            log_refusal(scope, site, refused)
            await write(refusal(scope, refused), scope, send)

    async def _health(self) -> Answer:
        if not await self._superlink.is_healthy():
            raise RefusedError(503, "the SuperLink does not answer")
        return Answer(200, (JSON,), json.dumps({"time": datetime.now(tz=UTC).isoformat()}).encode())

    async def _forward(self, head: Head, body: bytes, caller: Caller, receive: Receive) -> Answer:
        def check_key() -> None:
            if not self._authentication.is_registered(caller):
                self._authentication.recognise(head)

        def check() -> None:
            check_key()
            if self._is_closing():
                raise RefusedError(503, "the gate is about to end")

        check_key()  # it may have been removed while the body arrived
        self._messages.heard(caller, head.route)
        if head.route == PUSH_MESSAGES:
            require_reply(body)
        ask = partial(self._superlink.ask, head, body)
        if head.route != PULL_MESSAGES:
            return await ask()
        gone = asyncio.create_task(wait_until_gone(receive))
        try:
            return await self._messages.pull(ask, check, caller, gone)
        finally:
            gone.cancel()


def host_of(scope: dict[str, Any]) -> str:
    """Return the address of the client, as this machine sees it."""
    return str(scope["client"][0]) if scope["client"] else "an unknown address"


async def wait_until_gone(receive: Receive) -> None:
    """Wait until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def read(receive: Receive, length: int) -> bytes:
    """Read a request's body.

    Raises:
        RefusedError: it comes too slowly.
        ClientGoneError: the client closed the connection.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(seconds_for(length)):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                body += message["body"]
                if not message["more_body"]:
                    return bytes(body)
    except TimeoutError:
        raise RefusedError(503, f"the body came too slowly: {len(body)} of {length}") from None


async def write(answer: Answer, scope: dict[str, Any], send: Send) -> None:
    """Send an answer piece by piece; end the connection of a client that reads too slowly."""
    length = (b"content-length", str(len(answer.body)).encode())
    headers = [*answer.headers, length]
    try:
        async with asyncio.timeout(seconds_for(len(answer.body))):
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            for start in range(0, max(len(answer.body), 1), PIECE):
                piece = answer.body[start : start + PIECE]
                more = start + PIECE < len(answer.body)
                await send({"type": "http.response.body", "body": piece, "more_body": more})
    except TimeoutError:
        scope["state"]["abort"]()


def refusal(scope: dict[str, Any], refused: RefusedError) -> Answer:
    """Return the answer that refuses a request, in the form of Flower's own errors."""
    told: dict[str, int | str] = {"detail": refused.reason}
    if refused.code:
        told["code"] = refused.code
    headers = [JSON]
    if refused.status == 405:
        headers.append((b"allow", b"GET" if "GET" in refused.reason else b"POST"))
    if has_unread_body(scope):
        headers.append((b"connection", b"close"))
    return Answer(refused.status, tuple(headers), json.dumps(told).encode())


def has_unread_body(scope: dict[str, Any]) -> bool:
    """Whether a refused request may have a body that is too long to be received and ignored."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        return True
    return any(not length.isdigit() or int(length) > DISCARDED for length in lengths)
