"""What TensorBoard and MLflow are told of real runs, read back with their own libraries."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Self

import pytest
from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import RunRecord, read_entries
from server_app.tracking.loggers import MetricLogger, Scores
from task.errors import ConfigError
from tests.conftest import Train, rows
from tests.server_app.runs.recorded import record


def accuracies(run: Path) -> dict[int, float]:
    return {
        int(row["round"]): float(row["value"])
        for row in rows(run, "rounds.csv")
        if (row["split"], row["metric"]) == ("test", "accuracy")
    }


def test_tensorboard_has_every_round(train: Train) -> None:
    run = train("watch.tensorboard=true")
    logs = EventAccumulator(str(run / "tensorboard")).Reload()
    found = {event.step: event.value for event in logs.Scalars("accuracy/test")}
    assert found == pytest.approx(accuracies(run))
    assert {"loss/validation", "ce/train", "macro_f1/test"} <= set(logs.Tags()["scalars"])


def test_it_can_be_left_out(train: Train) -> None:
    assert not (train("watch.tensorboard=false") / "tensorboard").exists()


def test_mlflow_has_settings_metrics_and_the_end(train: Train, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    run = train(f"watch.mlflow={uri}", "method=fedprox")
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("univarfl")
    assert experiment
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.run_name == run.name
    assert found.info.status == "FINISHED"
    assert found.data.params["method.proximal_weight"] == "0.01"
    history = client.get_metric_history(found.info.run_id, "accuracy/test")
    assert {point.step: point.value for point in history} == pytest.approx(accuracies(run))


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [
        line for line in capsys.readouterr().out.splitlines() if "receives no more metrics" in line
    ]


def test_a_logger_that_fails_is_named_and_the_run_goes_on(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train("watch.mlflow=nosuch://place", "watch.tensorboard=false")
    assert read_entries(run)["status"] == "completed"
    (line,) = warnings(capsys)
    assert line.startswith("warning: mlflow receives no more metrics: ")


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def closed_port() -> str:
    """An address where no server is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("place", ["closed_port", "silent_server"])
def test_a_run_does_not_wait_for_a_server_that_does_not_answer(
    train: Train,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    place: str,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "7")  # so that it is restored
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES")
    run = train(f"watch.mlflow={request.getfixturevalue(place)}", "watch.tensorboard=false")
    assert read_entries(run)["status"] == "completed"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"
    assert len(warnings(capsys)) == 1


class Fake(MetricLogger):
    """A logger that remembers its calls and the threads they came from."""

    package: ClassVar = "fake"
    module: ClassVar = "json"
    calls: ClassVar[list[tuple[object, ...]]] = []
    threads: ClassVar[set[int]] = set()
    blocked: ClassVar = threading.Event()
    fails_in: ClassVar = -1

    @classmethod
    def begin(cls, directory: Path, record: RunRecord) -> Self:
        cls.threads.add(threading.get_ident())
        cls.calls.append(("begin", record.status))
        return cls()

    def round(self, server_round: int, scores: Scores) -> None:
        self.threads.add(threading.get_ident())
        if self.blocked.is_set():
            threading.Event().wait()
        if server_round == self.fails_in:
            raise ConnectionError("it is gone")
        self.calls.append((server_round, scores["test"]["accuracy"]))

    def end(self, status: str) -> None:
        self.calls.append(("end", status))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    monkeypatch.setattr(Fake, "calls", [])
    monkeypatch.setattr(Fake, "threads", set())
    monkeypatch.setattr(Fake, "blocked", threading.Event())
    monkeypatch.setattr(
        "server_app.tracking.loggers.METRIC_LOGGERS", {"tensorboard": f"{__name__}:Fake"}
    )
    return Fake


def test_calls_are_complete_in_order_and_not_on_the_thread_that_trains(
    tmp_path: Path, fake: type[Fake]
) -> None:
    record(tmp_path, "run", ["watch.tensorboard=true"], [0.1, 0.5, 0.6])
    assert fake.calls == [
        ("begin", "running"), (0, 0.1), (1, 0.5), (2, 0.6), ("end", "completed")
    ]  # fmt: skip
    assert len(fake.threads) == 1
    assert threading.get_ident() not in fake.threads


def test_a_logger_that_fails_in_mid_run_is_closed_and_called_no_more(
    tmp_path: Path,
    fake: type[Fake],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fake, "fails_in", 1)
    run = record(tmp_path, "run", ["watch.tensorboard=true"], [0.1, 0.5, 0.6])
    assert read_entries(run)["status"] == "completed"
    assert ("end", "completed") not in fake.calls
    assert (run / "run.log").read_text().count(
        "fake receives no more metrics: ConnectionError: it is gone"
    ) == 1


def test_a_logger_that_blocks_is_given_up_at_the_end(
    tmp_path: Path,
    fake: type[Fake],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.blocked.set()
    monkeypatch.setattr("server_app.tracking.loggers.FLUSH_SECONDS", 0.1)
    run = record(tmp_path, "run", ["watch.tensorboard=true"], [0.1, 0.5, 0.6])
    assert read_entries(run)["status"] == "completed"
    assert (run / "run.log").read_text().count("fake receives no more metrics: TimeoutError") == 1


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("https://fl:SECRET@host", True),
        ("https://SECRET@host", True),  # a token
        ("postgresql://fl:SECRET@host/runs", True),
        ("http://[fl:SECRET@host", True),
        ("https://host/mlflow", False),
        ("postgresql://fl@host/runs", False),
    ],
)
def test_an_address_with_a_password_is_refused_and_not_shown(address: str, refused: bool) -> None:
    if refused:
        with pytest.raises(ConfigError, match="MLFLOW_TRACKING_PASSWORD") as caught:
            compose_experiment([f"watch.mlflow='{address}'"])
        assert "SECRET" not in str(caught.value)
    else:
        assert compose_experiment([f"watch.mlflow={address}"]).watch.mlflow == address


def test_without_its_library_it_is_refused_with_the_cure(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server_app.config.experiment.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"watch\.mlflow=sqlite: needs MLflow: uv sync --extra"):
        train("watch.mlflow=sqlite")
