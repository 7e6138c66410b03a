"""The help of each command: plain text, and at once."""

import subprocess
import sys

import pytest
import typer.core
from typer.testing import CliRunner

from univarfl.cli.main import application

COMMANDS = [
    "train", "config", "sweep", "papers", "list", "runs", "compare", "report", "analyse", "data",
    "doctor", "predict", "export", "deploy",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_plain_text(command: str) -> None:
    shown = CliRunner().invoke(application, [command, "--help"], prog_name="univarfl").output
    assert shown.startswith(f"Usage: univarfl {command}")
    assert "\\[" not in shown


def test_no_summary_is_cut_short() -> None:
    shown = CliRunner().invoke(application, ["--help"], prog_name="univarfl").output
    assert all(f"  {command} " in shown for command in COMMANDS)
    assert "..." not in shown.partition("Train:")[2]


def test_typers_private_switch_for_plain_help_is_still_there() -> None:
    """If this fails, Typer has changed what `univarfl.cli.plain_help` sets."""
    assert typer.core.HAS_RICH is False
    assert "[required]" in CliRunner().invoke(application, ["export", "--help"]).output


def test_help_imports_neither_hydra_nor_torch_nor_flower() -> None:
    code = (
        "import sys\n"
        "from univarfl.cli.main import application\n"
        "application(['train', '--help'], standalone_mode=False)\n"
        "assert not {'flwr', 'hydra', 'pydantic', 'torch'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
