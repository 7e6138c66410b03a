"""What TensorBoard and MLflow are told of real runs, read back with their own libraries."""

from pathlib import Path

import pytest
from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from server_app.run_record import read_record
from task.errors import ConfigError
from tests.conftest import Train, rows

QUICK = ("model=resnet56", "data.image_size=8")


def accuracies(run: Path) -> dict[int, float]:
    return {
        int(row["round"]): float(row["value"])
        for row in rows(run, "rounds.csv")
        if (row["split"], row["metric"]) == ("test", "accuracy")
    }


def test_tensorboard_has_every_round(train: Train) -> None:
    run = train(*QUICK)
    logs = EventAccumulator(str(run / "tensorboard")).Reload()
    found = {event.step: event.value for event in logs.Scalars("accuracy/test")}
    assert found == pytest.approx(accuracies(run))
    assert {"loss/validation", "ce/train", "macro_f1/test"} <= set(logs.Tags()["scalars"])


def test_it_can_be_left_out(train: Train) -> None:
    assert not (train(*QUICK, "watch.tensorboard=false") / "tensorboard").exists()


def test_mlflow_has_settings_metrics_and_the_end(train: Train, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    run = train(*QUICK, f"watch.mlflow={uri}", "method=fedprox")
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("univarfl")
    assert experiment
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.run_name == run.name
    assert found.info.status == "FINISHED"
    assert found.data.params["method.proximal_weight"] == "0.01"
    history = client.get_metric_history(found.info.run_id, "accuracy/test")
    assert {point.step: point.value for point in history} == pytest.approx(accuracies(run))


def test_a_watcher_that_fails_is_told_of_and_the_run_goes_on(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(*QUICK, "watch.mlflow=nosuch://place")
    assert read_record(run)["status"] == "completed"
    assert "warning: mlflow takes no more metrics: " in capsys.readouterr().out


def test_without_its_library_it_is_refused_with_the_cure(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server_app.experiment.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"watch\.mlflow=sqlite: needs MLflow: uv sync --extra"):
        train(*QUICK, "watch.mlflow=sqlite")
