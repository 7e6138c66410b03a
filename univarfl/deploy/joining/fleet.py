"""The requests that a site makes to its coordinator with its own key, as a SuperNode does.

They use, of Flower's undocumented modules, the following; a test fails when one changes:

- ``FleetHttpClient`` and its interceptors: a site says goodbye for a SuperNode that was killed.
- ``flwr.supercore.error.FlowerError.from_json``: why a SuperLink or its gate refuses a site.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL

from task.plain_text import one_line
from task.protocol.signature import read_private_key
from univarfl.flower import supernode

if TYPE_CHECKING:
    from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
    from flwr.supernode.fleet_http_client import FleetHttpClient

REASON_CHARACTERS = 500


@dataclass(frozen=True)
class Refusal:
    """Why a SuperLink or its gate refuses a request.

    Attributes:
        status: the HTTP status.
        code: Flower's code of an API error; 0 for none.
        reason: for a person, cut to a bound and printable.
    """

    status: int
    code: int
    reason: str

    @classmethod
    def of(cls, error: httpx.HTTPStatusError) -> Self:
        """Return the refusal in an answer."""
        from flwr.supercore.error import FlowerError  # noqa: PLC0415

        answer = error.response
        told = FlowerError.from_json(answer.text)
        detail = answer.text
        if told:
            detail = told.message
        else:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                detail = str(json.loads(detail)["detail"])
        reason = one_line(detail)[:REASON_CHARACTERS]
        return cls(answer.status_code, told.code if told else 0, reason)


def refusal_of(request: Callable[[], object]) -> Refusal | None:
    """Make a request; return why it is refused, or None if it is not.

    Raises:
        httpx.RequestError: there is no answer, or one that cannot be read.
    """
    try:
        request()
    except httpx.HTTPStatusError as error:
        return Refusal.of(error)
    return None


@dataclass(frozen=True)
class FleetNode:
    """A site's node, as which requests are made with the site's key.

    Each request raises `httpx.HTTPStatusError` if it is refused, and `httpx.RequestError` if
    there is no answer, or one that cannot be read.

    Attributes:
        client: makes the requests.
        public_key: the site's public key, as Flower sends it.
    """

    client: "FleetHttpClient"
    public_key: bytes

    def activate(self) -> int:
        """Count the node as connected; return its id."""
        from flwr.proto.fleet_pb2 import ActivateNodeRequest  # noqa: PLC0415

        interval = HEARTBEAT_DEFAULT_INTERVAL
        request = ActivateNodeRequest(public_key=self.public_key, heartbeat_interval=interval)
        with readable_answer():
            return int(self.client.ActivateNode(request).node_id)

    def deactivate(self, node_id: int) -> None:
        """Count the node as absent."""
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest  # noqa: PLC0415

        with readable_answer():
            self.client.DeactivateNode(DeactivateNodeRequest(node_id=node_id))


@contextlib.contextmanager
def readable_answer() -> Iterator[None]:
    """Raise an `httpx.RequestError` if an answer is not Flower's, such as a proxy's page."""
    try:
        yield
    except ValueError:
        raise httpx.DecodingError("the answer is not Flower's") from None


class MachineInterceptor:
    """Names this machine in each request, as `univarfl.flower.supernode` does.

    Args:
        machine: the name.
    """

    def __init__(self, machine: str) -> None:
        self._machine = machine

    def intercept(
        self, context: "ProtobufRequestContext", call_next: "ProtobufCall"
    ) -> httpx.Response:
        """Add the header."""
        context.request.headers[supernode.MACHINE] = self._machine
        return call_next(context)


@contextlib.contextmanager
def fleet_client(address: str, authority: Path, key: Path, machine: str) -> Iterator[FleetNode]:
    """Connect to a coordinator as a SuperNode does.

    Args:
        address: HOST:PORT.
        authority: the certificate that signed the coordinator's.
        key: the site's private key.
        machine: names this machine.
    """
    # Imported here because most commands do not need them, and they take half a second.
    from flwr.supercore.interceptors.http.runtime_version import (  # noqa: PLC0415
        RuntimeVersionHttpInterceptor,
    )
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes  # noqa: PLC0415
    from flwr.supernode.fleet_http_client import FleetHttpClient  # noqa: PLC0415
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor  # noqa: PLC0415

    private = read_private_key(key.read_bytes())
    assert isinstance(private, EllipticCurvePrivateKey)
    public = private.public_key()
    interceptors = (
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(private, public),
        MachineInterceptor(machine),
    )
    with FleetHttpClient.from_server_address(
        address, False, str(authority), interceptors=interceptors
    ) as client:
        yield FleetNode(client, public_key_to_bytes(public))
