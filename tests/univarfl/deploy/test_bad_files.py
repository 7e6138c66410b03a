"""Files, directories, ports and hosts that cannot be used: one line and exit code 2."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from univarfl.cli.main import main
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace, SitePlace
from univarfl.deploy.site_keys import make_site


@pytest.fixture
def place(tmp_path: Path) -> CoordinatorPlace:
    """A coordinator's directory with keys, and one of a site."""
    place = CoordinatorPlace(tmp_path / "f")
    make_coordinator(place, ["localhost"])
    make_site(SitePlace(tmp_path / "s"), "a", tmp_path)
    return place


def refusal(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The one line with which a ``univarfl deploy`` command refuses its input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["univarfl", "deploy", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    errors = capsys.readouterr().err
    assert ended.value.code == 2, errors
    assert errors.count("\n") == 1
    return errors


def as_file(path: Path) -> None:
    path.rmdir() if path.exists() else None
    path.touch()


def as_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)


def as_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("keys /dev/null --host x", "file=/dev/null: must be a directory, and is a file"),
        ("keys /dev/null --site x --data .", "file=/dev/null: must be a directory, and is a file"),
        ("keys /proc/new --host x", "file=/proc/new: cannot be used: no such file"),
        (f"keys s2 --site {'x' * 300} --data .", "must be 1 to 64 letters, digits"),
        (f"keys s2 --site x --data {'x' * 300}", "cannot be used: file name too long"),
        (f"keys f2 --host {'x' * 64}", "must be a name or an address"),
        ("keys f2 --host a..b", "--host=a..b: must be a name or an address"),
        ("coordinator f --port 0", "--port=0: must be a port between 1 and 65535"),
        ("coordinator f --port 65536", "--port=65536: must be a port between 1 and 65535"),
        ("coordinator f --port -1 --print", "--port=-1: must be a port between"),
        ("coordinator f --listen a..b", "--listen=a..b: must be an address of this machine"),
        ("coordinator f --listen no.invalid", "--listen=no.invalid: this machine cannot listen"),
        ("coordinator /dev/null", "coordinator=/dev/null: has no file ca.crt; make it with"),
        ("check s --coordinator x:65536", "must be a port between 1 and 65535"),
        ("check s --coordinator a..b:1", "--coordinator=a..b:1: must be HOST:PORT"),
        (f"site s --coordinator {'x' * 64}", "must be HOST:PORT"),
        ("site /dev/null --coordinator x", "settings=/dev/null/site.toml: cannot be read: not a"),
        ("run /dev/null", "no coordinator was started with this directory; start it with"),
    ],
)  # fmt: skip
def test_words_that_name_nothing_usable(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], place: CoordinatorPlace,
) -> None:  # fmt: skip
    assert message in refusal(words, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("words", "change", "path", "message"),
    [
        ("keys f --host x", as_directory, "f/ca.key", "ca.key: cannot be used: is a directory"),
        ("keys f --host x", as_directory, "f/ca.crt", "ca.key: cannot be used: is a directory"),
        ("keys f --host x", as_directory, "f/server.key", "server.key: cannot be used: "),
        ("keys f --host x", as_directory, "f/server.crt", "server.crt: cannot be used: is a dir"),
        ("keys f --host x", as_file, "f/sites", "sites: must be a directory, and is a file"),
        ("coordinator f", as_directory, "f/server.key", "has no file server.key"),
        ("coordinator f", as_file, "f/flower", "flower: must be a directory, and is a file"),
        ("coordinator f", as_directory, "f/superlink.log", "log: cannot be used: is a directory"),
        ("coordinator f", as_directory, "f/flower/config.toml", "config.toml: cannot be used: "),
        ("site s --coordinator x", as_directory, "s/site.toml", "cannot be read: is a directory"),
        ("site s --coordinator x", as_pipe, "s/site.toml", "it is not a regular file"),
        ("keys s --site b --data .", as_pipe, "s/site.toml", "it is not a regular file"),
        ("keys f --verify a.rotation", as_pipe, "a.rotation", "it is not a regular file"),
        ("run f", as_directory, "f/flower/config.toml", "no coordinator was started with this"),
        ("run f", as_file, "f/flower", "no coordinator was started with this directory"),
    ],
)  # fmt: skip
def test_files_of_the_wrong_kind(
    words: str, change: Callable[[Path], None], path: str, message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: CoordinatorPlace,
) -> None:  # fmt: skip
    change(tmp_path / path)
    assert message in refusal(words, tmp_path, monkeypatch, capsys)


def test_an_authority_whose_key_is_another_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    place: CoordinatorPlace,
) -> None:  # fmt: skip
    other = CoordinatorPlace(tmp_path / "other")
    make_coordinator(other, ["localhost"])
    place.authority.write_bytes(other.authority.read_bytes())
    line = refusal("keys f --host x", tmp_path, monkeypatch, capsys)
    assert "ca.key: cannot be used: it is not the key of ca.crt; restore" in line
