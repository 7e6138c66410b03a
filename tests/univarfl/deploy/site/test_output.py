"""What a site prints of its SuperNode's lines, which hold text of the coordinator."""

import io
from pathlib import Path

import pytest

from univarfl.deploy.places import SitePlace
from univarfl.deploy.site.processes import print_output


def test_control_characters_of_the_coordinator_are_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = b"INFO : group \x1b]0;title\x07\x1b[2J end\nINFO : SuperNode ID: " + b"7" * 5000 + b"\n"
    assert not print_output(io.BytesIO(lines), SitePlace(tmp_path))
    said = capsys.readouterr().out
    assert "group ?]0;title??[2J end" in said
    assert "joined" not in said
