"""What a machine that holds ``ca.crt`` and a registered site's key tries at the gate.

    python -m tests.univarfl.deploy.gate.outside CA_CRT HOST PORT KEY_FILE

It prints a JSON object: what was sent, and the status of the reply.
"""

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from fastapi.routing import iter_route_contexts
from flwr.superlink.main import create_app

from tests.univarfl.deploy.gate.requests_to import TYPE, Client, head, signed
from univarfl.deploy.gate import connections, listening

PUSH = "/v1/fleet/push-object"
INNER = head("/v1/control/list-runs", {**TYPE, "content-length": "0"})
ODD_PATHS = (
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/%2E%2E%2Fcontrol%2Flist-runs",
    "/v1/fleet/..;/control/list-runs",
    "//v1/control/list-runs",
    "/v1//control/list-runs",
    "/V1/CONTROL/LIST-RUNS",
    "/v1/%63ontrol/list-runs",
    "/v1/fleet/pull-messages/../../control/list-runs",
    "/v1/fleet/pull-messages?/v1/control/list-runs",
    "/v1/fleet/pull-messages%3f/../../control/list-runs",
    "/v1/fleet\\..\\control\\list-runs",
    "http://127.0.0.1/v1/control/list-runs",
    "https://127.0.0.1:8001/v1/control/list-runs",
)


def routes() -> Iterator[tuple[str, str]]:
    """Yield the method and path of every route of the installed Flower's SuperLink."""
    for context in iter_route_contexts(create_app().routes):
        for method in sorted(getattr(context, "methods", None) or {"GET"}):
            yield method, str(context.path)


def smuggled(key: EllipticCurvePrivateKey) -> dict[str, bytes]:
    """Return requests that hide another one in their body, by name."""

    def outer(**changed: str) -> bytes:
        names = {name.replace("_", "-"): value for name, value in changed.items()}
        return head(PUSH, {**TYPE, **signed(key), **names}, last=False)

    length = str(len(INNER))
    return {
        "both lengths, chunked first":
            outer(transfer_encoding="chunked", content_length="4") + b"0\r\n\r\n" + INNER,
        "both lengths, length first":
            outer(content_length=length, transfer_encoding="chunked") + b"0\r\n\r\n" + INNER,
        "a folded transfer encoding":
            outer(content_length="4", transfer_encoding="\r\n chunked") + b"0\r\n\r\n" + INNER,
        "an unknown transfer encoding":
            outer(transfer_encoding="xchunked") + b"0\r\n\r\n" + INNER,
        "two lengths": outer(content_length=f"0\r\ncontent-length: {length}") + INNER,
        "a list of lengths": outer(content_length=f"0, {length}") + INNER,
        "a length with a sign": outer(content_length=f"+{length}") + INNER,
        "a bare line feed": outer(content_length="0\ntransfer-encoding: chunked") + INNER,
        "a space before the colon": outer(**{"content-length ": length}) + INNER,
    }  # fmt: skip


def slow_head(client: Client, key: EllipticCurvePrivateKey) -> float:
    """Send a head of which a byte is always missing; return the seconds until the end."""
    started = time.monotonic()
    with client.connected() as tls:
        try:
            for byte in head(PUSH, {**TYPE, **signed(key), "x": "y" * 5000}):
                tls.sendall(bytes([byte]))
                time.sleep(0.2)
        except OSError:
            return time.monotonic() - started
    return 0.0


def slow_body(client: Client, key: EllipticCurvePrivateKey) -> list[int]:
    """Send a body of which a byte is always missing; return the statuses of the replies."""
    with client.connected() as tls:
        tls.sendall(head(PUSH, {**TYPE, **signed(key), "content-length": "1000"}))
        answer = b""
        for _ in range(300):
            tls.settimeout(0.2)
            try:
                tls.sendall(b"x")
                answer = tls.recv(100)
            except TimeoutError:
                continue
            except OSError:
                break
            break
    return [int(answer.split()[1])] if answer else []


def no_handshake(client: Client) -> float:
    """Open a connection and say nothing; return the seconds until the gate ends it."""
    started = time.monotonic()
    with client.open() as plain:
        while plain.recv(100):
            pass
    return time.monotonic() - started


def crowd(client: Client, count: int) -> list[int]:
    """Keep many connections open; return the statuses of requests on the last ones."""
    statuses = []
    with contextlib.ExitStack() as stack:
        for number in range(count):
            tls = stack.enter_context(client.connected())
            if number >= count - 5:
                tls.sendall(b"GET /health HTTP/1.1\r\nhost: gate\r\n\r\n")
                statuses.append(int(tls.recv(100).split()[1]))
    return statuses


def throng(client: Client, count: int) -> int:
    """Open many connections without TLS; return how many the gate closes at once."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(client.open()) for _ in range(count)]
        time.sleep(1.0)
        for plain in opened:
            plain.setblocking(False)
        return sum(map(is_closed, opened))


def is_closed(plain: socket.socket) -> bool:
    """Whether the other side has ended a connection."""
    try:
        return plain.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def main() -> None:
    """Try everything and print the result."""
    authority, host, port, key_file = sys.argv[1:]
    client = Client(Path(authority), host, int(port))
    key = load_ssh_private_key(Path(key_file).read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    found: dict[str, object] = {}

    def later(name: str, task: Callable[[], object]) -> threading.Thread:
        def keep() -> None:
            found[name] = task()

        thread = threading.Thread(target=keep)
        thread.start()
        return thread

    threads = [
        later("slow head", lambda: slow_head(client, key)),
        later("slow body", lambda: slow_body(client, key)),
        later("no handshake", lambda: no_handshake(client)),
    ]
    found["routes"] = [
        (method, path, client.send(path, {**TYPE, **signed(key)}, method=method).status)
        for method, path in routes()
        if not path.startswith("/v1/fleet/")
    ]
    found["fleet"] = sum(path.startswith("/v1/fleet/") for _, path in routes())
    found["odd paths"] = [
        (path, client.send_bytes(head(path, {**TYPE, **signed(key), "content-length": "0"})))
        for path in ODD_PATHS
    ]
    found["smuggled"] = {
        name: client.send_bytes(request) for name, request in smuggled(key).items()
    }
    once = {**TYPE, **signed(key)}
    found["replay"] = [client.send(PUSH, once, body).status for body in (b"\x08\x01", b"\x08\x02")]
    for thread in threads:
        thread.join()
    found["crowd"] = crowd(client, connections.MOST_OF_ONE_ADDRESS + 5)
    found["throng"] = throng(client, listening.MOST_ACCEPTED_OF_ONE_ADDRESS + 20)
    found["health"] = client.send("/health", {}, method="GET").status
    print(json.dumps(found))


if __name__ == "__main__":
    main()
