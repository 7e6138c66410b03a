"""Why a site is not let in, as told by a server with TLS that answers as SuperLink and gate do."""

import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from task.errors import RunError
from task.site import Site
from tests.forwarder import Forwarder
from tests.univarfl.deploy.joining.server import ACTIVATE, DEACTIVATE, NODE, Server, serving
from univarfl.deploy import keys
from univarfl.deploy.joining import admission
from univarfl.deploy.joining.admission import (
    NotYetError,
    request_admission,
    wait_until_admitted,
)
from univarfl.deploy.joining.reach import (
    CheckFailedError,
    UnreachableError,
    wait_for_coordinator,
)
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.membership.successor import adopt_next_key, rotate_key
from univarfl.deploy.places import CoordinatorPlace, SitePlace
from univarfl.deploy.site_keys import make_site

SUPERLINK_401: dict[str, object] = {"detail": "Invalid SuperNode authentication"}
UNKNOWN = {"code": 2004, "detail": "the coordinator does not know this key"}


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> CoordinatorPlace:
    place = CoordinatorPlace(tmp_path_factory.mktemp("f"))
    make_coordinator(place, ["localhost"])
    return place


@pytest.fixture
def server(coordinator: CoordinatorPlace) -> Iterator[Server]:
    with serving(coordinator) as server:
        yield server


SITE = Site(name="clinic", directory="/data")


@pytest.fixture
def place(tmp_path: Path, coordinator: CoordinatorPlace) -> SitePlace:
    place = SitePlace(tmp_path / "clinic")
    make_site(place, "clinic", tmp_path)
    place.authority.write_bytes(coordinator.authority.read_bytes())
    return place


def test_the_first_time_the_node_is_known_afterwards_and_counted_as_absent(
    place: SitePlace, server: Server
) -> None:
    request_admission(place, SITE, server.address)
    assert server.asked == [(ACTIVATE, 0), (DEACTIVATE, NODE)]
    assert place.node_id() == NODE


def test_the_last_node_is_counted_as_absent_at_once(place: SitePlace, server: Server) -> None:
    place.remember_node(NODE)
    request_admission(place, SITE, server.address)
    server.refusals[DEACTIVATE] = 412, {"code": 2005, "detail": "Failed to deactivate SuperNode."}
    request_admission(place, SITE, server.address)  # it said goodbye by itself
    assert server.asked == [(DEACTIVATE, NODE)] * 2


def test_a_new_database_has_other_nodes(place: SitePlace, server: Server) -> None:
    place.remember_node(5)
    server.refusals[DEACTIVATE] = 401, SUPERLINK_401
    with pytest.raises(CheckFailedError):
        request_admission(place, SITE, server.address)
    assert server.asked == [(DEACTIVATE, 5), (ACTIVATE, 0), (DEACTIVATE, NODE)]
    assert place.node_id() == NODE


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("status", "told", "kind", "message"),
    [
        (412, UNKNOWN, NotYetError, "does not know the key of site clinic.*send them .*clinic.pub"),
        (412, {"code": 2004, "detail": "Failed to activate SuperNode."}, NotYetError, "connected"),
        (412, {"code": 9001, "detail": "the clocks differ"}, CheckFailedError, "clock: the clocks"),
        (412, {"code": 9002, "detail": "revoked this key"}, CheckFailedError, "revoked this key; "),
        (401, SUPERLINK_401, CheckFailedError, "does not accept the signature of .*clinic.key"),
        (503, {"detail": "the SuperLink does not answer"}, NotYetError, "is busy: the SuperLink"),
        (404, {"detail": "Not Found"}, CheckFailedError, "HTTP 404: .*; does it run the same ver"),
    ],
)  # fmt: skip
def test_the_reason_of_a_refusal(
    place: SitePlace, server: Server, known: bool, status: int, told: dict[str, object],
    kind: type[Exception], message: str,
) -> None:  # fmt: skip
    server.refusals[ACTIVATE] = status, told
    if known:  # then the first request is another one, to which the gate gives 401
        place.remember_node(NODE)
        answer = 401 if status == 412 and told is not SUPERLINK_401 else status
        server.refusals[DEACTIVATE] = answer, told
    with pytest.raises(kind, match=message) as caught:
        request_admission(place, SITE, server.address)
    assert "\x1b" not in str(caught.value)


def test_text_from_the_coordinator_is_printable(place: SitePlace, server: Server) -> None:
    server.refusals[ACTIVATE] = 401, {"code": 5, "detail": "a\n\x1b[31mb" + 9999 * "c"}
    with pytest.raises(CheckFailedError) as caught:
        request_admission(place, SITE, server.address)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_a_wrong_clock_is_told_before_any_signature_is_sent(
    place: SitePlace, server: Server
) -> None:
    server.time = timedelta(hours=2)
    with pytest.raises(CheckFailedError, match="2:00:00 behind it; Flower allows 4 s ahead"):
        request_admission(place, SITE, server.address)
    assert server.asked == []


def test_nobody_listens(place: SitePlace) -> None:
    with pytest.raises(UnreachableError, match="connection refused; check that 'univarfl deploy"):
        request_admission(place, SITE, "127.0.0.1:1")


def test_a_host_that_does_not_exist(place: SitePlace) -> None:
    with pytest.raises(CheckFailedError, match=r"x\.invalid:8000: there is no host of that name"):
        request_admission(place, SITE, "x.invalid:8000")


def test_the_superlink_is_not_up_yet(place: SitePlace, server: Server) -> None:
    server.refusals["/health"] = 503, {}
    with pytest.raises(UnreachableError, match="its SuperLink does not answer yet"):
        request_admission(place, SITE, server.address)


def test_a_wait_says_each_reason_once(
    place: SitePlace, server: Server, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            server.refusals.clear()

    monkeypatch.setattr(time, "sleep", pause)
    server.refusals["/health"] = 503, {}
    assert wait_for_coordinator(server.address, place.authority).ready
    assert capsys.readouterr().out == (
        f"waiting: {server.address}: its SuperLink does not answer yet; trying again ...\n"
    )


def test_a_site_changes_to_its_next_key_when_the_old_one_is_refused(
    place: SitePlace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    rotate_key(place, "clinic")
    following = place.next_key("clinic").read_bytes()
    server.refusals[ACTIVATE] = 412, {"code": 9002, "detail": "revoked this key"}

    def adopt(own: SitePlace, site: str) -> bool:
        server.refusals.clear()
        return adopt_next_key(own, site)

    monkeypatch.setattr(admission, "adopt_next_key", adopt)
    wait_until_admitted(place, SITE, server.address)
    assert place.key("clinic").read_bytes() == following
    assert place.node_id() == NODE
    place.joined.unlink()
    server.refusals[ACTIVATE] = 412, {"code": 9002, "detail": "revoked this key"}
    monkeypatch.setattr(admission, "adopt_next_key", adopt_next_key)
    with pytest.raises(RunError, match="clinic is not let in: revoked this key"):
        wait_until_admitted(place, SITE, server.address)
    assert place.key("clinic").read_bytes() == following


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/health", 404, "it answers with HTTP 404"),
        ("/health", 500, "it answers with HTTP 500"),
        (ACTIVATE, 404, "HTTP 404"),
        (ACTIVATE, 403, "HTTP 403"),
        (ACTIVATE, 407, "HTTP 407"),
        (ACTIVATE, 500, "HTTP 500"),
        (ACTIVATE, 200, "the answer is not Flower's"),
        ("certificate", 0, "certificate has expired"),
        ("clock", 0, "Flower allows"),
    ],
)
def test_a_site_that_was_let_in_before_waits_for_any_end_of_a_fault(
    place: SitePlace, coordinator: CoordinatorPlace, server: Server, path: str, status: int,
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    """A middlebox, an expired certificate or a clock is mended without anybody at the site."""
    if path == "certificate":
        expired = CoordinatorPlace(tmp_path / "expired")
        expired.directory.mkdir()
        for file in (coordinator.authority, coordinator.authority_key):
            shutil.copy(file, expired.directory)
        with monkeypatch.context() as patch:
            patch.setattr(keys, "DAYS", -0.01)
            make_coordinator(expired, ["localhost"])
        server.context.load_cert_chain(expired.certificate, expired.key)
    elif path == "clock":
        server.time = timedelta(hours=2)
    else:
        server.refusals[path] = status, {"detail": "<html>a page of a proxy</html>"}
    pauses = []

    def pause(_: float) -> None:
        pauses.append(1)
        if len(pauses) == 2:
            server.refusals.clear()
            server.time = timedelta(0)
            server.context.load_cert_chain(coordinator.certificate, coordinator.key)

    monkeypatch.setattr(time, "sleep", pause)
    if status != 200:
        with pytest.raises(RunError, match=f"clinic is not let in: .*{said}"):
            wait_until_admitted(place, SITE, server.address)
    wait_until_admitted(place, SITE, server.address, again=True)
    assert len(pauses) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert said in line
    assert line.startswith("waiting: ")


def test_a_revoked_key_ends_a_site_that_was_let_in_before(place: SitePlace, server: Server) -> None:
    server.refusals[ACTIVATE] = 412, {"code": 9002, "detail": "revoked this key"}
    with pytest.raises(RunError, match="clinic is not let in: revoked this key"):
        wait_until_admitted(place, SITE, server.address, again=True)


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (502, UnreachableError, "the proxy does not reach it"),
        (503, UnreachableError, "the proxy does not reach it"),
        (407, CheckFailedError, "check HTTPS_PROXY, or add the host to NO_PROXY"),
        (403, CheckFailedError, "check HTTPS_PROXY, or add the host to NO_PROXY"),
    ],
)
def test_a_proxy_that_does_not_connect(
    place: SitePlace, status: int, kind: type[Exception], said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with Forwarder(connects=True) as proxy:
        proxy.refusal = status
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        monkeypatch.delenv("https_proxy", raising=False)
        with pytest.raises(CheckFailedError, match=said) as caught:
            request_admission(place, SITE, "fl.test:8000")
    assert type(caught.value) is kind
