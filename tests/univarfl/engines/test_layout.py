"""The processes that an experiment needs, known before its settings are checked."""

import subprocess
import sys

import pytest

from server_app.config.composition import compose_experiment, compose_settings
from univarfl.engines import early
from univarfl.engines.cluster import Machines
from univarfl.engines.early import start_early
from univarfl.engines.layout import Layout


@pytest.mark.parametrize(
    ("words", "processes"),
    [("", 1), ("federation.workers=3", 3), ("federation.workers=3 num_clients=10 rho=0.2", 2)],
)
def test_in_process_there_are_as_many_processes_as_workers_or_participants(
    words: str, processes: int
) -> None:
    layout = Layout.of(compose_experiment(words.split()))
    assert layout.own_processes() == processes


@pytest.mark.parametrize(
    ("words", "found", "gigabytes", "workers"),
    [
        ("", Machines(4, 0, running=False), 100, 4),
        ("", Machines(4, 0, running=False), 5, 2),
        ("", Machines(4, 0, running=False), 1, 1),
        ("", Machines(4, 2, running=False), 1, 2),
        ("device=cpu", Machines(4, 2, running=False), 100, 4),
        ("num_clients=10 rho=0.3", Machines(4, 0, running=False), 100, 3),
        ("federation.workers=1", Machines(4, 0, running=False), 100, 1),
    ],
)
def test_a_command_has_a_worker_for_each_gpu_or_for_each_core_that_memory_has_room_for(
    words: str, found: Machines, gigabytes: int, workers: int
) -> None:
    layout = Layout.of(compose_experiment(words.split()))
    assert layout.own_processes(layout.wanted_by_command(found, gigabytes * 10**9)) == workers


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
        "import sys, univarfl.engines.early\n"
        "assert not {'torch', 'flwr', 'ray', 'scipy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("words", "known"), [([], False), (["device=cpu"], True), (["federation.workers=2"], True)]
)
def test_gpus_are_not_counted_before_the_settings_are_checked(
    words: list[str], known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only PyTorch can count them, and its import takes seconds."""
    warmed: list[str] = []
    monkeypatch.setattr(early, "warm_up", lambda *modules: warmed.extend(modules))
    monkeypatch.setattr(early, "available_bytes", lambda: 10**12)
    monkeypatch.setattr(early, "this_machine", lambda: Machines(2, 0, running=False))
    monkeypatch.setattr(early, "may_have_gpus", lambda: True)
    start_early(compose_settings([*words, "engine=flower"]))
    assert not warmed
    start_early(compose_settings(words))
    assert bool(warmed) is known
