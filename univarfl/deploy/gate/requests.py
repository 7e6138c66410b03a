"""The requests that the gate forwards: twelve routes, one form. The rest is refused unread.

The names in this file are Flower's; ``tests/univarfl/deploy/gate/test_requests.py`` fails when a
new version of Flower changes one.
"""

import re
from dataclasses import dataclass
from typing import Any

from univarfl.flower import supernode

PREFIX = b"/v1/fleet/"
PULL_MESSAGES, PUSH_MESSAGES = "pull-messages", "push-messages"
JOINING = frozenset({"activate-node", "register-node"})
DEACTIVATE = frozenset({"deactivate-node"})
ROUTES = JOINING | DEACTIVATE | {
    "unregister-node", "send-node-heartbeat", PULL_MESSAGES, PUSH_MESSAGES,
    "get-run", "get-fab", "push-object", "pull-object", "confirm-message-received",
}  # fmt: skip
HEALTH = b"/health"

PUBLIC_KEY, TIMESTAMP, SIGNATURE = b"flwr-public-key", b"flwr-timestamp", b"flwr-signature"
AUTHENTICATION = (PUBLIC_KEY, TIMESTAMP, SIGNATURE)
MACHINE = supernode.MACHINE.encode()  # names the machine that uses a key; see `callers.machines`
MACHINE_FORM = re.compile(rb"[0-9a-f]{32}")
NOTICE = supernode.NOTICE.encode()  # of an answer: what the site has to know
MEDIA_TYPE = b"application/protobuf"
FORWARDED = (  # beside those of authentication; all others stay outside
    b"flwr-package-name", b"flwr-package-version", b"flwr-component-name",
)  # fmt: skip
RETURNED = (b"content-type", b"flwr-version-incompatibility-message")

LARGEST_REQUEST = 16 * 2**20  # bytes; arrays travel in pieces of 4 MiB
LARGEST_ANNOUNCEMENT = 2**20  # bytes of a message without its arrays, which the SuperLink lists
LARGEST_HEAD = 16 * 2**10  # bytes of a path and its headers; a SuperNode's have about one thousand
SHOWN = 120  # characters of a path


class RefusedError(Exception):
    """A request that the gate does not forward.

    Args:
        status: the HTTP status of the answer.
        reason: for the log and for the client.
        code: Flower's code of an API error, which a SuperNode prints with the reason; 0 for none.
    """

    def __init__(self, status: int, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.status, self.reason, self.code = status, reason, code


@dataclass(frozen=True)
class Head:
    """The head of a request for one of the fleet's routes.

    Attributes:
        route: the last part of its path.
        length: the length of its body in bytes.
        authentication: the values of the headers in `AUTHENTICATION`.
        forwarded: the headers that the SuperLink receives beside them.
        machine: the machine that sent it; empty for a plain ``flower-supernode``.
    """

    route: str
    length: int
    authentication: tuple[bytes, bytes, bytes]
    forwarded: tuple[tuple[bytes, bytes], ...]
    machine: str = ""


def require_small_head(scope: dict[str, Any]) -> None:
    """Refuse a request with a long path or many headers.

    Raises:
        RefusedError: the head is longer than `LARGEST_HEAD`.
    """
    headers = sum(len(name) + len(value) for name, value in scope["headers"])
    if len(scope["raw_path"]) + len(scope["query_string"]) + headers > LARGEST_HEAD:
        raise RefusedError(431, f"the path and headers have more than {LARGEST_HEAD} bytes")


def asks_for_health(scope: dict[str, Any]) -> bool:
    """Whether a request is for the gate's own route.

    Raises:
        RefusedError: it is, in a form that the gate does not answer.
    """
    if scope["raw_path"] != HEALTH or scope["query_string"]:
        return False
    if scope["method"] != "GET":
        raise RefusedError(405, "this path answers GET only")
    names = {name for name, _ in scope["headers"]}
    if b"content-length" in names or b"transfer-encoding" in names:
        raise RefusedError(413, "a request for this path has no body")
    return True


def require_head(scope: dict[str, Any]) -> Head:
    """Return the head of a request that may be forwarded if its site is known.

    Raises:
        RefusedError: its path, method or headers are not those of a SuperNode's request.
    """
    path: bytes = scope["raw_path"]
    route = path.removeprefix(PREFIX).decode("latin-1")
    if not path.startswith(PREFIX) or route not in ROUTES or scope["query_string"]:
        raise RefusedError(404, "no route of the gate")
    if scope["method"] != "POST":
        raise RefusedError(405, "this path answers POST only")
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    if b"transfer-encoding" in headers or b"content-length" not in headers:
        raise RefusedError(411, "the body needs a Content-Length and no Transfer-Encoding")
    if b"content-encoding" in headers or headers.get(b"content-type") != [MEDIA_TYPE]:
        raise RefusedError(415, f"the body must be {MEDIA_TYPE.decode()} without an encoding")
    most = LARGEST_ANNOUNCEMENT if route == PUSH_MESSAGES else LARGEST_REQUEST
    length = require_length(headers[b"content-length"], most)
    return Head(
        route,
        length,
        require_authentication(headers),
        tuple((name, headers[name][0]) for name in FORWARDED if name in headers),
        machine_of(headers.get(MACHINE, [])),
    )


def machine_of(values: list[bytes]) -> str:
    """Return the machine that a request names; an empty text if it names none.

    Raises:
        RefusedError: the header is repeated, or has another form.
    """
    if not values:
        return ""
    if len(values) != 1 or not MACHINE_FORM.fullmatch(values[0]):
        raise RefusedError(400, f"{MACHINE.decode()} is not 32 hexadecimal digits")
    return values[0].decode()


def require_length(values: list[bytes], most: int) -> int:
    """Return a body's length.

    Raises:
        RefusedError: the header is repeated, is no number, or is above `most`.
    """
    if len(values) != 1 or not re.fullmatch(rb"[0-9]{1,12}", values[0]):
        raise RefusedError(400, "the Content-Length is not one number")
    length = int(values[0])
    if length > most:
        raise RefusedError(413, f"a body of {length} bytes is above {most}")
    return length


def require_authentication(headers: dict[bytes, list[bytes]]) -> tuple[bytes, bytes, bytes]:
    """Return the values of the headers that authenticate a SuperNode.

    Raises:
        RefusedError: one is missing or repeated.
    """
    values = [headers.get(name, []) for name in AUTHENTICATION]
    if not all(len(each) == 1 for each in values):
        raise RefusedError(401, "the request does not carry a SuperNode's authentication")
    key, timestamp, signature = (each[0] for each in values)
    return key, timestamp, signature


def shown(raw: bytes | str) -> str:
    """Return text from outside in printable ASCII without spaces, cut to `SHOWN` characters."""
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    escaped = text[:SHOWN].encode("unicode_escape").decode().replace(" ", "\\x20")
    return escaped + ("..." if len(text) > SHOWN else "")
