"""Runs that suffer the first ten schedules of faults.

``python -m benchmarks.chaos`` runs any number of schedules.
"""

from pathlib import Path

import pytest

from tests.chaos.schedule import draw
from tests.chaos.trial import images_in, small_disks_allowed, tried
from tests.conftest import with_slow

SEEDS = 10
QUICK_SEEDS = {5, 7}  # of the shortest schedules
TIMED_SEEDS = 4


pytestmark = pytest.mark.usefixtures("fork_server")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("chaos")
    images_in(place)
    return place


@pytest.mark.parametrize("seed", with_slow(range(SEEDS), {*range(SEEDS)} - QUICK_SEEDS))
def test_a_run_completes_or_stops_with_a_clear_reason_and_no_bad_reply_counts(
    place: Path, seed: int
) -> None:
    description, wrong = tried(seed, place / "images", place, small_disks_allowed())
    assert wrong == [], description


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(TIMED_SEEDS))
def test_a_run_on_simulated_devices_does_so_too(place: Path, seed: int) -> None:
    disk = small_disks_allowed()
    description, wrong = tried(seed, place / "images", place, disk, timed=True)
    assert wrong == [], description


def test_a_schedule_follows_from_its_seed() -> None:
    assert draw(3) == draw(3)
    assert draw(3, timed=True) == draw(3, timed=True) != draw(3)
    assert not draw(4).faults
    assert draw(5).faults
