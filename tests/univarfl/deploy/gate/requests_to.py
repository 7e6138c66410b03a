"""Requests to a gate, as a SuperNode sends them and as no SuperNode would."""

import base64
import contextlib
import http.client
import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)

from univarfl.deploy.places import CoordinatorPlace, SitePlace

ANSWER_SECONDS = 60.0
TYPE = {"content-type": "application/protobuf"}


def private_key(place: SitePlace, name: str) -> EllipticCurvePrivateKey:
    """Return a site's private key."""
    key = load_ssh_private_key(place.key(name).read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return key


def pem_of(key: EllipticCurvePrivateKey) -> bytes:
    """Return the public key as a SuperNode sends it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed(key: EllipticCurvePrivateKey, late: float = 0.0) -> dict[str, str]:
    """Return a SuperNode's headers of authentication, signed `late` seconds ago."""
    timestamp = (datetime.now(tz=UTC) - timedelta(seconds=late)).isoformat()
    signature = key.sign(timestamp.encode(), ECDSA(SHA256()))
    return {
        "flwr-public-key": base64.b64encode(pem_of(key)).decode(),
        "flwr-timestamp": timestamp,
        "flwr-signature": base64.b64encode(signature).decode(),
    }


@dataclass(frozen=True)
class Reply:
    """What came back; status 0 stands for a connection that was closed without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, object]:
        return dict(json.loads(self.body))


class Client:
    """A machine that reaches a gate.

    Args:
        authority: the coordinator's certificate.
        host, port: the gate's address.
    """

    def __init__(self, authority: Path, host: str, port: int) -> None:
        self.context = ssl.create_default_context(cafile=str(authority))
        self.host, self.port = host, port

    def send(
        self, path: str, headers: Mapping[str, str], body: bytes = b"", method: str = "POST"
    ) -> Reply:
        """Send a well-formed request and return the reply."""
        connection = http.client.HTTPSConnection(
            self.host, self.port, timeout=ANSWER_SECONDS, context=self.context
        )
        try:
            connection.request(method, path, body or None, dict(headers))
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def open(self) -> socket.socket:
        """Open a connection without TLS."""
        return socket.create_connection((self.host, self.port), timeout=ANSWER_SECONDS)

    @contextlib.contextmanager
    def connected(self) -> Iterator[ssl.SSLSocket]:
        """Open a connection for bytes of any form."""
        with (
            self.open() as plain,
            self.context.wrap_socket(plain, server_hostname=self.host) as tls,
        ):
            yield tls

    def send_bytes(self, request: bytes) -> list[int]:
        """Send bytes; return the status of each reply until the gate ends the connection."""
        received = b""
        with contextlib.suppress(ssl.SSLError, ConnectionError), self.connected() as tls:
            tls.sendall(request)
            while data := tls.recv(65536):
                received += data
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def head(path: str, headers: Mapping[str, str], method: str = "POST", last: bool = True) -> bytes:
    """Return the head of a request, which is the last one on its connection."""
    lines = [f"{method} {path} HTTP/1.1", "host: gate", *(f"{k}: {v}" for k, v in headers.items())]
    if last and "connection" not in headers:
        lines.append("connection: close")
    return "\r\n".join([*lines, "", ""]).encode()


def wait_for_gate(client: Client, process: subprocess.Popen[bytes]) -> None:
    """Wait until a gate answers."""
    for _ in range(600):
        assert process.poll() is None
        try:
            if client.send("/health", {}, method="GET").status in (200, 503):
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("the gate does not answer")


def refusals(place: CoordinatorPlace) -> list[str]:
    """Return the lines of a gate's log, with the latest last."""
    return place.gate_log.read_text().splitlines()
