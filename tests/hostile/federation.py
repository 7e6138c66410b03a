"""Two honest and several hostile sites in this process, and what each hostile reply costs."""

import ctypes
import json
import logging
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from flwr.app import Context, Error, Message, RecordDict

import client_app.app
from client_app.node import signing_key
from server_app.app import app as server_app
from server_app.config.composition import compose_experiment
from server_app.flower.internals import ErrorCode
from server_app.nodes.failure import last_line
from server_app.runs.records.csv_files import restore_cell
from task.fingerprint import fingerprint
from task.protocol.evaluation import EVALUATE
from task.protocol.registration import REGISTER
from task.protocol.tensors import PackedTensors
from task.protocol.training import TRAIN, TrainRequest
from task.training.worker import Worker
from tests.conftest import rows
from tests.hostile.draft import Case, Draft
from tests.hostile.replies import REGISTRATION, TRAINING, VALIDATION
from tests.site_grid import SiteGrid
from tests.task.data import making
from univarfl.engines.local.internals import set_message_id

HONEST, HOSTILE = ("east", "north"), tuple(f"west{number:02}" for number in range(10))
EVERY = (*HONEST, *HOSTILE)
WORDS = [
    "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "local_epochs=1",
    "method=fedavg", "partition=sites", f"partition.names=[{','.join(EVERY)}]",
    "watch.tensorboard=false", "federation.quorum=0.1",
]  # fmt: skip
SILENT = Case("says that it failed", lambda draft: setattr(draft, "reason", "no comment"), "")
MEGABYTE = 1_000_000


class Memory:
    """The memory of this process: how far it has grown since a moment, in bytes."""

    def begin(self) -> None:
        """Start again: return free memory to the system, which counts the peak from here on."""
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._read("VmRSS")

    def growth(self) -> int:
        """Return how far the peak since `begin` is above what there was."""
        return max(0, self._read("VmHWM") - self._before)

    def _read(self, name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024


class Cost(NamedTuple):
    """What reading one hostile reply costs the server.

    Attributes:
        kind: ``registration``, ``training`` or ``validation``.
        case: the reply.
        site: who sent it.
        round: in which round.
        sent: its bytes.
        memory: the growth of the process's memory in bytes, until the server does something else.
    """

    kind: str
    case: Case
    site: str
    round: int
    sent: int
    memory: int


class HostileGrid(SiteGrid):
    """A grid of two honest sites and hostile ones.

    The hostile sites register honestly. Then each of their replies is the next case of `training`
    or `validation`, the first one again after the last. Further nodes, with keys registered under a
    hostile site's name, each try to register by one case of `registration`.

    Args:
        images: holds a directory of images for each site.
        place: where keys and client states are kept.
        training: the cases.
        validation: the cases.
        registration: the cases.

    Attributes:
        costs: of each case, in the order in which they were sent.
    """

    def __init__(
        self,
        images: Path,
        place: Path,
        training: Sequence[Case],
        validation: Sequence[Case],
        registration: Sequence[Case] = (),
    ) -> None:
        names = [*EVERY, *(HOSTILE[0] for _ in registration)]
        super().__init__(client_app.app.app, images, names, place)
        nodes = list(self.registered)
        others = nodes[len(EVERY) :]
        self._hostile = set(nodes[len(HONEST) : len(EVERY)])
        self._cases = {TRAIN.message_type: training, EVALUATE.message_type: validation}
        self._others = dict(zip(others, registration, strict=True))
        self._memory, self._open = Memory(), False
        self._counts = dict.fromkeys(self._cases, 0)
        self.costs: list[Cost] = []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self._close()
        return super().push_messages(messages)

    def close(self) -> None:
        """Note the cost of the last case."""
        self._close()

    def _handle(self, message: Message) -> Message:
        self._close()
        reply = super()._handle(message)
        kind, node = message.metadata.message_type, message.metadata.dst_node_id
        if node in self._others and kind == REGISTER.message_type:
            return self._changed(reply, message, "registration", self._others[node])
        if node in self._hostile and kind in self._cases:
            cases = self._cases[kind]
            case = cases[self._counts[kind] % len(cases)]
            self._counts[kind] += 1
            name = {TRAIN.message_type: "training"}.get(kind, "validation")
            return self._changed(reply, message, name, case)
        return reply

    def _changed(self, reply: Message, message: Message, kind: str, case: Case) -> Message:
        """Change a reply, and begin to measure what it costs to read it."""
        draft = Draft.of(reply.content)
        case.change(draft)
        if draft.reason is not None:
            reason = draft.reason
            reply = Message(Error(ErrorCode.UNKNOWN, reason), reply_to=message)
            set_message_id(reply, f"{message.metadata.message_id}-error")
            size = len(reason)
        else:
            config = self._supernodes[message.metadata.dst_node_id].context.node_config
            sent = draft.content(message.metadata.message_type, signing_key(config))
            reply.content = sent
            size = size_of(sent)
        site = self.registered[message.metadata.dst_node_id]
        self._begun = kind, case, site, Draft.of(message.content).fields["round"], size
        self._open = True
        self._memory.begin()
        return reply

    def _close(self) -> None:
        if self._open:
            self._open = False
            kind, case, site, server_round, size = self._begun
            growth = self._memory.growth()
            self.costs.append(Cost(kind, case, site, server_round, size, growth))


def size_of(content: RecordDict) -> int:
    """Return the bytes in a message's records."""
    size = 0
    for name, record in content.items():
        size += len(name)
        for entry in record.values():
            data = getattr(entry, "data", entry)
            size += len(data) if isinstance(data, bytes) else 8
    return size


def images_in(place: Path) -> Path:
    """Create a few images for each site."""
    kinds = [f"{name}/{kind}" for name in EVERY for kind in ("cat", "dog")]
    return making.tree(place / "images", kinds, 8)


def trained(grid: SiteGrid, place: Path, run_id: str, rounds: int, *further: str) -> Path:
    """Run the experiment, with further words, on a grid; return the run's directory."""
    (place / "runs").mkdir(exist_ok=True)
    words = [
        *WORDS,
        f"rounds={rounds}",
        f"evaluate_every={rounds}",
        f"output_dir={place / 'runs'}",
        f"run_id={run_id}",
        *further,
    ]
    context = Context(1, 0, {}, RecordDict(), {"overrides": shlex.join(words)})
    logging.getLogger("univarfl.client").propagate = False
    server_app(grid=grid, context=context)
    return place / "runs" / run_id


def reasons(run: Path) -> dict[tuple[str, str, int], list[str]]:
    """Return what a run's record says of each failure, by kind, site and round."""
    found: dict[tuple[str, str, int], list[str]] = {}
    for row in rows(run, "clients.csv"):
        key = "training", row["site"], int(row["round"])
        found.setdefault(key, []).append(str(restore_cell(row["reason"])))
    for row in rows(run, "events.csv"):
        found.setdefault(("registration", row["site"], 0), []).append(row["event"])
    pattern = r"round (\d+), validation (?:on|of client) (\w+): (.*)"
    for number, who, reason in re.findall(pattern, (run / "run.log").read_text()):
        site = EVERY[int(who)] if who.isdigit() else who
        found.setdefault(("validation", site, int(number)), []).append(reason)
    return found


class Outcome(NamedTuple):
    """A run beside a hostile site, and the same run beside one that only failed.

    Attributes:
        beside: the run's directory.
        without: the other run's.
        costs: of each hostile reply.
    """

    beside: Path
    without: Path
    costs: list[Cost]


def suffered(place: Path) -> Outcome:
    """Run every case in one run, and the same run with a site that sends nothing usable."""
    images = images_in(place)
    # Each poll between two rounds takes one more registration.
    rounds = max(math.ceil(len(TRAINING) / len(HOSTILE)), len(REGISTRATION) + 1)
    assert len(VALIDATION) <= len(HOSTILE), "there is one validation"
    silent = HostileGrid(images, place, [SILENT], [SILENT])
    without = trained(silent, place, "without", rounds)
    hostile = HostileGrid(images, place, TRAINING, VALIDATION, REGISTRATION)
    beside = trained(hostile, place, "beside", rounds)
    hostile.close()
    return Outcome(beside, without, hostile.costs)


class Answer(NamedTuple):
    """What a site answers to a hostile request, and what that costs it.

    Attributes:
        case: the request.
        reason: of the refusal; empty if it trained.
        sent: the request's bytes.
        memory: the growth of the site's memory in bytes.
    """

    case: Case
    reason: str
    sent: int
    memory: int


def answered(images: Path, place: Path, cases: Sequence[Case]) -> list[Answer]:
    """Send each request to one site, and return its answers."""
    grid = SiteGrid(client_app.app.app, images, ["east"], place)
    (node,) = grid.registered
    words = [word for word in WORDS if not word.startswith("partition.names")]
    config = compose_experiment([*words, "partition.names=[east,north]"]).local()
    weights = PackedTensors.of(Worker(config).initial_weights())
    honest = TrainRequest(
        run="run", experiment=config.model_dump_json(), fingerprint=fingerprint(), round=1,
        clients=[0], accepted=[0], shares=[], weights=weights,
    ).pack()  # fmt: skip
    logging.getLogger("univarfl.client").handlers.clear()  # so that the site opens its own log
    found = []
    for case in (Case("an honest request", lambda draft: None, ""), *cases):
        draft = Draft(json.loads(honest.header), dict(honest.arrays))
        case.change(draft)
        sent = draft.content(TRAIN.message_type, None)
        message = Message(sent, node, TRAIN.message_type)
        (message_id,) = grid.push_messages([message])
        memory = Memory()
        memory.begin()
        (reply,) = grid.pull_messages([message_id])
        growth = memory.growth()
        if reply.has_error():
            reason = last_line(reply.error.reason or "")
        else:
            reason = Draft.of(reply.content).row["reason"]
        found.append(Answer(case, reason, size_of(sent), growth))
    return found
