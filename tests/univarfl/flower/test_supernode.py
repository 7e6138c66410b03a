"""A SuperNode's process ends with its loop and with its heartbeats; Flower's own stays."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from task.site import Site
from tests.univarfl.deploy.joining.server import HEARTBEAT, PULL, Server, serving
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace, SitePlace
from univarfl.deploy.site.processes import run_to_end
from univarfl.deploy.site_keys import make_site
from univarfl.flower import supernode

SITE = Site(name="clinic", directory="/data")
SECONDS = 300.0


@pytest.fixture
def place(tmp_path: Path) -> SitePlace:
    coordinator = CoordinatorPlace(tmp_path / "f")
    make_coordinator(coordinator, ["localhost"])
    place = SitePlace(tmp_path / "clinic")
    make_site(place, "clinic", tmp_path)
    place.authority.write_bytes(coordinator.authority.read_bytes())
    return place


@pytest.fixture
def server(place: SitePlace) -> Iterator[Server]:
    with serving(CoordinatorPlace(place.directory.parent / "f")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status"),
    [(PULL, 404), (PULL, 407), (PULL, 500), (HEARTBEAT, 404), (HEARTBEAT, 403)],
)
def test_an_answer_of_a_middlebox_ends_the_process(
    place: SitePlace, server: Server, path: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the worker beside it, as a site runs it."""
    server.refusals[path] = status, {"detail": "a page of a proxy"}
    assert run_to_end(place, SITE, server.address) == "has lost its connection to the coordinator"
    assert "joined; training starts" in capfd.readouterr().out


def program(text: str, tmp_path: Path) -> "subprocess.Popen[bytes]":
    """Start a program as a SuperNode is started; a thread of it never ends."""
    path = tmp_path / "program"
    path.write_text(
        "import sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=[9999]).start()\n" + text
    )
    return subprocess.Popen(
        [sys.executable, "-P", supernode.__file__, str(path)], stderr=subprocess.PIPE
    )


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", supernode.STOPPED, b""),
        ("sys.exit()", supernode.STOPPED, b""),
        ("sys.exit(0)", 0, b""),
        ("sys.exit(3)", 3, b""),
        ("sys.exit('why')", 1, b"why"),
        ("1 / 0", 1, b"ZeroDivisionError"),
        (
            "threading.Thread(target=lambda: 1 / 0, name='beat').start(); time.sleep(9999)",
            supernode.STOPPED, b"thread beat has ended: ZeroDivisionError",
        ),
    ],
)  # fmt: skip
def test_it_ends_with_its_loop_and_with_any_of_its_threads(
    text: str, code: int, said: bytes, tmp_path: Path
) -> None:
    process = program(text, tmp_path)
    try:
        _, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == code
    assert said in errors
