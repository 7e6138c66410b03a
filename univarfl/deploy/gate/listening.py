"""The gate's port: it accepts a bounded number of connections and allows little time for TLS."""

import asyncio
import socket
from collections import Counter
from typing import Any

import uvicorn

from univarfl.deploy.gate.connections import MOST, MOST_OF_ONE_ADDRESS, Connection, origin, shown
from univarfl.deploy.gate.log import refusals
from univarfl.deploy.places import listening_socket

HANDSHAKE_SECONDS = 10.0
# Twice those that are answered, TLS handshakes included.
MOST_ACCEPTED_OF_ONE_ADDRESS, MOST_ACCEPTED = 2 * MOST_OF_ONE_ADDRESS, 2 * MOST


class Accepted(socket.socket):
    """A connection that is counted until it is closed."""

    counted: Counter[str]
    host: str | None = None

    def close(self) -> None:
        if self.host is not None:
            self.counted[self.host] -= 1
            if not self.counted[self.host]:
                del self.counted[self.host]
            self.host = None
        super().close()


class Listener(socket.socket):
    """A listening socket that closes the connections that are too many."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self._open: Counter[str] = Counter()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            ConnectionAbortedError: there are too many, and this one was closed.
        """
        plain, address = super().accept()
        host = origin(shown(address[0]))
        of_all = self._open.total()
        if self._open[host] >= MOST_ACCEPTED_OF_ONE_ADDRESS or of_all >= MOST_ACCEPTED:
            plain.close()
            refusals.warning(
                "%s:%s site=- - - closed: too many connections", shown(address[0]), address[1]
            )
            raise ConnectionAbortedError
        accepted = Accepted(plain.family, plain.type, plain.proto, fileno=plain.detach())
        accepted.counted, accepted.host = self._open, host
        self._open[host] += 1
        return accepted, address


class Server(uvicorn.Server):
    """uvicorn's server on a `Listener`."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, which uvicorn does without a limit for the TLS handshake."""
        loop = asyncio.get_running_loop()
        listener = listen(self.config.host, self.config.port, self.config.backlog)
        server = await loop.create_server(
            lambda: Connection(self.config, self.server_state, {}, loop),
            sock=listener,
            ssl=self.config.ssl,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        self.servers = [server]
        self.started = True


def listen(host: str, port: int, backlog: int) -> Listener:
    """Return a socket that listens at an address of this machine."""
    listener = listening_socket(Listener, host)
    listener.bind((host, port))
    listener.listen(backlog)
    return listener
