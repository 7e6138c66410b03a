"""What ``univarfl deploy`` prints instead of starting programs."""

import shlex
from pathlib import Path

import pytest

from task.errors import ConfigError
from univarfl.cli.deploy.application import coordinator
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace


@pytest.fixture
def place(tmp_path: Path) -> CoordinatorPlace:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["localhost"])
    return place


def test_the_coordinators_two_commands(
    place: CoordinatorPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator(place.directory, "10.0.0.1", 9000, None, printed=True)
    superlink, gate = map(shlex.split, capsys.readouterr().out.splitlines())
    assert superlink[0] == "flower-superlink"
    assert superlink[-4:] == ["--host", "127.0.0.1", "--port", "9001"]
    assert gate == [
        "univarfl", "deploy", "gate", str(place.directory),
        "--listen", "10.0.0.1", "--port", "9000", "--internal-port", "9001",
    ]  # fmt: skip


def test_the_coordinators_unit_runs_both(
    place: CoordinatorPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator(place.directory, "0.0.0.0", 9000, 9100, systemd=True)
    text = capsys.readouterr().out
    assert "coordinator" in text
    assert "--port 9000 --internal-port 9100" in text


@pytest.mark.parametrize("internal", [9000, 0, 65536])
def test_the_internal_port_must_be_another_port(place: CoordinatorPlace, internal: int) -> None:
    with pytest.raises(ConfigError, match=f"--internal-port={internal}: must "):
        coordinator(place.directory, "0.0.0.0", 9000, internal, printed=True)
