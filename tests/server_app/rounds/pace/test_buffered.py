"""FedBuff: the server step, equal bits, resumption, failures, and what is refused."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.rounds.pace.received_weights import DIRECTORY
from server_app.runs.checkpoint import checkpoints
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from tests.conftest import CNN, SMALL, Train, faulty, rows, sha256
from tests.interruption import ended_in

EQUAL = ("clock=virtual", "clock.speed_sigma=0", "clock.bandwidth_sigma=0", "clock.variation=0",
         "clock.seconds_per_image=0")  # fmt: skip
SLOW = ("clock=virtual", "clock.speed_sigma=1.5", "clock.seconds_per_image=0.1")
FEDBUFF = ("strategy=fedbuff", "strategy.buffer_size=2")


def metric(run: Path, name: str) -> list[float]:
    """Return a metric of the training by round."""
    found = [row for row in rows(run, "rounds.csv") if row["split"] == "train"]
    return [float(row["value"]) for row in found if row["metric"] == name]


def test_without_delays_it_is_fedavg(train: Train) -> None:
    common = ("rho=0.5", "num_clients=8", "rounds=3", "strategy.weighting=uniform")
    buffered = train(*common, *EQUAL, "strategy=fedbuff", "strategy.buffer_size=4")
    assert sha256(buffered) == sha256(train(*common))
    assert metric(buffered, "staleness") == [0.0, 0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("clock.dropout=0.3", "guard=clip", "strategy.buffer_size=3"), ("method=moon+fedbn",)]
)
def test_workers_and_interruptions_change_nothing(train: Train, words: Sequence[str]) -> None:
    some = ("rounds=5", "num_clients=6", "rho=0.7", *SLOW, *CNN, *FEDBUFF, *words)
    whole = train(*some)
    for workers in (2, 4):
        assert sha256(train(*some, f"federation.workers={workers}")) == sha256(whole)
    for end in (2, 4):
        name = f"ended-{end}"
        with ended_in(end), suppress(KeyboardInterrupt):
            train(*some, f"run_id={name}")
        ended = whole.parent / name
        assert (ended / DIRECTORY).exists()
        resumed = train(*whole_words([f"resume={ended}"]))
        assert sha256(resumed) == sha256(whole)
        assert metric(resumed, "simulated_seconds") == metric(whole, "simulated_seconds")
        assert not (resumed / DIRECTORY).exists()


def test_a_run_goes_on_after_it_was_interrupted_twice_and_its_checkpoint_damaged(
    train: Train,
) -> None:
    some = ("rounds=6", "num_clients=6", *SLOW, *FEDBUFF)
    whole = train(*some)
    with ended_in(4), suppress(KeyboardInterrupt):
        train(*some, "run_id=ended")
    ended = whole.parent / "ended"
    for end in (4, 5):
        with ended_in(end), suppress(KeyboardInterrupt):
            train(*whole_words([f"resume={ended}"]))
    checkpoints(ended)[0].write_bytes(b"damaged")
    assert sha256(train(*whole_words([f"resume={ended}"]))) == sha256(whole)


def test_updates_of_slow_clients_are_behind_and_each_is_recorded(train: Train) -> None:
    run = train("rounds=8", *SLOW, *CNN, *FEDBUFF)
    found = rows(run, "clients.csv")
    by_round = [sum(int(row["round"]) == r for row in found) for r in range(1, 9)]
    assert by_round == [2] * 8
    behind = [int(row["staleness"]) for row in found]
    assert max(behind) >= 2
    assert behind[:2] == [0, 0]
    assert all(float(row["simulated_seconds"]) > 0 for row in found)
    means = [np.mean(behind[place : place + 2]) for place in range(0, 16, 2)]
    assert metric(run, "staleness") == pytest.approx(means)
    seconds = metric(run, "simulated_seconds")
    assert seconds == sorted(seconds)
    counts = Counter(row["client"] for row in found)
    assert max(counts.values()) > 2 * min(counts.values())  # the fast ones count more often


def test_a_round_does_not_wait_for_the_slowest_client(train: Train) -> None:
    waits = metric(train("rounds=4", *SLOW), "simulated_seconds")[-1]
    buffered = metric(train("rounds=8", *SLOW, *FEDBUFF), "simulated_seconds")[-1]
    assert buffered < waits  # for as many updates


def test_updates_that_are_too_old_are_dropped(train: Train) -> None:
    run = train("rounds=8", *SLOW, *CNN, *FEDBUFF, "strategy.max_staleness=1")
    old = [row for row in rows(run, "clients.csv") if row["status"] == "left out"]
    assert old
    assert all(int(row["staleness"]) > 1 for row in old)
    assert old[0]["reason"].endswith("and strategy.max_staleness is 1")
    assert min(metric(run, "clients")) == 2


def test_a_failed_client_is_replaced_by_the_next(train: Train, parts: None) -> None:
    run = train("rounds=3", *SLOW, *FEDBUFF, *faulty([0, 1], [1, 2, 3], "raise"))
    found = rows(run, "clients.csv")
    assert {row["client"] for row in found if row["status"] == "failed"} <= {"0", "1"}
    assert any(row["status"] == "failed" for row in found)
    assert metric(run, "clients") == [2, 2, 2]
    assert read_entries(run)["status"] == "completed"


def test_a_server_step_uses_fewer_updates_if_nobody_else_can_be_asked(
    train: Train, parts: None
) -> None:
    words = ("rounds=2", *SLOW, "strategy=fedbuff", "strategy.buffer_size=3")
    run = train(*words, *faulty([0, 1, 2], [1, 2], "raise"))
    assert metric(run, "clients") == [1, 1]
    with pytest.raises(Exception, match=r"1 of 3 updates of the buffer, and the quorum is 2"):
        train(*words, *faulty([0, 1, 2], [1, 2], "raise"), "federation.quorum=0.5")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "strategy=fedbuff: takes updates .* add clock=virtual"),
        ("clock=virtual participation=deadline", "waits for no client; add participation=availab"),
        ("clock=virtual method=scaffold", "method=scaffold needs all updates of one"),
        ("clock=virtual method=fednova", "method=fednova needs all updates"),
        ("clock=virtual after=feddf", "after=feddf: needs models of one round"),
        ("clock=virtual watch.models_every=1", "keeps models of one round.*use null"),
        (
            "clock=virtual num_clients=4",
            "must be at most num_clients, here 4: a client",
        ),
    ],
)
def test_what_does_not_fit_is_refused(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment(["strategy=fedbuff", *words.split()])
    assert compose_experiment(["strategy=fedbuff", "clock=virtual", *SMALL[:1]])
