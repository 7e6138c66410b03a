"""Names and keys at the coordinator: registration, rotation, revocation, in Flower's own tables."""

import errno
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.superlink.federation.noop_federation_manager import NoOpFederationManager

from task.errors import ConfigError
from univarfl.deploy.keys import make_coordinator, new_key
from univarfl.deploy.membership import registry as registry_module
from univarfl.deploy.membership import revocation
from univarfl.deploy.membership.public_keys import read_public_key, ssh_text
from univarfl.deploy.membership.registry import Registry
from univarfl.deploy.membership.revocation import revoke_site
from univarfl.deploy.membership.rotation import write_rotation
from univarfl.deploy.places import CoordinatorPlace
from univarfl.flower.database import RegisteredNode, registered_nodes

OWNER = "owner"


class SuperLink:
    """Flower's own tables, changed as its commands change them."""

    def __init__(self, place: CoordinatorPlace) -> None:
        self.state = SqlLinkState(
            str(place.database), NoOpFederationManager(), InMemoryObjectStore()
        )
        self.state.initialize()
        self.running = True

    def run(self, words: Sequence[str], home: Path) -> tuple[int, str]:
        """Do what a ``flwr supernode`` command does."""
        if not self.running:
            return 1, "no SuperLink"
        if words[2] == "unregister":
            self.state.delete_node(OWNER, int(words[3]))
            return 0, ""
        key = load_ssh_public_key(Path(words[3]).read_bytes())
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.state.create_node(OWNER, OWNER, pem, 30, name=words[words.index("--name") + 1])
        return 0, ""


@pytest.fixture
def place(tmp_path: Path) -> CoordinatorPlace:
    place = CoordinatorPlace(tmp_path / "federation")
    make_coordinator(place, ["localhost"])
    return place


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Flower's tables, without rows."""
    place = CoordinatorPlace(tmp_path_factory.mktemp("tables"))
    SuperLink(place)
    return place.database


@pytest.fixture
def superlink(place: CoordinatorPlace, tables: Path, monkeypatch: pytest.MonkeyPatch) -> SuperLink:
    shutil.copy(tables, place.database)
    superlink = SuperLink(place)
    monkeypatch.setattr(registry_module, "run_to_end", superlink.run)
    monkeypatch.setattr(revocation, "require_coordinator", lambda _: None)
    return superlink


def put(place: CoordinatorPlace, name: str, key: ec.EllipticCurvePrivateKey) -> None:
    (place.sites / f"{name}.pub").write_text(f"{ssh_text(key.public_key())} a comment\n")


def active(place: CoordinatorPlace) -> list[str]:
    return sorted(node.name for node in registered_nodes(place.database) if node.active)


def test_a_database_that_is_not_there_has_no_nodes(tmp_path: Path) -> None:
    assert registered_nodes(tmp_path / "none.db") == []


def test_a_database_that_cannot_be_read_is_named_and_a_key_is_revoked_all_the_same(
    tmp_path: Path,
) -> None:
    place = CoordinatorPlace(tmp_path)
    place.sites.mkdir()
    put(place, "east", new_key())
    place.database.parent.mkdir(parents=True, exist_ok=True)
    place.database.write_text("damaged" * 1000)
    keys = Registry(place)
    (line,) = keys.update()
    assert re.search(r"state\.db cannot be used: .*key changes wait until it can", line)
    assert keys.update() == []
    first, second = revoke_site(place, "east")
    assert first.startswith("site east may not join any more")
    assert "cannot be read" in second
    assert not (place.sites / "east.pub").exists()


def test_a_database_that_is_locked_during_a_change_is_read_again(
    place: CoordinatorPlace, superlink: SuperLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, "east", new_key())
    keys = Registry(place)
    keys.update()
    superlink.running = False
    revoke_site(place, "east")
    superlink.running = True
    reads = iter([True, False])

    def read_or_locked(database: Path) -> list[RegisteredNode]:
        if next(reads, True):
            return registered_nodes(database)
        raise OSError(errno.EIO, "database is locked", str(database))

    monkeypatch.setattr(registry_module, "registered_nodes", read_or_locked)
    (line,) = keys.update()
    assert line.endswith("database is locked; key changes wait until it can")
    assert active(place) == []
    assert keys.update() == []


def test_a_disk_that_is_full_ends_nothing(
    place: CoordinatorPlace, superlink: SuperLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(place.sites / "east.pub"))

    (place.sites / "east.rotation").write_text("{}")
    put(place, "west", new_key())
    monkeypatch.setattr(registry_module, "accept_rotation", full)
    line, other = sorted(Registry(place).update())
    assert line.endswith(
        "east.pub cannot be used: no space left on device; key changes wait until it can"
    )
    assert other == "site west may join", "a rotation that fails holds nothing else up"


def test_keys_are_registered_under_their_files_names_once(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    keys = Registry(place)
    put(place, "east", new_key())
    put(place, "north", new_key())
    assert keys.update() == ["site east may join", "site north may join"]
    assert keys.update() == []
    assert Registry(place).update() == ["site east may join", "site north may join"], "a restart"
    assert active(place) == ["east", "north"]


def test_unusable_files_are_refused_with_one_line_each(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    edwards = ed25519.Ed25519PrivateKey.generate().public_key()
    key = ssh_text(new_key().public_key())
    contents = {
        "a": b"junk", "b": edwards.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        "c": ssh_text(ec.generate_private_key(ec.SECP256R1()).public_key()).encode(),
        "d": f"{key}\n{key}\n".encode(), "e": b"x" * 5000, "n\nme": key.encode(),
        "f" * 65: key.encode(),
    }  # fmt: skip
    for name, content in contents.items():
        (place.sites / f"{name}.pub").write_bytes(content)
    keys = Registry(place)
    lines = keys.update()
    assert len(lines) == len(contents)
    assert all("\n" not in line for line in lines)
    for part in ("a.pub is not a public key", "b.pub is not an ECDSA key on the curve P-384",
                 "c.pub is not an ECDSA key", "d.pub has more than one line",
                 r"'n\nme.pub': a site's name must be 1 to 64"):  # fmt: skip
        assert any(line.startswith(part) for line in lines), part
    assert keys.update() == []
    assert active(place) == []


def test_one_key_for_two_names_is_refused(place: CoordinatorPlace, superlink: SuperLink) -> None:
    key = new_key()
    put(place, "east", key)
    put(place, "north", key)
    keys = Registry(place)
    assert keys.update() == [
        "east.pub is the same key as north.pub; each site needs its own key",
        "north.pub is the same key as east.pub; each site needs its own key",
    ]
    (place.sites / "north.pub").unlink()
    assert keys.update() == ["site east may join"]
    put(place, "alps", key)
    (line,) = keys.update()
    assert line.startswith("alps.pub is the key of site 'east'; each site needs its own key. If ")
    assert "rename it back to east.pub" in line
    assert active(place) == ["east"]
    revoke_site(place, "alps")
    assert keys.update() == []
    assert active(place) == ["east"], "a copy of its key is no reason to revoke it"


def test_two_keys_for_one_name_are_refused(place: CoordinatorPlace, superlink: SuperLink) -> None:
    first, second = new_key(), new_key()
    keys = Registry(place)
    put(place, "east", first)
    keys.update()
    put(place, "east", second)
    (line,) = keys.update()
    assert line.startswith("east.pub is a second key for site east: ask the site for a rotation")
    (place.sites / "east.pub").unlink()
    assert revoke_site(place, "east")[0].startswith("site east may not join any more")
    put(place, "east", second)
    assert keys.update() == ["site east may join"]
    put(place, "east", first)
    assert keys.update() == ["east.pub is a key that was revoked; ask the site for a new one"]


def test_a_revoked_site_is_unregistered_at_once_and_its_key_never_returns(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    key = new_key()
    put(place, "east", key)
    put(place, "north", new_key())
    keys = Registry(place)
    keys.update()
    assert revoke_site(place, "east") == [
        f"site east may not join any more; its key is kept in {place.revoked}",
        "a former key of site east is unregistered",
    ]
    assert active(place) == ["north"]
    assert keys.update() == []
    for name in ("east", "alps"):
        put(place, name, key)
        assert keys.update() == [
            f"{name}.pub is a key that was revoked; ask the site for a new one"
        ]
        (place.sites / f"{name}.pub").unlink()
    for name in ("../east", "nobody"):
        with pytest.raises(ConfigError, match="revoke="):
            revoke_site(place, name)


def test_a_key_that_flower_has_unregistered_never_returns(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    """Also if the folder with the revoked keys is lost."""
    key = new_key()
    put(place, "east", key)
    keys = Registry(place)
    keys.update()
    revoke_site(place, "east")
    shutil.rmtree(place.revoked)
    put(place, "east", key)
    assert keys.update() == ["east.pub is a key that was revoked; ask the site for a new one"]
    assert active(place) == []


def test_a_site_that_was_revoked_while_no_superlink_ran_is_unregistered_later(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    put(place, "east", new_key())
    Registry(place).update()
    superlink.running = False
    assert revoke_site(place, "east")[1].endswith("is shut out, and not yet unregistered")
    assert active(place) == ["east"]
    superlink.running = True
    assert Registry(place).update() == ["a former key of site east is unregistered"]
    assert active(place) == []


def rotated(
    place: CoordinatorPlace, site: str, old: ec.EllipticCurvePrivateKey,
    new: ec.EllipticCurvePrivateKey, named: str = "",
) -> list[str]:  # fmt: skip
    """Put a rotation into ``sites/``; return what a running coordinator prints."""
    keys = Registry(place)
    keys.update()
    text = write_rotation(named or site, old, new.public_key())
    (place.sites / f"{site}.rotation").write_text(text)
    return keys.update()


def test_a_rotation_replaces_the_key_and_unregisters_the_old_one(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    old, new = new_key(), new_key()
    put(place, "east", old)
    accepted, unregistered = rotated(place, "east", old, new)
    assert accepted.startswith("site east has a new key, SHA256:")
    assert unregistered == "a former key of site east is unregistered"
    assert active(place) == ["east"]
    assert read_public_key(place.sites / "east.pub") == ssh_text(new.public_key())
    assert {path.suffix for path in place.revoked.iterdir()} == {".pub", ".rotation"}
    assert Registry(place).update() == ["site east may join"]
    (line,) = rotated(place, "east", old, new_key())
    assert line == "east.rotation is refused: its old key is not the key of site east"
    (line,) = rotated(place, "east", new, old)
    assert line == "east.rotation is refused: its new key has been used before"


def test_a_rotation_by_another_site_or_to_its_key_is_refused(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    east, north = new_key(), new_key()
    put(place, "east", east)
    put(place, "north", north)
    for line, reason in (
        (rotated(place, "east", north, new_key()), "its old key is not the key of site east"),
        (rotated(place, "east", north, new_key(), "north"), "it is for site north"),
        (rotated(place, "east", east, north), "its new key has been used before"),
        (rotated(place, "west", east, new_key()), "its old key is not the key of site west"),
    ):
        assert line == [f"{line[0].split()[0]} is refused: {reason}"]
    assert active(place) == ["east", "north"]


def test_the_key_of_a_site_whose_file_is_gone_is_no_successor(
    place: CoordinatorPlace, superlink: SuperLink
) -> None:
    """Flower still knows it under the name of its site."""
    east, north = new_key(), new_key()
    put(place, "east", east)
    put(place, "north", north)
    Registry(place).update()
    (place.sites / "north.pub").unlink()
    (line,) = rotated(place, "east", east, north)
    assert line == "east.rotation is refused: its new key has been used before"
