"""The SuperLink behind the gate, on this machine."""

import asyncio
import ssl
import time
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Self

import httpx

from univarfl.deploy.gate.requests import (
    AUTHENTICATION,
    MEDIA_TYPE,
    PREFIX,
    RETURNED,
    Head,
    RefusedError,
)

ANSWER_SECONDS = 29.0  # a SuperNode waits 30 s
CONNECT_SECONDS = 5.0
IDLE_SECONDS = 3.0  # the SuperLink closes a connection after five
MOST_CONNECTIONS = 128
LARGEST_ANSWER = 64 * 2**20
HEALTH_SECONDS = 1.0  # how long an answer about its health counts


@dataclass(frozen=True)
class Answer:
    """What the SuperLink answered.

    Attributes:
        status: the HTTP status.
        headers: those that the site receives.
        body: the whole body.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def noting(self, name: bytes, text: str) -> Self:
        """Return this answer with a text in a header of its own, unless the text is empty."""
        if not text:
            return self
        return replace(self, headers=(*self.headers, (name, text.encode("ascii", "replace"))))


class SuperLinkConnections:
    """Connections to the SuperLink.

    Args:
        port: its port on 127.0.0.1.
        authority: the certificate that signed the SuperLink's own.
    """

    def __init__(self, port: int, authority: Path) -> None:
        limits = httpx.Limits(
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
        )
        self._client = httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}",
            verify=ssl.create_default_context(cafile=str(authority)),
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            limits=limits,
            headers={"accept-encoding": "identity"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            trust_env=False,
        )
        self._healthy, self._asked_at = False, -HEALTH_SECONDS
        self._asking = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def ask(self, head: Head, body: bytes) -> Answer:
        """Send a request on and return the answer.

        Raises:
            RefusedError: there is no answer, or one that is no answer to a SuperNode.
        """
        headers = [
            (b"content-type", MEDIA_TYPE), (b"accept", MEDIA_TYPE),
            *zip(AUTHENTICATION, head.authentication, strict=True), *head.forwarded,
        ]  # fmt: skip
        path = PREFIX.decode() + head.route
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                async with self._client.stream(
                    "POST", path, content=body, headers=headers
                ) as response:
                    return await whole(response)
        except (TimeoutError, httpx.TimeoutException):
            raise RefusedError(504, "the SuperLink did not answer in time") from None
        except httpx.HTTPError as error:
            reason = f"the SuperLink does not answer: {type(error).__name__}"
            raise RefusedError(502, reason) from None

    async def is_healthy(self) -> bool:
        """Whether the SuperLink answers; asked at most once in `HEALTH_SECONDS`."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= HEALTH_SECONDS:
                try:
                    async with (
                        asyncio.timeout(CONNECT_SECONDS),
                        self._client.stream("GET", "/health") as response,  # its body is not read
                    ):
                        self._healthy = response.status_code == httpx.codes.OK
                except (TimeoutError, httpx.HTTPError):
                    self._healthy = False
                self._asked_at = time.monotonic()
            return self._healthy


async def whole(response: httpx.Response) -> Answer:
    """Read an answer of at most `LARGEST_ANSWER` bytes.

    Raises:
        RefusedError: it is larger, or a redirect.
    """
    if response.is_redirect or response.is_informational:
        raise RefusedError(502, f"the SuperLink answered {response.status_code}")
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise RefusedError(502, f"the SuperLink's answer is above {LARGEST_ANSWER} bytes")
    headers = tuple(
        (name, value) for name, value in response.headers.raw if name.lower() in RETURNED
    )
    return Answer(response.status_code, headers, bytes(body))
