"""Small models, updates and replies for the tests of the aggregation."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from server_app.aggregation.accumulator import SumSettings, UpdateAccumulator
from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.guards.base import Guard
from server_app.aggregation.guards.none import NoGuard
from server_app.nodes.registration import NodeInfo
from task.protocol.tensors import PackedTensors
from task.protocol.training import TrainReply
from task.tensors import Tensors

NODE = NodeInfo(1000, 0, "cpu", "process", "host")
EXAMPLES = 5
NOBODY: Tensors = {}


def model(value: float, batches: int = 0) -> dict[str, Tensor]:
    """A parameter and a counter."""
    return {"w": torch.full((2, 2), value), "batches": torch.tensor(batches)}


def accumulator_of(
    clients: list[int],
    before: Tensors | None = None,
    extra: Tensors = NOBODY,
    guard: Guard | None = None,
    keep: bool = False,
    **sum_settings: Any,
) -> UpdateAccumulator:
    """An empty accumulator for clients of five images each."""
    return UpdateAccumulator(
        model(0.0) if before is None else before,
        extra,
        dict.fromkeys(clients, 1 / len(clients)),
        dict.fromkeys(clients, EXAMPLES),
        SumSettings(guard or NoGuard(most_images=1000), {"w"}, ["ce"], **sum_settings),
        keep,
    )


def row(client: int, **changes: Any) -> dict[str, Any]:
    """A client's row of a training reply."""
    return {
        "client": client, "device": "cpu", "reason": "", "examples": EXAMPLES, "seconds": 1.0,
        "losses": {"ce": 0.5}, **changes,
    }  # fmt: skip


def train_reply(
    rows: list[dict[str, Any]],
    weights: Mapping[int | str, Tensors],
    extra: Mapping[int | str, Tensors] | None = None,
) -> TrainReply:
    """A worker's reply."""
    return TrainReply(
        run="run", round=1, attempt=1, fingerprint="0" * 64, nonce="0" * 32, rows=rows,
        weights={str(key): PackedTensors.of(sent) for key, sent in weights.items()},
        extra={str(key): PackedTensors.of(sent) for key, sent in (extra or {}).items()},
    )  # fmt: skip


def update(client: int) -> ClientUpdate:
    """An update that counts."""
    return ClientUpdate(client, "supernode-0", examples=EXAMPLES)
