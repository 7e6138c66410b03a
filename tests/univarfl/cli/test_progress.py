"""The bars of a run, as a terminal shows them."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from server_app.config.composition import compose_experiment
from task.progress import PROGRESS, ClientTrained, RoundEnded, emit, progress_file
from tests.conftest import SMALL, faulty
from univarfl.cli.progress import RunProgress, progress_on
from univarfl.engines.train import train_experiment


@pytest.fixture
def _named_file() -> Iterator[None]:
    with progress_file():
        yield


def states(bars: RunProgress) -> list[str]:
    return [task.fields["state"].split(",")[0] for task in bars.tasks]


def test_the_bars_count_the_clients_of_other_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    words = [*SMALL, "federation.workers=2"]
    experiment = compose_experiment(words)
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with progress_on(experiment, console) as bars:
        train_experiment(experiment, words)
    assert [(task.completed, task.total) for task in bars.tasks] == [(8, 8), (4, 4)]


@pytest.mark.usefixtures("parts")
def test_the_bars_count_those_that_fail_too_and_lines_are_above_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    words = [*SMALL, *faulty([3], [1], "raise")]
    experiment = compose_experiment(words)
    screen = io.StringIO()
    with progress_on(experiment, Console(file=screen, force_terminal=True, width=100)) as bars:
        train_experiment(experiment, words)
    assert [(task.completed, task.total) for task in bars.tasks] == [(8, 8), (4, 4)]
    assert states(bars) == ["round 2/2", "clients 4/4"]
    assert bars.tasks[1].fields["state"].endswith("images/s")
    assert "round 2/2  test 0." in screen.getvalue()


@pytest.mark.usefixtures("_named_file")
def test_the_bars_follow_clients_and_rounds() -> None:
    experiment = compose_experiment(["num_clients=4", "rounds=3"])
    bars = RunProgress(experiment, Console(file=io.StringIO()))
    seen = []
    for event in (
        ClientTrained(1, 40, 0.5),
        ClientTrained(1, 60, 0.5),
        RoundEnded(1),
        ClientTrained(1, 40, 0.5),  # a worker tells it after the server has told of the round
        ClientTrained(2, 0, 0.0),
    ):
        emit(event)
        bars.look()
        seen.append((bars.tasks[0].completed, bars.tasks[1].completed, *states(bars)))
    assert seen == [
        (1, 1, "round 0/3", "clients 1/4"),
        (2, 2, "round 0/3", "clients 2/4"),
        (4, 2, "round 1/3", "clients 2/4"),
        (4, 3, "round 1/3", "clients 3/4"),
        (5, 1, "round 1/3", "clients 1/4"),
    ]


@pytest.mark.usefixtures("_named_file")
def test_the_speed_is_in_images_a_second() -> None:
    bars = RunProgress(compose_experiment(["num_clients=4", "local_epochs=5"]), Console())
    for images in (40, 60):
        emit(ClientTrained(1, images, 0.5))
    bars.look()
    assert bars.tasks[1].fields["state"] == "clients 2/4, 500 images/s"


@pytest.mark.usefixtures("_named_file")
def test_half_a_line_is_read_when_it_is_whole() -> None:
    bars = RunProgress(compose_experiment(["num_clients=4", "rounds=3"]), Console())
    with Path(os.environ[PROGRESS]).open("a") as file:
        file.write("3")
        file.flush()
        bars.look()
        assert bars.tasks[0].completed == 0
        file.write("\n")
    bars.look()
    assert (bars.tasks[0].completed, *states(bars)[:1]) == (12, "round 3/3")


def test_without_a_file_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROGRESS, raising=False)
    bars = RunProgress(compose_experiment([]), Console())
    emit(RoundEnded(1))
    bars.look()
    assert bars.tasks[0].completed == 0
    monkeypatch.setenv(PROGRESS, "/proc/none/progress")
    emit(RoundEnded(1))


def test_a_file_that_cannot_be_made_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    with progress_file():
        assert PROGRESS not in os.environ


def test_a_file_that_is_named_is_used() -> None:
    with progress_file():
        named = os.environ[PROGRESS]
        with progress_file():
            assert os.environ[PROGRESS] == named
        assert os.environ[PROGRESS] == named
    assert PROGRESS not in os.environ
