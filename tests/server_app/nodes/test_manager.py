"""Sites that are absent, leave, come back, are late or too few: the real apps, in this process."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from server_app.aggregation.strategies.dp_fixed import gaussian_epsilon
from server_app.nodes import registration
from server_app.rounds.errors import RunFailedError
from server_app.runs.records.run_record import read_entries
from task.protocol.registration import REGISTER
from tests import absent_sites
from tests.absent_sites import NAMES, Absent, Run, Sites
from tests.conftest import rows, sha256


def failures(directory: Path) -> list[tuple[str, str, str]]:
    return [
        (row["round"], row["site"], row["reason"])
        for row in rows(directory, "clients.csv")
        if row["status"] != "ok"
    ]


def events(directory: Path) -> list[tuple[str, str, str]]:
    return [
        (e["round"], e["site"], e["event"].split(":")[0]) for e in rows(directory, "events.csv")
    ]


ABSENT = "absent: its SuperNode is not connected, or was refused (see events.csv)"


def test_one_that_leaves_is_left_out_and_sampled_again_when_it_is_back(run_at_sites: Run) -> None:
    directory = run_at_sites(away=lambda name, at: name == "north" and at in (2, 3))
    assert failures(directory) == [("2", "north", ABSENT), ("3", "north", ABSENT)]
    assert events(directory) == [("2", "north", "left"), ("4", "north", "came back")]
    assert read_entries(directory)["status"] == "completed"


def test_one_that_was_absent_at_first_joins_later_and_counts_with_its_images(
    run_at_sites: Run,
) -> None:
    absent: Absent = lambda name, at: name == "south" and at < 2  # noqa: E731
    directory = run_at_sites("federation.join_timeout=8", away=absent)
    assert failures(directory) == [("1", "south", ABSENT)]
    assert events(directory) == [("0", "south", "absent"), ("2", "south", "joined")]
    last = [row for row in rows(directory, "clients.csv") if row["round"] == "4"]
    assert {row["examples"] for row in last} == {"14"}


def test_a_late_reply_is_dropped_and_named(run_at_sites: Run) -> None:
    late: Absent = lambda name, at: name == "east" and at == 2  # noqa: E731
    directory = run_at_sites("federation.round_timeout=10", slow=late)
    assert failures(directory) == [("2", "east", "no answer before the round's timeout")]
    (event,) = rows(directory, "events.csv")
    assert (event["round"], event["site"]) == ("3", "east")
    assert event["event"] == "late: its model of round 2 came after the deadline and was dropped"


def test_a_round_waits_until_as_many_as_its_quorum_are_there(run_at_sites: Run) -> None:
    asked: list[int] = []

    def away_for_a_while(name: str, at: int) -> bool:
        asked.append(at)
        return name == "north" and at == 2 and asked.count(2) < 12

    directory = run_at_sites("federation.quorum=1.0", away=away_for_a_while)
    assert failures(directory) == []
    assert sha256(directory) == sha256(run_at_sites())


def test_below_the_quorum_those_who_are_missing_are_asked_again(run_at_sites: Run) -> None:
    asked: list[str] = []

    def slow_once(name: str, at: int) -> bool:
        if at == 2:
            asked.append(name)
        return at == 2 and name == "east" and asked.count("east") == 1

    words = ["federation.quorum=1.0", "federation.round_timeout=5", "federation.attempts=9"]
    directory = run_at_sites(*words, slow=slow_once)
    assert failures(directory) == []
    assert ("2", "", "below the quorum") in events(directory)
    assert sha256(directory) == sha256(run_at_sites())


def test_an_attempt_below_the_quorum_is_charged(run_at_sites: Run) -> None:
    asked: list[int] = []

    def slow_once(name: str, at: int) -> bool:
        asked.append(at)
        return at == 2 and name == "east" and asked.count(2) < 4

    private = ["strategy=dp_fixed", "model.norm=group", "strategy.delta=1e-4"]
    words = ["federation.quorum=1.0", "federation.round_timeout=5", "federation.attempts=9"]
    directory = run_at_sites(*private, *words, slow=slow_once)
    repeats = sum(event == "below the quorum" for _, _, event in events(directory))
    assert repeats >= 1
    spent = read_entries(directory)["privacy"]
    noise = read_entries(directory)["config"]["strategy"]["noise_multiplier"]
    attempts = read_entries(directory)["config"]["rounds"] + repeats
    assert spent["attempts"] == attempts
    assert spent["epsilon"] == pytest.approx(gaussian_epsilon(noise, attempts, 1e-4))


def test_below_the_quorum_for_good_the_run_stops_and_can_be_gone_on_with(run_at_sites: Run) -> None:
    words = ["federation.quorum=1.0", "federation.join_timeout=5", "federation.attempts=1"]
    with pytest.raises(RunFailedError, match=r"round 3: 2 of 3 clients, and the quorum is 3"):
        run_at_sites(*words, "run_id=ended", away=lambda name, at: name == "north" and at == 3)
    ended = run_at_sites.place / "ended"
    assert read_entries(ended)["status"] == "failed"
    assert [event for _, _, event in events(ended)] == ["left", "below the quorum", "the run ended"]
    assert run_at_sites(f"resume={ended}") == ended
    assert sha256(ended) == sha256(run_at_sites())


@pytest.mark.parametrize("lost_for_good", [True, False])
def test_one_whose_question_was_lost_is_asked_again_and_joins_once(
    run_at_sites: Run, monkeypatch: pytest.MonkeyPatch, lost_for_good: bool
) -> None:
    """Its SuperNode was started again while the site got ready; or it only took long."""
    questions: list[str] = []

    class Losing(Sites):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            messages = list(messages)
            ids = list(super().push_messages(messages))
            questions.extend(
                message_id
                for message_id, message in zip(ids, messages, strict=True)
                if message.metadata.message_type == REGISTER.message_type
                and self.name_of[message.metadata.dst_node_id] == "north"
            )
            return ids

        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            lost = questions[:1] if lost_for_good or len(questions) == 1 else []
            return super().pull_messages(one for one in message_ids if one not in lost)

    monkeypatch.setattr(absent_sites, "Sites", Losing)
    monkeypatch.setattr(registration, "ASK_AGAIN_SECONDS", 0.5)
    directory = run_at_sites("rounds=1")
    assert len(questions) == 2
    assert events(directory) == []
    assert failures(directory) == []


def test_one_that_is_not_listed_is_ignored(run_at_sites: Run) -> None:
    directory = run_at_sites("rounds=1", names=(*NAMES, "west"))
    assert [event[1:] for event in events(directory)] == [("west", "ignored")]
    assert len(rows(directory, "clients.csv")) == 3


def test_a_second_one_of_the_same_name_that_comes_later_is_refused(
    run_at_sites: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Doubled(Sites):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            first, *_, last = self._nodes
            own = {"key": self._supernodes[last].context.node_config["key"]}
            self._supernodes[last].context.node_config = {
                **self._supernodes[first].context.node_config,
                **own,
            }
            self.registered[last] = self.registered[first]

    monkeypatch.setattr(absent_sites, "Sites", Doubled)
    directory = run_at_sites(
        names=(*NAMES, "west"), away=lambda name, at: name == "west" and at < 2
    )
    (refused,) = rows(directory, "events.csv")
    assert refused["event"] == "refused: two SuperNodes use the name east"
    assert failures(directory) == []
