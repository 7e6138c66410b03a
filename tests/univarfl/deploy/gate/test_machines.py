"""A second machine with a site's key is refused while the first one sends requests."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.univarfl.deploy.gate.requests_to import (
    TYPE,
    head,
    refusals,
    signed,
)
from tests.univarfl.deploy.gate.scene import FLEET, PULL, PUSH, Scene, running
from tests.univarfl.deploy.gate.upstream import Upstream
from univarfl.deploy.gate.authentication import Caller
from univarfl.deploy.gate.callers import machines
from univarfl.deploy.gate.callers.machines import ALIVE_SECONDS, KEY_IN_USE, Machines
from univarfl.deploy.gate.callers.memory import AHEAD_SECONDS, Memory
from univarfl.deploy.gate.callers.sites import RegisteredKey
from univarfl.deploy.gate.requests import Head, RefusedError
from univarfl.deploy.joining.machine import machine_name
from univarfl.deploy.membership.doubles import Doubles
from univarfl.deploy.membership.registry import accept_rotation, former_keys, usable_keys

FIRST, SECOND = {"univarfl-machine": "1" * 32}, {"univarfl-machine": "2" * 32}
PLAIN: dict[str, str] = {}  # a flower-supernode that univarfl did not start


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    with Upstream(scene.place, scene.internal_port) as scene.upstream:
        yield scene


def signed_later(scene: Scene, **more: str) -> dict[str, str]:
    """Return headers that a gate takes at once after a restart.

    It refuses timestamps up to a second after the last one that it knows from before.
    """
    return {**TYPE, **signed(scene.keys["north"], late=-2 * AHEAD_SECONDS), **more}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FIRST, SECOND),
        pytest.param(PLAIN, SECOND, marks=pytest.mark.slow),
        pytest.param(FIRST, PLAIN, marks=pytest.mark.slow),
    ],
)
def test_all_three_are_told_of_a_second_machine(
    scene: Scene, first: dict[str, str], second: dict[str, str]
) -> None:
    doubles = Doubles(scene.place)
    with running(scene):
        assert scene.client.send(PUSH, scene.north(**first)).status == 200
        assert doubles.update() == []
        for route, status in (
            ("activate-node", 412), ("deactivate-node", 412), ("send-node-heartbeat", 401),
            ("pull-messages", 401), ("push-messages", 401), ("unregister-node", 401),
        ):  # fmt: skip
            reply = scene.client.send(FLEET + route, scene.north(**second))
            assert (reply.status, reply.told["code"]) == (status, KEY_IN_USE)
            assert "at 127.0.0.1, uses the key of site north" in str(reply.told["detail"])
        assert "uses the key of site north" in refusals(scene.place)[-1]
        told = scene.client.send(PUSH, scene.north(**first))
        assert told.status == 200
        notice = {name.lower(): value for name, value in told.headers.items()}["univarfl-notice"]
        assert "another machine or directory, at 127.0.0.1, asks with the key" in notice
        other = scene.client.send(PUSH, {**TYPE, **signed(scene.keys["south"]), **second})
        assert other.status == 200
        assert "univarfl-notice" not in {name.lower() for name in other.headers}
    (line,) = doubles.update()
    assert "use the key of site north: the one at 127.0.0.1 takes part" in line
    assert f"univarfl deploy revoke {scene.place.directory} north" in line
    assert doubles.update() == []
    with running(scene):  # also after a restart
        assert scene.client.send(PUSH, signed_later(scene, **second)).status == 401
        assert scene.client.send(PUSH, signed_later(scene, **first)).status == 200


def test_a_used_authentication_is_refused_after_a_restart_of_the_gate(scene: Scene) -> None:
    headers = [scene.north(), {**TYPE, **signed(scene.keys["north"], late=200.0)}, scene.north()]
    slow = {**TYPE, **signed(scene.keys["south"], late=250.0)}  # its clock is behind
    with running(scene):
        for sent in (*headers, slow):
            assert scene.client.send(PUSH, sent).status == 200
    asked = len(scene.upstream.paths())
    with running(scene):
        for sent in (*headers, slow):
            reply = scene.client.send(PULL, sent)
            assert (reply.status, reply.told["detail"]) == (
                503, "this authentication was used before",
            )  # fmt: skip
        assert len(scene.upstream.paths()) == asked
        assert scene.client.send(PUSH, signed_later(scene)).status == 200
        slow = {**TYPE, **signed(scene.keys["south"], late=245.0)}
        assert scene.client.send(PUSH, slow).status == 200


def test_a_damaged_memory_and_one_that_cannot_be_written(scene: Scene) -> None:
    scene.place.gate_memory.write_text('{"x": 5')
    with running(scene):
        assert scene.client.send(PUSH, scene.north()).status == 200
    assert scene.place.gate_memory.read_text().startswith('{\n "')
    scene.place.gate_memory.unlink()
    scene.place.gate_memory.mkdir()
    with running(scene):
        assert scene.client.send(PUSH, scene.north()).status == 200
    assert any("gate.json cannot be written" in line for line in refusals(scene.place))


def test_a_machine_has_one_name_of_32_digits(scene: Scene) -> None:
    with running(scene):
        for value in ("x", "1" * 31, "1" * 33, "A" * 32):
            fields = scene.north(**{"univarfl-machine": value, "content-length": "0"})
            assert scene.client.send_bytes(head(PUSH, fields)) == [400]
        twice = scene.north(**FIRST, **{"Univarfl-Machine": "2" * 32, "content-length": "0"})
        assert scene.client.send_bytes(head(PUSH, twice)) == [400]
        assert scene.upstream.paths() == []


def test_a_machine_that_is_silent_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1e9
    monkeypatch.setattr(machines, "time", SimpleNamespace(time=lambda: now))
    monkeypatch.setattr(
        "univarfl.deploy.gate.callers.memory.time", SimpleNamespace(time=lambda: now)
    )
    caller = Caller(RegisteredKey("north", b"pem", None), 0.0, now)  # type: ignore[arg-type]
    first, second = (Head("get-run", 0, (b"", b"", b""), (), each * 32) for each in "12")
    kept = Machines(Memory(tmp_path / "gate.json"))
    kept.require_only(caller, first, "10.0.0.1")
    now += ALIVE_SECONDS - 1
    with pytest.raises(RefusedError, match=r"at 10\.0\.0\.1, uses the key of site north"):
        kept.require_only(caller, second, "10.0.0.2")
    assert "at 10.0.0.2, asks with the key of site north" in kept.notice(caller)
    now += 1
    kept.require_only(caller, second, "10.0.0.2")
    assert kept.notice(caller) == ""
    with pytest.raises(RefusedError, match=r"at 10\.0\.0\.2, uses"):
        kept.require_only(caller, first, "10.0.0.1")


def test_a_copy_of_a_directory_has_another_name(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    name = machine_name(site)
    assert len(name) == 32
    assert machine_name(site) == name
    shutil.copytree(site, tmp_path / "copy")
    assert machine_name(tmp_path / "copy") != name
    site.rename(tmp_path / "moved")

    assert machine_name(tmp_path / "moved") == name


def test_a_pipe_or_a_device_among_the_keys_stops_nobody(scene: Scene) -> None:
    os.mkfifo(scene.place.sites / "pipe.pub")
    (scene.place.sites / "device.pub").symlink_to("/dev/zero")
    scene.place.revoked.mkdir()
    os.mkfifo(scene.place.revoked / "pipe.pub")
    os.mkfifo(scene.place.sites / "east.rotation")
    with running(scene):
        assert scene.client.send(PUSH, scene.north()).status == 200
    keys, lines = usable_keys(scene.place)
    assert sorted(path.stem for path in keys) == ["north", "south"]
    assert all("it is not a regular file" in line for line in lines.values())
    assert len(lines) == 2
    assert former_keys(scene.place) == {}
    line = accept_rotation(scene.place, [], scene.place.sites / "east.rotation")
    assert "it is not a regular file" in line
