"""Noise on sums of features: what one image changes, how large the noise is, what it costs."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from client_app.after import sums
from client_app.session import Session
from server_app.config.composition import compose_experiment
from server_app.rounds.closed_form.classifier import ridge_classifier
from server_app.rounds.errors import RunFailedError
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from task.privacy.accounting import SampledGaussian, pld_epsilon
from task.privacy.noisy_sums import clipped, image_norm, noisy, norm_of
from task.privacy.zcdp import gaussian_rho, zcdp_epsilon
from task.protocol.after.sums import FRACTION, MOST_IMAGES, Form, SumsRequest
from task.site import IN_PROCESS
from task.training.after.sums import unit_rows
from tests.conftest import Train, sha256
from tests.server_app.nodes.test_lies import trained
from tests.server_app.rounds.closed_form.test_runs import NCM, RIDGE, request_for
from tests.server_app.rounds.masked.test_masked_sites import NAMES, WORDS, MaskedSites
from tests.task.data import making

EXAMPLE = ("privacy=example", "privacy.sampling_rate=1")
CLIENT = ("privacy=client", "secure=masked", "strategy.weighting=uniform")
BOTH = pytest.mark.parametrize("products", [True, False], ids=["ridge", "ncm"])


def part_of(features: Any, form: Form, label: int = 0) -> torch.Tensor:
    """The sums over one image, as a client computes them."""
    rounded = (unit_rows(torch.as_tensor(features).double()[None]) * 2**FRACTION).round()
    by_class = torch.zeros(form.classes, form.features, dtype=torch.int64)
    by_class[label] = rounded[0].long()
    return form.packed((rounded.T @ rounded).long(), by_class)


def added(parts: list[torch.Tensor]) -> torch.Tensor:
    """The sums over several images."""
    return torch.stack(parts).sum(dim=0)


class TestSensitivity:
    @BOTH
    @pytest.mark.parametrize("width", [1, 3, 64])
    def test_one_image_changes_the_sums_by_the_bound_at_most(
        self, products: bool, width: int
    ) -> None:
        """With rounding, which can make features longer; and by nearly as much, so it is tight."""
        form = Form(4, width, products)
        generator = np.random.default_rng(0)
        features = [*generator.normal(size=(50, width)), np.eye(width)[0], np.ones(width)]
        # The worst case for rounding: every number is rounded up by nearly half a unit.
        features.append(np.full(width, 1 / math.sqrt(width)) + 0.49 * 2.0**-FRACTION)
        norms = [norm_of(part_of(z, form, label=2), form) for z in features]
        assert max(norms) <= image_norm(form)
        assert min(norms) > 0.9999
        assert image_norm(form) < 1.0001

    @BOTH
    def test_an_image_added_anywhere_changes_the_sum_by_its_own_part(self, products: bool) -> None:
        form = Form(3, 5, products)
        generator = np.random.default_rng(1)
        parts = [part_of(z, form, k % 3) for k, z in enumerate(generator.normal(size=(9, 5)))]
        with_all, without = added(parts), added(parts[:4] + parts[5:])
        assert norm_of(with_all - without, form) <= image_norm(form)

    def test_a_client_is_clipped_to_the_bound(self) -> None:
        form = Form(3, 5, True)
        generator = np.random.default_rng(2)
        total = added([part_of(z, form) for z in generator.normal(size=(40, 5))])
        for most in (0.01, 1.0, 7.3):
            assert most * 0.99 < norm_of(clipped(total, form, most), form) <= most
        assert clipped(total, form, 41.0).equal(total)


@BOTH
def test_the_noise_has_one_deviation_in_the_norm(products: bool) -> None:
    """So each number beside the diagonal has noise that is smaller by the root of 2."""
    form = Form(10, 60, products)
    zero = torch.zeros(form.length, dtype=torch.int64)
    drawn = noisy(zero, form, 3.0)
    assert norm_of(drawn, form) / math.sqrt(form.length) == pytest.approx(3.0, rel=0.1)
    matrix, by_class = form.unpacked(drawn)
    half = math.sqrt(2) if products else 1.0
    found = by_class.double().std() * 2.0**-FRACTION
    assert found == pytest.approx(3 * half, rel=0.2)
    if products:
        unit = 2.0 ** (-2 * FRACTION)
        beside = matrix[torch.triu(torch.ones(60, 60), 1).bool()].double().std() * unit
        assert beside == pytest.approx(3.0, rel=0.1)
        assert matrix.diagonal().double().std() * unit == pytest.approx(3 * half, rel=0.4)


def test_noise_never_leaves_ridge_regression_without_a_solution() -> None:
    form = Form(4, 20, True)
    matrix, by_class = form.unpacked(noisy(torch.zeros(form.length, dtype=torch.int64), form, 50.0))
    assert torch.linalg.eigvalsh(matrix.double()).min() < 0
    assert ridge_classifier(matrix, by_class, 1e-6, noisy=True).isfinite().all()
    with pytest.raises(RunFailedError, match="have no solution"):
        ridge_classifier(matrix, by_class, 1e-6)


class TestRuns:
    @pytest.mark.slow
    def test_epsilon_is_the_accountants_for_one_release(self, train: Train) -> None:
        """Local epochs do not count, as every image is read once."""
        run = train(*RIDGE, *EXAMPLE, "privacy.noise_multiplier=3", "local_epochs=5")
        found = read_entries(run)["privacy"]
        assert found["epsilon"] == pld_epsilon((SampledGaussian(3.0, 1.0, 1),), 1e-5)
        assert found["noise"].startswith("secret")
        assert read_entries(run)["results"]["test"]

    @pytest.mark.slow
    def test_secret_noise_differs_and_reproducible_noise_does_not(self, train: Train) -> None:
        words = (*NCM, *EXAMPLE)
        assert sha256(train(*words)) != sha256(train(*words))
        repeated = (*words, "privacy.reproducible=true")
        assert sha256(train(*repeated)) == sha256(train(*repeated))
        silent = (*words, "privacy.noise_multiplier=0")
        assert sha256(train(*silent)) == sha256(train(*NCM))

    @pytest.mark.slow
    @pytest.mark.parametrize("method", [RIDGE, NCM], ids=["ridge", "ncm"])
    def test_clients_add_their_parts_below_masks(
        self, train: Train, method: tuple[str, ...]
    ) -> None:
        large = ("privacy.clipping_norm=1000", "privacy.noise_multiplier=0")
        assert sha256(train(*method, *CLIENT, *large)) == sha256(train(*method))
        run = train(*method, *CLIENT, "privacy.noise_multiplier=2")
        found = read_entries(run)["privacy"]
        assert found["epsilon"] == zcdp_epsilon(gaussian_rho(2.0), 1e-5)
        assert found["unit"].startswith("all data of one client")


def test_features_that_are_not_finite_stop_nothing() -> None:
    """Otherwise weights that fail for one image would tell that a client has it."""
    request = request_for(SumsRequest, [*RIDGE, *EXAMPLE, "privacy.noise_multiplier=0"])
    session = Session(request, {IN_PROCESS: True})
    weights = {name: value * math.nan for name, value in request.weights.unpack().items()}
    session.worker.load(weights)
    assert not sums.sums_of_client(session, 0).any()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("method=ridge privacy=example", "privacy.sampling_rate"),
        ("method=ridge privacy=example privacy.sampling_rate=1 privacy.clipping_norm=2",
         "privacy.clipping_norm"),
        ("method=ncm privacy=example privacy.sampling_rate=1 privacy.noise_multiplier=1001",
         "privacy.noise_multiplier"),
        ("method=ncm privacy=client secure=masked privacy.clipping_norm=1e6",
         "privacy.clipping_norm"),
        ("method=ncm privacy=client", "privacy.unit"),
        ("method=ridge secure=masked privacy=example privacy.sampling_rate=1", "privacy.unit"),
        ("method=ridge privacy=example privacy.sampling_rate=1 sums.keep=true", "sums.keep"),
        ("method=fedavg privacy=example model.norm=group after=ridge", "after"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(words: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment(words.split())
    assert caught.value.key == key


def test_no_sum_overflows() -> None:
    form = Form(1, 1, True)
    assert (form.bounds(MOST_IMAGES).double() <= 2.0**62.001).all()


@pytest.mark.slow
@pytest.mark.usefixtures("jumping_clock")
def test_a_site_sends_noisy_sums_until_its_budget_is_spent(tmp_path: Path) -> None:
    """Classes with few images count, too: noise hides each image, and no threshold does."""
    making.tree(
        tmp_path / "images", [f"{site}/{label}" for site in NAMES for label in ("cat", "dog")], 5
    )
    words = (*WORDS, *RIDGE, *EXAMPLE, "privacy.noise_multiplier=2")
    budget = pld_epsilon((SampledGaussian(2.0, 1.0, 1),), 1e-5) + 0.01
    grid: Any = MaskedSites(tmp_path / "images", tmp_path / "sites")
    for name in NAMES:
        grid.configure(name, tell_statistics=True, max_epsilon=budget, delta=1e-5)
    trained(grid, tmp_path, "first", *words)
    with pytest.raises(RunFailedError, match="its images have spent epsilon"):
        trained(grid, tmp_path, "second", *words, "seed=1")
    for ledger in (tmp_path / "sites").rglob("ledger.json"):
        (charge,) = json.loads(ledger.read_text())["charges"]
        assert (charge["noise_multiplier"], charge["sampling_rate"], charge["steps"]) == (2, 1, 1)
