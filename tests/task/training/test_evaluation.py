"""Metrics, compared with torchmetrics and with values derived by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.classification import (
    multiclass_calibration_error,
    multiclass_f1_score,
    multiclass_recall,
)

from task.training.evaluation import metrics_from_logits


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 60), classes=st.integers(2, 12))
def test_they_are_torchmetrics_own(seed: int, rows: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, classes, generator=generator)
    probabilities = logits.softmax(dim=1)  # torchmetrics takes logits in [0, 1] for probabilities
    labels = torch.randint(classes, (rows,), generator=generator)
    found = metrics_from_logits(logits, labels)
    recall = multiclass_recall(logits, labels, classes, average=None)
    there = sorted(set(labels.tolist()))
    assert sorted(found.recall) == there
    for label in there:
        assert found.recall[label][0] == int((labels == label).sum())
        assert found.recall[label][1] == pytest.approx(float(recall[label]), abs=1e-6)
    means = [float(recall[label]) for label in there]
    assert found.means["balanced_accuracy"] == pytest.approx(sum(means) / len(means), abs=1e-6)
    assert found.means["macro_f1"] == pytest.approx(
        float(multiclass_f1_score(logits, labels, classes, average="macro")), abs=1e-6
    )
    assert found.means["calibration_error"] == pytest.approx(
        float(multiclass_calibration_error(probabilities, labels, classes, n_bins=15)), abs=1e-5
    )


def test_by_hand() -> None:
    """Labels 0, 0, 1, all predicted as 0 with confidence 1: recall 1 and 0, F1 4/5 and 0."""
    found = metrics_from_logits(
        torch.tensor([[40.0, 0.0, 0.0]]).repeat(3, 1), torch.tensor([0, 0, 1])
    )
    assert found.recall == {0: (2, 1.0), 1: (1, 0.0)}
    assert found.means == pytest.approx(
        {
            "accuracy": 2 / 3, "loss": 40 / 3, "balanced_accuracy": 0.5, "macro_f1": 0.4,
            "calibration_error": 1 / 3,
        }
    )  # fmt: skip
