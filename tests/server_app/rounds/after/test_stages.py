"""Stages after training in whole runs: the record, resumption, refusals, and failures."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from flwr.app import Context, RecordDict
from safetensors.torch import load_file

from client_app.after import statistics
from client_app.app import app as client_app
from client_app.session import Session
from server_app.app import app as server_app
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.config.run_config import Submitted
from server_app.nodes.failure import Failure
from server_app.nodes.messages import Exchange
from server_app.rounds.after.base import StageResult
from server_app.rounds.after.ccvr import Ccvr
from server_app.rounds.ending import final_stage
from server_app.rounds.evaluation import score_model
from server_app.runs.checkpoint import DIRECTORY, LAST_MODELS
from server_app.runs.identity import code_of, component_modules
from server_app.runs.records.client_scores import CLIENT_SCORES
from server_app.runs.records.older import add_later_settings
from server_app.runs.records.parts import Stage
from server_app.runs.records.run_record import read_entries, read_record
from task.errors import ConfigError, RunError
from task.fingerprint import fingerprint_for
from task.protocol.after.statistics import COUNTS, MEANS, StatisticsRequest
from task.protocol.tensors import PackedTensors
from task.site import IN_PROCESS
from task.training.worker import Worker
from tests.conftest import CNN, SMALL, Train, only_run, rows, sha256
from tests.site_grid import SiteGrid
from tests.task.data import making
from univarfl.engines.plan import plan_lines
from univarfl.engines.run_config import to_run_config
from univarfl.records.differences import settings_hash
from univarfl.records.labels import label_of
from univarfl.records.listing import accuracy_of
from univarfl.records.reader import read_run

CCVR = ("after=ccvr", "after.samples=20", "after.epochs=2")
FEDDF = ("after=feddf", "after.steps=3", "after.batch_size=32")
STAGES = pytest.mark.parametrize("stage", [CCVR, FEDDF], ids=["ccvr", "feddf"])


class TestRecord:
    @STAGES
    def test_it_has_the_scores_before_and_after_and_the_new_model(
        self, train_once: Train, stage: tuple[str, ...]
    ) -> None:
        plain, changed = train_once(), train_once(*stage)
        record, before = read_entries(changed), read_entries(plain)
        found = record["after"]
        assert found["name"] == record["config"]["after"]["name"] == stage[0].partition("=")[2]
        assert found["before"] == before["results"]["test"]
        assert found["after"] == record["results"]["test"] != found["before"]
        assert {"accuracy", "macro_f1", "auroc"} <= set(found["after"])
        assert found["seconds"] > 0
        spent = record["seconds"]
        assert spent["after"] == found["seconds"]
        parts = spent["connect"] + spent["rounds"] + spent["after"]
        assert spent["total"] == pytest.approx(parts, abs=0.002)
        label = f"after {label_of('after', found['name'])}"
        assert accuracy_of(read_record(changed)).endswith(f" ({label})")
        assert "(" not in accuracy_of(read_record(plain))
        assert sha256(changed) != sha256(plain)
        assert record["status"] == "completed"
        assert not (changed / DIRECTORY).exists()
        for name in ("rounds.csv", "classes.csv"):  # of the rounds alone
            same = [row for row in rows(changed, name) if row.get("metric") != "seconds"]
            assert same == [row for row in rows(plain, name) if row.get("metric") != "seconds"]
        assert read_run(changed).record.after == Stage(**found)

    def test_ccvr_changes_the_classifier_alone(self, train: Train) -> None:
        models = (train("rounds=1", *words) / "model.safetensors" for words in ((), CCVR))
        before, after = map(load_file, models)
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        assert changed == {"classifier.weight", "classifier.bias"}
        found = read_entries(train(*CCVR, "rounds=1", "seed=1"))["after"]
        assert (found["clients"], found["missing"]) == (4, {})
        assert len(found["images"]) == 10

    def test_feddf_says_what_it_was_distilled_on(self, train: Train) -> None:
        found = read_entries(train(*FEDDF, "rounds=1"))["after"]
        assert (found["teachers"], found["images"], found["transductive"]) == (4, 88, True)

    def test_without_a_stage_there_is_no_entry(self, train: Train) -> None:
        assert "after" not in read_entries(train("rounds=1"))

    def test_a_plan_names_the_stage(self) -> None:
        lines = list(plan_lines(compose_experiment(["engine=inprocess", "after=ccvr"])))
        assert "after     ccvr" in lines
        assert not any("after" in line for line in plan_lines(compose_experiment([])))


def test_records_without_the_setting_are_those_of_runs_without_a_stage() -> None:
    config = compose_experiment([]).model_dump()
    old = {key: value for key, value in config.items() if key != "after"}
    add_later_settings(old)
    assert settings_hash(old) == settings_hash(config)
    other = compose_experiment(["after=ccvr"]).model_dump()
    assert settings_hash(other) != settings_hash(config)
    module = "server_app.rounds.after.ccvr"
    assert module in code_of(other).components
    assert "server_app.rounds.after.calibration.pooling" in component_modules(module)


class TestBits:
    @STAGES
    def test_they_depend_neither_on_the_workers_nor_on_the_blocks(
        self, train: Train, stage: tuple[str, ...]
    ) -> None:
        words = ["partition=dirichlet", "rounds=1", *stage]
        one, two = train(*words), train(*words, "federation.workers=2")
        apart = train(*words, "federation.workers=3", "federation.message_megabytes=5.3")
        assert sha256(one) == sha256(two) == sha256(apart)
        assert read_entries(one)["after"]["after"] == read_entries(apart)["after"]["after"]

    @STAGES
    @pytest.mark.parametrize("moment", ["not_finite", "stage_line"])
    def test_a_run_that_ends_in_the_stage_repeats_it_on_the_same_model(
        self, train: Train, train_once: Train, stage: tuple[str, ...], moment: str, tmp_path: Path
    ) -> None:
        whole = train_once(*stage)
        with (
            patch.object(final_stage, moment, side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            train(*stage, "run_id=ended")
        ended = tmp_path / "runs" / "ended"
        assert (ended / LAST_MODELS).exists() == (stage is FEDDF)
        assert train(*whole_words([f"resume={ended}"])) == ended
        assert sha256(ended) == sha256(whole)
        record, expected = read_entries(ended), read_entries(whole)
        assert record["resumed_from"] == 2
        assert record["results"] == expected["results"]
        assert record["after"] | {"seconds": 0} == expected["after"] | {"seconds": 0}
        assert [row["round"] for row in rows(ended, "clients.csv")] == list("11112222")

    def test_models_that_were_damaged_are_not_distilled(self, train: Train, tmp_path: Path) -> None:
        with (
            patch.object(final_stage, "not_finite", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            train(*FEDDF, "run_id=ended")
        ended = tmp_path / "runs" / "ended"
        path = ended / LAST_MODELS
        path.write_bytes(path.read_bytes()[:-4] + b"abcd")
        with pytest.raises(ConfigError, match=r"last-models\.safetensors was changed"):
            train(*whole_words([f"resume={ended}"]))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("after=ccvr secure=masked", "features, which secure=masked hides; add after=none"),
        ("after=feddf secure=masked", "models of single clients, which secure=masked hides"),
        (
            "after=ccvr strategy=dp_fixed model.norm=group",
            "without noise, and strategy=dp_fixed protects them; add after=none",
        ),
        (
            "after=feddf strategy=dp_client_fixed model.norm=group",
            "without noise, and strategy=dp_client_fixed protects them; add after=none",
        ),
        (
            "after=ccvr privacy=example method=fedavg model=cnn model.norm=group",
            "without noise, and privacy.unit=example protects them; add after=none",
        ),
        (
            "after=ccvr model=linear method=fedavg",
            "model=linear has no layers before its classifier; add model=cnn, or after=none",
        ),
        (
            "after=ccvr method=fedetf",
            "retrains the classifier, and method=fedetf sets it; choose another method",
        ),
        (
            "after=ccvr method=freeze+fedprox",
            "retrains the classifier, and method=freeze sets it; choose another method",
        ),
    ],
)
def test_what_does_not_fit_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment(words.split())
    assert caught.value.key == "after"
    assert reason in caught.value.allowed


def test_covariances_that_are_too_large_are_refused_before_the_first_round(
    train: Train, tmp_path: Path
) -> None:
    reason = (
        r"after=ccvr: needs 5 MB for a client's covariances \(10 classes, 256 features\), and "
        r"federation.message_megabytes is 5; raise it to at most 2000, lower model.features, or"
    )
    with pytest.raises(ConfigError, match=reason):
        train(*CCVR, *CNN, "federation.message_megabytes=5")
    assert not (tmp_path / "runs").exists()


Told = Callable[[Session[StatisticsRequest], int], Any]


def hostile(lie: Callable[[dict[str, torch.Tensor]], Any]) -> Told:
    """A client's answer in which the statistics of client 1 are changed."""
    honest = statistics.statistics_of_client

    def told(session: Session[StatisticsRequest], client: int) -> Any:
        found = honest(session, client)
        return lie(found) if client == 1 else found

    return told


def failing(found: dict[str, torch.Tensor]) -> Any:
    raise RuntimeError("scanner offline")


class TestHostileClients:
    @pytest.mark.parametrize(
        ("lie", "reason"),
        [
            (failing, "RuntimeError: scanner offline"),
            (lambda found: found | {MEANS: found[MEANS] * torch.nan}, "means has a number that is"),
            (lambda found: found | {COUNTS: found[COUNTS] * 10**9}, "training images and has"),
            (lambda found: found | {MEANS: found[MEANS][:, :7]}, r"means is float64\(10, 7\), not"),
            (lambda found: {MEANS: found[MEANS]}, "its arrays must be classes, counts, means"),
        ],
        ids=["fails", "nan", "counts", "shape", "missing"],
    )
    def test_one_costs_itself_alone(self, train: Train, lie: Any, reason: str) -> None:
        with patch.object(statistics, "statistics_of_client", hostile(lie)):
            run = train(*CCVR, "rounds=1")
        found = read_entries(run)["after"]
        assert found["clients"] == 3
        assert list(found["missing"]) == ["1"]
        assert re.search(reason, found["missing"]["1"])
        (event,) = rows(run, "events.csv")
        assert event["event"].startswith("client 1: no statistics: ")

    def test_below_the_quorum_the_run_fails_and_can_go_on(
        self, train: Train, tmp_path: Path
    ) -> None:
        whole = sha256(train(*CCVR, "rounds=1", f"output_dir={tmp_path / 'whole'}"))
        honest = statistics.statistics_of_client

        def told(session: Session[StatisticsRequest], client: int) -> Any:
            return honest(session, client) if client == 3 else failing({})

        with (
            patch.object(statistics, "statistics_of_client", told),
            pytest.raises(
                RunError, match="after=ccvr: 1 of 4 clients sent statistics, and the quorum is 2 "
            ),
        ):
            train(*CCVR, "rounds=1", "federation.quorum=0.5")
        ended = only_run(tmp_path)
        train(*whole_words([f"resume={ended}"]))
        assert read_entries(ended)["after"]["clients"] == 4
        assert sha256(ended) == whole


class TestSites:
    """Sites in this process; a site tells statistics only if its owner allows it."""

    def run(
        self, place: Path, telling: set[str], images: int = 30, epsilon: float | None = None
    ) -> dict[str, Any]:
        names = ["east", "north"]
        for name in names:
            making.tree(place / name, ["cat", "dog"], images)
        words = [
            "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "local_epochs=1",
            "rounds=1", "method=fedavg", "partition=sites", f"partition.names=[{','.join(names)}]",
            f"output_dir={place / 'runs'}", "run_id=run", "watch.tensorboard=false", *CCVR,
        ]  # fmt: skip
        grid = SiteGrid(client_app, place, names, place)
        for node, name in grid.registered.items():
            config = grid._supernodes[node].context.node_config
            config["tell-statistics"] = name in telling
            config.update({} if epsilon is None else {"max-epsilon": epsilon})
        experiment = compose_experiment(words)
        context = Context(1, 0, {}, RecordDict(), to_run_config(Submitted(experiment, words)))
        server_app(grid=grid, context=context)
        return read_entries(place / "runs" / "run")

    def test_one_that_does_not_tell_statistics_does_not_take_part(self, tmp_path: Path) -> None:
        record = self.run(tmp_path, {"north"})
        found = record["after"]
        assert (found["clients"], sum(found["images"])) == (1, 54)
        assert "site east does not send statistics" in found["missing"]["0"]
        events = [(row["site"], row["event"]) for row in rows(tmp_path / "runs/run", "events.csv")]
        (event,) = [what for site, what in events if site == "east"]
        assert event.startswith("no statistics: site east does not send")
        assert "its owner can set tell-statistics = true" in event
        assert found["before"] == found["after"] == {}  # the coordinator has no test images
        assert record["results"]["validation"]["clients"] == 2

    def test_one_that_limits_its_privacy_loss_does_not_train_without_noise(
        self, tmp_path: Path
    ) -> None:
        with pytest.raises(Exception, match="max-epsilon"):
            self.run(tmp_path, {"east", "north"}, epsilon=1.0)

    def test_classes_with_few_images_are_not_described(self, tmp_path: Path) -> None:
        with pytest.raises(Exception, match="no class has the 20 images that statistics need"):
            self.run(tmp_path, {"east", "north"}, images=10)

    def test_if_none_tells_them_the_run_does_not_begin(self, tmp_path: Path) -> None:
        with pytest.raises(Exception, match="no site sends statistics of its features"):
            self.run(tmp_path, set())
        assert json.loads((tmp_path / "runs/run/run.json").read_text())["status"] == "failed"
        assert rows(tmp_path / "runs/run", "clients.csv") == []


@pytest.mark.parametrize(
    ("words", "changes", "reason"),
    [
        ([], {"features": 3}, "it names other numbers of classes and features"),
        ([], {"round": 1}, "after the last round alone"),
        (["method=fedper"], {}, "personal parts or no features"),
        (["model=linear"], {}, "personal parts or no features"),
    ],
)
def test_a_client_refuses_what_no_stage_asks_for(
    words: list[str], changes: dict[str, Any], reason: str
) -> None:
    stage = {"after": {"name": "ccvr"}}
    experiment = compose_experiment([*SMALL, *words]).local().model_copy(update=stage)
    worker = Worker(experiment)
    classes, features = worker.model.state_dict()["classifier.weight"].shape
    fields = {
        "run": "run", "experiment": experiment.model_dump_json(),
        "fingerprint": fingerprint_for(experiment.model_dump_json()), "round": 2,
        "clients": [0], "classes": classes, "features": features,
        "weights": PackedTensors.of(worker.initial_weights()),
    }  # fmt: skip
    session = Session(StatisticsRequest(**{**fields, **changes}), {IN_PROCESS: True})
    reply = statistics.statistics_of_clients(session)
    assert reason in reply.rows[0]["reason"]
    assert reply.sent == {}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("after=feddf guard=clip", "bypasses guard=clip"),
        ("after=ccvr guard=drop", "bypasses guard=drop"),
        ("after=feddf strategy=krum", "bypasses strategy=krum"),
        ("after=ccvr strategy=fedmedian", "bypasses strategy=fedmedian"),
        ("after=ccvr method=fedbn", "changes one model of all clients"),
    ],
)
def test_what_it_would_bypass_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment(words.split())


def test_a_result_that_is_not_finite_leaves_the_model_of_the_last_round(train: Train) -> None:
    def infinite(self: Any, context: Any, models: Any) -> StageResult:
        weights = {name: value / 0 for name, value in context.model.weights.items()}
        return StageResult(weights, {})

    before = train("rounds=1")
    with patch.object(Ccvr, "apply", infinite):
        run = train(*CCVR, "rounds=1")
    record = read_entries(run)
    assert record["status"] == "completed"
    assert "is not finite; the model of the last round is kept" in record["after"]["reason"]
    assert sha256(run) == sha256(before)


def test_without_a_client_in_the_last_round_there_is_nothing_to_distil(train: Train) -> None:
    with patch.object(final_stage.FinalStage, "models", return_value={}):
        run = train(*FEDDF, "rounds=1")
    record = read_entries(run)
    assert record["status"] == "completed"
    assert "the last round accepted no client's model" in record["after"]["reason"]
    assert record["after"]["before"] == record["after"]["after"]
    assert sha256(run) == sha256(train("rounds=1"))


def test_scores_at_the_clients_are_those_of_the_new_model_or_none(train: Train) -> None:
    def unheard(*of: Any) -> Any:
        return dataclasses.replace(score_model(*of), clients={})

    with patch.object(final_stage, "score_model", unheard):
        run = train(*CCVR, "rounds=1", "data.validation_share=0.3")
    assert not (run / CLIENT_SCORES).exists()
    assert "client_scores" not in read_entries(run)


def test_a_class_without_statistics_keeps_its_row(train: Train) -> None:
    words = ["rounds=1", "partition=pathological", "partition.classes_per_client=3"]
    before = load_file(train(*words) / "model.safetensors")["classifier.weight"]
    lie = hostile(failing)
    with patch.object(statistics, "statistics_of_client", lie):
        run = train(*CCVR, *words)
    after = load_file(run / "model.safetensors")["classifier.weight"]
    images = read_entries(run)["after"]["images"]
    absent = [label for label, count in enumerate(images) if count == 0]
    assert 0 < len(absent) < len(images)
    kept = [label for label in range(len(images)) if torch.equal(before[label], after[label])]
    assert kept == absent
    names = ", ".join(map(str, absent))
    events = [row["event"] for row in rows(run, "events.csv")]
    assert f"after=ccvr: no statistics of the classes {names}; they keep their rows" in events


def test_a_worker_without_an_answer_costs_its_clients(train: Train) -> None:
    silent = Failure("no answer before the round's timeout")

    def unheard(self: Any, message: Any, addressed: Any) -> Any:
        kept = original(self, message, addressed)
        mute = isinstance(addressed.request, StatisticsRequest) and 0 in addressed.request.clients
        return silent if mute else kept

    original = Exchange._read
    with patch.object(Exchange, "_read", unheard):
        found = read_entries(train(*CCVR, "rounds=1", "federation.workers=2"))["after"]
    assert found["clients"] == 2
    assert set(found["missing"].values()) == {silent.reason}
