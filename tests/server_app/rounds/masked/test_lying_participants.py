"""Participants that lie to the server in a masked round: no wrong sum becomes a model."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from client_app import work_unit
from client_app.masked import report
from client_app.masked.masked_sum import MaskedSum
from task.protocol.tensors import PackedTensors
from task.protocol.training import TrainRow
from task.secure.participant import Participant, Revealed
from task.secure.primitives.mask_stream import Vector
from tests.conftest import Train, rows, sha256

LIAR = 1
WORDS = ("secure=masked", "federation.workers=4", "rounds=1")


def reasons(directory: Any) -> dict[str, str]:
    return {row["client"]: row["reason"] for row in rows(directory, "clients.csv")}


def clients_of(directory: Any) -> float:
    (found,) = [
        float(row["value"])
        for row in rows(directory, "rounds.csv")
        if (row["split"], row["metric"]) == ("train", "clients")
    ]
    return found


def test_a_masked_update_that_no_model_has_spoils_the_round_and_not_the_model(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = MaskedSum.add

    def add(self: MaskedSum, client: int, vector: Vector) -> None:
        if client == LIAR:
            vector += 2**62 + 2**61
        original(self, client, vector)

    monkeypatch.setattr(MaskedSum, "add", add)
    found = train(*WORDS)
    assert clients_of(found) == 0
    assert all("larger than valid models can add up to" in r for r in reasons(found).values())


def test_wrong_shares_of_one_cost_nothing(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Participant.unmask

    def unmask(self: Participant, signatures: Any) -> Revealed:
        found = original(self, signatures)
        if self.client != LIAR:
            return found
        return replace(found, seeds=dict.fromkeys(found.seeds, bytes(66)))

    honest = train(*WORDS)
    monkeypatch.setattr(Participant, "unmask", unmask)
    found = train(*WORDS)
    assert sha256(found) == sha256(honest)
    assert f"participant {LIAR} sent wrong shares" in (found / "run.log").read_text()


@pytest.mark.slow
def test_a_wrong_signature_costs_nothing(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Participant.agree

    def agree(self: Participant, *args: Any) -> bytes:
        signature = original(self, *args)
        return signature[::-1] if self.client == LIAR else signature

    honest = train("secure=rounded", *WORDS[1:])
    monkeypatch.setattr(Participant, "agree", agree)
    found = train(*WORDS)
    assert sha256(found) == sha256(honest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("masked", "reason"),
    [
        (PackedTensors(), "other names"),
        (PackedTensors(b"junk"), "cannot be read"),
        (None, "vector is int64"),
    ],
)
def test_a_sum_of_another_form_is_left_out(
    train: Train, monkeypatch: pytest.MonkeyPatch, masked: PackedTensors | None, reason: str
) -> None:
    original = MaskedSum.packed

    def packed(self: MaskedSum) -> PackedTensors:
        if str(LIAR) not in self._boxes:
            return original(self)
        if masked is None and self._total is not None:
            self._total = np.concatenate([self._total, self._total])
            return original(self)
        return masked or PackedTensors()

    monkeypatch.setattr(MaskedSum, "packed", packed)
    found = train(*WORDS)
    assert clients_of(found) == 3
    assert reason in reasons(found)[str(LIAR)]


@pytest.mark.slow
def test_losses_outside_the_sum_are_refused(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    original = work_unit.trained_row

    def row(session: Any, client: int, train_it: Any) -> TrainRow:
        found = original(session, client, train_it)
        return found.model_copy(update={"losses": {"ce": 1.0}}) if client == LIAR else found

    monkeypatch.setattr(report, "trained_row", row)
    found = train(*WORDS)
    assert clients_of(found) == 3
    assert "losses outside the masked sum" in reasons(found)[str(LIAR)]
