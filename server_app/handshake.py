"""What a SuperNode says of itself, and whether it can serve the run."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from flwr.app import ConfigRecord, Message

from server_app.exchange import essence
from task import wire
from task.config import Device
from task.fingerprint import code_directories, fingerprint

INTRODUCTION = {
    "seat": int,
    "seats": int,
    "site": str,
    "train": int,
    "validation": int,
    "labels": list,
    "fingerprint": str,
    "code": str,
    "device": str,
    "cuda": bool,
    "runtime": str,
    "compiled": bool,
    "host": str,
    "memory": str,
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
        host: its machine's name; a site keeps that to itself.
        compiled: whether it trains through the compiler.
        seats: how many SuperNodes there are, or sites in the experiment.
        site: the site's name; empty for a simulated worker, which serves any client.
        train: how many images the site trains on.
        validation: how many it validates on.
        labels: how many training images it has of each class; empty if it does not tell.
        memory: names the storage of its clients' memory, the same for all who share it; empty where
            there is none, and of a site, whose storage is its own.
    """

    node_id: int
    index: int
    device: str
    runtime: str
    host: str
    compiled: bool = False
    seats: int = 1
    site: str = ""
    train: int = 0
    validation: int = 0
    labels: tuple[int, ...] = ()
    memory: str = ""

    @property
    def name(self) -> str:
        """How the record calls it."""
        return self.site or f"supernode-{self.index}"

    def serves(self, client: int) -> bool:
        """Whether it can train the client."""
        return not self.site or self.index == client


def read_introduction(reply: Message) -> ConfigRecord:
    """A SuperNode's answer to the first question.

    Raises:
        HandshakeError: it is an error, or no introduction.
    """
    if reply.has_error():
        reason = essence(reply.error.reason or "")
        raise HandshakeError(f"a SuperNode could not start the ClientApp: {reason}")
    record = reply.content.config_records.get(wire.INTRODUCTION, ConfigRecord())
    if {name: type(value) for name, value in record.items()} != INTRODUCTION:
        raise HandshakeError("a SuperNode's introduction cannot be read; is it the same app?")
    return record


def seat_of(node_id: int, record: ConfigRecord) -> Seat:
    """The seat that an introduction describes."""
    return Seat(
        node_id=node_id,
        index=cast(int, record["seat"]),
        device=cast(str, record["device"]),
        runtime=cast(str, record["runtime"]),
        host=cast(str, record["host"]),
        compiled=cast(bool, record["compiled"]),
        seats=cast(int, record["seats"]),
        site=cast(str, record["site"]),
        train=cast(int, record["train"]),
        validation=cast(int, record["validation"]),
        labels=tuple(cast(list[int], record["labels"])),
        memory=cast(str, record["memory"]),
    )


def check(record: ConfigRecord, device: Device, most_images: int) -> None:
    """Refuse a SuperNode that cannot serve the run.

    Raises:
        HandshakeError: it runs other code, sees no GPU where one was asked for, cannot train, or
            says what cannot be.
    """
    if record["fingerprint"] != fingerprint():
        raise HandshakeError(other_code(record))
    if device == "cuda" and not record["cuda"] and not record["site"]:
        raise HandshakeError(
            "device=cuda, but the clients see no GPU: Flower hides it from them unless asked. "
            f"Add {federation_advice(cast(int, record['seats']))}, or use 'univarfl train', which "
            "does"
        )
    if record["error"]:
        there = (
            "; there, 'univarfl deploy check' with this experiment's words says what is wrong"
            if record["site"]
            else ""
        )
        raise HandshakeError(f"a SuperNode cannot train: {record['error']!s}{there}")
    train, validation = cast(int, record["train"]), cast(int, record["validation"])
    if record["site"] and not (2 <= train <= most_images and 0 <= validation <= most_images):
        raise HandshakeError(
            f"site {record['site']!s} says that it trains on {train} images and validates on "
            f"{validation}; 2 to guard.most_images={most_images} are believed"
        )


def check_memory(seats: Sequence[Seat]) -> None:
    """Refuse workers that do not find each other's clients' memory.

    Raises:
        HandshakeError: it is kept in several places.
    """
    places = {seat.memory: seat for seat in seats if seat.memory}
    if len(places) > 1:
        names = ", ".join(f"{seat.name} on {seat.host}" for seat in places.values())
        raise HandshakeError(
            f"the clients' memory is kept in {len(places)} places ({names}), and a client may come "
            "to any worker: set UNIVARFL_MEMORY to one directory that all machines share, in the "
            "environment in which 'ray start' is given on each"
        )


def other_code(record: ConfigRecord) -> str:
    """What is wrong where client and server run different code, and what to do."""
    if record["site"]:
        return (
            f"site {record['site']!s} runs other code ({cast(str, record['fingerprint'])[:12]}) "
            f"than the coordinator ({fingerprint()[:12]}): install the same version there, and see "
            "in the site's log whether another tree shadows it"
        )
    return (
        f"the clients import their code from {record['code']!r}, the server from "
        f"'{code_directories()['task'].parent}', and the two differ. Flower's local "
        "SuperLink lets its workers import from the directory it was first started in: end "
        f"it (kill {os.getppid()}) and start it from an empty directory, or use "
        "'univarfl train', which does"
    )


def federation_advice(supernodes: int) -> str:
    """The `flwr run` option that shows the machine's GPU to so many SuperNodes."""
    share = math.floor(1000 / supernodes) / 1000  # rounded down, so that the shares fit on one GPU
    return (
        f'--federation-config "num-supernodes={supernodes} client-resources-num-cpus=1 '
        f'client-resources-num-gpus={share:g}"'
    )


def hidden_gpu_warning(seats: Sequence[Seat], device: Device, server_sees_gpu: bool) -> str:
    """What to say when the server sees a GPU that its clients do not; empty when there is nothing.

    Clients told to use the CPU, or on another host than the server, are no reason to warn.
    """
    if device != "auto" or not server_sees_gpu:
        return ""
    if any(seat.device != "cpu" or seat.site for seat in seats):
        return ""
    return (
        "the clients train on the CPU although this machine has a GPU, because Flower hides it "
        f"from them unless asked: add {federation_advice(len(seats))}"
    )
