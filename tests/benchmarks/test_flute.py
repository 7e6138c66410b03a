"""FLUTE's race: its bare loop, its settings and its table."""

from pathlib import Path

import numpy as np
import torch

from benchmarks.bare_loop import Work
from benchmarks.flute import EVERY, EXPERIMENT, Finish, bare, report
from server_app.config.composition import compose_experiment
from server_app.rounds.sampling import participant_count


def test_the_bare_loop_learns(tmp_path: Path) -> None:
    """Two clients have a digit each, black or white, and the test images are the same."""
    images = torch.zeros(40, 28, 28, 1, dtype=torch.uint8)
    images[20:] = 255
    labels = torch.arange(40) // 20
    work = Work(images, labels, list(torch.arange(40).split(20)), 1, 10, EVERY)
    path = tmp_path / "work.npz"
    np.savez(path, **work.arrays(), test=np.arange(40), sampled=[[0, 1]] * EVERY)
    assert bare(path)["accuracy"] == 1.0


def test_the_experiment_is_flutes() -> None:
    experiment = compose_experiment(list(EXPERIMENT))
    assert participant_count(experiment.num_clients, experiment.rho) == 10
    assert (experiment.rounds, experiment.batch_size, experiment.local_epochs) == (100, 10, 1)
    assert experiment.partition["classes_per_client"] == 2


def test_the_table_has_medians_and_ratios_to_the_bare_loop() -> None:
    table = report({
        "bare": [Finish(2.0, 1.0, 0.8), Finish(4.0, 1.0, 0.8), Finish(3.0, 1.0, 0.8)],
        "ours": [Finish(6.0, 1.5, 0.81)],
    })  # fmt: skip
    assert "| bare | 3.0 (2.0 to 4.0) | 1.0 (1.0 to 1.0) | 80.0 | 1.00 | 1.00 |" in table
    assert "| ours | 6.0 (6.0 to 6.0) | 1.5 (1.5 to 1.5) | 81.0 | 2.00 | 1.50 |" in table
