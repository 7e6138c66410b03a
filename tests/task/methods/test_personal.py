"""Methods whose clients keep a part of the model: what is sent, kept, scored and refused."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from flwr.app import Context, RecordDict
from safetensors.numpy import load_file
from torch import nn

from client_app import client_state
from client_app.app import app as client_app
from server_app.app import app as server_app
from server_app.config.composition import compose_experiment
from server_app.config.run_config import Submitted
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from task.methods.families.conflicts import conflict
from task.methods.fedavg import FedAvg
from task.methods.fedper import classifier_entries
from task.methods.fedrep import FedRep
from task.methods.scaffold import Scaffold
from task.training.evaluation import Score
from task.training.personal.part import PERSONAL
from task.training.worker import Worker
from tests.conftest import SMALL_CNN, Train, lose_state, model_for, rows, sha256
from tests.site_grid import SiteGrid
from tests.task.data import making
from univarfl.engines.run_config import to_run_config
from univarfl.engines.train import train_experiment
from univarfl.records.reader import read_runs
from univarfl.records.scores import read_client_scores
from univarfl.report.comparability import comparability
from univarfl.report.summary import Summary

PERSONALISING = ("fedbn", "fedper", "fedrep")
SHARE = "data.validation_share=0.3"


def worker(method: str) -> Worker:
    words = [f"method={method}", "local_epochs=1", *model_for(method), SHARE]
    return Worker(compose_experiment(words).local())


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        ("fedbn", {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}),
        ("fedper", {"weight", "bias"}),
        ("fedrep", {"weight", "bias"}),
    ],
)
def test_the_part_is_neither_sent_nor_received(method: str, kept: set[str]) -> None:
    one = worker(method)
    assert {name.rpartition(".")[2] for name in one.personal.names} == kept
    sent = one.train(one.initial_weights(), 1, 0).weights
    assert sent.keys() == one.initial_weights().keys()
    assert not sent.keys() & set(one.personal.names)
    assert sent.keys() | set(one.personal.names) == one.model.state_dict().keys()


@pytest.mark.parametrize("method", PERSONALISING)
def test_a_client_trains_and_is_scored_with_its_own_part(method: str) -> None:
    one = worker(method)
    weights = one.initial_weights()
    first = one.train(weights, 1, 0)
    own = {PERSONAL + name for name in one.personal.names}
    assert own <= first.state.keys()
    with_own = one.train(weights, 2, 0, first.state).weights
    without = one.train(weights, 2, 0).weights
    assert any(not torch.equal(with_own[name], without[name]) for name in without)
    scores = [one.validate_personal(first.weights, 0, state) for state in ({}, first.state)]
    assert scores[0].loss != scores[1].loss


def test_two_methods_keep_both_parts_each_under_its_name() -> None:
    one = worker("fedbn+fedper+moon")
    state = one.train(one.initial_weights(), 1, 0).state
    assert any(name.startswith("moon/") for name in state)
    assert {name for name in state if name.startswith(PERSONAL)} == {
        PERSONAL + name for name in one.personal.names
    }
    assert "classifier.weight" in one.personal.names
    assert "encoder.1.running_mean" in one.personal.names


def test_statistics_are_measured_for_the_score_alone() -> None:
    words = ["method=fedbn", "local_epochs=1", SHARE]
    one, other = (
        Worker(compose_experiment([*words, f"method.statistics={how}"]).local())
        for how in ("trained", "measured")
    )
    first, second = (each.train(each.initial_weights(), 1, 0) for each in (one, other))
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)
    assert all(torch.equal(first.state[name], second.state[name]) for name in first.state)
    weights = {name: value * 2 for name, value in first.weights.items()}
    kept, again = (each.validate_personal(weights, 0, first.state) for each in (one, other))
    assert kept.loss != again.loss
    encoder = other.model.encoder
    assert isinstance(encoder, nn.Sequential)
    layer = encoder[1]
    assert isinstance(layer, nn.BatchNorm2d)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    images = other.images[other.images.index(other.data.clients[0].train)][0]
    with torch.no_grad():
        maps = encoder[0](images)
    assert torch.allclose(layer.running_mean, maps.mean(dim=(0, 2, 3)), atol=1e-5)
    assert torch.allclose(layer.running_var, maps.var(dim=(0, 2, 3)), rtol=1e-4)
    assert other.validate_personal(weights, 0, first.state) == again
    assert layer.momentum == 0.1


@pytest.mark.parametrize("method", ["fedprox+fedrep", "fedrep+fedsol"])
def test_a_fixed_layer_stays_although_another_method_changes_gradients(method: str) -> None:
    local = compose_experiment([f"method={method}", "local_epochs=2", SHARE]).local()
    one = Worker(local)
    initial = one.personal.complete({}, {})["classifier.weight"]
    for member in one.method.members():
        if isinstance(member, FedRep):
            member.body_epochs = 2  # no epoch is left for the classifier
    state = one.train(one.initial_weights(), 1, 0).state
    assert torch.equal(state[f"{PERSONAL}classifier.weight"], initial)
    assert all(parameter.requires_grad for parameter in one.model.parameters())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("personal")
    words = [*SMALL_CNN, "method=fedbn", SHARE, "rho=0.5", f"output_dir={place}"]
    return train_experiment(compose_experiment(words), words)


def test_there_is_no_test_accuracy(run: Path) -> None:
    assert read_entries(run)["results"]["test"] == {}
    assert not [row for row in rows(run, "rounds.csv") if row["split"] == "test"]
    assert 0 <= read_entries(run)["results"]["validation"]["accuracy"] <= 1


def test_the_record_names_the_part_and_the_report_warns(run: Path) -> None:
    assert "encoder.1.running_mean" in read_entries(run)["personal"]
    (warning,) = comparability(Summary(read_runs(run).runs))
    assert warning.startswith("FedBN: each client keeps a part of the model")


def test_who_has_not_trained_is_not_scored(run: Path) -> None:
    trained = {int(row["client"]) for row in rows(run, "clients.csv")}
    assert {score.client for score in read_client_scores(run)} == trained
    assert len(trained) < 4


@pytest.mark.parametrize("method", PERSONALISING)
def test_bits_do_not_depend_on_workers(method: str, train: Train) -> None:
    words = [f"method={method}", *model_for(method), SHARE, "rho=0.75"]
    one, three = (train(*words, *more) for more in ([], ["federation.workers=3"]))
    assert sha256(one) == sha256(three)
    assert read_client_scores(one) == read_client_scores(three)


def test_a_client_whose_part_is_lost_is_not_scored(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_state(monkeypatch)
    directory = train("method=fedper", SHARE, "rounds=1")
    assert [score.client for score in read_client_scores(directory)] == [0, 2, 3]


@pytest.mark.parametrize("fault", ["raise", "infinite"])
def test_a_client_that_cannot_be_scored_costs_itself_alone(
    fault: str, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate = Worker.validate_personal

    def fail(self: Worker, weights: Any, client: int, state: Any) -> Score:
        if client == 1 and fault == "raise":
            raise RuntimeError("out of memory")
        score = validate(self, weights, client, state)
        return replace(score, loss=float("inf")) if client == 1 else score

    monkeypatch.setattr(Worker, "validate_personal", fail)
    directory = train("method=fedper", SHARE, "rounds=1")
    assert [score.client for score in read_client_scores(directory)] == [0, 2, 3]


def test_a_failed_measurement_leaves_the_layers_as_they_were() -> None:
    one = Worker(compose_experiment(["method=fedbn", "method.statistics=measured", SHARE]).local())
    first = one.train(one.initial_weights(), 1, 0)
    with patch.object(type(one.model), "forward", side_effect=RuntimeError), suppress(RuntimeError):
        one.validate_personal(first.weights, 0, first.state)
    again = one.train(one.initial_weights(), 1, 0)
    assert all(torch.equal(again.state[name], first.state[name]) for name in first.state)


def test_statistics_of_very_large_images_are_measured_on_two_at_a_time() -> None:
    one = Worker(compose_experiment(["method=fedbn", "method.statistics=measured", SHARE]).local())
    result = one.train(one.initial_weights(), 1, 0)
    with patch("task.training.worker.STATISTICS_PIXELS", 1):
        assert one.validate_personal(result.weights, 0, result.state).examples


def test_fedsol_perturbs_the_layers_that_fedrep_trains() -> None:
    words = ["method=fedrep+fedsol", "local_epochs=2", SHARE]
    one = Worker(compose_experiment(words).local())
    assert one.train(one.initial_weights(), 1, 0).examples


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("method=fedbn model=lenet", "keeps batch norm with each client, and model=lenet has none"),
        ("method=fedbn model.norm=group", "keeps batch norm with each client"),
        ("method=fedper model=linear", "model=linear has none"),
        ("method=fedrep local_epochs=1", "add local_epochs=2"),
        ("method=fedrep method.body_epochs=0", "must be at least 1"),
        ("method=fedrep runtime=compiled", "changes the network while it trains"),
        ("method=fedbn data.validation_share=0", "needs validation images at the clients"),
        ("method=fedper privacy=example", "method=fedper: does not work with privacy.unit=example"),
        (
            "method=fedper privacy=client secure=masked model.norm=group",
            "method=fedper: keeps something at each client between rounds",
        ),
        ("method=fedbn+scaffold", "fedbn keeps a part of the model with the client, and scaffold"),
        ("method=fedper+fedrep", "more than one of them sets the classifier"),
        ("method=fedper+freeze", "more than one of them sets the classifier"),
    ],
)
def test_what_does_not_go_together_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment(words.split())


def test_a_hook_that_is_overridden_is_declared_by_that() -> None:
    class Own(FedAvg):
        def personal(self, model: nn.Module) -> Collection[str]:
            return classifier_entries(model)

    class Heir(Own):
        pass

    assert not FedAvg.personalises
    assert not Own.server_update
    assert Scaffold.server_update
    assert Own.personalises
    assert Heir.personalises
    reason = "own keeps a part of the model with the client, and scaffold"
    assert reason in conflict({"own": Own, "scaffold": Scaffold})


def test_combinations_that_make_sense_are_allowed() -> None:
    for method in ("fedbn+univarfl", "fedbn+fedper", "fedrep+feddecorr", "fedbn+fedprox+fedlc"):
        assert compose_experiment([f"method={method}"]).local().personalised


@pytest.mark.parametrize("method", ["fedbn", "fedrep"])
def test_the_part_stays_at_the_site(method: str, tmp_path: Path) -> None:
    names = ["east", "north"]
    for name in names:
        making.tree(tmp_path / name, ["cat", "dog"], 10)
    words = [
        "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "local_epochs=2", SHARE,
        "rounds=2", f"method={method}", "partition=sites", f"partition.names=[{','.join(names)}]",
        f"output_dir={tmp_path / 'runs'}", "run_id=run", "watch.tensorboard=false",
    ]  # fmt: skip
    kept: dict[str, list[str]] = {}
    keep = client_state.ClientState.keep

    def watch(self: client_state.ClientState, *args: Any) -> None:
        keep(self, *args)
        kept.setdefault(str(self.directory.parent), []).extend(args[-1])

    grid = SiteGrid(client_app, tmp_path, names, tmp_path)
    experiment = compose_experiment(words)
    context = Context(1, 0, {}, RecordDict(), to_run_config(Submitted(experiment, words)))
    with patch.object(client_state.ClientState, "keep", watch):
        server_app(grid=grid, context=context)
    assert [score.site for score in read_client_scores(tmp_path / "runs/run")] == names
    own = read_entries(tmp_path / "runs/run")["personal"]
    for name in names:
        assert set(kept[str(tmp_path / f"{name}.mem")]) == {PERSONAL + each for each in own}
        assert not list((tmp_path / f"{name}.mem").rglob("*.safetensors"))
    assert not set(own) & load_file(tmp_path / "runs/run/model.safetensors").keys()
    assert not (tmp_path / "runs/run/clients").exists()
