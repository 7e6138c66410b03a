"""Closed-form classifiers in whole runs: the same bits for every split, and what is refused."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from client_app.after import features, sums
from client_app.session import Session
from client_app.work_unit import train_clients
from server_app.config.composition import compose_experiment
from server_app.rounds.closed_form import collecting
from server_app.rounds.errors import RunFailedError
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError, RunError, SiteError
from task.fingerprint import fingerprint_for
from task.protocol.after.sums import SumsRequest
from task.protocol.tensors import PackedTensors
from task.protocol.training import TrainRequest
from task.site import IN_PROCESS, Site
from task.training.worker import Worker
from tests.conftest import SMALL, Train, rows, sha256
from tests.server_app.nodes.test_lies import trained
from tests.server_app.rounds.masked.test_masked_sites import NAMES, WORDS, MaskedSites
from tests.task.data import making
from univarfl.inference.model import trained_model

ONE_ROUND = "rounds=1"
RIDGE, NCM = ("method=ridge", ONE_ROUND), ("method=ncm", ONE_ROUND)
METHODS = pytest.mark.parametrize("method", [RIDGE, NCM], ids=["ridge", "ncm"])
SPLITS = (
    ("num_clients=1",),
    ("num_clients=7", "federation.workers=3"),
    ("partition=dirichlet", "alpha=0.01", "partition.min_images=3", "federation.workers=2"),
    ("partition=pathological", "partition.classes_per_client=3"),
    ("federation.message_megabytes=0.1", "batch_size=7"),
)


class TestSameBits:
    @METHODS
    def test_the_model_does_not_depend_on_the_split(
        self, train: Train, method: tuple[str, ...]
    ) -> None:
        expected = sha256(train(*method))
        for words in SPLITS:
            assert sha256(train(*method, *words)) == expected, words

    @METHODS
    @pytest.mark.slow
    def test_masks_change_no_bit(self, train: Train, method: tuple[str, ...]) -> None:
        expected = sha256(train(*method))
        for words in (["secure=rounded"], ["secure=masked"], ["secure=masked", *SPLITS[1]]):
            assert sha256(train(*method, *words)) == expected, words

    @pytest.mark.slow
    def test_a_stage_with_masks_changes_the_model_of_the_masked_rounds(self, train: Train) -> None:
        words = ["method=fedavg", ONE_ROUND, "after=ridge"]
        plain, masked = train(*words, "secure=rounded"), train(*words, "secure=masked")
        assert sha256(plain) == sha256(masked)
        assert read_entries(masked)["after"]["clients"] == 4

    def test_late_clients_change_only_what_their_images_change(self, train: Train) -> None:
        """In any order and grouping: the blocks of clients are reversed here."""
        ask = collecting.Collection._ask

        def backwards(self: collecting.Collection, clients: list[int]) -> None:
            for client in reversed(clients):
                ask(self, [client])

        expected = sha256(train(*RIDGE))
        with patch.object(collecting.Collection, "_ask", backwards):
            assert sha256(train(*RIDGE)) == expected


def features_and_labels(run: Path, words: tuple[str, ...]) -> tuple[Any, Any]:
    """The features of all training images in float64, of length 1, and the labels, with NumPy."""
    worker = Worker(compose_experiment([*SMALL, *words]).local())
    worker.load(load_file(run / "model.safetensors"))
    places = np.sort(np.concatenate([client.train for client in worker.data.clients.values()]))
    with torch.inference_mode():
        x, y = worker.images[worker.images.index(places)]
        z = worker.model.eval()(x).features.double().numpy()
    return z / np.linalg.norm(z, axis=1, keepdims=True), y.numpy()


def test_ridge_is_numpys_solution(train: Train) -> None:
    words = (*RIDGE, "method.penalty=0.5")
    run = train(*words)
    z, y = features_and_labels(run, words)
    found = load_file(run / "model.safetensors")
    for used, most in ((z, 1e-5), ((z * 2**20).round() / 2**20, 1e-6)):
        solved = np.linalg.solve(
            used.T @ used + 0.5 * np.eye(used.shape[1]), used.T @ np.eye(10)[y]
        )
        solved /= np.linalg.norm(solved, axis=0)
        assert np.abs(found["classifier.weight"].numpy() - solved.T).max() < most
    assert not found["classifier.bias"].any()
    assert read_entries(run)["results"]["test"]["accuracy"] > 0.5


def test_ncm_is_the_direction_of_each_class_mean(train: Train) -> None:
    run = train(*NCM)
    z, y = features_and_labels(run, NCM)
    means = np.stack([z[y == label].mean(axis=0) for label in range(10)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    weight = load_file(run / "model.safetensors")["classifier.weight"].numpy()
    assert np.abs(weight - means).max() < 1e-6


class TestRecord:
    def test_it_is_that_of_a_round(self, train: Train) -> None:
        run = train(*RIDGE)
        record = read_entries(run)
        assert record["status"] == "completed"
        assert record["results"]["validation"] == {"clients": 0}
        by_round = {(row["round"], row["split"], row["metric"]) for row in rows(run, "rounds.csv")}
        assert ("1", "test", "accuracy") in by_round
        assert [row["status"] for row in rows(run, "clients.csv")] == ["ok"] * 4
        images = sum(int(row["examples"]) for row in rows(run, "clients.csv"))
        assert images == record["data"]["train"]
        assert "after" not in record
        assert trained_model(run, "cpu", None).classes == list(map(str, range(10)))

    def test_the_stage_does_what_the_method_does_with_the_trained_model(self, train: Train) -> None:
        words = ("method=fedavg", ONE_ROUND, "data.validation_share=0")
        plain, staged = train(*words), train(*words, "after=ridge")
        given = train(*RIDGE, f"model.weights={plain}")
        assert sha256(given) == sha256(staged) != sha256(plain)
        found = read_entries(staged)["after"]
        assert (found["clients"], found["missing"]) == (4, {})
        assert found["before"] == read_entries(plain)["results"]["test"]
        assert found["after"] == read_entries(given)["results"]["test"]
        before, after = (load_file(run / "model.safetensors") for run in (plain, staged))
        changed = {name for name in before if not before[name].equal(after[name])}
        assert changed == {"classifier.weight", "classifier.bias"}

    def test_a_class_without_images_is_named(self, train: Train) -> None:
        honest = sums.sums_of_client

        def without_three(session: Session[SumsRequest], client: int) -> Tensor:
            form = session.request.form
            products, by_class = form.unpacked(honest(session, client).clone())
            by_class[3] = 0
            return form.packed(products, by_class)

        with patch.object(sums, "sums_of_client", without_three):
            run = train(*RIDGE)
        assert not load_file(run / "model.safetensors")["classifier.weight"][3].any()
        events = [row["event"] for row in rows(run, "events.csv")]
        assert "method=ridge: no images of the classes 3; their weights are 0" in events


@pytest.mark.parametrize(
    ("words", "key", "reason"),
    [
        ("method=ridge rounds=2", "rounds", "must be 1 with method=ridge"),
        ("method=ncm rho=0.5", "rho", "must be 1 with method=ncm"),
        ("method=ridge strategy=krum", "strategy", "which trains nothing; add strategy=fedavg"),
        ("method=ridge participation=tiers", "participation", "add participation=uniform"),
        ("method=ridge guard=clip", "guard", "unguarded; add guard=none"),
        ("method=ridge watch.models_every=1", "watch.models_every", "they send none"),
        ("method=ridge after=feddf", "after", "they send none; add after=none"),
        ("method=ridge after=ridge", "after", "replaces the classifier, and method=ridge sets it"),
        ("method=ridge after=ccvr", "after", "retrains the classifier, and method=ridge sets it"),
        ("method=ridge model=linear", "method", "model=linear has no layers before"),
        ("method=ridge method.penalty=0", "method.penalty", "must be above 0"),
        ("method=ridge model.statistics=exact", "model.statistics", "method=ridge trains nothing"),
        ("method=fedprox+ncm", "method", "ncm trains nothing; choose one of them"),
        ("after=ridge after.penalty=-1", "after.penalty", "must be above 0"),
        ("after=ridge guard=drop", "after", "bypasses guard=drop"),
        ("after=ridge strategy=dp_fixed model.norm=group", "after", "strategy=dp_fixed protects"),
        ("after=ridge method=fedper", "after", "changes one model of all clients"),
    ],
)
def test_what_does_not_fit_is_refused(words: str, key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment(words.split())
    assert caught.value.key == key
    assert reason in caught.value.allowed


@pytest.mark.parametrize(
    ("words", "error"),
    [(RIDGE, RunError), (("after=ridge", ONE_ROUND), ConfigError)],
    ids=["method", "after"],
)
def test_sums_that_are_too_large_are_refused(
    train: Train, words: tuple[str, ...], error: type[Exception]
) -> None:
    reason = r"=ridge: needs 0\.0 MB for a client's sums \(10 classes, 84 features\), and"
    with pytest.raises(error, match=reason):
        train(*words, "federation.message_megabytes=0.001")


Told = Callable[[Session[SumsRequest], int], Any]


def hostile(lie: Callable[[Tensor], Any]) -> Told:
    """A client's answer in which the sums of client 1 are changed."""
    honest = sums.sums_of_client

    def told(session: Session[SumsRequest], client: int) -> Any:
        found = honest(session, client)
        return lie(found) if client == 1 else found

    return told


class TestHostileClients:
    @pytest.mark.parametrize(
        ("lie", "reason"),
        [
            (lambda found: found * 10**6, "larger than 9[01] images can have"),
            (lambda found: found - 2**62, "larger than 9[01] images can have"),
            (lambda found: -found, "a number below 0 on the diagonal"),
            (lambda found: found.double(), r"its sums are float64\(\d+,\), not int64"),
            (lambda found: found[1:], r"its sums are int64\(\d+,\), not int64"),
            (lambda found: 1 / 0, "ZeroDivisionError"),
        ],
        ids=["large", "small", "negative", "type", "shape", "fails"],
    )
    def test_one_costs_itself_alone(self, train: Train, lie: Any, reason: str) -> None:
        with patch.object(sums, "sums_of_client", hostile(lie)):
            run = train(*RIDGE, "num_clients=4")
        wrong = [row for row in rows(run, "clients.csv") if row["status"] != "ok"]
        assert [row["client"] for row in wrong] == ["1"]
        assert wrong[0]["examples"] == "0"
        (event,) = rows(run, "events.csv")
        assert event["event"].startswith("client 1: no sums of features: ")
        assert re.search(reason, event["event"])

    def test_sums_without_a_solution_end_the_run(self, train: Train) -> None:
        """Each number is possible, and their matrix is not positive definite."""

        def lie(found: Tensor) -> Tensor:
            found = found.clone()
            found[1] = 80 * 2**40  # a product of two features; the diagonal stays
            return found

        with (
            patch.object(sums, "sums_of_client", hostile(lie)),
            pytest.raises(RunError, match="have no solution: a client has sent sums that no"),
        ):
            train(*RIDGE)

    def test_below_the_quorum_the_run_fails(self, train: Train) -> None:
        def told(session: Session[SumsRequest], client: int) -> Any:
            raise RuntimeError("scanner offline")

        with (
            patch.object(sums, "sums_of_client", told),
            pytest.raises(RunError, match="method=ridge: 0 of 4 clients sent sums of features"),
        ):
            train(*RIDGE)


def request_for(kind: Any, words: list[str], **changes: Any) -> Any:
    """A request to client 0 of a small experiment, with changes."""
    experiment = compose_experiment([*SMALL, *words]).local()
    worker = Worker(experiment)
    classes, features = worker.model.state_dict()["classifier.weight"].shape
    text = experiment.model_dump_json()
    fields = {
        "run": "run", "experiment": text, "fingerprint": fingerprint_for(text), "round": 1,
        "clients": [0], "weights": PackedTensors.of(worker.initial_weights()), **changes,
    }  # fmt: skip
    if kind is SumsRequest:
        fields = {"classes": classes, "features": features, "products": True, **fields}
    return kind(**fields)


@pytest.mark.parametrize(
    ("words", "changes", "reason"),
    [
        (NCM, {}, "the experiment's method needs no products of features"),
        (RIDGE, {"features": 3}, "it names other numbers of classes and features"),
        (RIDGE, {"round": 0}, "sums of features are sent after the last round alone"),
        (("method=fedavg", ONE_ROUND), {}, "it belongs to after=ridge, and the experiment has"),
    ],
)
def test_a_client_refuses_what_the_experiment_does_not_need(
    words: tuple[str, ...], changes: dict[str, Any], reason: str
) -> None:
    request = request_for(SumsRequest, list(words), **changes)
    reply = sums.sums_of_clients(Session(request, {IN_PROCESS: True}))
    assert reason in reply.rows[0]["reason"]
    assert reply.sent == {}


def test_a_client_does_not_train_where_nothing_is_to_be_trained() -> None:
    request = request_for(TrainRequest, list(RIDGE), accepted=[0], shares=[])
    reply = train_clients(Session(request, {IN_PROCESS: True}))
    assert "method=ridge trains nothing" in reply.rows[0]["reason"]
    assert not reply.weights


def test_a_site_sends_sums_of_one_experiment_in_a_run(tmp_path: Path) -> None:
    """Another seed holds out other images: the difference of the sums would be single images."""
    site = Site.model_validate(
        {"site": "east", "data-dir": str(tmp_path), "memory-dir": str(tmp_path / "memory"),
         "tell-statistics": True}
    )  # fmt: skip

    def ask(*words: str) -> None:
        share = "data.validation_share=0.1"
        session = Session(request_for(SumsRequest, [*RIDGE, share, *words]), {IN_PROCESS: True})
        features.check_site(session, site, 1)

    ask()
    ask()
    first = request_for(SumsRequest, [*RIDGE])
    with (
        patch.object(Worker, "initial_weights", lambda _: first.weights.unpack()),
        pytest.raises(SiteError, match="has sent statistics of another model in this run"),
    ):
        ask("seed=1")


AT_SITES = (*WORDS, *RIDGE, "data.validation_share=0.1")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of four sites; the last one has few."""
    place = tmp_path_factory.mktemp("images")
    for name in NAMES:
        making.tree(place / name, ["cat", "dog"], 10 if name == NAMES[-1] else 25)
    return place


@pytest.mark.usefixtures("jumping_clock")
class TestSites:
    """Sites in this process; a site sends sums only if its owner allows it."""

    def test_one_takes_part_if_its_owner_allows_it_and_classes_are_large(
        self, images: Path, tmp_path: Path
    ) -> None:
        grid = MaskedSites(images, tmp_path / "p")
        for name in NAMES[1:]:
            grid.configure(name, tell_statistics=True)
        run = trained(grid, tmp_path, "run", *AT_SITES, "federation.quorum=0.5")
        found = {row["site"]: row["reason"] for row in rows(run, "clients.csv")}
        assert found["north"] == found["south"] == ""
        assert "site east does not send statistics" in found["east"]
        assert "no class has the 20 images that sums of features need" in found["west"]

    def test_its_sums_are_of_all_its_images(
        self, images: Path, tmp_path: Path, train: Train
    ) -> None:
        """The difference of two runs that hold out other images is not that of the images."""
        grid = MaskedSites(images, tmp_path / "p")
        for name in NAMES:
            grid.configure(name, tell_statistics=True)
        first = trained(grid, tmp_path, "first", *AT_SITES)
        again = (f"model.weights={first}", "seed=5", "data.validation_share=0.3")
        assert sha256(trained(grid, tmp_path, "again", *AT_SITES, *again)) == sha256(first)
        with pytest.raises(RunFailedError, match=r"leave data\.duplicates out"):
            trained(grid, tmp_path, "third", *AT_SITES, "data.duplicates=drop")

    def test_one_that_tells_too_many_images_is_left_out(self, images: Path, tmp_path: Path) -> None:
        grid = MaskedSites(images, tmp_path / "p")
        for name in NAMES:
            grid.configure(name, tell_statistics=True)
        with patch.object(collecting, "MOST_IMAGES", 110):  # three have 45 each, the last one 18
            run = trained(grid, tmp_path, "run", *AT_SITES, "federation.quorum=0.5")
        reasons = [row["reason"] for row in rows(run, "clients.csv")]
        assert reasons.count("") == 2
        assert "45 images are too many: sums are exact for at most 110 images together" in reasons

    def test_if_none_allows_it_nothing_is_sent(self, images: Path, tmp_path: Path) -> None:
        grid = MaskedSites(images, tmp_path / "p")
        with pytest.raises(RunFailedError, match="no site sends sums of its features; set tell-st"):
            trained(grid, tmp_path, "run", *AT_SITES)

    @pytest.mark.slow
    def test_masks_change_no_bit_and_are_refused_where_rounding_must_be_random(
        self, images: Path, tmp_path: Path
    ) -> None:
        words = (*AT_SITES, "federation.quorum=0.5")
        grid = MaskedSites(images, tmp_path / "p")
        for name in NAMES:
            grid.configure(name, tell_statistics=True)
        plain = trained(grid, tmp_path, "plain", *words)
        masked = trained(grid, tmp_path, "masked", *words, "secure=masked")
        assert sha256(plain) == sha256(masked)
        grid.configure("east", require_secure=True)
        with pytest.raises(RunFailedError, match="cannot be added up: "):
            trained(grid, tmp_path, "strict", *words, "secure=masked", "seed=1")
        (event,) = [row["reason"] for row in rows(masked, "clients.csv") if row["reason"]]
        assert event == "no class has the 20 images that sums of features need"
