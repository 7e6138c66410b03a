"""Files that a user names, in whose place is a named pipe: opening it would wait for ever."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from server_app.aggregation.weights import from_file
from server_app.config.composition import compose_experiment
from server_app.rounds.devices.trace import read_trace
from server_app.runs.records.run_record import read_record
from server_app.runs.records.tables import RecordError
from task.errors import ConfigError
from univarfl.records.reader import read_runs
from univarfl.records.round_models import load_models
from univarfl.records.trained import load_client_part
from univarfl.sweeps.benchmark.plan import read_plan
from univarfl.sweeps.benchmark.run import unpack_records

PATIENCE = 20  # seconds; all of them answer at once


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """End a test that waits for a writer."""

    def end(*_: object) -> None:
        raise TimeoutError("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


READERS: dict[str, Callable[[Path], object]] = {
    "weights.safetensors": lambda path: compose_experiment([f"model.weights={path}"]),
    "model.safetensors": lambda path: compose_experiment([f"model.weights={path.parent}"]),
    "checkpoint.safetensors": from_file,
    "round.safetensors": load_models,
    "clients/3.safetensors": lambda path: load_client_part(path.parents[1], 3, "0" * 64),
    "trace.csv": lambda path: read_trace(path, 4),
    "plan.yaml": read_plan,
    "records.tar": lambda path: unpack_records(path, path.parent / "records"),
    "run.json": lambda path: read_record(path.parent),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises((ConfigError, OSError, RecordError), match="not a regular file"):
        READERS[name](path)


def test_a_run_whose_record_is_a_pipe_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    os.mkfifo(tmp_path / "one" / "run.json")
    assert read_runs(tmp_path).runs == []
