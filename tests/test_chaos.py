"""The first 25 schedules of faults; `python -m tests.benchmarks.chaos` has as many as one likes."""

from pathlib import Path

import pytest

from server_app.sweep.forking import warm_up
from tests.chaos.schedule import draw
from tests.chaos.trial import NEEDED, images_in, small_disks_allowed, tried

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warm_up(*NEEDED)
    place = tmp_path_factory.mktemp("chaos")
    images_in(place)
    return place


@pytest.mark.parametrize("seed", range(25))
def test_a_run_ends_completed_or_with_a_clear_stop_and_no_bad_reply_counts(
    place: Path, seed: int
) -> None:
    told, wrong = tried(seed, place / "images", place, small_disks_allowed())
    assert wrong == [], told


def test_a_schedule_follows_from_its_seed() -> None:
    assert draw(3) == draw(3)
    assert not draw(4).faults
    assert draw(5).faults
