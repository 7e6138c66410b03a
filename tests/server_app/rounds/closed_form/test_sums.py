"""Exact sums of features: independent of the batch, additive, and checked."""

import pytest
import torch
from torch import Tensor

from server_app.config.composition import compose_experiment
from server_app.rounds.closed_form.classifier import mean_classifier, ridge_classifier
from server_app.rounds.errors import RunFailedError
from task.data.batches import BATCH
from task.errors import ProtocolError, TrainingError
from task.protocol.after.sums import FRACTION, LONGEST, SUMS, Form, check_sums
from task.training.after.sums import feature_sums, rounded_features
from task.training.worker import Worker
from tests.conftest import CNN, LENET, SMALL, SMALL_RESNET

NETWORKS = [
    pytest.param(LENET, id="lenet"),
    pytest.param(CNN, id="cnn", marks=pytest.mark.slow),
    pytest.param(SMALL_RESNET, id="resnet56", marks=pytest.mark.slow),
    pytest.param(
        ("model=resnet18", "data.image_size=32"), id="resnet18", marks=pytest.mark.slow
    ),
]  # fmt: skip


def worker_of(*words: str) -> Worker:
    return Worker(compose_experiment([*SMALL, *words]).local())


def form_of(worker: Worker, *, products: bool = True) -> Form:
    classes, features = worker.model.state_dict()["classifier.weight"].shape
    return Form(classes, features, products)


@torch.inference_mode()
def features_in_batches(worker: Worker, positions: Tensor) -> Tensor:
    worker.model.eval()
    parts = positions.split(BATCH)
    return torch.cat([rounded_features(worker.model, worker.images, part)[0] for part in parts])


@pytest.mark.parametrize("words", NETWORKS)
def test_features_of_an_image_do_not_depend_on_its_batch(words: tuple[str, ...]) -> None:
    worker = worker_of(*words)
    whole = features_in_batches(worker, torch.arange(200))
    draws = torch.Generator().manual_seed(0)
    for count in (200, 131, 64, 17, 1):
        positions = torch.randperm(200, generator=draws)[:count]
        assert torch.equal(features_in_batches(worker, positions), whole[positions]), count


def test_sums_are_those_of_integers_and_add_up() -> None:
    worker = worker_of(*LENET)
    form, positions = form_of(worker), torch.arange(150)
    z = features_in_batches(worker, positions).long()
    products, by_class = form.unpacked(feature_sums(worker.model, worker.images, positions, form))
    assert torch.equal(products, z.T @ z)
    labels = worker.images.labels(positions)
    assert torch.equal(by_class, torch.stack([z[labels == c].sum(dim=0) for c in range(10)]))
    lengths = z.double().square().sum(dim=1).sqrt()
    assert (lengths / 2**FRACTION - 1).abs().max() < 1e-5
    assert lengths.max() <= LONGEST
    parts = [feature_sums(worker.model, worker.images, p, form) for p in positions.split([7, 143])]
    assert torch.equal(form.packed(products, by_class), parts[0] + parts[1])
    short = form_of(worker, products=False)
    found = feature_sums(worker.model, worker.images, positions, short)
    assert torch.equal(found, by_class.flatten())
    assert short.unpacked(found)[0].numel() == 0


def test_features_of_zero_stay_zero_and_nan_is_an_error() -> None:
    worker = worker_of(*LENET)
    weights = worker.initial_weights()
    worker.load({name: value * 0 for name, value in weights.items()})
    assert not features_in_batches(worker, torch.arange(3)).any()
    worker.load({name: value * torch.nan for name, value in weights.items()})
    with pytest.raises(TrainingError, match="a feature is infinite or NaN"):
        features_in_batches(worker, torch.arange(3))


@pytest.mark.parametrize("products", [True, False])
def test_a_vector_has_the_numbers_that_were_packed(products: bool) -> None:
    form = Form(classes=2, features=3, products=products)
    symmetric = torch.tensor([[1, 2, 3], [2, 4, 5], [3, 5, 6]])
    by_class = torch.arange(6).view(2, 3)
    vector = form.packed(symmetric, by_class)
    assert len(vector) == form.length == 6 * (1 + products)
    assert form.bytes == 8 * len(vector)
    found, sums = form.unpacked(vector)
    assert torch.equal(sums, by_class)
    assert torch.equal(found, symmetric if products else symmetric[:0, :0])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({}, "its arrays must be sums"),
        ({SUMS: torch.zeros(5), "more": torch.zeros(1)}, "its arrays must be sums"),
        ({SUMS: torch.zeros(5)}, r"its sums are float32\(5,\), not int64\(5,\)"),
        ({SUMS: torch.zeros(4, dtype=torch.int64)}, r"its sums are int64\(4,\), not"),
        ({SUMS: torch.tensor([-1, 0, 0, 0, 0])}, "a number below 0 on the diagonal"),
        ({SUMS: torch.tensor([4 * LONGEST**2, 0, 0, 0, 0])}, "larger than 3 images can have"),
        ({SUMS: torch.tensor([0, -(2**63), 0, 0, 0])}, "larger than 3 images can have"),
        ({SUMS: torch.tensor([0, 0, 0, 0, 4 * LONGEST])}, "larger than 3 images can have"),
    ],
)
def test_other_sums_are_refused(found: dict[str, Tensor], reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        check_sums(found, Form(classes=1, features=2, products=True), images=3)


def test_no_sums_of_allowed_sizes_overflow() -> None:
    from task.protocol.after.sums import MOST_IMAGES

    assert BATCH * LONGEST**2 < 2**53  # exact in float64
    assert MOST_IMAGES * LONGEST**2 < 2**63


def test_columns_have_the_length_one_and_absent_classes_none() -> None:
    unit = 2**FRACTION
    products = torch.tensor([[3, 0], [0, 1]]) * unit**2
    by_class = torch.tensor([[3, 1], [0, 0]]) * unit
    found = ridge_classifier(products, by_class, penalty=1.0)
    expected = torch.tensor([0.75, 0.5], dtype=torch.float64)
    assert torch.allclose(found[0], expected / expected.norm())
    assert not found[1].any()
    assert mean_classifier(by_class)[0].norm().item() == pytest.approx(1)
    with pytest.raises(RunFailedError, match="have no solution"):
        ridge_classifier(-2 * products, by_class, penalty=1.0)
