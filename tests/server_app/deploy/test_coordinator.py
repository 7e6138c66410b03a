"""A coordinator's checks before it starts Flower's programs."""

import socket
from pathlib import Path

import pytest

from server_app.deploy.coordinator import public_key, refuse_taken_port
from server_app.deploy.keys import make_site
from server_app.deploy.places import SitePlace
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


def test_a_public_keys_comment_is_ignored(tmp_path: Path) -> None:
    place = SitePlace(tmp_path / "a")
    make_site(place, "a", tmp_path)
    first, copy, junk = place.public_key("a"), tmp_path / "copy.pub", tmp_path / "junk.pub"
    copy.write_text(" ".join(first.read_text().split()[:2]) + " another comment\n")
    junk.write_text("no key")
    assert public_key(first) == public_key(copy) != b""
    assert public_key(junk) == public_key(tmp_path / "none.pub") == b""
