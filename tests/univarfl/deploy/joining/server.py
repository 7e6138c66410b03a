"""A server with TLS that answers a site as SuperLink and gate do, or as a middlebox does."""

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    ActivateNodeResponse,
    DeactivateNodeRequest,
    DeactivateNodeResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatResponse

from univarfl.deploy.places import CoordinatorPlace

ACTIVATE, DEACTIVATE = "/v1/fleet/activate-node", "/v1/fleet/deactivate-node"
HEARTBEAT, PULL = "/v1/fleet/send-node-heartbeat", "/v1/fleet/pull-messages"
NODE = 2**63 + 7


class Server(http.server.ThreadingHTTPServer):
    """A coordinator that answers as it is told, and remembers what it was asked.

    Attributes:
        refusals: by path, the status and the JSON of its answer.
        asked: the paths and the node ids of requests.
        context: its certificate, for the next connections.
    """

    def __init__(self, place: CoordinatorPlace) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refusals: dict[str, tuple[int, dict[str, object]]] = {}
        self.asked: list[tuple[str, int]] = []
        self.time = timedelta(0)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(place.certificate, place.key)
        self.socket = self.context.wrap_socket(self.socket, server_side=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        status, _ = self.server.refusals.get(self.path, (200, {}))
        self._answer(status, json.dumps(
            {"time": (datetime.now(tz=UTC) + self.server.time).isoformat()}
        ).encode(), "application/json")  # fmt: skip

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert {"flwr-public-key", "flwr-timestamp", "flwr-signature"} <= {
            name.lower() for name in self.headers
        }
        node = DeactivateNodeRequest.FromString(body).node_id if self.path == DEACTIVATE else 0
        if self.path == ACTIVATE:
            assert ActivateNodeRequest.FromString(body).public_key
        self.server.asked.append((self.path, node))
        if self.path in self.server.refusals:
            status, told = self.server.refusals[self.path]
            self._answer(status, json.dumps(told).encode(), "application/json")
        elif self.path == ACTIVATE:
            reply = ActivateNodeResponse(node_id=NODE)
            self._answer(200, reply.SerializeToString(), "application/protobuf")
        elif self.path == HEARTBEAT:
            beat = SendNodeHeartbeatResponse(success=True)
            self._answer(200, beat.SerializeToString(), "application/protobuf")
        else:
            gone = DeactivateNodeResponse()  # without fields, as a mailbox without messages
            self._answer(200, gone.SerializeToString(), "application/protobuf")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@contextmanager
def serving(place: CoordinatorPlace) -> Iterator[Server]:
    with Server(place) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield server
        server.shutdown()
