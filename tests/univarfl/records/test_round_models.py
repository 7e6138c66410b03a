"""The models of single rounds, as a run keeps them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from server_app.config.composition import compose_experiment
from server_app.rounds.kept_models import AGGREGATED, RECEIVED
from server_app.runs.records.tables import MODELS
from task.errors import ConfigError
from tests.conftest import Train, rows, sha256
from univarfl.records.round_models import kept_rounds, load_models


def test_they_are_those_of_the_run_and_change_no_bit(train: Train) -> None:
    words = ("method=scaffold", "rounds=3", "rho=0.5", "partition=dirichlet")
    directory = train(*words, "watch.models_every=1")
    assert sha256(directory) == sha256(train(*words))
    found = {at: load_models(path) for at, path in kept_rounds(directory).items()}
    assert list(found) == [1, 2, 3]
    for at, models in found.items():
        table = [row for row in rows(directory, "clients.csv") if int(row["round"]) == at]
        images = {int(row["client"]): int(row["examples"]) for row in table}
        assert list(models.clients) == sorted(images)
        for name, after in models.aggregated.items():
            if after.dtype.kind != "f":
                continue
            shares = [count / sum(images.values()) for count in images.values()]
            own = [models.clients[client][name] for client in images]
            mean = np.average(np.stack(own).astype(np.float64), axis=0, weights=shares)
            assert after == pytest.approx(mean, rel=1e-5, abs=1e-6)
        if at > 1:
            before = found[at - 1].aggregated
            assert all(
                np.array_equal(before[name], value) for name, value in models.received.items()
            )


def test_every_second_round_and_none_unless_asked_for(train: Train) -> None:
    assert list(kept_rounds(train("rounds=5", "watch.models_every=2"))) == [2, 4]
    assert not (train("rounds=1") / MODELS).exists()


def test_a_round_that_is_damaged_is_named(tmp_path: Path) -> None:
    path = tmp_path / "round-000001.safetensors"
    path.write_bytes(b"\x10")
    with pytest.raises(ConfigError, match=f"run={path}: is damaged"):
        load_models(path)
    with pytest.raises(ConfigError, match=r"cannot be read: no such file"):
        load_models(tmp_path / "round-000002.safetensors")


def test_numbers_that_numpy_does_not_have_are_damaged(tmp_path: Path) -> None:
    kind = torch.float8_e4m3fn
    models = {f"{owner}/a": torch.ones(4).to(kind) for owner in (RECEIVED, AGGREGATED)}
    save_file(models, path := tmp_path / "round-000001.safetensors")
    with pytest.raises(SafetensorError):
        load_models(path).aggregated["a"]


def test_models_without_noise_are_not_kept_under_privacy() -> None:
    with pytest.raises(ConfigError, match="saves models of clients, which have no noise"):
        compose_experiment(["strategy=dp_fixed", "model.norm=group", "watch.models_every=5"])


def test_rounds_of_which_none_would_be_kept_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"watch.models_every=9: is more than the 3 rounds"):
        compose_experiment(["rounds=3", "watch.models_every=9"])
