"""A trained run, and the images of its test set as files."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from server_app.config.composition import compose_experiment
from task.data.sources.digits import Digits
from tests.conftest import SMALL_CNN, made_once
from univarfl.cli.main import main
from univarfl.engines.train import train_experiment


class Answer(NamedTuple):
    """The exit code and the output of the command."""

    code: int
    said: str


Command = Callable[..., Answer]


@pytest.fixture
def univarfl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the `univarfl` command with some arguments; return its answer."""

    def run(*words: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["univarfl", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        shown = capsys.readouterr()
        return Answer(code, shown.out + shown.err)

    return run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, cache_of_all_digits: Path) -> Path:
    """Train UniVarFL on all digits, well enough to tell them apart; return the run's directory."""

    def make(place: Path) -> None:
        words = [*SMALL_CNN, "local_epochs=3", f"output_dir={place}"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))
            train_experiment(compose_experiment(words), words)

    (run,) = made_once(tmp_path_factory, "inference", make).glob("*/run.json")
    return run.parent


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test digits as ``<class>/<number>.png``, 8x8."""
    place = tmp_path_factory.mktemp("digits")
    dataset_index = Digits(image_size=32).dataset_index()
    for index in dataset_index.test.nonzero()[0].tolist():
        folder = place / dataset_index.classes[dataset_index.labels[index]]
        folder.mkdir(exist_ok=True)
        dataset_index.read(index).save(folder / f"{index}.png")
    return place
