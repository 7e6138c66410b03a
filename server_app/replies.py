"""What came back from the cohorts, client by client, judged before it counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from server_app.exchange import essence
from server_app.participation import Cohort
from server_app.weights import Weights, from_record
from task import wire
from task.evaluation import Score


@dataclass(frozen=True)
class ClientUpdate:
    """One participant's round.

    Attributes:
        client: its number in the experiment.
        site: where it was trained.
        device: on what.
        reason: why it does not count; empty when it does.
        weights: its trained model; empty when it does not count.
        extra: what its method sends to the server half.
        examples: the images it was trained on.
        seconds: its training time.
        losses: mean loss terms, unweighted.
    """

    client: int
    site: str
    device: str = ""
    reason: str = ""
    weights: Weights = field(default_factory=dict, repr=False)
    extra: Weights = field(default_factory=dict, repr=False)
    examples: int = 0
    seconds: float = 0.0
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether it may be aggregated."""
        return not self.reason


def updates(
    cohorts: Sequence[Cohort],
    replies: Sequence[Message | None],
    expected: Weights,
    expected_extra: Weights,
) -> list[ClientUpdate]:
    """Every participant's update, accepted or with the reason why not, sorted by client.

    Args:
        cohorts: what was asked.
        replies: what each cohort answered, or None.
        expected: the global weights; an update must have their names, shapes and dtypes.
        expected_extra: the same for what the method sends beside them.
    """
    found = []
    for cohort, reply in zip(cohorts, replies, strict=True):
        failure = whole_failure(reply)
        for client in cohort.clients:
            if reply is None or failure:
                found.append(ClientUpdate(client, cohort.seat.name, reason=failure))
            else:
                try:
                    update = _update(cohort, client, reply.content, expected, expected_extra)
                except Exception as error:
                    update = ClientUpdate(client, cohort.seat.name, reason=unreadable(error))
                found.append(update)
    return sorted(found, key=lambda update: update.client)


def scores(
    cohorts: Sequence[Cohort], replies: Sequence[Message | None]
) -> tuple[dict[int, Score], list[str]]:
    """Each client's validation score, by client, and why others have none."""
    found: dict[int, Score] = {}
    failures = []
    for cohort, reply in zip(cohorts, replies, strict=True):
        failure = whole_failure(reply)
        if reply is None or failure:
            failures.append(f"validation on {cohort.seat.name}: {failure}")
            continue
        for client in cohort.clients:
            try:
                found[client] = _score(reply.content, client)
            except Exception as error:
                failures.append(f"validation of client {client}: {unreadable(error)}")
    return dict(sorted(found.items())), failures


def _score(content: RecordDict, client: int) -> Score:
    metrics = content.metric_records[wire.key(wire.METRICS, client)]
    score = Score(
        examples=cast(int, metrics["examples"]),
        correct=cast(int, metrics["correct"]),
        loss=cast(float, metrics["loss"]),
    )
    if not 0 <= score.correct <= score.examples:
        raise ValueError(f"{score.correct} of {score.examples} images correct")
    return score


def unreadable(error: Exception) -> str:
    """What to say of a reply that is not of the agreed form, whatever is wrong with it."""
    return f"its reply cannot be read ({type(error).__name__}: {error})"


def whole_failure(reply: Message | None) -> str:
    """Why a cohort's message brought nothing at all; empty when it brought a reply."""
    if reply is None:
        return "no answer before the round's timeout"
    if reply.has_error():
        return f"the worker failed: {essence(reply.error.reason or '')}"
    return ""


def _update(
    cohort: Cohort, client: int, content: RecordDict, expected: Weights, expected_extra: Weights
) -> ClientUpdate:
    site = cohort.seat.name
    status = content.config_records.get(wire.key(wire.STATUS, client))
    if status is None:
        return ClientUpdate(client, site, reason="missing from its cohort's reply")
    device = cast(str, status["device"])
    if status["status"] != "ok":
        return ClientUpdate(client, site, device, reason=str(status["reason"]) or "it did not say")
    metrics = content.metric_records.get(wire.key(wire.METRICS, client))
    arrays = content.array_records.get(wire.key(wire.ARRAYS, client))
    if metrics is None or arrays is None:
        return ClientUpdate(client, site, device, reason="its reply lacks weights or metrics")
    weights = from_record(arrays)
    extra = from_record(content.array_records.get(wire.key(wire.EXTRA, client), ArrayRecord()))
    if reason := fault(weights, expected) or fault(extra, expected_extra) or miscount(metrics):
        return ClientUpdate(client, site, device, reason=reason)
    prefix = wire.LOSS_PREFIX
    return ClientUpdate(
        client=client,
        site=site,
        device=device,
        weights=weights,
        extra=extra,
        examples=cast(int, metrics["examples"]),
        seconds=float(cast(float, metrics["seconds"])),
        losses={
            name.removeprefix(prefix): float(cast(float, value))
            for name, value in metrics.items()
            if name.startswith(prefix)
        },
    )


def fault(weights: Weights, expected: Weights) -> str:
    """What is wrong with a client's arrays; empty when nothing is."""
    if weights.keys() != expected.keys():
        return "its arrays have other names than those it was sent"
    for name, value in weights.items():
        wanted = expected[name]
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            return f"{name} is {value.dtype}{value.shape}, not {wanted.dtype}{wanted.shape}"
        if not np.isfinite(value).all():
            return f"{name} is not finite"
    return ""


def miscount(metrics: MetricRecord) -> str:
    """What is wrong with the number of images that a client says it was trained on."""
    examples = metrics.get("examples")
    if not isinstance(examples, int) or examples < 1:
        return f"it says it trained on {examples} images"
    return ""
