"""Pairs of methods and strategies, with each method and each strategy at least once.

``python -m benchmarks.methods_by_strategies`` runs all pairs.
"""

import pytest
from safetensors.numpy import load_file

from server_app.config.choices import choices
from server_app.runs.records.run_record import read_entries
from tests.conftest import Train, model_for, needs_of, rows

PAIRS = [
    ("fedavg", "fedavg"),
    ("fedprox", "fedadagrad"),
    ("feduv", "multikrum"),
    ("freeze", "dp_adaptive"),
    ("mixup", "krum"),
    ("moon", "fedadam"),
    ("scaffold", "fedyogi"),
    ("feddyn", "fedavgm"),
    ("univarfl", "dp_fixed"),
    ("moon", "dp_client_fixed"),
]
SLOW_PAIRS = [("fedalign", "bulyan"), ("gradaug", "fedtrimmedavg"), ("stochdepth", "fedmedian")]


NAMED = {strategy for _, strategy in PAIRS + SLOW_PAIRS}
PAIRS += [("univarfl", strategy) for strategy in choices()["strategy"] if strategy not in NAMED]


@pytest.mark.parametrize(
    ("method", "strategy"),
    [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW_PAIRS)],
)
def test_two_rounds(train: Train, method: str, strategy: str) -> None:
    words = ["num_clients=7", f"method={method}", f"strategy={strategy}"]
    directory = train(*words, *model_for(method), *needs_of(strategy))
    assert read_entries(directory)["status"] == "completed"
    assert all(row["status"] == "ok" for row in rows(directory, "clients.csv"))
    weights = load_file(directory / "model.safetensors")
    assert len(weights) >= 10
