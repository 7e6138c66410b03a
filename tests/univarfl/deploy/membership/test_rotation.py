"""A change of a site's key: made and adopted at the site, verified by anyone with the old key."""

import re
from pathlib import Path

import pytest

from task.errors import ConfigError
from task.protocol.public_keys import LONGEST_FILE
from task.protocol.signature import read_private_key
from univarfl.deploy.keys import new_key
from univarfl.deploy.membership.public_keys import read_public_key, ssh_text
from univarfl.deploy.membership.rotation import (
    RotationError,
    read_rotation,
    write_rotation,
)
from univarfl.deploy.membership.successor import adopt_next_key, rotate_key, verified_rotation
from univarfl.deploy.places import SitePlace
from univarfl.deploy.site_keys import make_site

OLD, NEW, OTHER = new_key(), new_key(), new_key()


@pytest.fixture
def place(tmp_path: Path) -> SitePlace:
    place = SitePlace(tmp_path / "ward")
    make_site(place, "ward", tmp_path)
    return place


def test_a_rotation_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "ward.rotation"
    path.write_text(write_rotation("ward", OLD, NEW.public_key()))
    found = read_rotation(path)
    assert (found.site, found.old, found.new) == (
        "ward", ssh_text(OLD.public_key()), ssh_text(NEW.public_key()),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("site ward", "site yard"), "its old key did not sign it"),
        (lambda text: re.sub(r"time \d{4}", "time 1999", text), "its old key did not sign it"),
        (
            lambda text: text.replace(ssh_text(NEW.public_key()), ssh_text(OTHER.public_key())),
            "its old key did not sign it",
        ),
        (
            lambda text: text.replace(ssh_text(OLD.public_key()), ssh_text(OTHER.public_key())),
            "its old key did not sign it",
        ),
        (lambda text: re.sub("signature .*", "signature AAAA", text), "did not sign it"),
        (lambda text: re.sub("signature .*", "signature A", text), "not a key or a signature"),
        (lambda text: text.replace("nistp384 A", "nistp384 B"), "not a key or a signature"),
        (lambda text: text + "more\n", "the form of a key rotation"),
        (lambda text: text.replace("rotation 1", "rotation 2"), "the form of a key rotation"),
        (lambda text: text.replace("ward", "../ward"), "the form of a key rotation"),
        (lambda text: text + "\n" * LONGEST_FILE, "the form of a key rotation"),
        (lambda _: "ä", "the form of a key rotation"),
        (lambda _: "", "the form of a key rotation"),
        (lambda _: write_rotation("ward", OLD, OLD.public_key()), "its two keys are the same"),
    ],
)  # fmt: skip
def test_a_changed_rotation_is_refused(change, reason: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "ward.rotation"
    path.write_text(change(write_rotation("ward", OLD, NEW.public_key())))
    with pytest.raises(RotationError, match=reason):
        read_rotation(path)


def test_a_site_keeps_its_key_until_it_adopts_the_next_one(place: SitePlace) -> None:
    before = place.key("ward").read_bytes()
    known = place.public_key("ward").read_text()
    rotate_key(place, "ward")
    assert place.key("ward").read_bytes() == before
    assert place.public_key("ward").read_text() == known
    assert place.next_key("ward").stat().st_mode & 0o777 == 0o600
    rotation = read_rotation(place.rotation("ward"))
    next_key = place.next_key("ward").read_bytes()
    rotate_key(place, "ward")
    assert read_rotation(place.rotation("ward")).new == rotation.new, "a second call keeps the key"
    assert adopt_next_key(place, "ward")
    assert place.key("ward").read_bytes() == next_key
    assert read_public_key(place.public_key("ward")) == rotation.new
    assert ssh_text(read_private_key(next_key).public_key()) == rotation.new
    assert not place.next_key("ward").exists()
    assert not adopt_next_key(place, "ward")


def test_a_rotation_is_verified_with_a_known_key(place: SitePlace, tmp_path: Path) -> None:
    rotate_key(place, "ward")
    assert "site ward changes its key from SHA256:" in verified_rotation(
        place.directory, place.rotation("ward")
    )
    (tmp_path / "elsewhere" / "sites").mkdir(parents=True)
    known = tmp_path / "elsewhere" / "sites" / "ward.pub"
    with pytest.raises(ConfigError, match="to compare with"):
        verified_rotation(tmp_path / "elsewhere", place.rotation("ward"))
    known.write_text(ssh_text(OTHER.public_key()))
    with pytest.raises(ConfigError, match=r"ward\.pub did not sign it"):
        verified_rotation(tmp_path / "elsewhere", place.rotation("ward"))
    known.write_text("junk")
    with pytest.raises(ConfigError, match="is not a public key"):
        verified_rotation(tmp_path / "elsewhere", place.rotation("ward"))


def test_a_site_without_a_usable_key_cannot_rotate(place: SitePlace) -> None:
    with pytest.raises(ConfigError, match=r"north\.key: cannot be read"):
        rotate_key(place, "north")
    with pytest.raises(ConfigError, match="must be 1 to 64 letters"):
        rotate_key(place, "../ward")
    place.key("ward").write_text("junk")
    with pytest.raises(ConfigError, match="is not a site's key"):
        rotate_key(place, "ward")
