"""A site with a privacy budget: several runs, restarts, and a coordinator that asks for more."""

import time
from pathlib import Path
from typing import Any

import pytest

import client_app.app
from server_app.config.composition import compose_experiment
from server_app.nodes.failure import Failure
from server_app.nodes.messages import AddressedRequest, Exchange
from task.fingerprint import fingerprint
from task.privacy.accounting import SampledGaussian, pld_epsilon
from task.protocol.envelope import Kind
from task.protocol.evaluation import EVALUATE
from task.protocol.registration import REGISTER
from task.protocol.tensors import PackedTensors
from task.protocol.training import TRAIN
from task.training.worker import Worker, shared_worker
from tests.site_grid import SiteGrid
from tests.task.data import making

DELTA = 1e-4
WORDS = [
    "partition=sites", "partition.names=[north]", "data=folder", "data.classes=[dog,cat]",
    "data.image_size=16", "rounds=2", "local_epochs=1", "method=fedavg", "model=linear",
]  # fmt: skip
NOISE = ["privacy=example", "privacy.noise_multiplier=2", "privacy.sampling_rate=0.1"]
TWO_RUNS = pld_epsilon((SampledGaussian(2.0, 0.1, 40),), DELTA)


class Clinic:
    """A site whose budget is enough for two runs of two rounds."""

    def __init__(self, place: Path, **settings: Any) -> None:
        self.place = place
        self.settings: dict[str, Any] = {"max-epsilon": TWO_RUNS + 0.01, "delta": DELTA, **settings}
        self.directory = making.tree(place / "north", ["cat", "dog"], 10)
        self.restart()

    def restart(self) -> None:
        """Start the site anew, as after its machine was switched off."""
        shared_worker.cache_clear()
        self.grid = SiteGrid(client_app.app.app, self.place, ["north"], self.place)
        (self.node,) = self.grid.get_node_ids()
        self.grid._supernodes[self.node].context.node_config.update(self.settings)

    def ask(self, kind: Kind[Any, Any], run: str, server_round: int, *words: str) -> Any:
        """Return the site's reply, or the failure."""
        noise = [] if "privacy=none" in words else NOISE
        local = compose_experiment([*WORDS, *noise, *words]).local()
        fields: dict[str, Any] = {}
        if kind is not REGISTER:
            weights = PackedTensors.of(Worker(local).initial_weights())
            fields = {"clients": [0], "accepted": [0], "weights": weights}
        if kind is TRAIN:
            fields |= {"shares": []}
        request = kind.request(
            run=run, experiment=local.model_dump_json(), fingerprint=fingerprint(),
            round=server_round, **fields,
        )  # fmt: skip
        addressed = AddressedRequest(self.node, request, self.grid.keys[self.node])
        (reply,) = Exchange(self.grid, kind, [addressed], 60).replies()
        return reply

    def train(self, run: str, server_round: int, *words: str) -> str:
        """Train one round; return why the site refused, or an empty text."""
        reply = self.ask(TRAIN, run, server_round, *words)
        return str(reply.reason if isinstance(reply, Failure) else reply.row(0).reason)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


@pytest.mark.slow
def test_the_third_run_is_refused_also_after_a_restart_and_with_another_clock(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("first", "second"):
        for server_round in (1, 2):
            assert clinic.train(run, server_round) == ""
        clinic.restart()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    for _ in range(2):
        refused = clinic.train("third", 1)
        assert "its images have spent epsilon" in refused
        assert "(its max-epsilon), and this round would make it" in refused
        clinic.restart()
    assert clinic.ask(REGISTER, "third", 1).error == ""  # nothing is told by that


def test_a_repeated_round_is_charged_again(clinic: Clinic) -> None:
    assert [clinic.train("run", 1) for _ in range(4)] == [""] * 4
    assert "its images have spent epsilon" in clinic.train("run", 1)


def test_images_that_are_added_or_renamed_do_not_start_a_new_account(clinic: Clinic) -> None:
    assert [clinic.train("run", 1) for _ in range(4)] == [""] * 4
    making.save(clinic.directory / "cat" / "new.png", 99)
    first = sorted((clinic.directory / "dog").iterdir())[0]
    first.rename(first.with_name("renamed.png"))
    assert "its images have spent epsilon" in clinic.train("new", 1)


@pytest.mark.parametrize(
    "words",
    [
        ["privacy=none"],
        ["privacy.noise_multiplier=0"],
        ["privacy.reproducible=true"],
        ["privacy=none", "strategy=dp_fixed", "model.norm=group"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("kind", [REGISTER, TRAIN, EVALUATE])
def test_what_would_tell_of_its_images_without_secret_noise_is_refused(
    clinic: Clinic, kind: Kind[Any, Any], words: list[str]
) -> None:
    reply = clinic.ask(kind, "run", 1, *words)
    reason = reply.reason if isinstance(reply, Failure) else (
        reply.error if kind is REGISTER else reply.row(0).reason
    )  # fmt: skip
    assert "trains only with secret noise of its own (its max-epsilon); add privacy=exa" in reason
    if kind is REGISTER:
        assert (reply.train, reply.validation, reply.labels) == (0, 0, [])


def test_less_noise_costs_more_of_the_same_budget(clinic: Clinic) -> None:
    assert "have spent epsilon 0.000" in clinic.train("run", 1, "privacy.noise_multiplier=0.5")
    assert clinic.train("run", 1) == ""
    assert "have spent epsilon" in clinic.train("run", 2, "privacy.noise_multiplier=0.5")


def test_a_damaged_ledger_stops_the_site(clinic: Clinic) -> None:
    assert clinic.train("run", 1) == ""
    (ledger,) = clinic.place.rglob("ledger.json")
    ledger.write_text("{}")
    assert "privacy ledger cannot be read" in clinic.train("run", 2)
