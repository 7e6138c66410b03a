"""Invalid replies, as a failing or hostile client would send them."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from flwr.app import ConfigRecord, Error, Message
from flwr.clientapp import ClientApp
from torch import Tensor

from server_app.flower.internals import ErrorCode
from task.protocol.packed import DATA, HEADER, JSON, Packed, place_of
from task.protocol.tensors import PackedTensors
from task.protocol.training import SUM
from univarfl.engines.local.inprocess_grid import InProcessGrid
from univarfl.engines.local.internals import set_message_id

Tamper = Callable[[Message, str, int], None]


def header(message: Message) -> dict[str, Any]:
    """Return a message's fields."""
    found: dict[str, Any] = json.loads(Packed.of(message.content).header)
    return found


def write_header(reply: Message, fields: dict[str, Any]) -> None:
    """Change a reply's fields, whether or not that is allowed."""
    reply.content[HEADER] = ConfigRecord({JSON: json.dumps(fields).encode()})


def write_array(reply: Message, key: str, data: bytes) -> None:
    """Change the bytes of one of a reply's arrays."""
    reply.content[place_of(key, 0)] = ConfigRecord({DATA: data})


def on_arrays(change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Tamper:
    """Return a change of the arrays that a reply holds for a client, or for its sum."""

    def tamper(reply: Message, key: str, client: int) -> None:
        tensors = PackedTensors(Packed.of(reply.content).arrays[key]).unpack()
        write_array(reply, key, PackedTensors.of(change(tensors)).data)

    return tamper


def on_row(name: str, value: Any) -> Tamper:
    """Return a change of one field of a client's row."""

    def tamper(reply: Message, key: str, client: int) -> None:
        fields = header(reply)
        (row,) = (row for row in fields["rows"] if row["client"] == client)
        row[name] = value
        write_header(reply, fields)

    return tamper


def first(weights: dict[str, Tensor], value: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Return the weights with their first array changed."""
    name = min(weights)
    return {**weights, name: value(weights[name])}


def invalid(tensor: Tensor) -> Tensor:
    """Return NaN in every element, or the least integer."""
    if tensor.is_floating_point():
        return torch.full_like(tensor, torch.nan)
    return torch.full_like(tensor, torch.iinfo(tensor.dtype).min)


def garbled(reply: Message, key: str, client: int) -> None:
    """Replace the model by bytes that are not a model."""
    write_array(reply, key, bytes(range(99)))


def emptied(reply: Message, key: str, client: int) -> None:
    """Delete everything."""
    for name in list(reply.content):
        del reply.content[name]


def stale(reply: Message, key: str, client: int) -> None:
    """Reply to another round's message."""
    fields = header(reply)
    write_header(reply, {**fields, "round": fields["round"] - 1})


def foreign(reply: Message, key: str, client: int) -> None:
    """Reply as other code would."""
    write_header(reply, {**header(reply), "fingerprint": "0" * 64})


def twice(reply: Message, key: str, client: int) -> None:
    """Name each client twice."""
    fields = header(reply)
    write_header(reply, {**fields, "rows": fields["rows"] * 2})


FAULTS: dict[str, Tamper | None] = {
    "shape": on_arrays(lambda weights: first(weights, lambda value: torch.stack([value, value]))),
    "dtype": on_arrays(lambda weights: first(weights, lambda value: value.to(torch.float16))),
    "names": on_arrays(lambda weights: {f"other.{name}": v for name, v in weights.items()}),
    "negative": on_row("examples", -4),
    "huge": on_row("examples", 10**15),
    "nan_loss": on_row("losses", {"ce": float("nan")}),
    "nan": on_arrays(lambda weights: {name: invalid(value) for name, value in weights.items()}),
    "garbled": garbled,
    "emptied": emptied,
    "stale": stale,
    "foreign": foreign,
    "twice": twice,
    "died": None,
    "overrun": None,
    "repeated": None,
}  # fmt: skip
WHOLE = {
    "emptied",
    "stale",
    "foreign",
    "twice",
    "died",
    "overrun",
}  # no client of the message counts


class ChaoticGrid(InProcessGrid):
    """A grid that makes some replies invalid.

    Args:
        client_app: the real ClientApp.
        supernodes: the number of SuperNodes.
        faults: (round, client, kind).
        log: the file that lists each (round, client) whose reply must not count.
    """

    def __init__(
        self,
        client_app: ClientApp,
        supernodes: int,
        faults: Sequence[tuple[int, int, str]],
        log: Path,
    ) -> None:
        super().__init__(client_app, supernodes)
        self._faults, self._log = faults, log
        self._held: set[str] = set()
        self._again: list[Message] = []

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies without those that are late, and with those that come twice."""
        again, self._again = self._again, []
        there = [one for one in message_ids if one not in self._held]
        found = [*again, *(super().pull_messages(there) if there else [])]
        return [one for one in found if one.metadata.reply_to_message_id not in self._held]

    def _handle(self, message: Message) -> Message:
        reply = super()._handle(message)
        if message.metadata.message_type != "train" or reply.has_error():
            return reply
        asked = header(message)
        for server_round, client, kind in self._faults:
            if server_round == asked["round"] and client in asked["clients"]:
                reply = self._tampered(message, reply, client, kind)
                if reply.has_error():
                    break
        return reply

    def _tampered(self, message: Message, reply: Message, client: int, kind: str) -> Message:
        asked = header(message)
        summed = bool(asked["shares"])
        key = f"weights/{SUM if summed else client}"
        if kind == "repeated":
            self._again.append(reply)
            return reply
        tamper = FAULTS[kind]
        if tamper is not None and place_of(key, 0) in reply.content:
            tamper(reply, key, client)
        elif tamper is not None:
            return reply  # an earlier fault took it away
        elif kind == "overrun":
            self._held.add(message.metadata.message_id)
        else:
            reply = Message(Error(ErrorCode.UNKNOWN, "the worker is gone"), reply_to=message)
            set_message_id(reply, f"{message.metadata.message_id}-gone")
        bad = asked["clients"] if summed or kind in WHOLE else [client]
        with self._log.open("a") as file:
            file.writelines(f"{json.dumps([asked['round'], one])}\n" for one in bad)
        return reply
