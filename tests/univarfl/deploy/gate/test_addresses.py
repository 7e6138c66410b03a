"""The gate listens on all addresses, and counts those of one network as one."""

import socket
import subprocess
from pathlib import Path

import pytest

from task.errors import ConfigError
from tests.processes import end
from tests.univarfl.deploy.gate.requests_to import Client, refusals, wait_for_gate
from tests.univarfl.deploy.gate.scene import PUSH, Scene
from univarfl.deploy.coordinator import refuse_taken_port
from univarfl.deploy.gate.connections import origin, shown
from univarfl.deploy.gate.listening import listen
from univarfl.deploy.places import ANY_IPV6, every_address

needs_ipv6 = pytest.mark.skipif(every_address() != ANY_IPV6, reason="there is no IPv6")


def has_loopback_of_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@needs_ipv6
def test_it_listens_on_ipv4_and_ipv6(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    at = scene.command.index("--listen")
    process = subprocess.Popen([*scene.command[:at], *scene.command[at + 2 :]])
    try:
        wait_for_gate(scene.client, process)
        hosts = ["127.0.0.1", *(["::1"] if has_loopback_of_ipv6() else [])]
        for host in hosts:
            client = Client(scene.place.authority, host, scene.client.port)
            client.context.check_hostname = False
            assert client.send(PUSH, scene.north()).status == 502  # there is no SuperLink
            assert f" {host}:" in refusals(scene.place)[-1]
    finally:
        end([process])


@needs_ipv6
@pytest.mark.parametrize("other", ["127.0.0.1", "::"])
def test_a_port_that_one_family_uses_is_taken(other: str) -> None:
    with listen(other, 0, 1) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="is in use"):
            refuse_taken_port(ANY_IPV6, port)


def test_what_counts_as_one_address() -> None:
    hosts = ("::ffff:10.0.0.1", "10.0.0.1", "::ffff:1", "fe80::1%eth0")
    assert list(map(shown, hosts)) == [
        "10.0.0.1", "10.0.0.1", "::ffff:1", "fe80::1%eth0",
    ]  # fmt: skip
    assert origin("10.0.0.1") == "10.0.0.1"
    assert origin("2001:db8:1:2:3:4:5:6") == origin("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert origin("2001:db8:1:3::1") != origin("2001:db8:1:2::1")
    assert origin("fe80::1%eth0") == "fe80::/64"
