"""Privacy of whole clients: every participant's noise is in the masked sum, and nothing else is."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor

from client_app.budget import charge_round
from client_app.masked import client_noise
from client_app.masked.client_noise import add_client_noise
from client_app.masked.masked_sum import MaskedSum
from client_app.masked.report import score
from client_app.session import Session
from server_app.config.composition import compose_experiment
from server_app.rounds.errors import RunFailedError
from server_app.runs.records.run_record import read_entries
from task.data.site_data import check_site_limits
from task.errors import ConfigError, ProtocolError, SiteError, TrainingError
from task.privacy.accounting import cost_of_training, pld_epsilon
from task.privacy.participant import protect_update
from task.privacy.settings import UNTOLD_IMAGES
from task.privacy.zcdp import gaussian_rho, zcdp_epsilon
from task.secure.vectors.rounding import UNIT
from task.training.worker import Worker
from tests.conftest import Train, rows, sha256
from tests.server_app.nodes.test_lies import trained
from tests.server_app.rounds.masked.test_masked_sites import NAMES, WORDS, MaskedSites
from tests.task.data import making

CLIENT = ("privacy=client", "secure=masked", "model=linear")
NOISE, NORM = 0.5, 0.02
ROUND = (
    *CLIENT, "rounds=1", f"privacy.noise_multiplier={NOISE}", f"privacy.clipping_norm={NORM}",
)  # fmt: skip
SILENT = "privacy.noise_multiplier=0"
Reported = dict[int, np.ndarray[Any, Any]]


def weights(directory: Path) -> np.ndarray[Any, Any]:
    found = load_file(directory / "model.safetensors")
    return np.concatenate([found[name].ravel() for name in sorted(found)])


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Reported]]:
    """Return what the clients of each run have reported, before it was masked."""
    runs: list[Reported] = []
    original = MaskedSum.add

    def add(self: MaskedSum, client: int, vector: Any) -> None:
        if client == 0:
            runs.append({})
        runs[-1][client] = vector.copy()
        original(self, client, vector)

    monkeypatch.setattr(MaskedSum, "add", add)
    return lambda: runs


# Four clients: the threshold is 3, and 1 may collude. With a quorum of 1 the threshold is 4.
@pytest.mark.parametrize(("quorum", "honest"), [(0.5, 2), (1, 3)])
def test_every_participant_adds_its_own_part_of_the_noise(
    train: Train, reported: Callable[[], list[Reported]], quorum: float, honest: int
) -> None:
    words = (*ROUND, f"federation.quorum={quorum}")
    noisy, silent = train(*words), train(*words, SILENT)
    with_noise, without = reported()
    own = NOISE * NORM / math.sqrt(honest) / UNIT
    parts = [(with_noise[client] - without[client]).astype(float) for client in range(4)]
    for part in parts:
        assert part.std() == pytest.approx(own, rel=0.05)
    assert np.abs(np.corrcoef(parts) - np.eye(4)).max() < 0.06
    added = weights(noisy) - weights(silent)
    assert added.std() == pytest.approx(NOISE * NORM / 4 * math.sqrt(4 / honest), rel=0.05)
    (start,) = {read_entries(each)["privacy"]["unit"] for each in (noisy, silent)}
    assert start.startswith("all data of one client")


def test_an_update_is_clipped_to_the_bound_of_the_experiment(
    train: Train, reported: Callable[[], list[Reported]]
) -> None:
    """The mean moves by the bound at most; unclipped, it moves further."""
    words = [*ROUND, SILENT]
    start = Worker(compose_experiment([*words, "num_clients=4"]).local()).initial_weights()
    before = torch.cat([start[name].flatten() for name in sorted(start)]).numpy()
    assert 0.5 * NORM < np.linalg.norm(weights(train(*words)) - before) <= NORM * (1 + 1e-5)
    free = weights(train(*words, "privacy.clipping_norm=100"))
    assert np.linalg.norm(free - before) > 2 * NORM
    assert len(reported()[0][0]) == len(before)  # no losses


def test_a_seed_does_not_remove_the_noise_of_clients(train: Train) -> None:
    first, second = (weights(train(*ROUND)) for _ in range(2))
    spread = NOISE * NORM / 4 * math.sqrt(2)
    assert (first - second).std() == pytest.approx(spread * math.sqrt(2), rel=0.05)
    study = (*ROUND, "privacy.reproducible=true")
    assert sha256(train(*study)) == sha256(train(*study))
    assert read_entries(train(*study))["privacy"]["noise"].startswith("reproducible")


def test_nothing_else_tells_of_the_data(train: Train) -> None:
    words = (
        *CLIENT,
        "rounds=4",
        "num_clients=8",
        "rho=0.5",
        "method=fedprox",
        "seed=1",
        "evaluate_every=4",
    )
    directory = train(*words)
    record = read_entries(directory)
    clients = rows(directory, "clients.csv")
    asked: dict[str, int] = defaultdict(int)
    for row in clients:
        asked[row["client"]] += 1
    spent = record["privacy"]
    assert spent["rounds"] == max(asked.values()) == 3
    assert spent["epsilon"] == pytest.approx(zcdp_epsilon(gaussian_rho(1.0, 3), 1e-5))
    assert spent["noise"].startswith("secret")
    assert "if all 4 answer, the noise is 1.41 times that" in spent["added"]
    assert {row["examples"] for row in clients} == {str(UNTOLD_IMAGES)}
    assert {row["ce"] for row in clients} == {""}
    metrics = {(row["split"], row["metric"]) for row in rows(directory, "rounds.csv")}
    assert ("train", "epsilon") in metrics
    assert ("train", "ce") not in metrics
    assert ("validation", "accuracy") not in metrics
    assert set(record["data"]["clients"]) == {UNTOLD_IMAGES}
    assert not any("losses" in line for line in record["secure"]["coordinator_learns"])


def session_of(*words: str, **more: Any) -> Any:
    config = compose_experiment([*CLIENT, *words]).local()
    request = SimpleNamespace(clients=[0], round=1, attempt=1)
    worker = SimpleNamespace(config=config, **more)
    session = SimpleNamespace(request=request, worker=worker, check_clients=lambda _: None)
    session.refuse_scores_with_noise = partial(Session.refuse_scores_with_noise, session)  # type: ignore[arg-type]
    return session


def test_a_training_that_fails_on_the_images_is_not_told(
    train: Train, reported: Callable[[], list[Reported]]
) -> None:
    """With weights of its choice a coordinator could make the training of one image fail."""
    directory = train(*ROUND, SILENT, "optim.lr=1e30")
    assert {(row["status"], row["reason"]) for row in rows(directory, "clients.csv")} == {
        ("ok", "")
    }
    (found,) = reported()
    first = found.pop(0)
    assert all(np.array_equal(vector, first) for vector in found.values())  # the global weights


def test_an_update_that_the_fixed_point_cannot_hold_is_not_told(train: Train) -> None:
    """With a huge clipping norm, clipping does not keep it within the bounds."""
    noise = (SILENT, "privacy.clipping_norm=1e9", "optim.lr=1e9")
    directory = train(*ROUND, *noise, "local_epochs=1")
    assert {(row["status"], row["reason"]) for row in rows(directory, "clients.csv")} == {
        ("ok", "")
    }


def test_a_client_refuses_to_be_scored() -> None:
    with pytest.raises(ProtocolError, match="scores on its images are not sent"):
        score(session_of())


@pytest.mark.parametrize(
    ("start", "alike", "why"),
    [
        ({"w": torch.zeros(2)}, False, "must weigh the same"),
        ({"w": torch.zeros(2), "n": torch.zeros((), dtype=torch.int64)}, True, "with counters"),
    ],
)
def test_a_client_refuses_to_weigh_more_and_to_send_counters(
    start: dict[str, Tensor], alike: bool, why: str
) -> None:
    party: Any = SimpleNamespace(equal_weights=lambda _: alike, honest=lambda _: 2)
    with pytest.raises(ProtocolError, match=why):
        add_client_noise(session_of(), party, 0, start, {})


def test_noise_that_the_fixed_point_cannot_hold_is_refused() -> None:
    numbers = {"w": torch.zeros(3, dtype=torch.int64)}
    with pytest.raises(TrainingError, match=r"raise privacy\.noise_multiplier"):
        protect_update(numbers, UNIT, 1e-5, 0.5, 4)
    protect_update(numbers, UNIT, 1e-4, 0.5, 4)


def test_a_site_charges_a_round_to_its_ledger_until_its_budget_is_spent(tmp_path: Path) -> None:
    """An image can turn the update around, so it counts with half of the noise."""
    session = session_of("privacy.noise_multiplier=8")
    training = cost_of_training(session.worker.config.privacy, 1)
    assert training == (4.0, 1.0, 1)
    budget = pld_epsilon((training._replace(steps=2),), 1e-5) + 0.01
    session.site = SimpleNamespace(
        max_epsilon=budget, delta=1e-5, state_directory=tmp_path / "mem", directory=tmp_path / "d",
    )  # fmt: skip
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "image.png").write_bytes(b"pixels")
    session.worker.data = SimpleNamespace(dataset=SimpleNamespace(version="1"))
    for _ in range(2):
        charge_round(session)
    with pytest.raises(SiteError, match="its images have spent epsilon"):
        charge_round(session)


def test_a_site_is_charged_for_each_local_epoch(tmp_path: Path) -> None:
    """With noise on images, each epoch is another release."""
    words = ("privacy=example", "secure=none", "method=fedavg", "privacy.noise_multiplier=2",
             "local_epochs=3")  # fmt: skip
    session = session_of(*words)
    session.site = SimpleNamespace(
        max_epsilon=1e3, delta=1e-5, state_directory=tmp_path / "mem", directory=tmp_path / "d",
    )  # fmt: skip
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "image.png").write_bytes(b"pixels")
    session.worker.data = SimpleNamespace(dataset=SimpleNamespace(version="1"))
    charge_round(session)
    (ledger,) = tmp_path.rglob("ledger.json")
    (charge,) = json.loads(ledger.read_text())["charges"]
    privacy = session.worker.config.privacy
    steps = [cost_of_training(privacy, epochs).steps for epochs in (1, 3)]
    assert charge["steps"] == steps[1] == 3 * steps[0]


def test_sites_add_noise_and_charge_their_ledgers(tmp_path: Path) -> None:
    """The budget is enough for two rounds, and the sites refuse the third."""
    place = tmp_path / "images"
    making.tree(place, [f"{site}/{label}" for site in NAMES for label in ("cat", "dog")], 5)
    words = [*CLIENT, "privacy.noise_multiplier=8", "rounds=3", WORDS[0], "evaluate_every=3"]
    training = cost_of_training(compose_experiment([*CLIENT, words[3]]).privacy, 1)
    grid = MaskedSites(place, tmp_path / "sites")
    for name in NAMES:
        budget = pld_epsilon((training._replace(steps=2),), 1e-5) + 0.01
        grid.configure(name, max_epsilon=budget, delta=1e-5)
    with pytest.raises(RunFailedError, match="0 of 4 clients"):
        trained(grid, tmp_path, "run", *words, "federation.attempts=1")
    record = read_entries(tmp_path / "runs" / "run")
    assert record["privacy"]["rounds"] == 3  # the last one was asked for, and the sites refused
    assert record["privacy"]["unit"].startswith("all data of one client")
    clients = rows(tmp_path / "runs" / "run", "clients.csv")
    assert [row["status"] for row in clients[:8]] == ["ok"] * 8
    assert {row["examples"] for row in clients[:8]} == {str(UNTOLD_IMAGES)}
    events = rows(tmp_path / "runs" / "run", "events.csv")
    assert any("below the quorum" in row["event"] for row in events if row["round"] == "3")
    for ledger in (tmp_path / "sites").rglob("ledger.json"):
        (charge,) = json.loads(ledger.read_text())["charges"]
        assert (charge["noise_multiplier"], charge["steps"]) == (4.0, 2)


# Four sites: the threshold is 3 with up to one colluder, and 4 with two.
@pytest.mark.parametrize(("asked", "own", "honest"), [(2, 1, 2), (0, 1, 2), (0, 0, 3)])
def test_a_site_counts_the_colluders_of_the_experiment_too(
    asked: int, own: int, honest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would add less noise than the record counts."""
    found: set[int] = set()

    def protect(*args: Any) -> Any:
        found.add(args[4])
        return protect_update(*args)

    monkeypatch.setattr(client_noise, "protect_update", protect)
    place = tmp_path / "images"
    making.tree(place, [f"{site}/{label}" for site in NAMES for label in ("cat", "dog")], 5)
    grid = MaskedSites(place, tmp_path / "sites")
    for name in NAMES:
        grid.configure(name, colluding=own)
    words = [*CLIENT, "privacy.noise_multiplier=8", "rounds=1", WORDS[0]]
    trained(grid, tmp_path, "run", *words, f"secure.colluding={asked}")
    assert found == {honest}
    counted = re.search(
        r"noise of (\d) part", read_entries(tmp_path / "runs" / "run")["privacy"]["added"]
    )
    assert counted
    assert int(counted[1]) >= honest


@pytest.mark.parametrize("word", ["privacy.reproducible=true", SILENT])
def test_a_site_with_a_budget_wants_secret_noise(word: str) -> None:
    site: Any = SimpleNamespace(
        name="north", max_epochs=99, max_batch_size=999, max_epsilon=1.0, max_norm=None
    )
    check_site_limits(compose_experiment(CLIENT).local(), site)
    with pytest.raises(SiteError, match="add privacy=example or client"):
        check_site_limits(compose_experiment([*CLIENT, word]).local(), site)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["secure=none"], r"privacy\.unit=client.*add secure=masked, or use noise at the server"),
        (["model=cnn"], r"model\.norm=batch.*add model\.norm=group"),
        (["privacy.sampling_rate=0.5"], r"privacy\.sampling_rate=0\.5.*leave it out"),
        (["strategy=dp_fixed"], "choose one: strategy=fedavg"),
        (["strategy=krum"], "with secure=masked the server knows their sum only"),
        (["method=scaffold"], "has a server update"),
        (["num_clients=2", "secure.colluding=1"], "are too few"),
        (["num_clients=2000", "privacy.delta=1e-3"], r"privacy\.delta.*below .*, here 1 / 2000"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_would_tell_more_than_the_noisy_sum_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        compose_experiment([*CLIENT, *words])


def test_the_noise_is_drawn_from_the_operating_system(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four clients ask it for bytes, unless the noise follows from the seed."""
    drawn: list[int] = []

    def source(count: int) -> bytes:
        drawn.append(count)
        return np.random.default_rng(len(drawn)).bytes(count)

    monkeypatch.setattr(client_noise, "secret_bytes", source)
    train(*ROUND)
    assert len(drawn) >= 4
    drawn.clear()
    train(*ROUND, "privacy.reproducible=true")
    assert not drawn
