"""Each mistake in ``mistakes.txt`` gets its answer before PyTorch or Flower is imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from server_app.config.choices import SWEEPS, choices, names_in
from tests.conftest import shared_place

LINES = [
    line
    for line in Path(__file__).with_name("mistakes.txt").read_text().splitlines()
    if not line.startswith("#")
]
MISTAKES = dict(zip(LINES[::2], LINES[1::2], strict=True))
ANSWER_ALL = """
import contextlib, io, json, shlex, sys
from univarfl.cli.main import main

found = {}
for line in json.loads(sys.argv[1]):
    sys.argv = ["univarfl", *shlex.split(line)]
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    found[line] = [code, shown.getvalue(), sorted({"flwr", "torch"} & sys.modules.keys())]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """Return exit code, output, and the slow modules that are imported, for each mistake."""
    shared = shared_place(tmp_path_factory) / "answers.json"
    with FileLock(shared.with_suffix(".lock")):  # one of pytest's processes asks for all
        if not shared.exists():
            command = [sys.executable, "-c", ANSWER_ALL, json.dumps(list(MISTAKES))]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            shared.write_text(done.stdout)
    found: dict[str, list[object]] = json.loads(shared.read_text())
    return found


def test_there_are_many() -> None:
    assert len(MISTAKES) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("line", MISTAKES)
def test_it_is_answered_in_one_line(answers: dict[str, list[object]], line: str) -> None:
    choice = {group: ", ".join(names) for group, names in choices().items()}
    text = MISTAKES[line].strip().format(**choice, sweep=", ".join(names_in(SWEEPS)))
    assert answers[line] == [2, f"univarfl: {text}\n", []]
