"""What may stand between a site and its coordinator: a forwarder of TCP, or a proxy of HTTP."""

import contextlib
import socket
import threading
from typing import Self


class Forwarder:
    """Passes connections on to a port of this machine, each at once and unchanged.

    As a load balancer does, it accepts a connection although nobody is behind it, and closes it
    after the first bytes. As a proxy, it answers CONNECT and takes any host for this machine.

    Args:
        connects: whether it is a proxy.
        port: the port behind a forwarder.

    Attributes:
        refusal: the HTTP status with which a proxy answers every request; 0 to connect.
        refused: how many connections could not be passed on.
    """

    def __init__(self, connects: bool, port: int = 0) -> None:
        self.refusal = self.refused = 0
        self._connects, self._behind = connects, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            port = self._behind
            if self._connects:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += client.recv(1) or b"\r\n\r\n"
                port = int(head.split()[1].rpartition(b":")[2])
                if self.refusal:
                    client.sendall(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % self.refusal)
                    return
            try:
                server = socket.create_connection(("127.0.0.1", port))
            except OSError:
                self.refused += 1
                if self._connects:
                    client.sendall(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
                else:
                    client.recv(65536)
                return
            if self._connects:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            threading.Thread(target=pump, args=[client, server], daemon=True).start()
            pump(server, client)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copy what arrives from one connection to another, until either ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
