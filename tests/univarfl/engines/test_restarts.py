"""How often something that ended is started again."""

from univarfl.engines.restarts import Restarts


def test_restarts_without_progress_are_bounded() -> None:
    restarts = Restarts(3)
    assert [restarts.allow(progress=False) for _ in range(5)] == [True, True, True, False, False]


def test_progress_begins_the_count_anew() -> None:
    restarts = Restarts(2)
    progress = [False, False, True, False, False]
    allowed = [restarts.allow(progress=each) for each in progress]
    assert allowed == [True, True, True, True, False]
