"""The bars of a run, as a terminal shows them."""

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from server_app.config.composition import compose_experiment
from server_app.engines.flower import log_clients
from server_app.engines.train import train_experiment
from server_app.tracking.progress import clients, progress_on
from task.protocol.trained_clients import TRAINED_CLIENTS, TrainedClients, count_client
from tests.conftest import SMALL, faulty


def test_the_bars_count_the_clients_of_other_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    words = [*SMALL, "federation.workers=2"]
    experiment = compose_experiment(words)
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with progress_on(experiment, console) as progress:
        train_experiment(experiment, words)
        ended = [(task.completed, task.total) for task in progress.bars.tasks]
    assert ended == [(8, 8), (4, 4)]


@pytest.mark.usefixtures("parts")
def test_the_bars_count_clients_and_rounds_in_this_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    words = [*SMALL, *faulty([3], [1], "raise")]
    experiment = compose_experiment(words)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    states = []
    with progress_on(experiment, console) as progress:
        move = progress.client_trained

        def noted(server_round: int, images: int, seconds: float) -> None:
            move(server_round, images, seconds)
            states.append([task.fields["state"] for task in progress.bars.tasks])

        monkeypatch.setattr(progress, "client_trained", noted)
        train_experiment(experiment, words)
        ended = [(task.completed, task.total) for task in progress.bars.tasks]
    assert ended == [(8, 8), (4, 4)]
    assert [state[0] for state in states] == ["round 0/2"] * 4 + ["round 1/2"] * 4
    counts = [state[1].split(",")[0] for state in states]
    assert counts == 2 * [f"clients {done}/4" for done in (1, 2, 3, 4)]
    assert all(state[1].endswith("images/s") for state in states[1:])
    assert "round 2/2  test 0." in screen.getvalue()
    assert not [handler for handler in clients.handlers if handler.level == logging.NOTSET]


def test_the_bars_count_what_the_workers_of_flower_have_trained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    experiment = compose_experiment(["num_clients=4", "rounds=3"])
    file = tmp_path / "trained"
    monkeypatch.setenv(TRAINED_CLIENTS, str(file))
    trained = TrainedClients(file)
    with progress_on(experiment, Console(file=io.StringIO())) as progress:
        run, of_round = progress.bars.tasks
        log_clients(trained)  # there is no file yet
        count_client(1, 40, 0.5)
        count_client(1, 60, 0.5)
        log_clients(trained)
        assert (run.completed, of_round.completed) == (2, 2)
        assert of_round.fields["state"] == "clients 2/4, 500 images/s"
        logging.getLogger("univarfl").info("round 1/3  test 0.5")
        count_client(1, 40, 0.5)  # it was read after the line of its round
        with file.open("a") as half:
            half.write("2 4")
        log_clients(trained)
        assert (run.completed, run.fields["state"]) == (4, "round 1/3")


@pytest.mark.parametrize("line", ["round  3/12  test 0.5", "round 3/12 test 0.5"])
def test_the_line_of_a_round_moves_the_bar_of_the_run(line: str) -> None:
    """As with ``engine=flower``, whose workers are in other processes."""
    experiment = compose_experiment(["num_clients=4"])
    with progress_on(experiment, Console(file=io.StringIO())) as progress:
        logging.getLogger("univarfl").info("%s", line)
        assert progress.bars.tasks[0].completed == 12
        assert progress.bars.tasks[0].fields["state"] == "round 3/12"
