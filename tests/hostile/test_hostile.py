"""No hostile reply counts, costs memory, shows in a log or ends a run; no request harms a site."""

import contextlib
import io
import json
from pathlib import Path

import pytest

from tests.conftest import rows, sha256
from tests.hostile import requests
from tests.hostile.federation import (
    HONEST,
    MEGABYTE,
    Answer,
    Memory,
    Outcome,
    answered,
    images_in,
    reasons,
    suffered,
)
from tests.hostile.replies import (
    ANSI,
    BIDI,
    FORGED,
    HTML,
    PICKLE_WAS_READ,
    REGISTRATION,
    TRAINING,
    VALIDATION,
)
from univarfl.records.reader import read_runs
from univarfl.report.write import report

MOST = 64 * MEGABYTE  # how far memory may grow for any message, above what it was sent in


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, str]:
    """Run all cases once; return the outcome and all that was printed."""
    PICKLE_WAS_READ.unlink(missing_ok=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        found = suffered(tmp_path_factory.mktemp("hostile"))
    return found, printed.getvalue()


def without_times(run: Path, table: str) -> list[dict[str, str]]:
    """Return a table's rows without what depends on the clock, and without the reasons."""
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "reason", "device")}
        for row in rows(run, table)
        if row.get("metric") != "seconds"
    ]


def readable(text: str) -> bool:
    """Return whether every line is printable; a log's tracebacks may be indented by blanks."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.slow
class TestReplies:
    def test_there_are_more_than_forty(self) -> None:
        assert len({case.name for case in (*TRAINING, *VALIDATION, *REGISTRATION)}) > 80

    def test_each_is_refused_with_its_reason(self, outcome: tuple[Outcome, str]) -> None:
        found = reasons(outcome[0].beside)
        wrong = []
        for cost in outcome[0].costs:
            told = found.get((cost.kind, cost.site, cost.round), [])
            if not any(cost.case.outcome in text for text in told):
                wrong.append((cost.kind, cost.case.name, cost.case.outcome, told))
        assert wrong == []
        assert {cost.case.name for cost in outcome[0].costs} == {
            case.name for case in (*TRAINING, *VALIDATION, *REGISTRATION)
        }

    def test_the_model_and_the_tables_are_those_of_the_honest_sites(
        self, outcome: tuple[Outcome, str]
    ) -> None:
        beside, without, _ = outcome[0]
        assert sha256(beside) == sha256(without)
        for table in ("clients.csv", "rounds.csv", "classes.csv"):
            assert without_times(beside, table) == without_times(without, table)
        counted = {row["site"] for row in rows(beside, "clients.csv") if row["status"] == "ok"}
        assert counted == set(HONEST)

    def test_none_costs_memory(self, outcome: tuple[Outcome, str]) -> None:
        assert [
            (cost.case.name, cost.memory) for cost in outcome[0].costs if cost.memory > MOST
        ] == []

    def test_no_pickle_is_read(self, outcome: tuple[Outcome, str]) -> None:
        assert not PICKLE_WAS_READ.exists()

    def test_nothing_printed_or_recorded_is_raw(
        self, outcome: tuple[Outcome, str], tmp_path: Path
    ) -> None:
        (beside, _, _), printed = outcome
        assert "refused" in printed
        texts = {"printed": printed}
        texts |= {path.name: path.read_bytes().decode() for path in beside.glob("*.csv")}
        texts |= {name: (beside / name).read_text() for name in ("run.log", "run.json")}
        for name, text in texts.items():
            assert readable(text.replace("\r\n", "\n")), name
            for raw in (ANSI, BIDI, FORGED):
                assert raw not in text, name
            assert not any(line.startswith("round 9/9  test") for line in text.split("\n")), name
        assert all(
            not cell.startswith("=") for row in rows(beside, "clients.csv") for cell in row.values()
        )

    def test_the_record_stays_readable(self, outcome: tuple[Outcome, str], tmp_path: Path) -> None:
        beside = outcome[0].beside
        assert not read_runs(beside.parent).problems
        json.loads((beside / "run.json").read_text())
        report(beside, tmp_path / "report")
        page = (tmp_path / "report" / "index.html").read_text()
        assert HTML not in page


def test_the_measure_of_memory_sees_what_is_allocated() -> None:
    memory = Memory()
    memory.begin()
    held = b"\1" * (2 * MOST)
    assert memory.growth() > MOST
    del held


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Answer], str, Path]:
    """Send all requests to one site; return its answers, its log and its directory."""
    place = tmp_path_factory.mktemp("requests")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        found = answered(images_in(place), place, requests.TRAINING)
    return found, printed.getvalue(), place


@pytest.mark.slow
class TestRequests:
    def test_each_is_refused_with_its_reason(self, answers: tuple[list[Answer], str, Path]) -> None:
        honest, *others = answers[0]
        assert honest.reason == ""
        wrong = [
            (answer.case.name, answer.case.outcome, answer.reason)
            for answer in others
            if answer.case.outcome not in answer.reason
            or bool(answer.case.outcome) != bool(answer.reason)
        ]
        assert wrong == []

    def test_none_costs_the_site_memory(self, answers: tuple[list[Answer], str, Path]) -> None:
        honest, *others = answers[0]
        most = honest.memory + MOST
        assert [(one.case.name, one.memory) for one in others if one.memory > most] == []

    def test_nothing_in_the_sites_log_is_raw(self, answers: tuple[list[Answer], str, Path]) -> None:
        log = answers[1]
        assert "a message could not be answered" in log
        assert readable(log)
        assert not any(line.startswith("round 9/9") for line in log.splitlines())

    def test_they_leave_one_runs_state(self, answers: tuple[list[Answer], str, Path]) -> None:
        assert len(list((answers[2] / "east.mem").iterdir())) == 1
