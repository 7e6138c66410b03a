"""Limits of the time and the size of what the gate waits for: answers, and TLS handshakes."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from univarfl.deploy.gate import listening, superlink
from univarfl.deploy.gate.requests import Head, RefusedError
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace
from univarfl.flower.programs import free_ports

SECONDS = 120.0  # far above each limit, and for a busy machine
HEAD = Head("get-run", 0, (b"key", b"time", b"signature"), ())
START = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/protobuf\r\ntransfer-encoding: chunked\r\n\r\n"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> CoordinatorPlace:
    place = CoordinatorPlace(tmp_path_factory.mktemp("limits"))
    make_coordinator(place, ["localhost"])
    return place


@asynccontextmanager
async def endless(place: CoordinatorPlace, chunk: bytes, pause: float) -> AsyncIterator[int]:
    """Serve answers that never end, with TLS; yield the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place.certificate, place.key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(START)
            while not writer.is_closing():
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                await writer.drain()
                await asyncio.sleep(pause)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def refused(place: CoordinatorPlace, chunk: bytes, pause: float) -> RefusedError:
    """Ask a server whose answer never ends; return how the gate refuses it."""
    async with (
        endless(place, chunk, pause) as port,
        superlink.SuperLinkConnections(port, place.authority) as asked,
    ):
        with pytest.raises(RefusedError) as caught:
            await asyncio.wait_for(asked.ask(HEAD, b""), SECONDS)
        return caught.value


def test_an_answer_that_is_too_large_is_refused_before_its_end(
    place: CoordinatorPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(superlink, "LARGEST_ANSWER", 2**20)
    monkeypatch.setattr(superlink, "ANSWER_SECONDS", SECONDS / 2)
    error = asyncio.run(refused(place, bytes(2**16), 0.0))
    assert (error.status, str(error)) == (502, "the SuperLink's answer is above 1048576 bytes")


def test_an_answer_that_comes_in_drops_is_given_up(
    place: CoordinatorPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(superlink, "ANSWER_SECONDS", 1.0)
    error = asyncio.run(refused(place, b"x", 0.1))
    assert (error.status, str(error)) == (504, "the SuperLink did not answer in time")


def test_the_body_of_a_health_is_not_read(place: CoordinatorPlace) -> None:
    async def ask() -> bool:
        async with (
            endless(place, b"x", 0.1) as port,
            superlink.SuperLinkConnections(port, place.authority) as asked,
        ):
            return await asyncio.wait_for(asked.is_healthy(), SECONDS)

    assert asyncio.run(ask())  # its status is enough


def test_a_connection_without_a_handshake_is_closed(
    place: CoordinatorPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, asyncio waits 60 s."""
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 0.5)
    (port,) = free_ports(1)

    async def application(*_: Any) -> None:
        raise AssertionError("there is no request")

    config = uvicorn.Config(
        application, host="127.0.0.1", port=port, log_config=None, lifespan="off", ws="none",
        interface="asgi3",
        ssl_certfile=place.certificate, ssl_keyfile=place.key,
    )  # fmt: skip

    async def connect() -> bytes:
        server = listening.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            received = await asyncio.wait_for(reader.read(), 40)
            writer.close()
            return received
        finally:
            server.servers[0].close()

    assert asyncio.run(connect()) == b""
