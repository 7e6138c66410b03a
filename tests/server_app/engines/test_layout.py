"""The processes that an experiment needs, known before its settings are checked."""

import subprocess
import sys

import pytest

from server_app.config.composition import compose_experiment, compose_settings
from server_app.engines import cluster
from server_app.engines.early import counts_gpus, started_early
from server_app.engines.layout import Layout


@pytest.mark.parametrize(
    ("words", "processes"),
    [("", 1), ("federation.workers=3", 3), ("federation.workers=3 num_clients=10 rho=0.2", 2)],
)
def test_in_process_there_are_as_many_processes_as_workers_or_participants(
    words: str, processes: int
) -> None:
    layout = Layout.of(compose_experiment(["engine=inprocess", *words.split()]))
    assert layout.own_processes() == processes


def test_the_layout_of_unchecked_settings_is_that_of_the_experiment() -> None:
    words = ["federation.workers=2", "rho=0.3"]
    settings = compose_settings(words)
    assert Layout.of_settings(settings) == Layout.of(compose_experiment(words))


@pytest.mark.parametrize(
    "word", ["rho=2", "num_clients=many", "engine=steam", "federation.workers=0"]
)
def test_nothing_is_planned_for_a_wrong_value(word: str) -> None:
    assert Layout.of_settings(compose_settings([word])) is None


def test_what_is_started_early_imports_neither_torch_nor_flower_nor_ray() -> None:
    code = (
        "import sys, server_app.engines.early\n"
        "assert not {'torch', 'flwr', 'ray', 'scipy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("words", "early"), [([], False), (["device=cpu"], True), (["federation.workers=2"], True)]
)
def test_gpus_are_not_counted_before_the_settings_are_checked(
    words: list[str], early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only PyTorch can count them, and its import takes seconds."""
    monkeypatch.setattr(cluster, "GPU_FILES", ("/",))
    layout = Layout.of(compose_experiment(words))
    assert counts_gpus(layout) is not early
    if not early:
        with started_early(compose_settings(words)) as superlink:
            assert superlink is None
