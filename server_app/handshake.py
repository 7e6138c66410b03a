"""Who the workers are: asked once, before the first round."""

import math
import os
import time
from dataclasses import dataclass
from typing import cast

from flwr.app import ConfigRecord, Message, MessageType
from flwr.serverapp import Grid

from server_app.exchange import Exchange, Run, essence, request
from task import wire
from task.config import Device
from task.fingerprint import code_directories, fingerprint

POLL_SECONDS = 0.1
INTRODUCTION = {
    "seat": int,
    "seats": int,
    "site": str,
    "data": str,
    "train": int,
    "validation": int,
    "fingerprint": str,
    "code": str,
    "device": str,
    "cuda": bool,
    "runtime": str,
    "compiled": bool,
    "host": str,
    "error": str,
}


class HandshakeError(RuntimeError):
    """The workers cannot serve this run; the text says why and what to do."""


@dataclass(frozen=True)
class Seat:
    """One SuperNode, as it introduced itself.

    Attributes:
        node_id: Flower's, random in each run.
        index: its place among the SuperNodes, from 0; a site's is its client's number.
        device: what its clients are trained on.
        runtime: ``ray`` or ``process``.
        compiled: whether it trains through the compiler.
        host: its machine's name.
        site: the site's name; empty for a simulated worker, which serves any client.
        data: the version of the site's images.
        train: how many images the site trains on.
        validation: how many it validates on.
    """

    node_id: int
    index: int
    device: str
    runtime: str
    host: str
    compiled: bool = False
    site: str = ""
    data: str = ""
    train: int = 0
    validation: int = 0

    @property
    def name(self) -> str:
        """How the record calls it."""
        return self.site or f"supernode-{self.index}"

    def serves(self, client: int) -> bool:
        """Whether it can train the client."""
        return not self.site or self.index == client


def meet(grid: Grid, run: Run, device: Device, timeout: float) -> list[Seat]:
    """Ask every SuperNode to introduce itself and get ready; sorted by index.

    Raises:
        HandshakeError: nobody came, somebody cannot train or runs other code, or a GPU was asked
            for that the clients cannot see.
    """
    deadline = time.monotonic() + timeout
    introductions: dict[int, ConfigRecord] = {}
    expected = 1
    while len(introductions) < expected:
        new = sorted(set(grid.get_node_ids()) - introductions.keys())
        messages = [request(MessageType.QUERY, node_id, run, 0) for node_id in new]
        replies = Exchange(grid, messages, deadline - time.monotonic()).replies()
        for node_id, reply in zip(new, replies, strict=True):
            introductions[node_id] = _introduction(reply, timeout)
            expected = max(expected, cast(int, introductions[node_id]["seats"]))
        if time.monotonic() >= deadline:
            raise HandshakeError(
                f"{len(introductions)} of {expected} SuperNodes came within {timeout:g} s"
            )
        if not new:
            time.sleep(POLL_SECONDS)
    _check(list(introductions.values()), device)
    seats = [_seat(node_id, record) for node_id, record in introductions.items()]
    return sorted(seats, key=lambda seat: seat.index)


def _introduction(reply: Message | None, timeout: float) -> ConfigRecord:
    if reply is None:
        raise HandshakeError(
            f"a SuperNode did not answer within {timeout:g} s (federation.round_timeout)"
        )
    if reply.has_error():
        reason = essence(reply.error.reason or "")
        raise HandshakeError(f"a SuperNode could not start the ClientApp: {reason}")
    record = reply.content.config_records.get(wire.INTRODUCTION, ConfigRecord())
    if {name: type(value) for name, value in record.items()} != INTRODUCTION:
        raise HandshakeError("a SuperNode's introduction cannot be read; is it the same app?")
    return record


def _seat(node_id: int, record: ConfigRecord) -> Seat:
    return Seat(
        node_id=node_id,
        index=cast(int, record["seat"]),
        device=cast(str, record["device"]),
        runtime=cast(str, record["runtime"]),
        compiled=cast(bool, record["compiled"]),
        host=cast(str, record["host"]),
        site=cast(str, record["site"]),
        data=cast(str, record["data"]),
        train=cast(int, record["train"]),
        validation=cast(int, record["validation"]),
    )


def _check(introductions: list[ConfigRecord], device: Device) -> None:
    for record in introductions:
        if record["fingerprint"] != fingerprint():
            raise HandshakeError(
                f"the clients import their code from {record['code']!r}, the server from "
                f"'{code_directories()['task'].parent}', and the two differ. Flower's local "
                "SuperLink lets its workers import from the directory it was first started in: end "
                f"it (kill {os.getppid()}) and start it from an empty directory, or use "
                "'univarfl train', which does"
            )
        if device == "cuda" and not record["cuda"]:
            raise HandshakeError(
                "device=cuda, but the clients see no GPU: Flower hides it from them unless asked. "
                f"Add {federation_advice(len(introductions))}, or use 'univarfl train', which does"
            )
        if record["error"]:
            raise HandshakeError(f"a SuperNode cannot train: {record['error']!s}")
        if record["site"] and not (
            cast(int, record["train"]) > 1 and cast(int, record["validation"]) >= 0
        ):
            raise HandshakeError(
                f"site {record['site']!s} says that it trains on {record['train']!s} images and "
                f"validates on {record['validation']!s}"
            )
    sites = [record["site"] for record in introductions if record["site"]]
    twice = sorted({str(site) for site in sites if sites.count(site) > 1})
    if twice:
        raise HandshakeError(f"two SuperNodes call themselves {', '.join(twice)}")


def federation_advice(supernodes: int) -> str:
    """The `flwr run` option that shows the machine's GPU to so many SuperNodes."""
    share = math.floor(1000 / supernodes) / 1000  # rounded down, so that the shares fit on one GPU
    return (
        f'--federation-config "num-supernodes={supernodes} client-resources-num-cpus=1 '
        f'client-resources-num-gpus={share:g}"'
    )


def hidden_gpu_warning(seats: list[Seat], device: Device, server_sees_gpu: bool) -> str:
    """What to say when the server sees a GPU that its clients do not; empty when there is nothing.

    Clients told to use the CPU, or on another host than the server, are no reason to warn.
    """
    if device != "auto" or not server_sees_gpu or any(seat.device != "cpu" for seat in seats):
        return ""
    return (
        "the clients train on the CPU although this machine has a GPU, because Flower hides it "
        f"from them unless asked: add {federation_advice(len(seats))}"
    )
