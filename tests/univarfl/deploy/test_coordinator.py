"""A coordinator's checks before it starts Flower's programs."""

import socket
from pathlib import Path

import pytest

from task.errors import ConfigError, RunError
from tests.machines import COORDINATOR, Machines, until
from tests.processes import end
from univarfl.deploy.coordinator import CoordinatorServices, refuse_taken_port
from univarfl.deploy.exclusive import hold_alone
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace
from univarfl.flower.programs import free_ports


def test_a_port_in_use_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port={port}: is in use; if no coord"):
            refuse_taken_port("127.0.0.1", port)
    refuse_taken_port("127.0.0.1", port)


def test_another_machines_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--listen=192\.0\.2\.1: this machine cannot listen"):
        refuse_taken_port("192.0.2.1", 8000)


def test_a_second_coordinator_with_the_directory_writes_nothing(tmp_path: Path) -> None:
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["localhost"])
    with hold_alone(place.lock, "held"):
        with pytest.raises(RunError, match=r"a coordinator runs already with the directory .*f; "):
            CoordinatorServices(place, "127.0.0.1", *free_ports(2)).__enter__()
        assert not place.connection.exists()
        assert not place.superlink_log.exists()


@pytest.mark.slow
def test_two_coordinators_and_two_gates_with_one_directory(tmp_path: Path) -> None:
    machines = Machines(tmp_path / "machines", {})
    machines.apart = False
    with machines:
        machines.coordinate()
        connection = (machines.federation / "flower" / "config.toml").read_text()
        port, internal = map(str, free_ports(2))
        ports = ["--port", port, "--internal-port", internal]
        for command, said in (
            ("coordinator", "a coordinator runs already with the directory"),
            ("gate", "a gate runs already with the directory"),
        ):
            second = machines.deploy(COORDINATOR, command, "federation", *ports, check=False)
            assert second.returncode == 1
            assert said in second.stderr
        assert (machines.federation / "flower" / "config.toml").read_text() == connection
        end([machines.processes.pop(COORDINATOR)])
        machines.coordinate()  # the lock is free again
        machines.kill(COORDINATOR)
        until(lambda: starts(machines), "a start after the coordinator was killed")


def starts(machines: Machines) -> bool:
    """Start the coordinator; return whether it is ready."""
    machines.port, machines.internal_port = free_ports(2)
    log = machines.start(
        COORDINATOR, "coordinator", "federation", "--port", str(machines.port),
        "--internal-port", str(machines.internal_port), log="again",
    )  # fmt: skip
    process = machines.processes["again"]
    before = log.read_text().count("SuperLink ready")
    until(
        lambda: process.poll() is not None or log.read_text().count("SuperLink ready") > before,
        "an end or a start",
    )
    return process.poll() is None
