"""The gate's connections: each has to send the whole head of a request in time."""

import asyncio
import ipaddress
import socket
import sys
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from univarfl.deploy.gate.log import refusals

HEAD_SECONDS = 20.0
IDLE_SECONDS = 15  # a SuperNode closes its own connections after five
MOST_OF_ONE_ADDRESS, MOST = 256, 2000
MAPPED, NETWORK_BITS = "::ffff:", 64
# A peer that no longer answers is given up after 10 + 3 * 5 s.
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class Connection(H11Protocol):
    """One connection, which is closed when the head of a request does not arrive in time.

    It gives the application ``abort``, which ends the connection at once, and ``crowded``, why its
    requests are to be refused.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "abort": self._abort}, _loop)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client:
            self.client = (shown(self.client[0]), self.client[1])
        notice_dead_peers(transport)
        self.app_state["crowded"] = self._crowded()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        self._stop_timer()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP/1.1."""
        host, port = self.client or ("-", 0)
        refusals.warning("%s:%s site=- - - 400: not a request in HTTP/1.1", host, port)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application's own answer is dropped
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer is under way
            self._abort()

    def _crowded(self) -> str:
        """Return why there are too many connections, or an empty text."""
        hosts = [origin(each.client[0]) for each in self.connections if each.client]
        if self.client and hosts.count(origin(self.client[0])) > MOST_OF_ONE_ADDRESS:
            return f"more than {MOST_OF_ONE_ADDRESS} connections from one address"
        if len(hosts) > MOST:
            return f"more than {MOST} connections"
        return ""

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        host, port = self.client or ("-", 0)
        refusals.warning("%s:%s site=- - - 408: no request within %g s", host, port, HEAD_SECONDS)
        self._abort()

    def _abort(self) -> None:
        self.transport.abort()


def shown(host: str) -> str:
    """Return a client's address; without the prefix that IPv4 has on a socket of IPv6."""
    return host.removeprefix(MAPPED) if "." in host else host


def origin(host: str) -> str:
    """Return what counts as one address: of IPv6, the 64 bits that one network shares."""
    if ":" not in host:
        return host
    return str(ipaddress.ip_network((host.partition("%")[0], NETWORK_BITS), strict=False))


def notice_dead_peers(transport: asyncio.Transport) -> None:
    """Let the operating system end a connection whose other side no longer answers."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        for name, value in KEEPALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
