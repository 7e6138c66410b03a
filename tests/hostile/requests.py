"""Hostile requests of a coordinator to a site.

Each is an honest training request, or a registration request, with one change. The outcome is a
part of the reason in the site's reply.
"""

import gzip
import json
from collections.abc import Sequence
from typing import Any

import torch
from pydantic_core import to_json

from tests.hostile.draft import Case, Change, Draft, arrays, content, fields, only, tensors, text
from tests.hostile.replies import ANSI, FORGED, HUGE, MALFORMED, UNREADABLE, filled, only_tensor

REDACTED = "site east failed; see the site's log for the reason"


def experiment(**changes: Any) -> Change:
    """Change settings of the experiment; ``group__name`` is a setting of a group."""

    def change(draft: Draft) -> None:
        found = json.loads(draft.fields["experiment"])
        for key, value in changes.items():
            group, _, name = key.partition("__")
            if name:
                found[group][name] = value
            else:
                found[group] = value
        draft.fields["experiment"] = to_json(found).decode()  # in the form of a server

    return change


def clients(numbers: Sequence[Any]) -> Change:
    """Name these clients."""

    def change(draft: Draft) -> None:
        draft.fields |= {"clients": list(numbers), "accepted": [0] * len(numbers)}

    return change


TRAINING = (
    Case("10^6 clients", clients(range(10**6)), "its header is larger than"),
    Case("1,000 clients", clients(range(1000)), "it names 1000 clients, and a site has one"),
    Case("its client 1,000 times", clients([0] * 1000), "clients must name each client once"),
    Case("another site's client", clients([1]), "client 1 is not trained here"),
    Case("client -1", clients([-1]), "clients.0: Input should be greater"),
    Case("a client that is a path", clients(["0/../../secret"]), "clients.0: Input should be a va"),
    Case("client 10^4000", clients([HUGE]), "clients.0: Input should be less"),
    Case("accepted in round -1", fields(accepted=[-1]), "accepted.0: Input should be greater"),
    Case("round -3", fields(round=-3), "round: Input should be greater"),
    Case("round 10^4000", fields(round=HUGE), "round: Input should be less"),
    Case("a run that is a path", fields(run="../../etc"), "run: String should match pattern"),
    Case("a run that forges a line", fields(run=FORGED), "run: String should match pattern"),
    Case("shares that are NaN", fields(shares=[float("nan")]), "shares.0: Input should be a finit"),
    Case("a norm that is NaN", fields(max_norm=float("nan")), "max_norm: Input should be a finite"),
    Case("a norm below 0", fields(max_norm=-1.0), "max_norm: Input should be greater"),
    Case("infinite seconds", fields(seconds=float("inf")), "seconds: Input should be a finite"),
    Case("attempt 0", fields(attempt=0), "attempt: Input should be greater"),
    Case("a field whose name is ANSI", fields(**{ANSI: 1}), "?[2J?[31mred: Extra inputs are not"),
    Case("other code", fields(fingerprint="0" * 64), "site east runs other code than the coord"),
    Case("4 MB of empty lists", text(lambda own: f"[{'[],' * 1_300_000}[]]"), "its header is larg"),
    Case("5,000 levels of lists", text(lambda own: "[" * 5000), MALFORMED),
    Case("a key twice", text(lambda own: own[:-1] + ', "round": 2}'), "holds a key twice"),
    Case("an experiment of 1.5 MB", fields(experiment="x" * 1_500_000), "experiment: String shoul"),
    Case("an experiment that is no JSON", fields(experiment="{"), REDACTED),
    Case("an experiment of 5,000 levels", fields(experiment="[" * 5000), REDACTED),
    Case("a method that is a path", experiment(method__name="../../os"), REDACTED),
    Case("a method that forges a line", experiment(method__name=FORGED), REDACTED),
    Case("a directory of the coordinator's choice", experiment(data__root="/etc"), ""),
    Case("10^9 local epochs", experiment(local_epochs=10**9), "at most 1000 local epochs"),
    Case("a batch of 10^9", experiment(batch_size=10**9), "on batches of at most 4096 images"),
    Case("images of 10^9 pixels", experiment(data__image_size=10**9), REDACTED),
    Case("a model of 4 * 10^10 bytes", experiment(model__features=100_000), "at most 2000 MB"),
    Case("a model beyond 64 bits", experiment(model__features=10**12), REDACTED),
    Case("an experiment of 10^9 clients", experiment(num_clients=10**9), REDACTED),
    Case("weights of another shape",
         tensors(lambda found: {name: torch.ones(1) for name in found}, "weights"), "is float32("),
    Case("weights whose names forge a line",
         tensors(lambda found: {FORGED: torch.ones(1)}, "weights"), "the arrays have other names"),
    Case("weights that are NaN", filled(float("nan")), "is not finite"),
    Case("weights of a type PyTorch has not", only_tensor("F8_E8M0", [4], bytes(4)), UNREADABLE),
    Case("weights of 2^80 numbers", only_tensor("F32", [0, 2**40, 2**40]),
         UNREADABLE),
    Case("weights that are cut off", content(lambda data: data[:99]), UNREADABLE),
    Case("50 MB of zeros as gzip", content(lambda data: gzip.compress(bytes(50_000_000))),
         UNREADABLE),
    Case("no weights", only(lambda data: {}), "weights: Field required"),
    Case("a broadcast that no method asked for", arrays(lambda data: {"broadcast": data}),
         "the arrays have other names"),
    Case("an array whose name is a path", arrays(lambda data: {"weights/../../x": data}),
         "unknown array"),
)  # fmt: skip
