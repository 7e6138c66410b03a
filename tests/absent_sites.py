"""Sites in this process that are absent, leave, come back, or answer late: the real apps."""

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from flwr.app import Context, Message, MessageType, RecordDict

from client_app.app import app as client_app
from server_app.app import app as server_app
from task.protocol.packed import Packed
from tests.site_grid import SiteGrid
from tests.task.data import making

NAMES = ("east", "north", "south")
WORDS = [
    "data=folder", "data.classes=[cat,dog]", "data.image_size=16", "local_epochs=1", "rounds=4",
    "partition=sites", f"partition.names=[{','.join(NAMES)}]", "watch.tensorboard=false",
    "model=lenet",
]  # fmt: skip
Absent = Callable[[str, int], bool]


class Sites(SiteGrid):
    """Sites in this process, some of them away in some rounds, or slow to answer.

    Args:
        root: holds a directory for each.
        place: where their keys are kept.
        names: what they call themselves, and are registered as.
        away: whether a site is away when a round begins; round 0 is the registration.
        slow: whether a site's reply in a round is there only in the next one.
        silent: the sites that do not tell their statistics.
    """

    def __init__(
        self, root: Path, place: Path, names: Iterable[str], away: Absent, slow: Absent,
        silent: Collection[str],
    ) -> None:  # fmt: skip
        super().__init__(client_app, root, list(names), place)
        self.away, self.slow, self.round = away, slow, 0
        self.held: dict[str, int] = {}
        self.name_of = dict(self.registered)
        for node, name in self.name_of.items():
            config = self._supernodes[node].context.node_config
            config["tell-statistics"] = name not in silent

    def get_node_ids(self) -> Iterable[int]:
        return {node for node, name in self.name_of.items() if not self.away(name, self.round)}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        ids = list(super().push_messages(messages))
        for message in messages:
            asked = json.loads(Packed.of(message.content).header)
            if message.metadata.message_type == MessageType.TRAIN and self.slow(
                self.name_of[message.metadata.dst_node_id], asked["round"]
            ):
                self.held[message.metadata.message_id] = self.round
            if message.metadata.message_type == MessageType.EVALUATE:
                self.round = asked["round"] + 1
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        there = [one for one in message_ids if self.held.get(one, -1) in (-1, self.round - 1)]
        return super().pull_messages(there) if there else []


def never(name: str, server_round: int) -> bool:
    return False


class Run:
    """One run's end."""

    def __init__(self, images: Path, place: Path, words: Sequence[str] = WORDS) -> None:
        self.images, self.place, self.words = images, place, words

    def __call__(
        self, *words: str, away: Absent = never, slow: Absent = never,
        names: Iterable[str] = NAMES, silent: Collection[str] = (),
    ) -> Path:  # fmt: skip
        grid = Sites(self.images, self.place.parent, names, away, slow, silent)
        words = (*self.words, f"output_dir={self.place}", *words)
        if words[-1].startswith("resume="):
            words = words[-1:]
        config: dict[str, bool | float | int | str] = {"overrides": shlex.join(words)}
        context = Context(1, 0, {}, RecordDict(), config)
        server_app(grid=grid, context=context)
        return max(self.place.iterdir(), key=lambda path: path.stat().st_mtime)


def make_images(root: Path) -> Path:
    """Make images for each site, and for one more; return their directory."""
    return making.tree(
        root,
        [f"{name}/{label}" for name in (*NAMES, "west") for label in ("cat", "dog")], 8,
    )  # fmt: skip
