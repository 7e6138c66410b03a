"""UniVarFL's two terms, compared with values derived by hand and with Eq. 3 in float64."""

import math
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from task.methods.base import LocalRound
from task.methods.feduv import classifier_deviation
from task.methods.univarfl import UniVarFL, classifier_variance, hyperspherical_energy
from task.models.base import Output, projector
from task.models.layers.norm import Norm
from task.training.worker import Worker

HUGE = 1e4  # logits this large make softmax one-hot


def energy_in_float64(features: Tensor, eps: float) -> Tensor:
    """Return Eq. 3 with 1 - z_i.z_j as half the squared distance, which is exact for close rows."""
    z = features / features.norm(dim=1, keepdim=True)
    n = len(z)
    total = torch.zeros((), dtype=z.dtype)
    for i in range(n):
        for j in range(n):
            if i != j:
                total = total + 1 / ((z[i] - z[j]).square().sum() / 2 + eps)
    return total / n**2


def gradient(features: Tensor, eps: float) -> Tensor:
    leaf = features.clone().requires_grad_()
    hyperspherical_energy(leaf, eps).backward()
    assert leaf.grad is not None
    return leaf.grad


def exact_gradient(features: Tensor, eps: float) -> Tensor:
    leaf = features.double().requires_grad_()
    energy_in_float64(leaf, eps).backward()
    assert leaf.grad is not None
    return leaf.grad


def relative_error(features: Tensor, eps: float) -> float:
    exact = exact_gradient(features, eps)
    return float((gradient(features, eps).double() - exact).norm() / exact.norm())


class TestClassifierVariance:
    def test_one_hot_predictions_of_every_class_once_cost_nothing(self) -> None:
        """D = 4 rows, each class once: each column is a column of I_4, its unbiased variance is
        (1 * 9/16 + 3 * 1/16) / 3 = 1/4 = c, so every hinge is 0."""
        assert classifier_variance(HUGE * torch.eye(4)).item() == pytest.approx(0, abs=1e-6)

    def test_equal_rows_cost_c(self) -> None:
        """No column varies, so each hinge is c = 1/D, the maximum of the term."""
        assert classifier_variance(torch.zeros(5, 10)).item() == pytest.approx(1 / 10)

    def test_by_hand(self) -> None:
        """Two rows of D = 2, p = (0.9, 0.1) and (0.5, 0.5): each column's unbiased variance is
        (0.4)^2 / 2 = 0.08 and c = 1/2, so L_V = 0.5 - 0.08 = 0.42."""
        logits = torch.log(torch.tensor([[0.9, 0.1], [0.5, 0.5]]))
        assert classifier_variance(logits).item() == pytest.approx(0.42)

    def test_the_hinge_ignores_columns_that_vary_enough(self) -> None:
        """One-hot rows of class 0, 0, 1, 1 of D = 4: columns 0 and 1 vary by 4 * 1/4 / 3 = 1/3 > c,
        columns 2 and 3 not at all: L_V = (0 + 0 + 1/4 + 1/4) / 4 = 1/8."""
        logits = HUGE * torch.eye(4)[[0, 0, 1, 1]]
        assert classifier_variance(logits).item() == pytest.approx(1 / 8)

    def test_one_row_has_no_variance_and_no_nan(self) -> None:
        assert classifier_variance(torch.randn(1, 10)).item() == 0

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_low_precision_logits_are_computed_in_float32(self, dtype: torch.dtype) -> None:
        logits = torch.randn(16, 10, generator=torch.Generator().manual_seed(0)).to(dtype)
        value = classifier_variance(logits)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(classifier_variance(logits.float()).item())

    def test_agrees_with_float64(self) -> None:
        logits = torch.randn(64, 10, generator=torch.Generator().manual_seed(0)) * 3
        p = torch.softmax(logits.double(), dim=1)
        expected = torch.relu(0.1 - p.var(dim=0)).mean()
        assert classifier_variance(logits).item() == pytest.approx(expected.item(), rel=1e-5)


class TestHypersphericalEnergy:
    def test_opposite_and_orthogonal_rows_by_hand(self) -> None:
        """z_1.z_2 = -1 gives two ordered pairs of 1/(2 + eps), over n^2 = 4; at eps = 0.5 that is
        2 * 0.4 / 4 = 0.2. Orthogonal rows give 2 / 1.5 / 4 = 1/3. Lengths do not matter."""
        opposite = torch.tensor([[3.0, 0.0], [-0.5, 0.0]])
        orthogonal = torch.tensor([[2.0, 0.0], [0.0, 7.0]])
        assert hyperspherical_energy(opposite, 0.5).item() == pytest.approx(0.2)
        assert hyperspherical_energy(orthogonal, 0.5).item() == pytest.approx(1 / 3)

    def test_duplicates_by_hand(self) -> None:
        """Three equal rows: six ordered pairs of 1/eps over 9; at eps = 0.001 that is 2000/3."""
        assert hyperspherical_energy(torch.ones(3, 8), 1e-3).item() == pytest.approx(2000 / 3)

    def test_one_row_has_no_pair(self) -> None:
        assert hyperspherical_energy(torch.randn(1, 8), 1e-3).item() == 0

    @pytest.mark.parametrize("eps", [1e-2, 1e-3, 1e-4, 1e-6])
    def test_gradient_of_distinct_rows_is_that_of_eq_3(self, eps: float) -> None:
        features = torch.relu(torch.randn(64, 256, generator=torch.Generator().manual_seed(1)))
        assert relative_error(features, eps) < 1e-6

    @pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-4])
    @pytest.mark.parametrize("eps", [1e-3, 1e-4])
    def test_gradient_of_near_duplicates_is_that_of_eq_3(self, eps: float, distance: float) -> None:
        """The relative error is 1e-6, as the card says; in float32 it would be 5e-4."""
        generator = torch.Generator().manual_seed(2)
        row = torch.nn.functional.normalize(torch.rand(1, 256, generator=generator))
        step = torch.randn(32, 256, generator=generator) / math.sqrt(256)
        assert relative_error(row + distance * step, eps) < 1e-6

    @pytest.mark.parametrize("eps", [1e-2, 1e-3, 1e-4, 1e-6])
    @pytest.mark.parametrize(
        "features",
        [
            torch.ones(8, 16),
            torch.zeros(8, 16),
            torch.cat([torch.zeros(1, 16), torch.ones(2, 16)]),
            torch.ones(1, 16),
            1e30 * torch.eye(4),
            1e-30 * torch.eye(4),
        ],
        ids=["duplicates", "zeros", "a zero row", "one row", "huge", "tiny"],
    )
    def test_gradients_stay_finite(self, features: Tensor, eps: float) -> None:
        assert torch.isfinite(gradient(features, eps)).all()

    def test_exact_duplicates_are_left_where_they_are(self) -> None:
        """By symmetry the gradient of Eq. 3 is 0; in float32 it would be 2e4 at eps 1e-6."""
        assert gradient(torch.rand(1, 256).repeat(8, 1), 1e-6).norm() < 1e-3

    def test_a_zero_row_gets_no_gradient(self) -> None:
        features = torch.cat([torch.zeros(1, 4), torch.eye(4)])
        assert torch.equal(gradient(features, 1e-3)[0], torch.zeros(4))

    def test_is_computed_outside_autocast(self) -> None:
        features = torch.rand(8, 16)
        with torch.autocast("cpu", torch.bfloat16):
            value = hyperspherical_energy(features, 1e-3)
        assert torch.equal(value, hyperspherical_energy(features, 1e-3))


class TestMethod:
    @staticmethod
    def terms(**settings: float | None) -> dict[str, float | Tensor]:
        defaults = {
            "energy_weight": 0.5, "variance_weight": None, "energy_eps": None, "hinge": "variance",
        }  # fmt: skip
        method = UniVarFL(**{**defaults, **settings})  # type: ignore[arg-type]
        out = Output(torch.zeros(4, 10), torch.eye(4), torch.zeros(4, 1, 1, 1))
        found = method.loss(out, torch.zeros(4), torch.zeros(4))
        return {name: term.weight for name, term in found.items()}

    def test_default_weights_are_the_papers(self) -> None:
        assert self.terms() == {"l_v": 10 / 4, "l_he": 0.5}

    def test_the_ablations_leave_one_term_out(self) -> None:
        assert self.terms(energy_weight=0.0) == {"l_v": 2.5}
        assert self.terms(variance_weight=0.0) == {"l_he": 0.5}

    @pytest.mark.parametrize(
        ("hinge", "function"),
        [("variance", classifier_variance), ("deviation", classifier_deviation)],
    )
    def test_the_hinge_is_on_the_variance_or_on_the_deviation(
        self, hinge: Literal["variance", "deviation"], function: Callable[[Tensor], Tensor]
    ) -> None:
        logits, x = torch.randn(8, 10), torch.zeros(8)
        found = UniVarFL(0.0, None, None, hinge).loss(Output(logits, x, x), x, x)["l_v"]
        assert torch.equal(found.value, function(logits))
        assert found.weight == 10 / 4

    @pytest.mark.usefixtures("all_digits")
    def test_with_the_deviation_alone_it_is_feduv_with_its_own_alone(self) -> None:
        ours = ["method=univarfl", "method.energy_weight=0", "method.hinge=deviation"]
        theirs = ["method=feduv", "method.uniformity_weight=0"]
        one, two = (
            Worker(compose_experiment([*words, "local_epochs=1"]).local())
            for words in (ours, theirs)
        )
        a, b = (each.train(each.initial_weights(), 1, 0).weights for each in (one, two))
        assert all(torch.equal(value, b[name]) for name, value in a.items())

    def test_a_one_class_client_trains(self) -> None:
        logits = torch.randn(8, 10, requires_grad=True)
        classifier_variance(logits).backward()
        assert logits.grad is not None
        assert torch.isfinite(logits.grad).all()

    @pytest.mark.parametrize(("norm", "eps"), [("batch", 1e-3), ("group", 0.3), ("batch", 0.1)])
    def test_epsilon_is_larger_where_features_are_not_batch_normalised(
        self, norm: Norm, eps: float
    ) -> None:
        model = projector(6, 16, norm)
        method = UniVarFL(0.5, 0.0, eps if eps == 0.1 else None, "variance")
        method.start(model, LocalRound(1, 0, torch.Generator(), torch.ones(2)))
        features = torch.rand(5, 16)
        out = Output(torch.zeros(5, 10), features, torch.zeros(5, 1, 1, 1))
        found = method.loss(out, features, features)["l_he"].value
        assert torch.equal(found, hyperspherical_energy(features, eps))

    @pytest.mark.usefixtures("all_digits")
    def test_without_batch_norm_it_learns(self) -> None:
        """With eps 1e-3, nearly parallel features would repel: below twice the chance level."""
        words = ["num_clients=1", "partition=iid", "local_epochs=2", "model.norm=group"]
        worker = Worker(compose_experiment(words).local())
        result = worker.train(worker.initial_weights(), 1, 0)
        assert worker.test(result.weights).means["accuracy"] > 0.6

    def test_a_small_eps_warns(self) -> None:
        with pytest.warns(UserWarning, match="below 1e-4") as caught:
            self.terms(energy_eps=1e-6)
        assert len(caught) == 1

    @pytest.mark.parametrize(
        "settings", [{"energy_weight": -1.0}, {"variance_weight": -0.1}, {"energy_eps": 0.0}]
    )
    def test_values_out_of_range_are_refused(self, settings: dict[str, float]) -> None:
        with pytest.raises(ConfigError, match=next(iter(settings))):
            self.terms(**settings)


@pytest.mark.parametrize(
    ("layers", "eps"),
    [
        ([nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4), nn.BatchNorm1d(4)], 1e-3),
        ([nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)], 0.3),
        ([nn.Conv2d(3, 8, 3), nn.GroupNorm(8, 8), nn.Linear(8, 4)], 0.3),
        ([nn.LayerNorm(8), nn.Linear(8, 4)], 0.3),
        ([nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Linear(8, 4)], 3.0),
    ],
)
def test_the_default_epsilon_follows_from_the_normalisation(
    layers: list[nn.Module], eps: float
) -> None:
    method = UniVarFL(1.0, 0.0, None, "variance")
    generator = torch.Generator().manual_seed(0)
    this = LocalRound(1, 0, generator, torch.ones(4, dtype=torch.int64))
    method.start(nn.Sequential(*layers), this)
    features = torch.randn(6, 4, generator=generator)
    found = method.loss(Output(torch.zeros(6, 4), features, None), features, torch.zeros(6))
    assert found["l_he"].value == hyperspherical_energy(features, eps)
