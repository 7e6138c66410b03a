"""Curvature compared with an exact Hessian; spread, drift and cost with values by hand."""

import math
from itertools import combinations
from typing import cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from scipy.spatial.distance import pdist, squareform
from torch import Tensor, nn

from server_app.config.composition import compose_experiment
from task.analysis.cost import operations, training_cost
from task.analysis.curvature import (
    Hessian,
    diagonal,
    direction_agreement,
    norm_difference,
    top_eigenpairs,
    traces_of_tensors,
)
from task.analysis.drift import drifts
from task.analysis.landscape import losses_around
from task.analysis.spread import class_variances, uniformity
from task.data.batches import DeviceImages
from task.data.dataset import ImageDataset
from task.methods.base import LocalRound
from task.models.base import Output
from task.training.evaluation import evaluate
from task.training.worker import Worker
from tests.conftest import with_slow

CLIENTS = 3


class Tiny(nn.Module):
    """Convolution, linear layers and both batch norms, in 102 parameters, float64."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(2)
        self.projector = nn.Linear(2, 5, bias=False)
        self.norm_1d = nn.BatchNorm1d(5)
        self.classifier = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Output:
        x = x.to(self.conv.weight)
        maps = F.relu(self.norm(self.conv(x)))
        features = F.relu(self.norm_1d(self.projector(maps.mean(dim=(2, 3)))))
        return Output(self.classifier(features), features, maps)


@pytest.fixture(scope="module")
def images() -> DeviceImages:
    generator = np.random.default_rng(0)
    return DeviceImages(
        cast(
            ImageDataset,
            type(
                "Images",
                (),
                {
                    "images": generator.integers(0, 256, (90, 6, 6, 3), dtype=np.uint8),
                    "labels": generator.integers(0, 4, 90),
                    "classes": ("a", "b", "c", "d"),
                    "std": (0.25, 0.25, 0.25),
                    "mean": (0.5, 0.5, 0.5),
                    "targets": None,
                    "vectors": False,
                },
            ),
        ),
        torch.device("cpu"),
    )


@pytest.fixture(scope="module")
def model(images: DeviceImages) -> nn.Module:
    """Return a trained model, whose loss has some curvature."""
    torch.manual_seed(0)
    tiny = Tiny()
    x, y = images[torch.arange(90)]
    optimizer = torch.optim.SGD(tiny.parameters(), 0.1, 0.9)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(tiny(x).logits, y).backward()
        optimizer.step()
    return tiny.double().eval()


def positions_of(client: int) -> Tensor:
    return torch.arange(90)[client::CLIENTS][: 30 - 8 * client]


def exact_hessian(model: nn.Module, images: DeviceImages, positions: Tensor) -> Tensor:
    """Return all second derivatives, computed row by row with autograd."""
    x, y = images[positions]
    parameters = list(model.parameters())
    loss = F.cross_entropy(model(x).logits, y)
    slopes = torch.autograd.grad(loss, parameters, create_graph=True)
    flat = torch.cat([slope.flatten() for slope in slopes])
    rows = [torch.autograd.grad(one, parameters, retain_graph=True) for one in flat]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


@pytest.fixture(scope="module")
def exact(model: nn.Module, images: DeviceImages) -> list[Tensor]:
    return [exact_hessian(model, images, positions_of(client)) for client in range(CLIENTS)]


class TestCurvature:
    def test_products(self, model: nn.Module, images: DeviceImages, exact: list[Tensor]) -> None:
        generator = torch.Generator().manual_seed(1)
        for client, whole in enumerate(exact):
            positions = positions_of(client)
            shares = torch.full((len(positions),), 1 / len(positions))
            found = Hessian(model, images, positions, shares)
            assert found.size == len(whole)
            vector = torch.randn(len(whole), generator=generator, dtype=torch.float64)
            torch.testing.assert_close(found.product(vector), whole @ vector, rtol=1e-5, atol=1e-6)

    def test_eigenvalues_of_the_whole_federation(
        self, model: nn.Module, images: DeviceImages, exact: list[Tensor]
    ) -> None:
        shares = [0.5, 0.3, 0.2]
        whole = sum((s * h for s, h in zip(shares, exact, strict=True)), torch.zeros(()))
        values, vectors = torch.linalg.eigh(whole)
        positions = [positions_of(client) for client in range(CLIENTS)]
        parts = zip(positions, shares, strict=True)
        each = torch.cat([torch.full((len(of),), share / len(of)) for of, share in parts])
        matrix = Hessian(model, images, torch.cat(positions), each)
        found = top_eigenpairs(matrix, 2, torch.Generator().manual_seed(2), 1e-4)
        assert found.values == pytest.approx(values.flip(0)[:2].numpy(), rel=1e-3)
        assert (found.vectors * vectors.T.flip(0)[:2]).sum(dim=1).abs().min() > 0.999

    def test_diagonals_and_what_clients_have_in_common(
        self, model: nn.Module, images: DeviceImages, exact: list[Tensor]
    ) -> None:
        found = [diagonal(model, images, positions_of(client)) for client in range(CLIENTS)]
        own = [whole.diagonal() for whole in exact]
        for estimate, true in zip(found, own, strict=True):
            torch.testing.assert_close(estimate, true, rtol=1e-6, atol=1e-9)
        pairs = list(combinations(own, 2))
        norms = np.mean([float((a.norm() - b.norm()) ** 2) for a, b in pairs])
        cosines = np.mean([float(F.cosine_similarity(a, b, dim=0)) for a, b in pairs])
        assert norm_difference(found) == pytest.approx(norms, rel=0.01)
        assert direction_agreement(found) == pytest.approx(cosines, rel=0.01)
        # With the pairs of a client with itself, whose difference is 0 and whose cosine is 1.
        with_own = len(own) ** 2
        assert norm_difference(found, own=True) == pytest.approx(
            2 * len(pairs) * norms / with_own, rel=0.01
        )
        assert direction_agreement(found, own=True) == pytest.approx(
            (2 * len(pairs) * cosines + len(own)) / with_own, rel=0.01
        )

    def test_the_releases_numbers_are_traces_of_the_tensors_blocks(
        self, model: nn.Module, images: DeviceImages, exact: list[Tensor]
    ) -> None:
        found = traces_of_tensors(model, diagonal(model, images, positions_of(0)))
        sizes = [parameter.numel() for parameter in model.parameters()]
        true = torch.stack([part.sum() for part in exact[0].diagonal().split(sizes)])
        torch.testing.assert_close(found, true, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", with_slow(["cnn", "resnet56"], ["resnet56"]))
def test_a_real_networks_diagonal_is_that_of_its_hessian(name: str) -> None:
    """Checks entries from the first layer to the last, with shortcuts in between."""
    words = [f"model={name}", "method=fedavg", *(["data.image_size=8"] if name != "cnn" else [])]
    worker = Worker(compose_experiment(words).local())
    model, positions = worker.model, worker.images.index(worker.data.clients[0].train[:6])
    worker.train(worker.initial_weights(), 1, 0)
    found = diagonal(model, worker.images, positions)
    shares = torch.full((len(positions),), 1 / len(positions))
    hessian = Hessian(model, worker.images, positions, shares)
    for place in torch.linspace(0, hessian.size - 1, 25).long().tolist():
        unit = torch.zeros(hessian.size)
        unit[place] = 1
        expected = float(hessian.product(unit)[place])
        assert float(found[place]) == pytest.approx(expected, rel=0.01, abs=1e-5)


class Smooth(nn.Module):
    """No ReLU: at its kinks, second differences are not second derivatives."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(108, 4)

    def forward(self, x: Tensor) -> Output:
        return Output(self.classifier(x.flatten(1)), x.flatten(1), x)


def test_the_landscape_bends_as_the_eigenvalues_say(images: DeviceImages) -> None:
    """Second differences of the loss are the eigenvalues, and the model is restored."""
    torch.manual_seed(0)
    smooth, step = Smooth(), 0.05
    positions = positions_of(0)
    matrix = Hessian(smooth, images, positions, torch.full((len(positions),), 1 / len(positions)))
    pairs = top_eigenpairs(matrix, 2, torch.Generator().manual_seed(3), 1e-6)
    before = {name: value.clone() for name, value in smooth.state_dict().items()}
    points = losses_around(smooth, images, [positions], [1.0], pairs.vectors, [-step, 0.0, step])
    found = {(first, second): loss for first, second, loss in points}
    (score,) = evaluate(smooth, images, [positions])
    assert found[0.0, 0.0] == score.means()["loss"]
    for axis, value in enumerate(pairs.values):
        ends = [(sign * step, 0.0) if axis == 0 else (0.0, sign * step) for sign in (-1, 1)]
        bend = (sum(found[end] for end in ends) - 2 * found[0.0, 0.0]) / step**2
        assert bend == pytest.approx(value, rel=0.02)
    assert all(torch.equal(value, before[name]) for name, value in smooth.state_dict().items())


class TestSpread:
    def test_one_hot_predictions_of_balanced_classes_have_one_over_the_classes(self) -> None:
        logits = 100 * torch.eye(5).repeat(400, 1)
        assert class_variances(logits) == pytest.approx([0.16] * 5, rel=1e-3)  # p (1 - p)

    def test_a_class_that_is_never_named_has_none(self) -> None:
        logits = torch.tensor([[9.0, 0.0, -50.0], [0.0, 9.0, -50.0]])
        assert class_variances(logits)[2] < 1e-12

    @pytest.mark.parametrize(
        ("features", "expected"),
        [
            ([[1.0, 0.0], [7.0, 0.0]], 0.0),  # the same direction
            ([[1.0, 0.0], [-2.0, 0.0]], -8.0),  # opposite: |z - z'|^2 = 4
            ([[1.0, 0.0], [0.0, 1.0]], -4.0),
            ([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], math.log((1 + 2 * math.exp(-8)) / 3)),
        ],
    )
    def test_uniformity(self, features: list[list[float]], expected: float) -> None:
        assert uniformity(torch.tensor(features)) == pytest.approx(expected, abs=1e-9)


def test_drift() -> None:
    whole = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    for layers in ([whole], [whole[:, :1], whole[:, 1:]]):
        found = drifts([4, 7], layers)
        assert found[4] == pytest.approx((3.0, 0.0, 5.0))
        assert found[7] == pytest.approx((4.0, 0.0, 5.0))
    alone = drifts([1], [torch.tensor([[3.0, 4.0]])])[1]
    assert alone.length == 5.0
    assert math.isnan(alone.cosine)
    still = drifts([0, 1], [torch.tensor([[0.0, 0.0], [0.0, 2.0]])])
    assert still[0] == pytest.approx((0.0, 0.0, 2.0))


def test_drift_is_what_scipy_finds() -> None:
    found = torch.randn(5, 300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    table = drifts(range(5), found.split(70, dim=1))
    for name, metric in (("distance", "euclidean"), ("cosine", "cosine")):
        apart = squareform(pdist(found.numpy(), metric)).sum(axis=1) / 4
        expected = apart if name == "distance" else 1 - apart
        assert [getattr(row, name) for row in table.values()] == pytest.approx(expected)


def test_costs_are_as_the_methods_say() -> None:
    """MOON runs three forward passes and stores two more models; FedProx stores the weights."""
    cost = {
        method: training_cost(compose_experiment([f"method={method}"]).local(), 3, 32, 10)
        for method in ("fedavg", "fedprox", "moon", "univarfl")
    }
    plain = cost["fedavg"]
    assert 2.9 < plain.step / plain.forward < 3.1
    assert cost["moon"].forward == pytest.approx(3 * plain.forward, rel=0.01)
    assert cost["moon"].stored == pytest.approx(3 * plain.stored, rel=0.02)
    assert cost["fedprox"].stored == pytest.approx(2 * plain.stored, rel=0.02)
    assert cost["univarfl"].forward == pytest.approx(plain.forward, rel=0.01)
    assert cost["univarfl"].stored == plain.stored


@pytest.mark.parametrize("name", ["fedavg", "univarfl", "feduv", "mixup"])
def test_a_full_batch_costs_what_it_would_if_it_were_counted(name: str) -> None:
    """The number of pairs of images grows with the square of the batch size."""
    words = [f"method={name}", "batch_size=24"]
    config = compose_experiment(words).local()
    method, generator = config.local_method(), torch.Generator()
    model = method.build(config.network().build(3, 10), generator).train()
    method.start(model, LocalRound(1, 0, generator, torch.ones(10)))
    forward, step = operations(method, model, (24, 3, 32, 32), 10)
    cost = training_cost(config, 3, 32, 10)
    assert (24 * cost.forward, 24 * cost.step) == pytest.approx((forward, step), rel=1e-9)
    pairs = name in ("univarfl", "feduv")
    two = operations(method, model, (2, 3, 32, 32), 10)[0]
    assert (forward > 12 * two) == pairs
