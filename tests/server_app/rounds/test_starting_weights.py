"""Runs that start from the weights of a file (``model.weights``)."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from server_app.aggregation.starting_weights import starting_weights
from server_app.config.composition import compose_experiment
from server_app.config.file_hash import hash_of
from server_app.config.resuming import whole_words
from server_app.runs.identity import identity_of
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from task.given_weights import EXPECTED, KEY, GivenWeights
from tests.conftest import Train, rows, sha256
from tests.interruption import ended_in
from univarfl.inference.model import trained_model

Tensors = dict[str, Tensor]


def scores(run: Path, server_round: int) -> dict[str, float]:
    """Return the test scores of one round, without those of the last round alone."""
    return {
        row["metric"]: float(row["value"])
        for row in rows(run, "rounds.csv")
        if (row["round"], row["split"]) == (str(server_round), "test")
        and row["metric"] not in ("auroc", "average_precision")
    }


@pytest.fixture
def first(train: Train) -> Path:
    """Return a run of one round."""
    return train("rounds=1", "run_id=first")


def changed(first: Path, change: Callable[[Tensors], object]) -> Path:
    """Return a copy of a run's model with changed tensors."""
    tensors = load_file(first / "model.safetensors")
    change(tensors)
    save_file(tensors, first.parent / "changed.safetensors")
    return first.parent / "changed.safetensors"


def test_a_run_begins_with_them_and_records_their_hash(
    train: Train, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(first.parent)
    run = train("rounds=1", "model.weights=first")  # the directory of a run, relative
    assert scores(run, 0) == scores(first, 1)
    model = read_entries(run)["config"]["model"]
    assert model["weights"] == str(first / "model.safetensors")
    assert model["weights_sha256"] == sha256(first)
    assert rows(run, "events.csv") == []
    assert trained_model(run, "cpu").classes
    without = read_entries(first)["config"]["model"]
    assert set(model) - set(without) == {"weights", "weights_sha256"}
    experiment = compose_experiment([f"model.weights={first}"])
    assert '"weights' not in experiment.local().model_dump_json()  # which is what clients get


def test_a_classifier_of_other_classes_stays_new(train: Train, first: Path) -> None:
    def of_three_classes(tensors: Tensors) -> None:
        tensors["classifier.weight"] = tensors["classifier.weight"][:3].clone()
        tensors["classifier.bias"] = torch.full((3,), torch.nan)  # it is not even read
        tensors["teacher.weight"] = torch.zeros(2)

    file = changed(first, of_three_classes)
    run = train("rounds=1", f"model.weights={file}", "watch.models_every=1")
    ignored, classifier = [row["event"] for row in rows(run, "events.csv")]
    assert ignored.endswith("or it stays with the clients: teacher.weight")
    assert "the classifier keeps its initial weights: classifier.weight is [3, 84]" in classifier
    received = load_file(run / "models" / "round-000001.safetensors")
    given = load_file(file)
    fresh = load_file(
        train("rounds=1", "watch.models_every=1") / "models" / "round-000001.safetensors"
    )
    for name in load_file(first / "model.safetensors"):
        source = fresh[f"received/{name}"] if name.startswith("classifier.") else given[name]
        assert torch.equal(received[f"received/{name}"], source), name


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ({}, r"body\.weight is missing in the file and \[2\] here"),
        ({"body.weight": torch.zeros(3)}, r"body\.weight is \[3\] in the file and \[2\] here"),
        ({"body.weight": torch.full((2,), torch.inf)}, r"body\.weight is infinite or NaN"),
        ({"body.weight": torch.zeros(2).long()}, r"body\.weight is torch.int64, not torch.float32"),
    ],
)
def test_other_layers_are_refused_by_name(tmp_path: Path, layers: Tensors, reason: str) -> None:
    initial = {"body.weight": torch.ones(2), "classifier.weight": torch.ones(2, 2)}
    save_file(layers, tmp_path / "file")
    given = GivenWeights(tmp_path / "file", hash_of(KEY, tmp_path / "file", EXPECTED))
    with pytest.raises(ConfigError, match=reason):
        starting_weights(given, initial)


def test_half_precision_is_converted(tmp_path: Path) -> None:
    initial = {"body.weight": torch.ones(2), "classifier.weight": torch.ones(2, 2)}
    save_file({"body.weight": torch.tensor([0.5, 2]).half()}, tmp_path / "file")
    given = GivenWeights(tmp_path / "file", hash_of(KEY, tmp_path / "file", EXPECTED))
    weights, notes = starting_weights(given, initial)
    assert torch.equal(weights["body.weight"], torch.tensor([0.5, 2]))
    assert torch.equal(weights["classifier.weight"], initial["classifier.weight"])
    assert len(notes) == 1
    assert notes[0].endswith("classifier.weight is missing in the file and [2, 2] here")
    save_file({}, tmp_path / "file")
    with pytest.raises(ConfigError, match="has changed since the run was composed"):
        starting_weights(given, initial)


def test_a_classifier_of_which_a_part_fits_keeps_its_initial_weights_as_a_whole(
    tmp_path: Path,
) -> None:
    initial = {
        "body.weight": torch.ones(2),
        "classifier.weight": torch.ones(4, 2),
        "classifier.bias": torch.ones(4),
    }
    of_three = {name: torch.zeros_like(value) for name, value in initial.items()}
    of_three["classifier.weight"] = torch.zeros(3, 2)
    save_file(of_three, tmp_path / "file")
    given = GivenWeights(tmp_path / "file", hash_of(KEY, tmp_path / "file", EXPECTED))
    weights, _ = starting_weights(given, initial)
    assert torch.equal(weights["body.weight"], of_three["body.weight"])
    for name in ("classifier.weight", "classifier.bias"):
        assert torch.equal(weights[name], initial[name])


def test_what_is_no_file_of_weights_is_refused(train: Train, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory; name a file of weights"):
        train(f"model.weights={tmp_path / 'nothing'}")
    (tmp_path / "text").write_text("no weights")
    with pytest.raises(ConfigError, match="is not a file of weights"):
        train(f"model.weights={tmp_path / 'text'}")


@pytest.mark.slow
def test_another_file_is_another_run(train: Train, first: Path) -> None:
    file = changed(first, lambda tensors: None)
    words = ["rounds=2", f"model.weights={file}"]
    whole = train(*words)
    with ended_in(2), pytest.raises(KeyboardInterrupt):
        train(*words, "run_id=ended")
    before = identity_of(compose_experiment(words).model_dump(), None)
    content = file.read_bytes()
    changed(first, lambda tensors: tensors["classifier.bias"].add_(1))
    assert identity_of(compose_experiment(words).model_dump(), None) != before
    resume = [f"resume={first.parent / 'ended'}"]
    with pytest.raises(ConfigError, match=r"the file of model\.weights has changed"):
        train(*whole_words(resume))
    file.write_bytes(content)
    assert sha256(train(*whole_words(resume))) == sha256(whole)
