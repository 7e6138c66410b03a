"""The unit that keeps a coordinator or a site running."""

import configparser
import shlex
from pathlib import Path

from server_app.deploy.systemd import unit


def test_it_runs_the_command_and_may_write_to_one_directory() -> None:
    text = unit("ward 7", ["site", "--kit", "/etc/kits/ward 7"], Path("/var/u"), [Path("/scans")])
    found = configparser.ConfigParser()
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    service = found["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "univarfl"
    assert words == ["deploy", "site", "--kit", "/etc/kits/ward 7"]
    assert (service["ReadWritePaths"], service["ReadOnlyPaths"]) == ("/var/u", "/scans")
    assert service["KillMode"] == "mixed"
    assert found["Unit"]["Description"] == "univarfl ward 7"
