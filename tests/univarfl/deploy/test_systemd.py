"""The unit that keeps a coordinator or a site running."""

import configparser
import os
import pwd
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from task.errors import ConfigError
from univarfl.deploy.systemd import PASSED_ON, unit


def test_it_runs_the_command_and_may_write_to_its_directories() -> None:
    text = unit(
        "ward 7",
        ["site", "--kit", "/etc/kits/ward 7"],
        [Path("/var/u"), Path("/kept")],
        [Path("/scans")],
    )
    found = configparser.ConfigParser()
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    service = found["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "univarfl"
    assert words == ["deploy", "site", "--kit", "/etc/kits/ward 7"]
    assert (service["ReadWritePaths"], service["ReadOnlyPaths"]) == ("/var/u /kept", "/scans")
    assert service["KillMode"] == "mixed"
    assert service["SuccessExitStatus"] == "130"  # after SIGTERM
    assert found["Unit"]["Description"] == "univarfl ward 7"


STRANGE = ["a b", "100%n", 'say "hi"', "$HOME", "it's", "back\\slash", "a;b # c", "ünï"]


def read_by_systemd(word: str) -> str:
    """Return what systemd makes of a word of ExecStart (systemd.service, systemd.syntax)."""
    (text,) = shlex.split(word)
    return text.replace("%%", "%").replace("$$", "$")


@pytest.mark.parametrize("name", STRANGE)
def test_a_path_is_the_same_path_to_systemd(name: str) -> None:
    place = Path("/srv") / name
    text = unit("north", ["site", str(place)], [place], [place])
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert read_by_systemd(line.split(" deploy site ")[1]) == str(place)
    for key, expected in (
        ("ReadWritePaths", f"{place}"), ("ReadOnlyPaths", f"{place}"),
    ):  # fmt: skip
        value = next(line for line in text.splitlines() if line.startswith(key)).split("=", 1)[1]
        (found,) = shlex.split(value)
        assert found.replace("%%", "%") == expected


@pytest.mark.parametrize("name", ["a\nExecStart=/bin/sh", "a\x1b[2J", "a\u202eb", "a\r"])
def test_a_name_or_path_that_could_forge_a_line_is_refused(name: str) -> None:
    for arguments in ((name, Path("/srv")), ("north", Path("/srv") / name)):
        with pytest.raises(ConfigError, match="must be printable, on one line"):
            unit(arguments[0], ["site"], [arguments[1]], [])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("name", STRANGE)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    place.mkdir()
    path = tmp_path / "univarfl-north.service"
    path.write_text(unit(name, ["site", str(place)], [place], [place]))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    problems = [line for line in found.stderr.splitlines() if "univarfl-north" in line]
    assert problems == []


@pytest.mark.parametrize("user", [None, "somebody_else"])
def test_the_user_is_the_one_who_runs_the_command(
    user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ``docker exec`` and cron ``USER`` is not set; after ``su`` it can be another one."""
    monkeypatch.delenv("USER", raising=False)
    if user:
        monkeypatch.setenv("USER", user)
    for number, expected, warned in (
        (0, "root", True), (pwd.getpwnam("nobody").pw_uid, "nobody", False),
        (3_999_999_999, "3999999999", False),
    ):  # fmt: skip
        monkeypatch.setattr(os, "geteuid", lambda number=number: number)
        lines = unit("north", ["site"], [Path("/srv")], []).splitlines()
        place = lines.index(f"User={expected}")
        assert ("Do not run it as root" in lines[place - 1]) == warned


def test_the_proxy_of_this_shell_is_the_units(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PASSED_ON:
        monkeypatch.delenv(name, raising=False)
    assert "PROXY" not in unit("north", ["site"], [Path("/srv")], [])
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128/100%")
    monkeypatch.setenv("no_proxy", "10.0.0.1,localhost")
    text = unit("north", ["site"], [Path("/srv")], [])
    assert "Environment=" + '"HTTPS_PROXY=http://proxy:3128/100%%"' in text
    assert "Environment=no_proxy=10.0.0.1,localhost\n" in text
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy:3128")
    text = unit("north", ["site"], [Path("/srv")], [])
    assert "secret" not in text
    assert "# https_proxy into this file, and run chmod 600 on it.\n" in text
    assert "EnvironmentFile=/srv/environment\n" in text
