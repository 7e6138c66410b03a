"""FedBuff at sites in this process: an update that comes late joins the next server step."""

from pathlib import Path

import pytest

from server_app.runs.records.run_record import read_entries
from task.errors import RunError
from tests.absent_sites import Absent, Run
from tests.conftest import rows

FEDBUFF = ("strategy=fedbuff", "strategy.buffer_size=2", "federation.round_timeout=20")


def updates(directory: Path) -> list[tuple[int, str, str, int]]:
    """Return round, site, status and staleness of each update."""
    return [
        (int(row["round"]), row["site"], row["status"], int(row["staleness"]))
        for row in rows(directory, "clients.csv")
    ]


def test_a_late_update_joins_a_later_server_step(run_at_sites: Run) -> None:
    late: Absent = lambda name, at: name == "east" and at == 2  # noqa: E731
    directory = run_at_sites(*FEDBUFF, slow=late)
    found = updates(directory)
    assert found[:2] == [(1, "east", "ok", 0), (1, "north", "ok", 0)]
    assert {each[1] for each in found if each[0] == 2} == {"north", "south"}
    assert (3, "east", "ok", 1) in found
    assert all(sum(each[0] == number for each in found) == 2 for number in range(1, 5))
    (event,) = rows(directory, "events.csv")  # of the site that the last step did not need
    assert event["event"].endswith("comes after the last server step: not used")
    assert read_entries(directory)["status"] == "completed"


def test_an_update_that_is_too_old_is_dropped(run_at_sites: Run) -> None:
    late: Absent = lambda name, at: name == "east" and at == 2  # noqa: E731
    words = ["strategy.max_staleness=0", "federation.round_timeout=5"]
    directory = run_at_sites(*FEDBUFF, *words, slow=late)
    found = updates(directory)
    assert any(behind for *_, behind in found)
    assert all(status == "left out" for _, _, status, behind in found if behind)


def test_one_that_never_answers_fails_and_is_asked_again(run_at_sites: Run) -> None:
    silent: Absent = lambda name, at: name == "east" and at == 2  # noqa: E731
    directory = run_at_sites(*FEDBUFF, "federation.round_timeout=2", "rounds=5", slow=silent)
    east = [each[2] for each in updates(directory) if each[1] == "east"]
    assert "ok" in east


def test_one_that_is_away_is_not_waited_for(run_at_sites: Run) -> None:
    away: Absent = lambda name, at: name == "south" and at >= 2  # noqa: E731
    directory = run_at_sites(*FEDBUFF, "federation.join_timeout=2", away=away)
    assert read_entries(directory)["status"] == "completed"
    assert {each[1] for each in updates(directory) if each[0] > 2} == {"east", "north"}


def test_too_few_sites_end_the_run(run_at_sites: Run) -> None:
    away: Absent = lambda name, at: name != "east" and at >= 2  # noqa: E731
    with pytest.raises((RunError, RuntimeError), match="1 of 3 updates of the buffer"):
        run_at_sites(
            "strategy=fedbuff", "strategy.buffer_size=3", "federation.join_timeout=1", away=away
        )
