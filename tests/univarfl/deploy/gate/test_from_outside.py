"""A real coordinator, attacked from another machine that has ``ca.crt`` and a site's key."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines import COORDINATOR, Machines, namespaces_allowed
from tests.univarfl.deploy.gate.requests_to import refusals
from univarfl.deploy.places import CoordinatorPlace
from univarfl.flower.programs import environment, installed_program, write_connection

ROOT = Path(__file__).parents[4]
SECONDS = 240.0
APP = """\
[project]
name = "intruder"
version = "1.0.0"
license = { text = "none" }
[tool.flwr.app]
publisher = "intruder"
[tool.flwr.app.components]
serverapp = "intruder:app"
clientapp = "intruder:app"
"""
OPERATORS = {  # Flower's commands for operators, and the route that each asks for
    "run": ["run", "app"],
    "list-runs": ["ls"],
    "stream-logs": ["log", "1"],
    "stop-run": ["stop", "1"],
    "register-node": ["supernode", "register", "north/north.pub"],
    "unregister-node": ["supernode", "unregister", "1"],
}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    if not namespaces_allowed():
        pytest.skip("network namespaces need root and iproute2")
    root = tmp_path_factory.mktemp("outside")
    with Machines(root / "machines", {"north": root}) as machines:
        machines.coordinate()
        assert machines.federation.stat().st_mode & 0o077 == 0, "it holds keys and logs"
        yield machines


def at_superlink(machines: Machines) -> list[str]:
    """Return the operators' requests that have reached the SuperLink."""
    log = (machines.federation / "superlink.log").read_text()
    return [line for line in log.splitlines() if "/v1/control/" in line]


@pytest.mark.slow
def test_flowers_commands_for_operators_are_refused(machines: Machines) -> None:
    place = CoordinatorPlace(machines.federation)
    home = machines.root / "intruder"
    (machines.root / "app").mkdir()
    (machines.root / "app" / "pyproject.toml").write_text(APP)
    (machines.root / "app" / "intruder.py").write_text("app = None\n")
    home.mkdir()
    address = f"{machines.host}:{machines.port}"
    write_connection(home, address, machines.root / "north" / "ca.crt")
    before, reached = len(refusals(place)), at_superlink(machines)
    tried = {
        route: subprocess.Popen(
            machines.on("north", [installed_program("flwr"), *words]), cwd=machines.root,
            env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for route, words in OPERATORS.items()
    }  # fmt: skip
    for route, process in tried.items():
        said, _ = process.communicate(timeout=SECONDS)
        assert process.returncode != 0, (route, said)
    lines = refusals(place)[before:]
    for route in tried:
        wanted = "start-run" if route == "run" else route
        assert any(f" POST /v1/control/{wanted} 404: " in line for line in lines), (route, lines)
    assert at_superlink(machines) == reached
    runs = subprocess.run(
        machines.on(COORDINATOR, [installed_program("flwr"), "ls", "--format", "json"]),
        env=environment(place.flower), check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(runs.stdout)["runs"] == []


@pytest.mark.slow
def test_no_route_but_the_fleets_is_reached_in_any_way(machines: Machines) -> None:
    place = CoordinatorPlace(machines.federation)
    site = machines.root / "north"
    before, reached = len(refusals(place)), at_superlink(machines)
    module = [sys.executable, "-m", "tests.univarfl.deploy.gate.outside"]
    where = [str(site / "ca.crt"), machines.host, str(machines.port), str(site / "north.key")]
    done = subprocess.run(
        machines.on("north", [*module, *where]), cwd=ROOT, env=os.environ, check=True,
        stdout=subprocess.PIPE, timeout=SECONDS,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    lines = refusals(place)[before:]

    routes = [each for each in found["routes"] if each[:2] != ["GET", "/health"]]
    assert len(routes) + 1 + found["fleet"] >= 80
    assert found["fleet"] == 12
    assert {status for _, _, status in routes} <= {404, 405}
    for method, path, status in routes:
        assert any(f" {method} {path} {status}: " in line for line in lines), path
    for path, statuses in found["odd paths"]:
        assert statuses == [404], path
        assert any(f" POST {path.replace(chr(92), chr(92) * 2)} 404: " in line for line in lines)
    for name, statuses in found["smuggled"].items():
        assert set(statuses) <= {400, 401, 404, 411}, name
    assert found["replay"][1] == 503
    assert found["replay"][0] != 503
    assert found["slow head"] > 0
    assert found["slow body"] in ([503], [])
    assert found["no handshake"] > 0
    assert found["crowd"][-1] == 503
    assert found["throng"] > 0
    assert found["health"] == 200
    for reason in (
        "no request within 20 s",
        "the body came too slowly",
        "was used before",
        "connections from one address",
        "too many connections",
    ):
        assert any(reason in line for line in lines), reason
    assert at_superlink(machines) == reached
    assert not any("Traceback" in line for line in lines)
