"""``univarfl analyse`` with few measures: what they measure, and what they leave out."""

from pathlib import Path

import pandas as pd
import pytest

from server_app.config.composition import compose_experiment
from server_app.tracking.console import show_progress
from task.errors import ConfigError
from tests.absent_sites import Run
from tests.conftest import CNN, SMALL_CNN, Train
from univarfl.analysis.analyse import DIRECTORY, analyse
from univarfl.engines.train import train_experiment

IMAGES = 12


def test_a_directory_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no runs"):
        analyse([tmp_path], [], IMAGES)


def test_what_a_run_lacks_is_named(
    run_at_sites: Run, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    """The images of sites are on other machines, and FedETF's classifier is not linear."""
    sites = run_at_sites("rounds=1", "watch.models_every=1")
    frame = train(*CNN, "method=fedetf", "rounds=1", "watch.models_every=1")
    show_progress()
    analyse([sites], ["training_loss", "release_curvature"], IMAGES)
    analyse([frame], ["curvature", "release_curvature"], IMAGES)
    said = capsys.readouterr().out
    assert "training_loss: left out: it needs the clients' images" in said
    assert "curvature: left out: it needs a linear classifier" in said
    assert said.count("left out") == 4


def test_a_single_participant_has_a_length_and_no_angle(train: Train) -> None:
    directory = train("rho=0.25", "watch.models_every=1")
    analyse([directory], ["spread", "drift", "features"], IMAGES)
    place = directory / DIRECTORY
    drift = pd.read_csv(place / "drift.csv")
    assert (drift["length"] > 0).all()
    assert drift["cosine"].isna().all()
    last = drift["client"].iloc[-1]
    assert set(pd.read_csv(place / "features.csv")["client"]) == {last}
    assert set(pd.read_csv(place / "spread.csv")["client"]) == {-1, *drift["client"]}


def test_what_cannot_be_measured_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMALL_CNN, f"output_dir={tmp_path}", "run_id=plain", "model.norm=group", "rounds=1"]
    train_experiment(compose_experiment(words), words)
    analyse([tmp_path / "plain"], ["drift", "curvature"], IMAGES)
    said = capsys.readouterr().out
    assert "drift: left out: it needs the models of single rounds" in said
    assert "curvature: left out: it needs model.norm=batch" in said
