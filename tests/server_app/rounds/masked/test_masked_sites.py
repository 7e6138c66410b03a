"""Masked rounds among sites: their own keys and rosters, and what they remember."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from flwr.app import Context, Message, RecordDict

from client_app.app import app as client_app
from client_app.masked.party import restore_secrets, secrets_of
from server_app.app import app as server_app
from server_app.config.resuming import whole_words
from server_app.nodes.registration import RegistrationError
from server_app.rounds.errors import RunFailedError
from server_app.runs.records.record import read_record
from task.errors import RunError
from task.secure.coordinator import Coordinator
from task.secure.rules.site_files import SIGNED
from tests.conftest import rows, sha256
from tests.server_app.nodes.test_lies import trained
from tests.site_grid import SiteGrid
from tests.task.data import making

NAMES = ("east", "north", "south", "west")
WORDS = [f"partition.names=[{','.join(NAMES)}]", "evaluate_every=2"]
MASKED = "secure=masked"


class Interrupted(BaseException):
    """The coordinator's process is killed."""


class MaskedSites(SiteGrid):
    """Sites that have each other's keys, and a new process for each message.

    Args:
        images: holds a directory for each site.
        place: where keys, rosters and client state are kept.
        dies: message types and rounds at which the last site does not answer.
        killed: a message type and a round at which the coordinator is killed after the first reply.
    """

    def __init__(
        self,
        images: Path,
        place: Path,
        dies: Sequence[tuple[str, str]] = (),
        killed: tuple[str, str] | None = None,
    ) -> None:
        place.mkdir(exist_ok=True)
        super().__init__(self.answer, images, NAMES, place)  # type: ignore[arg-type]
        self.dies, self.killed = dies, killed
        self._secrets: dict[int, bytes] = {}
        for node_id, name in self.registered.items():
            roster = place / f"{name}.roster"
            shutil.rmtree(roster, ignore_errors=True)
            roster.mkdir()
            for other, named in self.registered.items():
                key = load_pem_public_key(self.keys[other])
                text = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
                (roster / f"{named}.pub").write_bytes(text)
            self._supernodes[node_id].context.node_config["roster"] = str(roster)

    def configure(self, name: str, **settings: str | bool | float) -> None:
        """Change the settings of one site."""
        (node_id,) = (node for node, known in self.registered.items() if known == name)
        for key, value in settings.items():
            self._supernodes[node_id].context.node_config[key.replace("_", "-")] = value

    def answer(self, message: Message, context: Context) -> Message:
        """Answer a message in a process of its own, as far as the state is concerned."""
        asked = (message.metadata.message_type, message.metadata.group_id)
        if self.registered[context.node_id] == NAMES[-1] and asked in self.dies:
            raise RuntimeError("the process was killed")
        restore_secrets(context, self._secrets.pop(context.node_id, b""))
        reply = client_app(message, context)
        self._secrets[context.node_id] = secrets_of(context)
        context.state.clear()
        if asked == self.killed:
            raise Interrupted
        return reply


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return making.tree(
        tmp_path_factory.mktemp("images"),
        [f"{name}/{label}" for name in NAMES for label in ("cat", "dog")], 5,
    )  # fmt: skip


def test_the_model_is_that_of_the_run_without_masks(images: Path, tmp_path: Path) -> None:
    plain = trained(MaskedSites(images, tmp_path / "p"), tmp_path, "plain", *WORDS)
    grid = MaskedSites(images, tmp_path / "m")
    for name in NAMES:
        grid.configure(name, require_secure=True)
    masked = trained(grid, tmp_path, "masked", *WORDS, MASKED)
    assert sha256(masked) == sha256(plain)
    assert {row["status"] for row in rows(masked, "clients.csv")} == {"ok"}
    assert read_record(masked)["secure"]["keys"].startswith("each site has its own keys")
    kept = sorted(path.name for path in (tmp_path / "m" / f"north.mem/{SIGNED}").rglob("*.json"))
    assert kept == ["train-1.json", "train-2.json", "validate-2.json"]


@pytest.mark.parametrize("kind", ["train.report", "query.agree"])
def test_a_resume_repeats_the_set_that_sites_have_signed(
    images: Path, tmp_path: Path, kind: str
) -> None:
    """One site is lost in round 2, then the coordinator; afterwards both are back."""
    dies = [(kind, "2")]
    lost = [("train", "2")] if kind == "train.report" else []
    plain = trained(MaskedSites(images, tmp_path / "p", lost), tmp_path, "plain", *WORDS)
    grid = MaskedSites(images, tmp_path / "m", dies, killed=("query.unmask", "2"))
    with pytest.raises(Interrupted):
        trained(grid, tmp_path, "broken", *WORDS, MASKED)
    grid.dies, grid.killed = (), None
    grid._secrets.clear()
    broken = resumed(grid, tmp_path / "runs" / "broken")
    assert sha256(broken) == sha256(plain)
    reasons = [row["reason"] for row in rows(broken, "clients.csv") if row["status"] != "ok"]
    assert len(reasons) == len(lost)
    assert all("the sum of others was signed without it" in reason for reason in reasons)


def test_a_coordinator_that_asks_for_another_set_gets_no_sum(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = MaskedSites(
        images, tmp_path / "m", [("train.report", "2")], killed=("query.unmask", "2")
    )
    with pytest.raises(Interrupted):
        trained(grid, tmp_path, "broken", *WORDS, MASKED)
    grid.dies, grid.killed = (), None
    honest = Coordinator.add_advert
    monkeypatch.setattr(
        Coordinator, "add_advert", lambda self, advert, signed: honest(self, advert)
    )
    answer = "client 0: round 2 was answered before, with the participants 0, 1, 2"
    with pytest.raises(RunFailedError, match=answer):
        resumed(grid, tmp_path / "runs" / "broken")


def resumed(grid: SiteGrid, directory: Path) -> Path:
    """Continue a run on a grid; return its directory."""
    words = shlex.join(whole_words([f"resume={directory}"]))
    server_app(grid=grid, context=Context(1, 0, {}, RecordDict(), {"overrides": words}))
    return directory


def refusal(grid: SiteGrid, place: Path, *words: str) -> str:
    """Return why a run ends before its first round."""
    with pytest.raises((RegistrationError, RunError)) as caught:
        trained(grid, place, "run", *WORDS, "federation.join_timeout=3", *words)
    return str(caught.value)


def test_sites_whose_own_files_do_not_allow_the_run_refuse_it(images: Path, tmp_path: Path) -> None:
    grid = MaskedSites(images, tmp_path / "m")
    grid.configure("east", roster="/nonexistent")
    (tmp_path / "m" / "north.roster" / "west.pub").unlink()
    (tmp_path / "m" / "south.roster" / "west.pub").write_text("ssh-rsa AAAA")
    grid.configure("west", colluding=2)
    text = refusal(grid, tmp_path, MASKED)
    assert "site east: its roster must hold its own east.pub" in text
    assert "site north: site west is not in the roster of this site" in text
    assert "site south failed; see the site's log for the reason" in text
    assert "west.pub" not in text
    assert "site west takes part in masked rounds of at least 4 sites" in text
    assert "raise secure.colluding" in text


def test_a_site_that_requires_masks_refuses_a_run_without_them(
    images: Path, tmp_path: Path
) -> None:
    grid = MaskedSites(images, tmp_path / "m")
    for name in NAMES:
        grid.configure(name, require_secure=True)
    text = refusal(grid, tmp_path)
    assert "site east takes part in masked rounds only (its require-secure)" in text


def test_a_site_with_another_key_of_one_site_does_not_share_with_it(
    images: Path, tmp_path: Path
) -> None:
    grid = MaskedSites(images, tmp_path / "m")
    MaskedSites(images, tmp_path / "other")
    for name in NAMES[:3]:
        shutil.copy(tmp_path / "other" / "west.roster" / "west.pub",
                    tmp_path / "m" / f"{name}.roster" / "west.pub")  # fmt: skip
    with pytest.raises(RunFailedError, match="client 0: site west has another roster"):
        trained(grid, tmp_path, "run", *WORDS, MASKED, "rounds=1")
