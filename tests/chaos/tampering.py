"""Replies that went wrong on their way, as a failing or hostile client would send them."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from server_app.engines.inprocess_grid import InProcessGrid
from server_app.weights import Weights, pack, unpack
from task import wire

Tamper = Callable[[Message, str, int], None]


def on_arrays(change: Callable[[Weights], Weights]) -> Tamper:
    """What is done to the arrays that a reply holds for a client, or for the sum that it is in."""

    def tamper(reply: Message, key: str, client: int) -> None:
        found = cast(ArrayRecord, reply.content[key])
        reply.content[key] = pack(change(unpack(found)))

    return tamper


def on_row(name: str, value: Any) -> Tamper:
    """What is done to one cell of a client's row."""

    def tamper(reply: Message, key: str, client: int) -> None:
        table = dict(cast(ConfigRecord, reply.content[wire.CLIENTS]))
        place = cast(list[int], table["client"]).index(client)
        column: list[Any] = list(cast(list[Any], table[name]))
        column[place] = value
        reply.content[wire.CLIENTS] = ConfigRecord({**table, name: column})

    return tamper


def first(weights: Weights, value: Callable[[Any], Any]) -> Weights:
    """The weights with their first array changed."""
    name = min(weights)
    return {**weights, name: np.asarray(value(weights[name]))}


def hole(array: Any) -> Any:
    """NaN where there is such a thing, else what no sum can be."""
    return np.full_like(array, np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).min)


def garbled(reply: Message, key: str, client: int) -> None:
    """Bytes that are no model."""
    reply.content[key] = ArrayRecord({wire.PACKED: Array(np.arange(99, dtype=np.uint8))})


def emptied(reply: Message, key: str, client: int) -> None:
    """Nothing at all."""
    for name in list(reply.content):
        del reply.content[name]


def stale(reply: Message, key: str, client: int) -> None:
    """A reply to another round's message."""
    about = dict(cast(ConfigRecord, reply.content[wire.ABOUT]))
    reply.content[wire.ABOUT] = ConfigRecord({**about, "round": cast(int, about["round"]) - 1})


def foreign(reply: Message, key: str, client: int) -> None:
    """A reply by other code."""
    about = dict(cast(ConfigRecord, reply.content[wire.ABOUT]))
    reply.content[wire.ABOUT] = ConfigRecord({**about, "fingerprint": "0" * 64})


def twice(reply: Message, key: str, client: int) -> None:
    """A client that is named twice."""
    table = dict(cast(ConfigRecord, reply.content[wire.CLIENTS]))
    doubled: dict[str, Any] = {
        name: [*cast(list[Any], column)] * 2 for name, column in table.items()
    }
    reply.content[wire.CLIENTS] = ConfigRecord(doubled)


FAULTS: dict[str, Tamper | None] = {
    "shape": on_arrays(lambda weights: first(weights, lambda value: np.stack([value, value]))),
    "dtype": on_arrays(lambda weights: first(weights, lambda value: value.astype(np.float16))),
    "names": on_arrays(lambda weights: {f"other.{name}": v for name, v in weights.items()}),
    "negative": on_row("examples", -4),
    "huge": on_row("examples", 10**15),
    "nan_loss": on_row("loss/ce", float("nan")),
    "nan": on_arrays(lambda weights: {name: hole(value) for name, value in weights.items()}),
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
    """A grid whose replies go wrong as a schedule says.

    Args:
        client_app: the real one.
        supernodes: how many.
        faults: (round, client, kind).
        told: where it writes which clients of which round must not count.
    """

    def __init__(
        self,
        client_app: ClientApp,
        supernodes: int,
        faults: Sequence[tuple[int, int, str]],
        told: Path,
    ) -> None:
        super().__init__(client_app, supernodes)
        self._faults, self._told = faults, told
        self._held: set[str] = set()
        self._again: list[Message] = []

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the grid does, less what is overdue, and with what comes twice."""
        again, self._again = self._again, []
        there = [one for one in message_ids if one not in self._held]
        found = [*again, *(super().pull_messages(there) if there else [])]
        return [one for one in found if one.metadata.reply_to_message_id not in self._held]

    def _handle(self, message: Message) -> Message:
        reply = super()._handle(message)
        if message.metadata.message_type != "train" or reply.has_error():
            return reply
        asked = message.content.config_records[wire.REQUEST]
        for server_round, client, kind in self._faults:
            if server_round == asked["round"] and client in cast(list[int], asked["clients"]):
                reply = self._tampered(message, reply, client, kind)
                if reply.has_error():
                    break
        return reply

    def _tampered(self, message: Message, reply: Message, client: int, kind: str) -> Message:
        asked = message.content.config_records[wire.REQUEST]
        summed = bool(asked["shares"])
        key = wire.key(wire.ARRAYS, wire.SUM if summed else client)
        if kind == "repeated":
            self._again.append(reply)
            return reply
        tamper = FAULTS[kind]
        if tamper is not None and key in reply.content:
            tamper(reply, key, client)
        elif tamper is not None:
            return reply  # an earlier fault took it away
        elif kind == "overrun":
            self._held.add(message.metadata.message_id)
        else:
            reply = Message(Error(ErrorCode.UNKNOWN, "the worker is gone"), reply_to=message)
            reply.metadata.__dict__["_message_id"] = f"{message.metadata.message_id}-gone"
        bad = cast(list[int], asked["clients"]) if summed or kind in WHOLE else [client]
        with self._told.open("a") as file:
            file.writelines(f"{json.dumps([asked['round'], one])}\n" for one in bad)
        return reply
