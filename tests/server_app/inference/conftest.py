"""A trained run, and the real images of its test set as files."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from server_app.cli import main
from server_app.composition import compose_experiment
from server_app.train import train_experiment
from task.data.sources.digits import Digits
from tests.conftest import SMALL


class Answer(NamedTuple):
    """How the command ended, and what it printed."""

    code: int
    said: str


Command = Callable[..., Answer]


@pytest.fixture
def univarfl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command as a person meets it."""

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
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """UniVarFL on digits, trained well enough to tell them apart."""
    place = tmp_path_factory.mktemp("runs")
    words = [*SMALL, "local_epochs=3", "watch.tensorboard=false", f"output_dir={place}"]
    return train_experiment(compose_experiment(words), words)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test digits as ``<class>/<number>.png``, 8x8."""
    place = tmp_path_factory.mktemp("digits")
    catalogue = Digits(image_size=32).catalogue()
    for index in catalogue.test.nonzero()[0].tolist():
        folder = place / catalogue.classes[catalogue.labels[index]]
        folder.mkdir(exist_ok=True)
        catalogue.read(index).save(folder / f"{index}.png")
    return place
