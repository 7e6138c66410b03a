"""What the doctor says about other users of the machine, and about directories."""

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from univarfl.engines.doctor import NOTE, OK, directories, local_users, ray_cluster


def account(name: str, number: int, shell: str = "/bin/bash") -> SimpleNamespace:
    return SimpleNamespace(pw_name=name, pw_uid=number, pw_shell=shell)


def test_accounts_that_could_control_a_superlink_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = account("me", os.getuid())
    services = [account("daemon", 2), account("mail", 1500, "/usr/sbin/nologin")]
    monkeypatch.setattr(pwd, "getpwall", lambda: [own, *services])
    assert local_users()[0] == OK
    people = [account(f"user{number}", 2000 + number) for number in range(5)]
    monkeypatch.setattr(pwd, "getpwall", lambda: [own, *services, *people])
    state, text = local_users()
    assert state == NOTE
    assert "start: user0, user1, user2, ...; to prevent it, see the page Deploy" in text


def test_the_image_cache_is_where_images_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNIVARFL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "scratch"))
    (text,) = (text for _, text in directories() if text.startswith("image cache"))
    assert text.endswith(f"are free in {tmp_path / 'scratch' / 'univarfl'}")


def test_a_directory_that_ray_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    assert ray_cluster()[0] == OK
    monkeypatch.setenv("RAY_TMPDIR", "/nowhere")
    state, text = ray_cluster()
    assert state == NOTE
    assert (
        "engine=flower cannot run: RAY_TMPDIR=/nowhere: must be a directory that can be written"
        in text
    )
