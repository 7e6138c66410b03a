"""A coordinator's checks before it starts Flower's programs."""

import socket

import pytest

from server_app.deploy.coordinator import refuse_taken_port
from task.errors import ConfigError


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
