"""Statistics of batch norm from sums: with masks after the last round, and as averaged moments."""

from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from client_app.masked import measuring as masked_measuring
from server_app.runs.records.run_record import read_entries
from task.models.layers.norm import with_second_moments
from task.secure.vectors.moments_vector import MomentsVector
from tests.conftest import CNN, Train, sha256
from tests.server_app.rounds.statistics.test_statistics import ONE, TWO, failing, lying


@pytest.fixture
def train(train: Train) -> Train:
    """Train a network with batch norm."""
    return lambda *words: train(*CNN, *words)


class TestMasks:
    def test_the_sum_is_that_of_the_plain_moments(self, train: Train) -> None:
        words = ["partition=dirichlet", "rounds=1", "model.statistics=exact"]
        plain, masked = train(*words, "secure=rounded"), train(*words, "secure=masked")
        one, other = (load_file(run / "model.safetensors") for run in (plain, masked))
        for name, value in one.items():
            assert torch.allclose(value, other[name], rtol=1e-4, atol=1e-5), name
        found = read_entries(masked)["statistics"]
        assert (found["clients"], found["missing"], found["layers"]) == (4, {}, 10)
        assert sha256(train(*words, "secure=masked", "federation.workers=3")) == sha256(masked)

    def test_it_is_measured_only_if_it_is_chosen(self, train: Train) -> None:
        assert "statistics" not in read_entries(train("rounds=1", "secure=masked"))

    def test_a_client_that_fails_costs_itself_alone(self, train: Train) -> None:
        with patch.object(masked_measuring, "input_moments", lying(failing)):
            run = train("rounds=1", "model.statistics=exact", "secure=masked")
        found = read_entries(run)["statistics"]
        assert (found["clients"], list(found["missing"])) == (3, ["1"])

    def test_below_the_threshold_the_model_of_the_last_round_stays(self, train: Train) -> None:
        words = ("rounds=1", "secure=masked")
        with patch.object(masked_measuring, "input_moments", side_effect=RuntimeError("offline")):
            run = train(*words, "model.statistics=exact")
        found = read_entries(run)["statistics"]
        assert list(found["readings"]) == ["averaged"]
        assert "encoder.1 cannot be measured: 0 participants have" in found["reason"]
        assert "the model of the last round is kept" in found["reason"]
        assert sha256(run) == sha256(train(*words))

    def test_a_layer_is_centred_and_scaled_before_it_is_rounded(self) -> None:
        layer = nn.BatchNorm1d(2)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        layer.running_mean.copy_(torch.tensor([1e3, -2.0]))
        layer.running_var.copy_(torch.tensor([1e-6, 4.0]))
        layout = MomentsVector(layer)
        parts = [(ONE * 1e-3 + 1e3, 1.0), (TWO * 1e-3 + 1e3, 2 / 3)]
        total = sum(
            layout.pack(x.mean(0), x.var(0, correction=0), weight, bytes(32)) for x, weight in parts
        )
        mean, variance = layout.unpack(np.asarray(total), 5 / 3)
        every = torch.cat([x for x, _ in parts])
        assert torch.allclose(mean, every.mean(0), rtol=0, atol=1e-5)
        assert torch.allclose(variance[0], every.var(0, correction=0)[0], rtol=0.01)

    @pytest.mark.parametrize("mean", [torch.nan, torch.inf, -torch.inf, 1e30])
    def test_a_number_beyond_the_bounds_is_no_refusal(self, mean: float) -> None:
        """The coordinator chooses the statistics, so a refusal would compare a mean with them."""
        layout = MomentsVector(nn.BatchNorm1d(2))
        values = torch.full((2,), mean, dtype=torch.float64)
        packed = layout.pack(values, values.abs(), 1.0, bytes(32))
        assert abs(packed.tolist()[0]) == pytest.approx(2**40, rel=1e-6)


class TestAveragedMoments:
    def test_they_are_those_of_all_inputs(self) -> None:
        """Clients whose running statistics are exact give the mean and variance of all inputs."""
        start = {"n.running_mean": torch.tensor([0.3, -0.2]), "n.running_var": torch.ones(2)}
        sent, every = [], torch.cat([ONE, TWO])
        for part in (ONE, TWO):
            own = {"n.running_mean": part.mean(0), "n.running_var": part.var(0, correction=0)}
            sent.append(with_second_moments(own, start))
        counts = torch.tensor([3.0, 2.0], dtype=torch.float64)
        mean, second = (
            sum(n * one[name] for n, one in zip(counts, sent, strict=True)) / counts.sum()
            for name in start
        )
        variance = second - (mean - start["n.running_mean"].double()).square()
        assert torch.allclose(mean, every.mean(0))
        assert torch.allclose(variance, every.var(0, correction=0))

    def test_the_variance_has_that_between_the_clients_means(self, train: Train) -> None:
        words = ["partition=dirichlet", "alpha=0.1", "rounds=1"]
        averaged, moments = train(*words), train(*words, "model.statistics=moments")
        one, other = (load_file(run / "model.safetensors") for run in (averaged, moments))
        for name, value in one.items():
            if not name.endswith("running_var"):
                assert torch.equal(value, other[name]), name
            else:
                assert bool((other[name] >= value - 1e-6).all()), name
                assert bool((other[name] > value).any()), name

    @pytest.mark.slow
    def test_masks_change_nothing(self, train: Train) -> None:
        words = ["rounds=2", "model.statistics=moments"]
        runs = train(*words, "secure=rounded"), train(*words, "secure=masked")
        assert sha256(runs[0]) == sha256(runs[1])
