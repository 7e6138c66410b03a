"""One worker's reply, sound but for one thing: what is said of it, and that it does not count."""

from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from server_app.exchange import essence
from server_app.guards.none import NoGuard
from server_app.intake import Intake
from server_app.participation import Cohort
from server_app.replies import updates
from server_app.weights import Weights, pack, to_tensors
from task import wire
from task.averaging import ExactSum
from tests.conftest import asked
from tests.server_app.test_aggregation import SEAT

BEFORE: Weights = {"w": np.zeros(2, np.float32), "batches": np.array(0)}
SENT: Weights = {"w": np.ones(2, np.float32), "batches": np.array(3)}
CLIENTS, EXAMPLES = [3, 4], 5

Change = Callable[[RecordDict], None]

pytestmark = pytest.mark.usefixtures("flower_identity")


def rows() -> list[dict[str, wire.Cell]]:
    return [
        {"client": client, "device": "cpu", "status": "ok", "reason": "", "examples": EXAMPLES,
         "seconds": 1.0, "loss/ce": 0.5}
        for client in CLIENTS
    ]  # fmt: skip


def table(key: str, value: wire.Cell) -> Change:
    """Client 3's cell becomes another."""

    def change(content: RecordDict) -> None:
        found = rows()
        found[0][key] = value
        content[wire.CLIENTS] = ConfigRecord(wire.columns(found))

    return change


def weights(sent: Weights) -> Change:
    """Client 3's arrays become others."""

    def change(content: RecordDict) -> None:
        content[wire.key(wire.ARRAYS, 3)] = pack(sent)

    return change


def judged(change: Change) -> tuple[list[str], Intake]:
    """What is said of each client, and the intake."""
    content = RecordDict({wire.CLIENTS: ConfigRecord(wire.columns(rows()))})
    for client in CLIENTS:
        content[wire.key(wire.ARRAYS, client)] = pack(SENT)
    change(content)
    alike = dict.fromkeys(CLIENTS, 0.5)
    sizes = dict.fromkeys(CLIENTS, EXAMPLES)
    guard = NoGuard(most_images=1000)
    intake = Intake(BEFORE, {}, alike, sizes, guard, {"w"}, each=False, mean=True, keep=True)
    reply = Message(content, reply_to=asked(CLIENTS))
    found = updates(Cohort(SEAT, CLIENTS), reply, intake, summed=False)
    return [update.reason for update in found], intake


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (table("examples", -5), "it says it trained on -5 images, and has 5"),
        (table("examples", 10**9), "it says it trained on 1000000000 images, and has 5"),
        (table("loss/ce", float("nan")), "it says that its ce is nan"),
        (table("seconds", float("inf")), "it says that its seconds is inf"),
        (table("status", "failed"), "it did not say"),
        (table("client", 9), "missing from its cohort's reply"),
        (weights({**SENT, "more": np.ones(1)}), "its arrays have other names than"),
        (weights({**SENT, "w": np.ones(3, np.float32)}), "w is float32(3,), not float32(2,)"),
        (weights({**SENT, "w": np.ones(2)}), "w is float64(2,), not float32(2,)"),
        (weights({**SENT, "w": np.array([1, np.nan], np.float32)}), "w is not finite"),
        (weights({**SENT, "w": np.array([1, 1e30], np.float32)}), "w holds numbers beyond 65,536"),
    ],
)  # fmt: skip
def test_one_thing_is_wrong_with_one_client(change: Change, said: str) -> None:
    (reason, other), intake = judged(change)
    assert said in reason
    assert other == ""
    assert intake.accepted == [4]
    assert list(intake.models) == [4]
    assert intake.mean()["w"] == pytest.approx([1.0, 1.0])


def twice(content: RecordDict) -> None:
    found = [rows()[0], rows()[0]]
    content[wire.CLIENTS] = ConfigRecord(wire.columns(found))


def test_a_client_that_is_named_twice_spoils_its_cohorts_table() -> None:
    reasons, intake = judged(twice)
    assert all("its table names a client twice" in reason for reason in reasons)
    assert intake.accepted == []


def test_an_error_says_what_the_worker_said_last() -> None:
    reason = "Traceback ...\n  line 3\nException ClientAppException occurred. Message: no GPU'>\n"
    reply = Message(Error(0, reason), reply_to=asked(CLIENTS))
    intake = Intake(BEFORE, {}, {}, {}, NoGuard(most_images=9), {"w"}, each=False, mean=True)
    found = updates(Cohort(SEAT, CLIENTS), reply, intake, summed=True)
    assert {update.reason for update in found} == {"the worker failed: no GPU"}
    assert essence(" \n") == "no reason given"


def test_a_sum_that_no_models_give_is_refused() -> None:
    """It holds numbers beyond what its clients' shares of the largest models add up to."""
    total = ExactSum(to_tensors(BEFORE))
    total.add(total.part(to_tensors(SENT), 0.5))
    huge = {"w": total.totals["w"] * 0 + 2**62 + 1, "batches": total.totals["batches"]}
    content = RecordDict({wire.CLIENTS: ConfigRecord(wire.columns(rows()))})
    content[wire.key(wire.ARRAYS, wire.SUM)] = pack({k: v.numpy() for k, v in huge.items()})
    alike, sizes = dict.fromkeys(CLIENTS, 0.5), dict.fromkeys(CLIENTS, EXAMPLES)
    guard = NoGuard(most_images=1000)
    intake = Intake(BEFORE, {}, alike, sizes, guard, {"w"}, each=False, mean=True)
    found = updates(
        Cohort(SEAT, CLIENTS), Message(content, reply_to=asked(CLIENTS)), intake, summed=True
    )
    assert {u.reason for u in found} == {"w in its sum is larger than any models give"}
    assert intake.accepted == []
