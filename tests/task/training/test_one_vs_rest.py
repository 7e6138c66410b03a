"""Metrics of each class against the rest, compared with scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torchmetrics.functional.classification import multiclass_specificity

from task.training.one_vs_rest import one_vs_rest


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), rows=st.integers(30, 60), classes=st.integers(3, 6))
def test_the_mean_is_scikit_learns_own(seed: int, rows: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=generator).round(decimals=1)  # with ties
    labels = torch.arange(rows) % classes
    found = one_vs_rest(logits, labels)
    probabilities = logits.softmax(dim=1).double().numpy()
    expected = roc_auc_score(labels.numpy(), probabilities, multi_class="ovr", average="macro")
    assert found.means()["auroc"] == pytest.approx(expected, abs=1e-6)
    specificity = multiclass_specificity(logits, labels, classes, average=None)
    assert [each.specificity for each in found.classes] == pytest.approx(specificity.tolist())
    assert np.sum(found.confusion) == rows
    assert [sum(row) for row in found.confusion] == [each.images for each in found.classes]


def test_by_hand_with_an_absent_class() -> None:
    """Labels 0, 0, 1, 1; class 2 has no image, and one image of class 1 is taken for it."""
    probabilities = torch.tensor([[8, 1, 1], [3, 5, 2], [2, 6, 2], [1, 2, 7]]) / 10.0
    found = one_vs_rest(probabilities.log(), torch.tensor([0, 0, 1, 1]))
    assert found.confusion == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]
    zero, one, absent = found.classes
    assert (zero.images, zero.sensitivity, zero.specificity, zero.auroc) == (2, 0.5, 1.0, 1.0)
    assert (one.images, one.sensitivity, one.specificity, one.auroc) == (2, 0.5, 0.5, 0.75)
    assert (absent.images, absent.sensitivity, absent.specificity) == (0, None, 0.75)
    assert absent.auroc is None
    assert absent.average_precision is None
    assert found.means() == pytest.approx({"auroc": 7 / 8, "average_precision": 11 / 12})


def test_with_one_class_alone_nothing_is_compared() -> None:
    found = one_vs_rest(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))
    assert found.classes[0].specificity is None
    assert found.means() == {}


def test_probabilities_that_are_not_finite_have_no_curve() -> None:
    found = one_vs_rest(torch.full((2, 2), torch.nan), torch.tensor([0, 1]))
    assert found.means() == {}
    assert found.confusion == [[1, 0], [1, 0]]


@pytest.mark.parametrize("images", [43, 47, 51])
def test_a_perfect_order_is_one_and_not_more(images: int) -> None:
    labels = torch.arange(2).repeat_interleave(images)
    logits = torch.nn.functional.one_hot(labels, 2) * torch.linspace(2, 3, 2 * images)[:, None]
    found = one_vs_rest(logits, labels)
    assert [each.average_precision for each in found.classes] == [1.0, 1.0]
