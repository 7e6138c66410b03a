"""The gate's own process with TLS, in front of a small server in the SuperLink's place."""

import http.client
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.error import FlowerError

from tests.machines import until
from tests.univarfl.deploy.gate.requests_to import (
    TYPE,
    head,
    refusals,
    signed,
)
from tests.univarfl.deploy.gate.scene import FLEET, PULL, PUSH, Scene, running
from tests.univarfl.deploy.gate.tables import SuperLink
from tests.univarfl.deploy.gate.upstream import Upstream
from univarfl.deploy.gate.authentication import CLOCK_DIFFERS, KEY_REVOKED, NOT_REGISTERED
from univarfl.deploy.gate.holding import ASK_SECONDS, HELD_SECONDS
from univarfl.deploy.gate.limits import SITE_CONCURRENT
from univarfl.deploy.gate.log import FILE_BYTES, OLD_FILES
from univarfl.deploy.gate.requests import (
    LARGEST_ANNOUNCEMENT,
    LARGEST_REQUEST,
    PULL_MESSAGES,
    PUSH_MESSAGES,
    ROUTES,
)


def announcement(**changed: Any) -> bytes:
    """Return a body that announces a reply of node 5 to the SuperLink, with changed metadata."""
    told: dict[str, Any] = {
        "message_id": "own", "reply_to_message_id": "asked", "src_node_id": 5,
        "dst_node_id": SUPERLINK_NODE_ID,
    }  # fmt: skip
    body: bytes = PushMessagesRequest(
        node=Node(node_id=5),
        messages_list=[Message(metadata=Metadata(**told | changed))],
        message_object_trees=[ObjectTree(object_id="own")],
    ).SerializeToString()
    return body


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("gate"))
    with running(scene):
        yield scene
        assert "Traceback" not in scene.place.gate_log.read_text()


@pytest.fixture
def upstream(scene: Scene) -> Iterator[Upstream]:
    with Upstream(scene.place, scene.internal_port) as upstream:
        yield upstream


@pytest.mark.parametrize("route", sorted(ROUTES - {PULL_MESSAGES}))
def test_a_sites_request_is_forwarded_with_the_headers_that_flower_needs(
    scene: Scene, upstream: Upstream, route: str
) -> None:
    answer = (200, {b"content-type": b"application/protobuf", b"set-cookie": b"x"}, b"answer")
    upstream.answers[FLEET + route].append(answer)
    sent = scene.north(**{"x-forwarded-for": "1.2.3.4", "cookie": "x", "flwr-package-name": "flwr"})
    content = announcement() if route == PUSH_MESSAGES else b"body"
    reply = scene.client.send(FLEET + route, sent, content)
    assert (reply.status, reply.body) == (200, b"answer")
    assert {name.lower() for name in reply.headers} == {"date", "content-length", "content-type"}
    ((path, headers, body),) = upstream.received
    assert (path, body) == (FLEET + route, content)
    assert {name.decode() for name in headers} == {
        "host", "connection", "accept", "accept-encoding", "user-agent", "content-type",
        "content-length", "flwr-public-key", "flwr-timestamp", "flwr-signature",
        "flwr-package-name",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/control/list-runs", 404),
        ("/v1/fleet/../control/list-runs", 404),
        ("/v1/fleet/%2e%2e/control/list-runs", 404),
        ("/v1/fleet/%70ull-messages", 404),
        ("/v1/fleet//pull-messages", 404),
        ("//v1/fleet/pull-messages", 404),
        ("/v1/fleet/pull-messages/", 404),
        ("/v1/fleet/pull-messages;x", 404),
        ("/v1/fleet/pull-messages?x=/v1/control", 404),
        ("/v1/fleet/pull-messages#x", 404),
        ("/V1/FLEET/PULL-MESSAGES", 404),
        ("/v1/fleet/pull-messages%00", 404),
        ("\\v1\\fleet\\pull-messages", 404),
        ("https://127.0.0.1/v1/fleet/pull-messages", 404),
        ("*", 404),
        ("/docs", 404),
        ("/health/", 404),
        ("/health", 405),
    ],
)
def test_any_other_path_is_refused_with_a_line(
    scene: Scene, upstream: Upstream, path: str, status: int
) -> None:
    before = len(refusals(scene.place))
    request = head(path, {**scene.north(), "content-length": "0"})
    assert scene.client.send_bytes(request) == [status]
    (line,) = refusals(scene.place)[before:]
    shown = path.replace("\\", "\\\\")
    assert "127.0.0.1:" in line
    assert f" site=- POST {shown} {status}: " in line
    assert upstream.received == []


@pytest.mark.parametrize(
    ("changed", "method", "status"),
    [
        ({}, "GET", 405),
        ({}, "PUT", 405),
        ({"transfer-encoding": "chunked"}, "POST", 411),
        ({"transfer-encoding": "chunked", "content-length": "4"}, "POST", 411),
        ({"transfer-encoding": "identity"}, "POST", 400),
        ({"content-length": str(LARGEST_REQUEST + 1)}, "POST", 413),
        ({"content-length": "9" * 12}, "POST", 413),
        ({"content-length": "9" * 19}, "POST", 400),
        ({"content-length": "-1"}, "POST", 400),
        ({"content-length": "4", "content-encoding": "gzip"}, "POST", 415),
        ({"content-length": "4", "content-type": "application/json"}, "POST", 415),
        ({"content-length": "4\r\ncontent-length: 5"}, "POST", 400),
        ({"content-length": "4", "x": "a\r\n b"}, "POST", 200),
        ({"content-length": "4", "flwr-timestamp": "x\r\nflwr-timestamp: y"}, "POST", 401),
        ({"content-length": "4", "upgrade": "h2c", "connection": "upgrade, close"}, "POST", 200),
        ({"content-length ": "4"}, "POST", 400),
    ],
)  # fmt: skip
def test_a_request_of_another_form_is_refused_before_its_body_is_read(
    scene: Scene, upstream: Upstream, changed: dict[str, str], method: str, status: int
) -> None:
    """The body is a request of its own, which a proxy that miscounts would pass on."""
    before = len(refusals(scene.place))
    inner = head("/v1/control/list-runs", {**TYPE, "content-length": "0"})
    body = b"0\r\n\r\n" + inner if "transfer-encoding" in changed else b"four"
    request = head(PUSH, {**scene.north(), **changed}, method)
    assert scene.client.send_bytes(request + body)[0] == status
    assert upstream.paths() == ([PUSH] if status == 200 else [])
    assert len(refusals(scene.place)) == before + (status != 200)


def test_a_message_without_its_arrays_is_short(scene: Scene, upstream: Upstream) -> None:
    """The SuperLink lists what a message announces, while nobody else can write."""
    request = head(
        FLEET + PUSH_MESSAGES,
        {**scene.north(), "content-length": str(LARGEST_ANNOUNCEMENT + 1)},
    )
    assert scene.client.send_bytes(request)[0] == 413
    assert upstream.paths() == []


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"reply_to_message_id": ""}, 403),
        ({"dst_node_id": 9}, 403),
        ({"src_node_id": SUPERLINK_NODE_ID}, 403),
        ({"message_id": "another"}, 400),
    ],
)
def test_a_site_may_announce_replies_alone(
    changed: dict[str, Any], status: int, scene: Scene, upstream: Upstream
) -> None:
    """Flower would deliver another message to any site as the coordinator's."""
    body = announcement(**changed)
    assert scene.client.send(FLEET + PUSH_MESSAGES, scene.north(), body).status == status
    assert upstream.paths() == []


@pytest.mark.parametrize("body", [b"\xff", b"", announcement() * 2])
def test_an_announcement_has_one_message(body: bytes, scene: Scene, upstream: Upstream) -> None:
    assert scene.client.send(FLEET + PUSH_MESSAGES, scene.north(), body).status == 400
    assert upstream.paths() == []


@pytest.mark.parametrize("path", [PUSH, "/health"])
def test_a_long_head_is_refused(path: str, scene: Scene, upstream: Upstream) -> None:
    before = len(refusals(scene.place))
    assert scene.client.send_bytes(head(path, scene.north(x="y" * 17_000))) == [431]
    assert "more than 16384 bytes" in refusals(scene.place)[before]
    assert upstream.received == []


def test_a_head_without_an_end_ends_the_connection(scene: Scene, upstream: Upstream) -> None:
    before = len(refusals(scene.place))
    request = head(PUSH, scene.north(x="y" * 400_000)).removesuffix(b"\r\n")
    assert set(scene.client.send_bytes(request)) <= {400}
    assert refusals(scene.place)[before].endswith("400: not a request in HTTP/1.1")
    assert upstream.received == []


def test_a_body_that_is_no_http_ends_the_connection(scene: Scene, upstream: Upstream) -> None:
    chunked = head(PUSH, scene.north(**{"transfer-encoding": "chunked"}), last=False)
    assert set(scene.client.send_bytes(chunked + b"no length\r\n")) <= {400, 411}
    good = head(PUSH, {**scene.north(), "content-length": "4"}, last=False) + b"four"
    assert set(scene.client.send_bytes(good + b"no head\r\n\r\n")) <= {200, 400}
    upstream.delay = 0.5
    good = head(PUSH, {**scene.north(), "content-length": "4"}, last=False) + b"four"
    assert set(scene.client.send_bytes(good + b"no head\r\n\r\n")) <= {200, 400}


def test_pipelined_requests_are_judged_one_by_one(scene: Scene, upstream: Upstream) -> None:
    good, better = (
        head(PUSH, {**scene.north(), "content-length": "4"}, last=last) + b"four"
        for last in (False, True)
    )
    bad = head("/v1/control/list-runs", {**TYPE, "content-length": "0"}, last=False)
    assert scene.client.send_bytes(good + bad + better) == [200, 404, 200]
    assert upstream.paths() == [PUSH, PUSH]


@pytest.mark.parametrize(
    ("who", "late", "code", "said"),
    [
        ("stranger", 0.0, NOT_REGISTERED, "does not know this key"),
        ("north", 7200.0, CLOCK_DIFFERS, "the clocks differ: this request was signed at 20"),
        ("north", -60.0, CLOCK_DIFFERS, "the clocks differ"),
        ("north", 360.0, CLOCK_DIFFERS, "the clocks differ"),
        ("north", 250.0, 0, ""),
    ],
)
def test_a_refused_site_is_told_why_in_flowers_form(
    scene: Scene, upstream: Upstream, who: str, late: float, code: int, said: str
) -> None:
    key = scene.keys.get(who, scene.stranger)
    for route, status in (("activate-node", 412), ("send-node-heartbeat", 401)):
        reply = scene.client.send(FLEET + route, {**TYPE, **signed(key, late)})
        assert reply.status == (status if code else 200)
        error = FlowerError.from_json(reply.body.decode())
        assert (error.code if error else 0) == code
        assert said in (error.message if error else "")
    assert len(upstream.paths()) == (0 if code else 2)


def test_a_wrong_signature_and_headers_of_another_form(scene: Scene, upstream: Upstream) -> None:
    mixed = {**scene.north(), "flwr-signature": scene.north()["flwr-signature"]}
    for changed in (
        mixed,
        {**TYPE},
        scene.north(**{"flwr-public-key": "not base64!"}),
        scene.north(**{"flwr-signature": "AAAA"}),
        scene.north(**{"flwr-timestamp": "2026-01-01T00:00:00"}),
        scene.north(**{"flwr-timestamp": "9" * 5000}),
        scene.north(**{"flwr-timestamp": "\xff"}),
    ):
        assert scene.client.send(PUSH, changed).status == 401
    assert upstream.paths() == []


def test_an_authentication_serves_once(scene: Scene, upstream: Upstream) -> None:
    sent = scene.north()
    assert scene.client.send(PUSH, sent, b"first").status == 200
    reply = scene.client.send(FLEET + "push-messages", sent, b"second")
    assert (reply.status, reply.told["detail"]) == (503, "this authentication was used before")
    assert upstream.paths() == [PUSH]
    assert " site=north POST /v1/fleet/push-messages 503: " in refusals(scene.place)[-1]


def test_no_header_and_no_body_is_in_the_log(scene: Scene) -> None:
    sent = scene.north(secret="in-a-header")
    scene.client.send("/v1/control/" + "x" * 500, sent, b"in-a-body")
    text = scene.place.gate_log.read_text()
    assert text.splitlines()[-1].endswith("x... 404: no route of the gate")
    for hidden in ("in-a-header", "in-a-body", sent["flwr-signature"], sent["flwr-public-key"]):
        assert hidden not in text


def test_a_line_cannot_be_forged(scene: Scene) -> None:
    before = len(refusals(scene.place))
    scene.client.send_bytes(b"GET /a\x1b[2J\xff HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    scene.client.send_bytes(
        b"GET /\xc2\x85\xe2\x80\xa8 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    lines = refusals(scene.place)[before:]
    assert len(lines) == 2
    assert all(line.isprintable() and line.isascii() for line in lines)


def test_a_redirect_and_an_answer_that_is_too_large_are_not_passed_on(
    scene: Scene, upstream: Upstream
) -> None:
    to_control = {b"location": b"/v1/control/list-runs"}
    upstream.answers[PUSH] = [(307, to_control, b""), (200, {}, b"x" * (64 * 2**20 + 1))]
    for _ in range(2):
        assert scene.client.send(PUSH, scene.north()).status == 502
    assert upstream.paths() == [PUSH, PUSH]


def test_a_large_body_and_a_large_answer_pass(scene: Scene, upstream: Upstream) -> None:
    upstream.answers[PUSH] = [(200, {}, bytes(LARGEST_REQUEST))]
    reply = scene.client.send(PUSH, scene.north(), b"x" * LARGEST_REQUEST)
    assert reply.body == bytes(LARGEST_REQUEST)
    assert len(upstream.received[0][2]) == LARGEST_REQUEST


def test_health_tells_the_time_while_the_superlink_answers(scene: Scene) -> None:
    until(lambda: scene.client.send("/health", {}, method="GET").status == 503, "no SuperLink")
    assert scene.client.send(PUSH, scene.north()).status == 502
    with Upstream(scene.place, scene.internal_port):
        until(lambda: scene.client.send("/health", {}, method="GET").status == 200, "a SuperLink")
        told = scene.client.send("/health", {}, method="GET").told
        assert list(told) == ["time"]
        assert str(told["time"]).endswith("+00:00")


def test_a_request_for_messages_is_held_until_there_is_one(
    scene: Scene, upstream: Upstream
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(scene.client.send, PULL, scene.north(), b"node")
        until(lambda: len(upstream.paths()) > 1, "questions")
        upstream.answers[PULL].append((200, {}, b"message"))
        assert waiting.result(HELD_SECONDS).body == b"message"
    assert {body for _, _, body in upstream.received} == {b"node"}
    scene.client.send(FLEET + "get-run", scene.north())
    upstream.answers[PULL].append((403, {}, b"{}"))
    assert scene.client.send(PULL, scene.north()).status == 403


def test_the_superlink_is_asked_once_in_a_while_and_as_soon_as_it_has_a_message(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)  # with a database of its own
    with running(scene), Upstream(scene.place, scene.internal_port) as upstream:
        ask_for_a_message(scene, upstream)


def ask_for_a_message(scene: Scene, upstream: Upstream) -> None:
    superlink = SuperLink(scene.place.database)
    key = scene.keys["north"].public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    superlink.add(pem)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(scene.client.send, PULL, scene.north())
        until(upstream.paths, "the first question")
        time.sleep(ASK_SECONDS / 5)
        assert len(upstream.paths()) == 1
        for object_id in superlink.push(pem):
            superlink.send(object_id)
        until(lambda: len(upstream.paths()) > 1, "a question for the message", ASK_SECONDS / 2)
        upstream.answers[PULL].append((200, {}, b"message"))
        assert waiting.result(HELD_SECONDS).body == b"message"


def test_nothing_is_asked_for_a_client_that_has_gone(scene: Scene, upstream: Upstream) -> None:
    with scene.client.connected() as tls:
        tls.sendall(head(PULL, {**scene.north(), "content-length": "0"}))
        until(upstream.paths, "the question")
    time.sleep(0.5)  # the gate notices the end of the connection
    asked = len(upstream.paths())
    time.sleep(1.5)
    assert len(upstream.paths()) == asked


def test_a_message_is_kept_until_the_site_acts_on_it(scene: Scene, upstream: Upstream) -> None:
    upstream.answers[PULL].append((200, {}, b"message"))
    upstream.delay = 0.5
    with scene.client.connected() as tls:
        tls.sendall(head(PULL, {**scene.north(), "content-length": "0"}))
        until(upstream.paths, "the question")
    upstream.delay = 0.0
    until(lambda: not upstream.answers[PULL], "the answer")
    for _ in range(2):
        assert scene.client.send(PULL, scene.north()).body == b"message"
    assert scene.client.send(FLEET + "send-node-heartbeat", scene.north()).status == 200
    assert scene.client.send(PULL, scene.north()).body == b"message"
    assert scene.client.send(FLEET + "get-run", scene.north()).status == 200
    upstream.answers[PULL].append((200, {}, b"next"))
    assert scene.client.send(PULL, scene.north()).body == b"next"
    scene.client.send(FLEET + "deactivate-node", scene.north())


def test_a_key_that_is_removed_is_refused_at_once(scene: Scene, upstream: Upstream) -> None:
    path = scene.place.sites / "south.pub"
    held = {**TYPE, **signed(scene.keys["south"])}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(scene.client.send, PULL, held)
        until(upstream.paths, "the question")
        (scene.place.sites / "revoked").mkdir()
        path.rename(scene.place.sites / "revoked" / "south.pub")
        reply = waiting.result(HELD_SECONDS)
    assert (reply.status, reply.told["code"]) == (401, KEY_REVOKED)
    again = scene.client.send(PUSH, {**TYPE, **signed(scene.keys["south"])})
    assert (again.status, again.told["code"]) == (401, KEY_REVOKED)
    shutil.move(scene.place.sites / "revoked" / "south.pub", path)
    until(
        lambda: scene.client.send(PUSH, {**TYPE, **signed(scene.keys["south"])}).status == 200,
        "the key's return",
    )


def test_a_key_that_is_removed_while_a_body_arrives_is_refused(
    scene: Scene, upstream: Upstream
) -> None:
    path = scene.place.sites / "south.pub"
    kept = path.read_bytes()
    with scene.client.connected() as tls:
        fields = {**TYPE, **signed(scene.keys["south"]), "content-length": "4"}
        tls.sendall(head(PUSH, fields) + b"bo")
        time.sleep(1)  # the gate has read the head
        path.unlink()
        until(
            lambda: scene.client.send(PUSH, {**TYPE, **signed(scene.keys["south"])}).status == 401,
            "the key's end",
        )
        asked = len(upstream.paths())
        tls.sendall(b"dy")
        assert tls.recv(65536).startswith(b"HTTP/1.1 401 ")
    assert len(upstream.paths()) == asked
    path.write_bytes(kept)
    until(
        lambda: scene.client.send(PUSH, {**TYPE, **signed(scene.keys["south"])}).status == 200,
        "the key's return",
    )


def test_a_site_cannot_take_all_places(scene: Scene, upstream: Upstream) -> None:
    held = SITE_CONCURRENT
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(scene.client.send(PULL, scene.north()).status)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(held)]
    for thread in threads:
        thread.start()
    until(
        lambda: len({headers[b"flwr-timestamp"] for _, headers, _ in upstream.received}) == held,
        "all",
    )
    reply = scene.client.send(PUSH, scene.north())
    assert (reply.status, reply.told["detail"]) == (503, f"more than {held} requests at a time")
    other = scene.client.send(PUSH, {**TYPE, **signed(scene.keys["south"])})
    assert other.status == 200
    upstream.answers[PULL] += [(200, {}, b"message")] * held
    for thread in threads:
        thread.join(HELD_SECONDS)
    assert statuses == [200] * held


def test_no_tls_and_another_authority(scene: Scene) -> None:
    plain = http.client.HTTPConnection(scene.client.host, scene.client.port, timeout=10)
    plain.request("GET", "/health")
    with pytest.raises((OSError, http.client.HTTPException)):
        plain.getresponse()
    assert scene.client.send("/health", {}, method="GET").status in (200, 503)


def test_a_flood_of_refusals_cannot_fill_the_disk(tmp_path: Path) -> None:
    flood = (
        "from univarfl.deploy.gate.log import open_log, refusals\n"
        "from pathlib import Path\n"
        f"open_log(Path({str(tmp_path / 'gate.log')!r}))\n"
        "for number in range(30_000): refusals.warning('x' * 1000)\n"
    )
    subprocess.run([sys.executable, "-c", flood], check=True)
    kept = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert OLD_FILES * FILE_BYTES < kept <= (OLD_FILES + 1) * FILE_BYTES
