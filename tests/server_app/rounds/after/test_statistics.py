"""Statistics of features: computed at a client, checked at the server, and pooled exactly."""

from typing import Any

import pytest
import torch
from torch import Tensor

from server_app.rounds.after.calibration.pooling import PooledStatistics
from server_app.rounds.after.calibration.retraining import Training, draw_features, retrain
from task.errors import ProtocolError
from task.fingerprint import fingerprint
from task.protocol.after.statistics import (
    StatisticsReply,
    StatisticsRequest,
    check_statistics,
    statistics_bytes,
)
from task.protocol.packed import Packed
from task.protocol.tensors import PackedTensors
from task.training.after.statistics import statistics_of

ONE = torch.tensor([[1.0, 0.5], [0.2, -0.4], [-0.6, 0.9]], dtype=torch.float64)
TWO = torch.tensor([[0.4, 0.3], [1.2, 1.0]], dtype=torch.float64)


def pooled(parts: list[dict[str, Tensor]], classes: int = 1, features: int = 2) -> PooledStatistics:
    """The pooled statistics of several clients."""
    found = PooledStatistics(classes, features)
    for part in parts:
        found.add(part)
    return found


def of_one_class(features: Tensor) -> dict[str, Tensor]:
    return statistics_of(features, torch.zeros(len(features), dtype=torch.int64))


class TestGoldenValues:
    """Two clients of one class, worked out in float64 with a reimplementation's own function."""

    def test_the_pooled_mean_and_covariance(self) -> None:
        found = pooled([of_one_class(ONE), of_one_class(TWO)])
        assert found.means[0].tolist() == pytest.approx([0.44, 0.46], abs=1e-6)
        expected = [0.508, 0.047, 0.047, 0.313]
        assert found.covariance(0).flatten().tolist() == pytest.approx(expected, abs=1e-6)

    def test_biased_covariances_of_clients_give_too_small_ones(self) -> None:
        parts = [of_one_class(ONE), of_one_class(TWO)]
        for part in parts:
            count = int(part["counts"])
            part["covariances"] = part["covariances"] * (count - 1) / count
        expected = [0.361333, 0.038667, 0.038667, 0.208486]
        found = pooled(parts).covariance(0).flatten().tolist()
        assert found == pytest.approx(expected, abs=1e-6)


class TestPooling:
    def test_they_are_those_of_all_features_in_one_place(self) -> None:
        draw = torch.Generator().manual_seed(0)
        features = 1e4 + torch.randn(300, 5, generator=draw, dtype=torch.float64)
        labels = torch.randint(3, (300,), generator=draw)
        parts = [
            statistics_of(x, y)
            for x, y in zip(features.split([7, 150, 143]), labels.split([7, 150, 143]), strict=True)
        ]
        found = pooled(parts, classes=4, features=5)
        assert found.present == [0, 1, 2]
        for label in found.present:
            own = features[labels == label]
            assert int(found.counts[label]) == len(own)
            assert torch.allclose(found.means[label], own.mean(dim=0), rtol=1e-14)
            assert torch.allclose(found.covariance(label), own.T.cov(), rtol=1e-6, atol=1e-9)

    def test_one_image_has_no_covariance(self) -> None:
        found = pooled([of_one_class(ONE[:1])])
        assert found.covariance(0).abs().max() == 0
        assert found.means[0].tolist() == ONE[0].tolist()

    def test_a_covariance_that_is_not_symmetric_is_made_so(self) -> None:
        part = of_one_class(ONE)
        part["covariances"][0, 0, 1] += 1.0
        found = pooled([part]).covariance(0)
        assert torch.equal(found, found.T)


class TestDrawing:
    def test_features_have_the_pooled_mean_and_covariance(self) -> None:
        found = pooled([of_one_class(ONE), of_one_class(TWO)])
        features, labels = draw_features(found, 20_000, seed=0)
        assert labels.tolist() == [0] * 20_000
        assert torch.allclose(features.mean(dim=0), found.means[0], atol=0.02)
        assert torch.allclose(features.T.cov(), found.covariance(0), atol=0.02)

    def test_negative_eigenvalues_count_as_zero(self) -> None:
        part = of_one_class(ONE)
        part["covariances"][0] = torch.tensor([[-1.0, 0.0], [0.0, 4.0]])
        features, _ = draw_features(pooled([part]), 100, seed=0)
        assert torch.allclose(features[:, 0], part["means"][0, 0].expand(100))
        assert features[:, 1].std() > 1

    def test_a_class_that_nobody_has_is_not_drawn_and_changes_no_other(self) -> None:
        few = statistics_of(ONE, torch.tensor([2, 2, 2]))
        more = statistics_of(torch.cat([ONE, TWO]), torch.tensor([2, 2, 2, 0, 0]))
        only, labels = draw_features(pooled([few], classes=4), 10, seed=3)
        assert labels.unique().tolist() == [2]
        both, labels = draw_features(pooled([more], classes=4), 10, seed=3)
        assert torch.equal(both[labels == 2], only)

    def test_a_classifier_learns_them(self) -> None:
        features = torch.cat([ONE, ONE + 5])
        labels = torch.tensor([0, 0, 0, 1, 1, 1])
        start = torch.zeros(2, 2), torch.zeros(2)
        how = Training(epochs=200, batch_size=4, lr=0.1, momentum=0.9)
        weight, bias = retrain(*start, features, labels, how, seed=0)
        assert bias is not None
        assert torch.equal((features.float() @ weight.T + bias).argmax(dim=1), labels)
        assert start[0].abs().max() == 0  # where it starts is not changed


GONE = torch.zeros(7)  # stands for an array that is left out


def statistics(**changes: Tensor) -> dict[str, Tensor]:
    """Statistics of a client with 3 images of class 1 and 2 of class 3, with changes."""
    found = statistics_of(torch.cat([ONE, TWO]), torch.tensor([1, 1, 1, 3, 3]))
    return {name: value for name, value in {**found, **changes}.items() if value is not GONE}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"means": GONE}, "its arrays must be classes, counts, means, covariances"),
        ({"more": torch.zeros(1)}, "its arrays must be classes, counts, means, covariances"),
        ({"classes": torch.zeros(0, dtype=torch.int64)}, "it has statistics of 0 classes"),
        ({"classes": torch.arange(5)}, "it has statistics of 5 classes, of 1 to 4"),
        ({"classes": torch.tensor([1.0, 3.0])}, r"classes is float32\(2,\), not int64\(2,\)"),
        ({"classes": torch.tensor([[1, 3]])}, r"classes is int64\(1, 2\), not int64\(2,\)"),
        ({"classes": torch.tensor([3, 1])}, "its classes must ascend, from 0 to 3"),
        ({"classes": torch.tensor([1, 1])}, "its classes must ascend, from 0 to 3"),
        ({"classes": torch.tensor([-1, 1])}, "its classes must ascend, from 0 to 3"),
        ({"classes": torch.tensor([1, 4])}, "its classes must ascend, from 0 to 3"),
        ({"counts": torch.tensor([3, 3])}, "it counts 6 training images and has 5"),
        ({"counts": torch.tensor([10**12, 2])}, "training images and has 5"),
        ({"counts": torch.tensor([2**63 - 1, 6])}, "training images and has 5"),
        ({"counts": torch.tensor([6, -1])}, "it counts 5 training images and has 5"),
        ({"counts": torch.tensor([5, 0])}, "it counts 5 training images and has 5"),
        ({"means": torch.zeros(2, 3, dtype=torch.float64)}, r"means is float64\(2, 3\), not"),
        ({"means": torch.zeros(2, 2)}, r"means is float32\(2, 2\), not float64\(2, 2\)"),
        ({"means": torch.full((2, 2), torch.nan, dtype=torch.float64)}, "means has a number that"),
        ({"means": torch.full((2, 2), 1e39, dtype=torch.float64)}, "means has a number that"),
        ({"covariances": torch.zeros(2, 2, 3, dtype=torch.float64)}, r"covariances is float64\(2"),
        (
            {"covariances": torch.full((2, 2, 2), torch.inf, dtype=torch.float64)},
            "covariances has a number that is not finite, or too large",
        ),
        (
            {"covariances": torch.full((2, 2, 2), -1e300, dtype=torch.float64)},
            "covariances has a number that is not finite, or too large",
        ),
    ],
)
def test_other_statistics_are_refused(changes: dict[str, Tensor], reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        check_statistics(statistics(**changes), classes=4, features=2, images=5)


def test_statistics_of_the_right_form_are_taken() -> None:
    found = statistics()
    assert check_statistics(found, classes=4, features=2, images=5) == found
    assert found["classes"].tolist() == [1, 3]


def test_the_largest_numbers_can_be_pooled() -> None:
    most = torch.finfo(torch.float32).max
    huge = {
        "classes": torch.tensor([0]), "counts": torch.tensor([10**12]),
        "means": torch.full((1, 2), most, dtype=torch.float64),
        "covariances": torch.full((1, 2, 2), 4 * most**2, dtype=torch.float64),
    }  # fmt: skip
    check_statistics(huge, classes=1, features=2, images=10**12)
    found = pooled([huge, {**huge, "means": -huge["means"]}])
    assert found.covariance(0).isfinite().all()


class TestMessages:
    def request(self, **changes: Any) -> StatisticsRequest:
        fields: dict[str, Any] = {
            "run": "run", "experiment": "{}", "fingerprint": fingerprint(), "clients": [1, 4],
            "classes": 4, "features": 2, "weights": PackedTensors.of({"w": ONE}), **changes,
        }  # fmt: skip
        return StatisticsRequest(**fields)

    def test_a_reply_has_statistics_or_a_reason_for_each_client(self) -> None:
        request = self.request()
        rows = [{"client": 1, "reason": ""}, {"client": 4, "reason": "scanner offline"}]
        sent = {"1": PackedTensors.of(statistics())}
        reply = StatisticsReply.to(request, rows=rows, sent=sent)
        read = StatisticsReply.unpack(reply.pack())
        assert torch.equal(read.of(1)["means"], statistics()["means"])
        with pytest.raises(ProtocolError, match="scanner offline"):
            read.of(4)
        with pytest.raises(ProtocolError, match="has no row for it"):
            read.of(2)

    def test_statistics_that_a_row_promises_must_be_there(self) -> None:
        reply = StatisticsReply.to(self.request(), rows=[{"client": 1}], sent={})
        with pytest.raises(ProtocolError, match="its tensors are missing"):
            reply.of(1)

    def test_a_reply_is_bounded_before_it_is_read(self) -> None:
        limits = self.request().reply_limits()
        assert set(limits.arrays) == {"sent/1", "sent/4"}
        every = statistics_of(torch.cat([TWO] * 4), torch.arange(8) // 2)
        size = len(PackedTensors.of(every).data)
        assert statistics_bytes(4, 2) < size <= limits.arrays["sent/1"]
        with pytest.raises(ProtocolError, match="sent/1 has 20000 bytes, of"):
            limits.check(10, {"sent/1": 20_000})
        with pytest.raises(ProtocolError, match="an array that was not asked for"):
            limits.check(10, {"sent/2": 10})

    def test_other_arrays_are_refused(self) -> None:
        packed = StatisticsReply.to(self.request(), rows=[], sent={}).pack()
        with pytest.raises(ProtocolError, match="unknown array 'weights'"):
            StatisticsReply.unpack(Packed(packed.header, {"weights": b"x"}))
