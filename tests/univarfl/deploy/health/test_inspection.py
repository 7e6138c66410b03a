"""The checks that a site makes before it joins, against real servers."""

import http.server
import json
import re
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from task.fingerprint import fingerprint
from tests.task.data import making
from univarfl.deploy.health.inspection import Inspection
from univarfl.deploy.joining.reach import UnreachableError, require_coordinator
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace, SitePlace
from univarfl.deploy.site_keys import make_site
from univarfl.flower.health import health
from univarfl.flower.programs import environment

WORDS = ("data=folder", "data.image_size=32", "partition=sites", "partition.names=[clinic]")


class Healthy(http.server.BaseHTTPRequestHandler):
    """A SuperLink whose clock is ahead, and perhaps with a gate, which tells the time."""

    ahead = timedelta(0)
    gate = False

    def do_GET(self) -> None:
        now = datetime.now(tz=UTC) + self.ahead
        self.send_response(200)
        self.end_headers()
        if self.gate:
            self.wfile.write(json.dumps({"time": now.isoformat()}).encode())

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(time.time() + self.ahead.total_seconds())

    def log_message(self, *words: object) -> None:
        pass


def serving(place: CoordinatorPlace | None, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve with a coordinator's certificate, or without TLS; yield the address."""
    server = http.server.ThreadingHTTPServer((host, 0), Healthy)
    if place:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place.certificate, place.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"{host}:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> CoordinatorPlace:
    place = CoordinatorPlace(tmp_path_factory.mktemp("f"))
    make_coordinator(place, ["localhost"])
    return place


@pytest.fixture(scope="module")
def address(coordinator: CoordinatorPlace) -> Iterator[str]:
    yield from serving(coordinator)


@pytest.fixture
def site(tmp_path: Path, coordinator: CoordinatorPlace) -> SitePlace:
    making.tree(tmp_path / "images", ["cat", "dog"], 6)
    place = SitePlace(tmp_path / "clinic")
    make_site(place, "clinic", tmp_path / "images")
    place.authority.write_bytes(coordinator.authority.read_bytes())
    return place


def as_directory(path: Path) -> None:
    """Put a directory in place of a file."""
    path.unlink()
    path.mkdir()


def findings(
    site: SitePlace, address: str, expect: str = "", words: tuple[str, ...] = ()
) -> dict[str, str]:
    """The failed checks' texts, by name of the check."""
    lines = list(Inspection(site, address, expect, words).lines())
    return dict(line.split(": ", 1) for passed, line in lines if not passed)


def test_a_correct_site_passes_every_check(site: SitePlace, address: str) -> None:
    words = (*WORDS, "data.classes=[cat,dog]")
    lines = list(Inspection(site, address, fingerprint()[:12], words).lines())
    assert [passed for passed, _ in lines] == [True] * 9
    assert "11 training and 1 validation images, of the classes cat, dog" in lines[-1][1]


def test_a_roster_is_shown_with_its_fingerprint(
    site: SitePlace, address: str, tmp_path: Path
) -> None:
    roster = tmp_path / "roster"
    roster.mkdir()
    with site.settings.open("a") as file:
        file.write(f'roster = "{roster}"\nrequire-secure = true\n')
    assert "must hold its own clinic.pub" in findings(site, address)["roster"]
    shutil.copy(site.public_key("clinic"), roster)
    assert "too few" in findings(site, address)["roster"]
    for name in ("lab", "ward"):
        make_site(SitePlace(tmp_path / name), name, tmp_path / "images")
        shutil.copy(tmp_path / name / f"{name}.pub", roster)
    lines = dict(text.split(": ", 1) for _, text in Inspection(site, address, "", []).lines())
    assert lines["roster"].startswith("clinic, lab, ward; each masked sum holds at least 2 of them")
    assert re.search(r"fingerprint (?:[0-9a-f]{4}-){7}[0-9a-f]{4}: compare it", lines["roster"])


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize(
    ("ahead", "message"),
    [
        (0, ""), (-250, ""),
        (60, r"0:0(0:5\d|1:0\d) ahead of it"), (-600, r"0:(09:5|10:0)\d behind it"),
        (-7200, r"(2:00:0|1:59:5)\d behind it"), (7200, r"(2:00:0|1:59:5)\d ahead of it"),
    ],
)  # fmt: skip
def test_a_site_whose_clock_flower_would_refuse(
    site: SitePlace, address: str, ahead: int, message: str, gate: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Healthy, "gate", gate)
    monkeypatch.setattr(Healthy, "ahead", -timedelta(seconds=ahead))
    found = findings(site, address)
    assert found.keys() == ({"clock"} if message else set())
    if message:
        assert re.search(message, found["clock"])
        assert "install time synchronisation" in found["clock"]


def test_another_authority(site: SitePlace, address: str, tmp_path: Path) -> None:
    other = CoordinatorPlace(tmp_path / "other")
    make_coordinator(other, ["localhost"])
    site.authority.write_bytes(other.authority.read_bytes())
    assert "ca.crt does not confirm its certificate" in findings(site, address)["coordinator"]


def test_an_address_missing_from_the_certificate(
    site: SitePlace, coordinator: CoordinatorPlace
) -> None:
    for elsewhere in serving(coordinator, "127.0.0.2"):
        found = findings(site, elsewhere)
        assert "its certificate is for other names" in found["coordinator"]
        assert health(elsewhere, site.authority, own=True).ready


def test_a_server_without_tls(site: SitePlace) -> None:
    for address in serving(None):
        assert "it does not use TLS" in findings(site, address)["coordinator"]


def test_a_proxy_is_not_used_within_a_machine(
    site: SitePlace, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "hospital.example")
    assert health(address, site.authority).ready
    direct = "hospital.example,127.0.0.1,localhost,::1"
    own = environment(Path())
    assert (own["no_proxy"], own["NO_PROXY"], own["http_proxy"]) == (
        direct, direct, "http://127.0.0.1:9",
    )  # fmt: skip


@pytest.mark.parametrize("after_tls", [False, True])
def test_a_coordinator_that_closes_the_connection_is_waited_for(
    site: SitePlace, coordinator: CoordinatorPlace, after_tls: bool
) -> None:
    """As a proxy does whose coordinator is down, and the gate if there are too many."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(coordinator.certificate, coordinator.key)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_one() -> None:
            connection, _ = server.accept()
            connection.settimeout(10)
            if after_tls:
                connection = context.wrap_socket(connection, server_side=True)
            connection.recv(10_000)
            connection.close()

        closing = threading.Thread(target=close_one)
        closing.start()
        with pytest.raises(UnreachableError):
            require_coordinator(f"127.0.0.1:{server.getsockname()[1]}", site.authority)
        closing.join()


def test_an_address_where_no_program_listens(site: SitePlace) -> None:
    found = findings(site, "127.0.0.1:1")["coordinator"]
    assert "connection refused; check that 'univarfl deploy coordinator' runs there" in found


@pytest.mark.parametrize(
    ("damage", "check", "message"),
    [
        (lambda site: site.settings.unlink(), "settings", "make it with: univarfl deploy keys"),
        (lambda site: site.settings.write_text("a = "), "settings", "is not TOML"),
        (lambda site: site.settings.write_bytes(b"\xff"), "settings", "is not TOML"),
        (lambda site: as_directory(site.settings), "settings", "is a directory"),
        (lambda site: as_directory(site.key("clinic")), "key", "cannot be used: is a directory"),
        (lambda site: as_directory(site.authority), "coordinator", "used: is a directory"),
        (lambda site: site.key("clinic").write_text("x"), "key", "is not a site's key; delete it"),
        (lambda site: site.settings.write_text("site='x'"), "settings", "data-dir: field required"),
        (lambda site: site.key("clinic").unlink(), "key", "make it with: univarfl deploy keys"),
        (lambda site: site.key("clinic").chmod(0o644), "files", "run: chmod go-rwx"),
        (lambda site: site.settings.chmod(0o666), "files", "run: chmod go-w"),
        (lambda site: site.authority.chmod(0o666), "files", "run: chmod go-w"),
        (lambda site: site.authority.unlink(), "coordinator", "ask the coordinator for their ca"),
        (lambda site: site.authority.write_text("x"), "coordinator", "is not a certificate"),
    ],
)  # fmt: skip
def test_files_that_are_missing_or_wrong(
    site: SitePlace, address: str, damage: object, check: str, message: str
) -> None:
    assert callable(damage)
    damage(site)
    found = findings(site, address)
    assert found.keys() == {check}
    assert message in found[check]


def test_decoded_images_that_others_can_open(
    site: SitePlace, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all = tmp_path / "decoded"
    open_to_all.mkdir(mode=0o755)
    monkeypatch.setenv("UNIVARFL_CACHE", str(open_to_all))
    assert f"chmod go-rwx {open_to_all}" in findings(site, address)["client state"]


def test_sites_that_check_a_shared_directory_of_decoded_images_at_once(
    site: SitePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path / "decoded"))
    with ThreadPoolExecutor(4) as sites:
        found = list(sites.map(lambda _: findings(site, "127.0.0.1:1"), range(40)))
    assert not [each for each in found if "client state" in each]
    assert not list((tmp_path / "decoded").iterdir())


def test_other_code(site: SitePlace, address: str) -> None:
    found = findings(site, address, expect="0" * 12)
    assert found.keys() == {"code"}
    assert "--expect says 000000000000; install the coordinator's version" in found["code"]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("cat,fox", "class 'dog' is not one of the experiment's classes, cat, fox"),
        ("cat", "must be at least two different names"),
    ],
)
def test_classes_that_do_not_match(
    site: SitePlace, address: str, classes: str, message: str
) -> None:
    found = findings(site, address, words=(*WORDS, f"data.classes=[{classes}]"))
    assert message in found["data"]


def test_no_images(site: SitePlace, address: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    settings = site.settings.read_text().replace(str(tmp_path / "images"), str(tmp_path / "empty"))
    site.settings.write_text(settings)
    found = findings(site, address, words=(*WORDS, "data.classes=[cat,dog]"))
    assert "contains no images" in found["data"]
