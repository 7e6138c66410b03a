"""Batch norm measured again: exact, the same for any workers, and safe from wrong replies."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from client_app.after import moments
from client_app.session import Session
from server_app.config.composition import compose_experiment
from server_app.rounds.errors import RunFailedError
from server_app.rounds.statistics.final import SILENT
from server_app.rounds.statistics.measuring import MeasuredLayers, Measuring
from server_app.runs.records.older import ALL_IMAGES
from server_app.runs.records.run_record import read_entries
from task.data.batches import DeviceImages
from task.errors import ConfigError, ProtocolError, RunError, SiteError
from task.fingerprint import fingerprint_for
from task.models.layers.norm import batch_norm_layers, layers_in_order
from task.protocol.after.moments import (
    LARGEST_MEAN,
    LARGEST_VARIANCE,
    MomentsRequest,
    check_moments,
    moments_bytes,
)
from task.protocol.tensors import PackedTensors
from task.site import IN_PROCESS, Site
from task.tensors import Tensors
from task.training.after.moments import PooledMoments, input_moments
from task.training.worker import Worker
from tests.absent_sites import Run
from tests.conftest import CNN, SMALL_CNN, SMALL_RESNET, Train, rows, sha256

STAGE = ("after=batch_norm", "rounds=1")
ONE = torch.tensor([[1.0, 0.5], [0.2, -0.4], [-0.6, 0.9]], dtype=torch.float64)
TWO = torch.tensor([[0.4, 0.3], [1.2, 1.0]], dtype=torch.float64)


@pytest.fixture
def train(train: Train) -> Train:
    """Train a network with batch norm."""
    return lambda *words: train(*CNN, *words)


class TestMoments:
    def test_parts_give_the_moments_of_all_values(self) -> None:
        pooled = PooledMoments()
        for part in (ONE, TWO, 1e8 + ONE):
            pooled.add(len(part), part.mean(dim=0), part.var(dim=0, correction=0))
        every = torch.cat([ONE, TWO, 1e8 + ONE])
        assert torch.allclose(pooled.mean, every.mean(dim=0), rtol=1e-14)
        assert torch.allclose(pooled.variance, every.var(dim=0, correction=0), rtol=1e-14)

    def test_they_are_those_of_the_layers_inputs(self, cache_of_all_digits: Path) -> None:
        worker = Worker(compose_experiment(SMALL_CNN).local())
        layer = next(iter(batch_norm_layers(worker.model)))
        positions = torch.arange(100)
        mean, variance = input_moments(worker.model, layer, worker.images, positions)
        x, _ = worker.images[positions]
        first = worker.model.get_submodule("encoder.0")
        inputs = first(x).double()
        assert torch.allclose(mean, inputs.mean(dim=(0, 2, 3)), rtol=1e-5, atol=1e-7)
        assert torch.allclose(variance, inputs.var(dim=(0, 2, 3), correction=0), rtol=1e-5)

    def test_layers_are_measured_in_the_order_of_the_forward_pass(self) -> None:
        worker = Worker(compose_experiment([*SMALL_CNN, *SMALL_RESNET]).local())
        positions = torch.arange(20)
        order = layers_in_order(worker.model, 1, 8)
        assert sorted(order) == sorted(batch_norm_layers(worker.model))
        for layer in order:
            store(worker, layer, *input_moments(worker.model, layer, worker.images, positions))
        assert_measured(worker, positions)


def store(worker: Worker, layer: str, mean: Tensor, variance: Tensor) -> None:
    """Store a layer's statistics in the worker's model."""
    found = batch_norm_layers(worker.model)[layer]
    assert found.running_mean is not None
    assert found.running_var is not None
    found.running_mean.copy_(mean)
    found.running_var.copy_(variance)


def assert_measured(worker: Worker, positions: Tensor) -> None:
    """Assert that each layer's statistics are the moments of its inputs."""
    for name, layer in batch_norm_layers(worker.model).items():
        mean, variance = input_moments(worker.model, name, worker.images, positions)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        assert torch.allclose(layer.running_mean.double(), mean, rtol=1e-4, atol=1e-5), name
        assert torch.allclose(layer.running_var.double(), variance, rtol=1e-4, atol=1e-6), name


def test_the_statistics_are_those_of_all_images_and_the_weights_stay(train: Train) -> None:
    words = ["partition=dirichlet", "alpha=0.3", "rounds=1"]
    plain = train(*words)
    before = load_file(plain / "model.safetensors")
    run = train(*words, "after=batch_norm")
    after = load_file(run / "model.safetensors")
    changed = {name.rpartition(".")[2] for name in before if not before[name].equal(after[name])}
    assert changed == {"running_mean", "running_var"}
    worker = Worker(compose_experiment([*SMALL_CNN, *words]).local())
    worker.load(after)
    every = [torch.from_numpy(each.train) for each in worker.data.clients.values()]
    assert_measured(worker, worker.images.index(torch.cat(every).numpy()))
    found = read_entries(run)["statistics"]
    assert (found["clients"], found["missing"], found["layers"]) == (4, {}, 10)
    assert found["images"] == 256
    readings = found["readings"]
    assert list(readings) == ["averaged", ALL_IMAGES]
    assert readings["averaged"] == read_entries(plain)["results"]["test"]
    assert readings[ALL_IMAGES] == read_entries(run)["results"]["test"]
    assert read_entries(plain)["statistics"]["readings"] == readings
    spent = read_entries(run)["seconds"]
    parts = spent["connect"] + spent["rounds"] + spent["statistics"]
    assert spent["total"] == pytest.approx(parts, abs=0.002)


@pytest.mark.slow
def test_the_bits_depend_neither_on_the_workers_nor_on_the_blocks(train: Train) -> None:
    words = ["partition=dirichlet", *STAGE]
    one, two = train(*words), train(*words, "federation.workers=2")
    apart = train(*words, "federation.workers=3", "federation.message_megabytes=0.001")
    assert sha256(one) == sha256(two) == sha256(apart)


def test_a_stage_after_training_has_the_measured_statistics(train: Train) -> None:
    exact, both = train(*STAGE), train("model.statistics=exact", "rounds=1", "after=ccvr")
    one, other = (load_file(run / "model.safetensors") for run in (exact, both))
    changed = {name for name in one if not one[name].equal(other[name])}
    assert changed == {"classifier.weight", "classifier.bias"}
    record = read_entries(both)
    assert record["after"]["before"] == record["statistics"]["readings"][ALL_IMAGES]


@pytest.mark.parametrize(
    ("statistics", "words", "reason"),
    [
        (
            "exact",
            "method=fedbn",
            "is for one model of all clients, and each client of method=fedbn",
        ),
        ("exact", "guard=clip", "which bypasses guard=clip; choose averaged"),
        ("exact", "strategy=krum", "which bypasses strategy=krum; choose averaged"),
        ("exact", "model.norm=group", "must be averaged: this network has no batch norm"),
        ("exact", "model.statistics_images=1", "must be at least 2"),
        ("moments", "strategy=fedmedian", "and strategy=fedmedian computes none; choose averaged"),
        ("moments", "watch.models_every=1", "and watch.models_every needs their whole models"),
        ("moments", "after=feddf", "and the stage after training needs their whole models"),
        ("moments", "method=fedbn", "is for one model of all clients"),
        ("moments", "model.norm=group", "must be averaged: this network has no batch norm"),
    ],
)
def test_what_does_not_fit_is_refused(statistics: str, words: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment([f"model.statistics={statistics}", *words.split()])
    assert caught.value.key.startswith("model.statistics")
    assert reason in caught.value.allowed


@pytest.mark.parametrize("words", ["model.norm=group", "model=lenet model.map_size=5"])
def test_a_model_without_batch_norm_is_refused_before_the_first_round(
    train: Train, tmp_path: Path, words: str
) -> None:
    reason = "model.statistics=exact: must be averaged: this network has no batch norm"
    with pytest.raises(ConfigError, match=reason):
        train(*STAGE, "method=fedavg", *words.split())
    assert not (tmp_path / "runs").exists()


def moments_of(**changes: Tensor) -> dict[str, Tensor]:
    """Moments of a layer of two channels, with changes."""
    return {"mean": ONE[0], "variance": ONE[0].abs(), **changes}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"mean": ONE[0]}, "its arrays must be mean, variance"),
        (moments_of(more=ONE), "its arrays must be mean, variance"),
        (moments_of(mean=ONE[0].float()), r"mean is float32\(2,\), not float64\(2,\)"),
        (moments_of(mean=ONE[:1]), r"mean is float64\(1, 2\), not float64\(2,\)"),
        (moments_of(mean=ONE[0] * torch.nan), "mean has a number that is not finite"),
        (moments_of(variance=ONE[0] * 1e39), "variance has a number that is not finite, or too"),
        (moments_of(variance=-ONE[0]), "variance has a number below 0"),
    ],
)
def test_other_moments_are_refused(found: dict[str, Tensor], reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        check_moments(found, channels=2)


def request_for(words: list[str], **changes: Any) -> MomentsRequest:
    """The request for the first layer's moments of client 0, with changes."""
    local = compose_experiment([*SMALL_CNN, "method=fedavg"]).local()
    other = compose_experiment([*SMALL_CNN, *words]).local().method  # that the rules would refuse
    model = {**local.model, "statistics": "exact"}
    local = local.model_copy(update={"model": model, "method": other})
    worker = Worker(local)
    name, layer = next(iter(batch_norm_layers(worker.model).items()))
    fields = {
        "run": "run", "experiment": local.model_dump_json(),
        "fingerprint": fingerprint_for(local.model_dump_json()), "round": 2, "clients": [0],
        "layer": name, "channels": layer.num_features, "images": 256,
        "weights": PackedTensors.of(worker.initial_weights()),
    }  # fmt: skip
    return MomentsRequest(**{**fields, **changes})


def test_a_reply_is_bounded_before_it_is_read() -> None:
    limits = request_for([], clients=[1, 4]).reply_limits()
    assert set(limits.arrays) == {"sent/1", "sent/4"}
    assert moments_bytes(16) == 256 < limits.arrays["sent/1"]
    with pytest.raises(ProtocolError, match="sent/1 has 20000 bytes, of"):
        limits.check(10, {"sent/1": 20_000})


@pytest.mark.parametrize(
    ("words", "changes", "reason"),
    [
        ([], {"layer": "encoder.0"}, "it names no layer of batch norm"),
        ([], {"layer": "__class__"}, "it names no layer of batch norm"),
        ([], {"channels": 3}, "it names no layer of batch norm with this number of channels"),
        ([], {"round": 1}, "after the last round alone"),
        ([], {"clients": [9]}, "client 9 is not trained here"),
        (["method=fedper"], {}, "a model with personal parts"),
    ],
)
def test_a_client_refuses_what_no_stage_asks_for(
    words: list[str], changes: dict[str, Any], reason: str
) -> None:
    reply = moments.moments_of_clients(Session(request_for(words, **changes), {IN_PROCESS: True}))
    assert reason in reply.rows[0]["reason"]
    assert reply.sent == {}


class TestSites:
    def session(self, place: Path, **changes: Any) -> Session[MomentsRequest]:
        """A request to a simulated worker that is treated as a site."""
        session = Session(request_for([], **changes), {IN_PROCESS: True})
        site = Site.model_validate(
            {"site": "east", "data-dir": str(place), "memory-dir": str(place),
             "tell-statistics": True}
        )  # fmt: skip
        session.__dict__["worker"] = session.worker
        session.__dict__["site"] = site
        return session

    def test_it_describes_one_set_of_weights_in_a_run(self, tmp_path: Path) -> None:
        first = self.session(tmp_path)
        weights = first.tensors(first.request.weights)
        statistics = {name: value + 1 for name, value in weights.items() if "running" in name}
        other = {name: value + 1 for name, value in weights.items() if "weight" in name}
        moments.check_same_model(first, weights)
        moments.check_same_model(first, weights)
        next_layer = list(batch_norm_layers(first.worker.model))[1]
        second = self.session(tmp_path, layer=next_layer)
        for session, sent in ((second, {**weights, **other}), (first, {**weights, **statistics})):
            with pytest.raises(SiteError, match="has sent statistics of another model in this run"):
                moments.check_same_model(session, sent)
        moments.check_same_model(second, {**weights, **statistics})
        seed = first.request.experiment.replace('"seed":0', '"seed":1')
        assert seed != first.request.experiment
        with pytest.raises(SiteError, match="has sent statistics of another model in this run"):
            moments.check_same_model(self.session(tmp_path, experiment=seed), weights)

    def test_one_that_limits_its_privacy_loss_sends_none(self, tmp_path: Path) -> None:
        session = self.session(tmp_path)
        assert session.site is not None
        session.__dict__["site"] = session.site.model_copy(update={"max_epsilon": 1.0})
        with pytest.raises(SiteError, match="limits its privacy loss"):
            moments.check_allowed(session)

    def test_one_that_does_not_tell_statistics_sends_none(self, tmp_path: Path) -> None:
        session = self.session(tmp_path)
        assert session.site is not None
        moments.check_allowed(session)
        session.__dict__["site"] = session.site.model_copy(update={"tell_statistics": False})
        with pytest.raises(SiteError, match="its owner can set tell-statistics = true"):
            moments.check_allowed(session)

    def test_one_measures_what_the_experiment_says(self, tmp_path: Path) -> None:
        more = self.session(tmp_path, images=1000)
        more.node_config = {}
        with pytest.raises(ProtocolError, match="another number of images than"):
            moments.check_measured(more)


Moments = Callable[..., tuple[Tensor, Tensor]]
honest = input_moments


def lying(lie: Callable[[Tensor], Any]) -> Moments:
    """Moments whose means client 1 changes, in the second layer alone."""
    asked: list[str] = []

    def told(
        model: nn.Module, layer: str, images: DeviceImages, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        asked.append(layer)
        mean, variance = honest(model, layer, images, positions)
        is_second = len(set(asked)) == 2 and asked.count(layer) == 2
        return (lie(mean), variance) if is_second else (mean, variance)

    return told


def failing(mean: Tensor) -> Any:
    raise RuntimeError("scanner offline")


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (failing, "RuntimeError: scanner offline"),
        (lambda mean: mean * torch.nan, "mean has a number that is not finite"),
        (lambda mean: mean[:3], r"mean is float64\(3,\), not"),
    ],
    ids=["fails", "nan", "shape"],
)
def test_one_client_costs_itself_alone_from_then_on(train: Train, lie: Any, reason: str) -> None:
    with patch.object(moments, "input_moments", lying(lie)):
        run = train(*STAGE)
    found = read_entries(run)["statistics"]
    assert found["clients"] == 3
    assert list(found["missing"]) == ["1"]
    assert re.search(reason, found["missing"]["1"])
    (event,) = rows(run, "events.csv")
    assert event["event"].startswith("client 1: batch norm not measured: ")


def test_the_largest_moments_that_are_allowed_can_be_stored() -> None:
    pooled, variance = PooledMoments(), torch.full((2,), LARGEST_VARIANCE, dtype=torch.float64)
    for sign in (1, -1):
        mean = torch.full((2,), sign * LARGEST_MEAN, dtype=torch.float64)
        pooled.add(10, *check_moments({"mean": mean, "variance": variance}, 2))
    assert pooled.mean.float().isfinite().all()
    assert pooled.variance.float().isfinite().all()
    with pytest.raises(ProtocolError, match="mean has a number that is not finite, or too large"):
        check_moments({"mean": mean * 1.01, "variance": variance}, 2)


def test_a_mean_that_would_make_the_variance_infinite_is_refused(train: Train) -> None:
    with patch.object(moments, "input_moments", lying(lambda mean: mean + 2e19)):
        found = read_entries(train(*STAGE))["statistics"]
    assert list(found["missing"]) == ["1"]
    assert "reason" not in found


def test_if_nobody_answers_the_run_fails(train: Train) -> None:
    with (
        patch.object(moments, "input_moments", side_effect=RuntimeError("offline")),
        pytest.raises(
            RunError,
            match=r"model\.statistics=exact: 0 of 4 clients measured encoder\.1, and the quorum is "
            r"1 \(federation.quorum\); the first: .*offline",
        ),
    ):
        train(*STAGE)


def test_a_stage_that_was_ended_goes_on_with_other_sites(run_at_sites: Run) -> None:
    """A site describes a layer once, so the layers that were measured are kept."""
    moments_of = Measuring._moments

    def ended_in_the_third(
        measuring: Measuring, number: int, layer: str, weights: Tensors
    ) -> tuple[Tensor, Tensor]:
        if number == 3:
            raise RunFailedError("the coordinator is gone")
        return moments_of(measuring, number, layer, weights)

    with (
        patch.object(Measuring, "_moments", ended_in_the_third),
        pytest.raises(RunFailedError, match="the coordinator is gone"),
    ):
        run_at_sites(*STAGE, *CNN, "run_id=ended", away=lambda name, at: name == "north" and at > 1)
    ended = run_at_sites.place / "ended"
    assert run_at_sites(f"resume={ended}") == ended
    record = read_entries(ended)
    assert record["status"] == "completed"
    assert (record["statistics"]["clients"], list(record["statistics"]["missing"])) == (2, ["1"])
    assert record["statistics"]["layers"] > 2
    assert not (ended / "checkpoints").exists()


@pytest.mark.parametrize("damage", ["cut", "other model"])
def test_layers_of_another_model_or_of_a_damaged_file_are_measured_again(
    tmp_path: Path, damage: str
) -> None:
    model = {"a.running_mean": torch.ones(2)}
    statistics = {"a.running_mean": torch.zeros(2).numpy()}
    MeasuredLayers(tmp_path, model).keep(statistics, {3: "offline"})
    found = MeasuredLayers(tmp_path, model)
    assert list(found.statistics) == ["a.running_mean"]
    assert found.missing == {3: "offline"}
    (file,) = (tmp_path / "checkpoints").iterdir()
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        model["a.running_mean"] += 1
    assert MeasuredLayers(tmp_path, model).statistics == {}


def test_a_site_that_does_not_tell_is_not_asked_and_is_named(run_at_sites: Run) -> None:
    run = run_at_sites(*STAGE, *CNN, silent=("south",))
    record = read_entries(run)
    assert record["statistics"]["clients"] == 2
    assert record["statistics"]["missing"] == {"2": SILENT}
    (event,) = [row for row in rows(run, "events.csv") if row["site"] == "south"]
    assert event["event"] == f"batch norm not measured: {SILENT}"


def test_a_run_does_not_start_if_no_site_tells(run_at_sites: Run) -> None:
    with pytest.raises(RunFailedError, match="no site sends its statistics of batch norm"):
        run_at_sites(*STAGE, *CNN, silent=("east", "north", "south"))


def test_sites_measure_only_if_it_is_chosen(run_at_sites: Run) -> None:
    assert "statistics" not in read_entries(run_at_sites("rounds=1", *CNN))
