"""What came back from the cohorts, client by client, judged before it counts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from flwr.app import Message, RecordDict

from server_app.exchange import essence
from server_app.intake import Intake
from server_app.participation import Cohort
from server_app.weights import Weights, unpack
from task import wire
from task.errors import TrainingError
from task.evaluation import Score

Row = Mapping[str, wire.Cell]


class ReplyError(ValueError):
    """A reply cannot be taken in; the text says why."""


@dataclass(frozen=True)
class ClientUpdate:
    """One participant's round.

    Attributes:
        client: its number in the experiment.
        site: where it was trained.
        device: on what.
        reason: why it does not count; empty when it does.
        examples: the images it was trained on.
        seconds: its training time.
        losses: mean loss terms, unweighted.
    """

    client: int
    site: str
    device: str = ""
    reason: str = ""
    examples: int = 0
    seconds: float = 0.0
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether it may be aggregated."""
        return not self.reason


def updates(
    cohort: Cohort, reply: Message | None, intake: Intake, summed: bool
) -> list[ClientUpdate]:
    """Judge what one cohort answered, and take in what may count.

    Args:
        cohort: what was asked.
        reply: the answer, or None.
        intake: the round's.
        summed: whether it was asked for the sum of what it trained, not for each client's.

    Returns:
        An update for each client of the cohort, accepted or with the reason why not.
    """
    failure = whole_failure(reply)
    if reply is None or failure:
        return [ClientUpdate(client, cohort.seat.name, reason=failure) for client in cohort.clients]
    try:
        rows = _rows(reply.content)
    except Exception as error:
        reason = refusal(error)
        return [ClientUpdate(client, cohort.seat.name, reason=reason) for client in cohort.clients]
    found = []
    for client in cohort.clients:
        try:
            update = _update(cohort, client, rows.get(client), intake)
            if update.accepted and not summed:
                _take(client, reply.content, intake)
        except Exception as error:
            update = ClientUpdate(client, cohort.seat.name, reason=refusal(error))
        found.append(update)
    return _with_sum(found, rows, reply.content, intake) if summed else found


def scores(
    cohorts: Sequence[Cohort], replies: Sequence[Message | None], sizes: Sequence[int]
) -> tuple[dict[int, Score], list[str]]:
    """Each client's validation score, by client, and why others have none.

    Args:
        cohorts: who was asked.
        replies: what each cohort answered.
        sizes: by client, how many images it validates on.
    """
    found: dict[int, Score] = {}
    failures = []
    for cohort, reply in zip(cohorts, replies, strict=True):
        failure = whole_failure(reply)
        if reply is None or failure:
            failures.append(f"validation on {cohort.seat.name}: {failure}")
            continue
        try:
            rows = _rows(reply.content)
        except Exception as error:
            failures.append(f"validation on {cohort.seat.name}: {refusal(error)}")
            continue
        for client in cohort.clients:
            try:
                found[client] = _score(rows[client], sizes[client])
            except Exception as error:
                failures.append(f"validation of client {client}: {refusal(error)}")
    return dict(sorted(found.items())), failures


def _rows(content: RecordDict) -> Mapping[int, Row]:
    """A reply's table, by client."""
    return wire.rows(content.config_records[wire.CLIENTS])


def _score(row: Row, size: int) -> Score:
    score = Score(
        examples=cast(int, row["examples"]),
        correct=cast(int, row["correct"]),
        loss=cast(float, row["loss"]),
    )
    if score.examples != size:
        raise ReplyError(f"it says it validated on {score.examples} images, and has {size}")
    if not (0 <= score.correct <= score.examples and math.isfinite(score.loss)):
        said = f"{score.correct} of {score.examples} images correct, loss {score.loss}"
        raise ReplyError(f"it says {said}")
    return score


def refusal(error: Exception) -> str:
    """Why a reply does not count: what was found wrong, or that it is not of the agreed form."""
    if isinstance(error, ReplyError | TrainingError):
        return str(error)
    return f"its reply cannot be read ({type(error).__name__}: {error})"


def whole_failure(reply: Message | None) -> str:
    """Why a cohort's message brought nothing at all; empty when it brought a reply."""
    if reply is None:
        return "no answer before the round's timeout"
    if reply.has_error():
        return f"the worker failed: {essence(reply.error.reason or '')}"
    return ""


def _update(cohort: Cohort, client: int, row: Row | None, intake: Intake) -> ClientUpdate:
    """What a client's row says."""
    site = cohort.seat.name
    if row is None:
        return ClientUpdate(client, site, reason="missing from its cohort's reply")
    device = str(row["device"])
    if row["status"] != "ok":
        return ClientUpdate(client, site, device, reason=str(row["reason"]) or "it did not say")
    if row["examples"] != intake.examples[client]:
        counted = f"{row['examples']} images, and has {intake.examples[client]}"
        return ClientUpdate(client, site, device, reason=f"it says it trained on {counted}")
    prefix = wire.LOSS_PREFIX
    seconds = float(row["seconds"])
    losses = {
        name.removeprefix(prefix): float(value)
        for name, value in row.items()
        if name.startswith(prefix)
    }
    for name, value in {"seconds": seconds, **losses}.items():
        if not math.isfinite(value):
            raise ReplyError(f"it says that its {name} is {value}")
    return ClientUpdate(
        client=client,
        site=site,
        device=device,
        examples=intake.examples[client],
        seconds=seconds,
        losses=losses,
    )


def _take(client: int, content: RecordDict, intake: Intake) -> None:
    weights, extra = _sent(content, client)
    check(weights, intake.before)
    check(extra, intake.broadcast)
    intake.take(client, weights, extra)


def _with_sum(
    found: list[ClientUpdate], rows: Mapping[int, Row], content: RecordDict, intake: Intake
) -> list[ClientUpdate]:
    """Take in a worker's sum of the clients that it trained; if it cannot count, none of them does.

    A client that its worker calls trained and that was refused here is in the sum, too.
    """
    trained = [update for update in found if update.accepted]
    if not trained:
        return found
    try:
        for update in found:
            if not update.accepted and rows.get(update.client, {}).get("status") == "ok":
                raise ReplyError(f"its worker's sum holds client {update.client}: {update.reason}")
        weights, extra = _sent(content, wire.SUM)
        check(weights, intake.before, summed=True)
        check(extra, intake.broadcast, summed=True)
        intake.take_sum([update.client for update in trained], weights, extra)
    except Exception as error:
        return [replace(u, reason=refusal(error)) if u.accepted else u for u in found]
    return found


def _sent(content: RecordDict, of: int | str) -> tuple[Weights, Weights]:
    """The weights and what came beside them."""
    arrays = content.array_records[wire.key(wire.ARRAYS, of)]
    beside = content.array_records.get(wire.key(wire.EXTRA, of))
    return unpack(arrays), unpack(beside) if beside else {}


def check(weights: Weights, expected: Weights, summed: bool = False) -> None:
    """Compare a client's arrays, or the sum of several, with those that it was sent.

    Raises:
        ReplyError: they cannot be taken in.
    """
    if weights.keys() != expected.keys():
        raise ReplyError("its arrays have other names than those it was sent")
    for name, value in weights.items():
        shape, dtype = expected[name].shape, np.dtype(np.int64) if summed else expected[name].dtype
        if value.shape != shape or value.dtype != dtype:
            raise ReplyError(f"{name} is {value.dtype}{value.shape}, not {dtype}{shape}")
        if not np.isfinite(value).all():
            raise ReplyError(f"{name} is not finite")
