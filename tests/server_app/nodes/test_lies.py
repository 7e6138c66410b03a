"""Sites that lie about their name, index or key: refused, and the run goes on as without them."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

import client_app.app
from client_app.messages import write_reply
from client_app.node import signing_key
from server_app.app import app as server_app
from server_app.nodes.failure import Failure
from server_app.nodes.messages import AddressedRequest, Exchange
from server_app.nodes.registration import RegistrationError
from task.fingerprint import fingerprint
from task.protocol.packed import HEADER, JSON, SIGNATURE, Packed
from task.protocol.registration import (
    FORGET,
    REGISTER,
    ForgetReply,
    ForgetRequest,
    RegistrationReply,
)
from task.protocol.signature import sign
from tests.conftest import rows, sha256
from tests.site_grid import SiteGrid
from tests.task.data import making

Claims = Mapping[str, Any]
WORDS = [
    "data=folder", "data.classes=[cat,dog]", "data.image_size=16", "local_epochs=1", "rounds=2",
    "method=fedavg", "partition=sites", "watch.tensorboard=false",
    "model=lenet",
]  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return making.tree(
        tmp_path_factory.mktemp("images"),
        [f"{name}/{label}" for name in ("east", "north") for label in ("cat", "dog")], 8,
    )  # fmt: skip


class Liars(SiteGrid):
    """Honest sites, and further ones that lie when they register.

    Args:
        images: holds a directory for each honest site.
        honest: the honest sites.
        liars: for each, the name under which its key is registered, and its claims.
        place: where keys and client state are kept.
    """

    def __init__(
        self, images: Path, honest: Sequence[str], liars: Sequence[tuple[str, Claims]], place: Path
    ) -> None:
        real = client_app.app.app
        super().__init__(answering(real, self.lies), images, [*honest, *("east" for _ in liars)],
                         place)  # fmt: skip
        self.claims: dict[int, Claims] = {}
        for node_id, (name, claims) in zip(list(self._nodes)[len(honest) :], liars, strict=True):
            self.registered[node_id], self.claims[node_id] = name, claims

    def lies(self, node_id: int) -> Claims:
        """Return what a node claims that is not so."""
        return self.claims.get(node_id, {})


def answering(real: ClientApp, lies: Callable[[int], Claims]) -> ClientApp:
    """Return a ClientApp that replies as the real one does, but for the lies of some nodes."""

    def app(message: Message, context: Context) -> Message:
        reply = real(message, context)
        claims = lies(context.node_id)
        if not claims or message.metadata.message_type != REGISTER.message_type:
            return reply
        told = RegistrationReply.unpack(Packed.of(reply.content)).model_copy(update=claims)
        return write_reply(REGISTER, told, message, context.node_config)

    return app  # type: ignore[return-value]  # the grid only calls it


def trained(grid: SiteGrid, place: Path, run_id: str, *words: str) -> Path:
    """Run the small experiment on a grid; return the run's directory."""
    (place / "runs").mkdir(exist_ok=True)
    words = (*WORDS, f"output_dir={place / 'runs'}", f"run_id={run_id}", *words)
    context = Context(1, 0, {}, RecordDict(), {"overrides": shlex.join(words)})
    server_app(grid=grid, context=context)
    return place / "runs" / run_id


def without_seconds(table: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    return [
        {key: value for key, value in row.items() if key != "seconds"}
        for row in table
        if row.get("metric") != "seconds"
    ]


UNNAMED = "refused: a SuperNode whose key has no name"


def test_liars_are_refused_and_the_record_is_that_of_the_honest_sites(
    images: Path, tmp_path: Path
) -> None:
    """Flower allows two keys of one name, so that a second 'east' can lie beside the first."""
    liars: list[tuple[str, Claims]] = [
        ("", {}),
        ("east", {"index": 99}),
        ("north", {"site": "east"}),
        ("north", {"site": ""}),
        ("zoo", {"site": "north", "index": 1}),
        ("east", {"train": 10**11}),
    ]
    names = "partition.names=[east,north]"
    honest = trained(Liars(images, ["east", "north"], [], tmp_path), tmp_path, "honest", names)
    beside = trained(Liars(images, ["east", "north"], liars, tmp_path), tmp_path, "liars", names)
    assert sha256(beside) == sha256(honest)
    for table in ("clients.csv", "rounds.csv", "classes.csv"):
        found, expected = (without_seconds(rows(run, table)) for run in (beside, honest))
        assert found == expected
    noted = sorted((row["site"], row["event"]) for row in rows(beside, "events.csv"))
    unnamed, large, index, name, nameless, unlisted = noted
    assert unnamed[0] == ""
    assert unnamed[1].startswith(UNNAMED)
    assert large[1].startswith("refused: site east claims 100000000000 training images")
    assert index == (
        "east", "refused: site east says that it is client 99 of 2, and is client 0 of 2",
    )  # fmt: skip
    assert name == ("north", "refused: it calls itself 'east', and its key belongs to site north")
    assert nameless == ("north", "refused: it names no site, and its key belongs to site north")
    assert unlisted == ("zoo", "ignored: partition.names does not list it")
    assert rows(honest, "events.csv") == []


@pytest.mark.usefixtures("jumping_clock")
def test_liars_alone_end_the_run_after_the_timeout_with_every_reason(
    images: Path, tmp_path: Path
) -> None:
    liars: list[tuple[str, Claims]] = [
        ("", {}), ("north", {"site": "east"}), ("south", {"index": 99}), ("zoo", {}),
    ]  # fmt: skip
    words = ["partition.names=[east,north,south]", "federation.join_timeout=3"]
    with pytest.raises(RegistrationError) as caught:
        trained(Liars(images, [], liars, tmp_path), tmp_path, "alone", *words)
    text = str(caught.value)
    assert text.startswith("no site can be used within 3 s: ")
    assert UNNAMED in text
    assert "site north: refused: it calls itself 'east', and its key" in text
    assert "site south: refused: it calls itself 'east', and its key" in text
    assert "site zoo: ignored: partition.names does not list it" in text
    assert len(rows(tmp_path / "runs" / "alone", "events.csv")) == len(liars) + 1


def test_a_site_that_cannot_train_is_refused_with_its_own_reason(
    images: Path, tmp_path: Path
) -> None:
    """It does not know its number among several sites, and no lie is found in that."""
    broken: list[tuple[str, Claims]] = [
        ("north", {"site": "north", "error": "the disk is full", "index": 0, "nodes": 1})
    ]
    run = trained(
        Liars(images, ["east"], broken, tmp_path), tmp_path, "run",
        "partition.names=[east,north]", "federation.quorum=0.1",
    )  # fmt: skip
    (event,) = rows(run, "events.csv")
    assert event["site"] == "north"
    assert event["event"].startswith("refused: ")
    assert "the disk is full" in event["event"]


def test_a_run_does_not_wait_for_sites_that_are_refused(images: Path, tmp_path: Path) -> None:
    liars: list[tuple[str, Claims]] = [("north", {"site": "east"}), ("zoo", {})]
    words = ["partition.names=[north]", "federation.join_timeout=3600"]
    with pytest.raises(RegistrationError) as caught:
        trained(Liars(images, [], liars, tmp_path), tmp_path, "alone", *words)
    assert str(caught.value) == (
        "no site can be used: site north: refused: it calls itself 'east', and its key belongs to "
        "site north; site zoo: ignored: partition.names does not list it"
    )


Forge = Callable[["Forger", Message], None]


class Forger(SiteGrid):
    """Two sites; the replies of the first are changed on their way.

    Args:
        images: holds a directory for each site.
        place: where keys and client state are kept.
        forge: changes a reply.
    """

    def __init__(self, images: Path, place: Path, forge: Forge) -> None:
        super().__init__(client_app.app.app, images, ["east", "north"], place)
        self._forge = forge
        self.replies: list[Message] = []

    def _handle(self, message: Message) -> Message:
        reply = super()._handle(message)
        self.replies.append(reply)
        self._forge(self, reply)
        return reply

    def sign_as(self, node_id: int, reply: Message, header: bytes) -> None:
        """Give a reply a header that a node signs."""
        key = signing_key(self._supernodes[node_id].context.node_config)
        assert key is not None
        signature = sign(key, FORGET.message_type, Packed(header, {}))
        reply.content[HEADER] = ConfigRecord({JSON: header, SIGNATURE: signature})


def first_again(grid: Forger, reply: Message) -> None:
    """Send the content of the first reply once more."""
    reply.content = grid.replies[0].content


def unsigned(grid: Forger, reply: Message) -> None:
    """Strip the signature."""
    reply.content[HEADER] = ConfigRecord({JSON: Packed.of(reply.content).header})


def signed_by_another(grid: Forger, reply: Message) -> None:
    """Let the second site sign."""
    _, other = grid.registered
    grid.sign_as(other, reply, Packed.of(reply.content).header)


def changed(grid: Forger, reply: Message) -> None:
    """Change the header, and keep its signature."""
    record = reply.content[HEADER]
    assert isinstance(record, ConfigRecord)
    record[JSON] = Packed.of(reply.content).header + b" "


@pytest.mark.parametrize(
    ("forge", "second", "reason"),
    [
        (first_again, {"round": 2}, "its reply is for another round"),
        (first_again, {"run": "other"}, "its reply is for another run"),
        (first_again, {"attempt": 2}, "its reply is for another attempt"),
        (first_again, {}, "its reply is for another nonce"),
        (unsigned, {}, "it is not signed"),
        (signed_by_another, {}, "it is not signed with the key of its SuperNode"),
        (changed, {}, "it is not signed with the key of its SuperNode"),
    ],
)
def test_a_replayed_or_forged_reply_is_refused(
    forge: Forge, second: dict[str, Any], reason: str, images: Path, tmp_path: Path
) -> None:
    grid = Forger(images, tmp_path, forge)
    node, _ = grid.registered

    def asked(**changes: Any) -> ForgetReply | Failure:
        fields: dict[str, Any] = {
            "run": "run", "experiment": "{}", "fingerprint": fingerprint(), "round": 1,
            **changes,
        }  # fmt: skip
        addressed = AddressedRequest(node, ForgetRequest(**fields), grid.keys[node])
        (reply,) = Exchange(grid, FORGET, [addressed], 60).replies()
        return reply

    if forge is first_again:
        assert isinstance(asked(), ForgetReply)
    found = asked(**second)
    assert isinstance(found, Failure)
    assert found.reason.startswith(f"its reply cannot be used: {reason}")
