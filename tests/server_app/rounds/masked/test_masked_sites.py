"""Masked rounds among sites: their own keys and rosters, and what they remember."""

import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from flwr.app import Context, Message, RecordDict
from torch import Tensor

from client_app.app import app as client_app
from client_app.masked.party import restore_secrets, secrets_of
from server_app.app import app as server_app
from server_app.config.resuming import whole_words
from server_app.nodes.registration import RegistrationError
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from server_app.rounds.masked.kind import MaskedRounds
from server_app.runs.records.run_record import read_entries
from task.errors import RunError, TrainingError
from task.secure.coordinator import Coordinator
from task.secure.rules.site_files import SIGNED
from task.training.worker import Worker
from tests.conftest import rows, sha256, with_slow
from tests.server_app.nodes.test_lies import trained
from tests.site_grid import SiteGrid
from tests.task.data import making, tables

NAMES = ("east", "north", "south", "west")
WORDS = [f"partition.names=[{','.join(NAMES)}]", "evaluate_every=2"]
NEAREST = ("secure.rounding=nearest", "strategy.weighting=uniform")
MASKED, ROUNDED = "secure=masked", ("secure=rounded", *NEAREST)

pytestmark = pytest.mark.usefixtures("jumping_clock")


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
        restore_secrets(context.state, self._secrets.pop(context.node_id, b""))
        reply = client_app(message, context)
        self._secrets[context.node_id] = secrets_of(context.state)
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


def of_different_sizes(place: Path) -> Path:
    """Write images for sites that have different numbers of them; return the directory."""
    for site, count in zip(NAMES, (5, 6, 7, 8), strict=True):
        making.tree(place, [f"{site}/{label}" for label in ("cat", "dog")], count)
    return place


def lie_about_the_start(
    patch: pytest.MonkeyPatch, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]
) -> None:
    """Make the coordinator start from other weights."""
    original = MaskedRounds.__init__

    def lying(self: MaskedRounds, context: RoundContext) -> None:
        original(self, context)
        context.model.weights = change(context.model.weights)

    patch.setattr(MaskedRounds, "__init__", lying)


def test_the_model_is_that_of_the_run_without_masks(images: Path, tmp_path: Path) -> None:
    plain = trained(MaskedSites(images, tmp_path / "p"), tmp_path, "plain", *WORDS, *ROUNDED)
    grid = MaskedSites(images, tmp_path / "m")
    for name in NAMES:
        grid.configure(name, require_secure=True, allow_nearest=True)
    masked = trained(grid, tmp_path, "masked", *WORDS, MASKED, *NEAREST)
    assert sha256(masked) == sha256(plain)
    assert {row["status"] for row in rows(masked, "clients.csv")} == {"ok"}
    assert read_entries(masked)["secure"]["keys"].startswith("each site has its own keys")
    kept = sorted(path.name for path in (tmp_path / "m" / f"north.mem/{SIGNED}").rglob("*.json"))
    assert [name.partition("-")[0] for name in kept] == ["train", "train", "validate"]


@pytest.mark.parametrize("kind", with_slow(["train.report", "query.agree"], ["query.agree"]))
def test_a_resume_repeats_the_set_that_sites_have_signed(
    images: Path, tmp_path: Path, kind: str
) -> None:
    """One site is lost in round 2, then the coordinator; afterwards both are back."""
    dies = [(kind, "2")]
    lost = [("train", "2")] if kind == "train.report" else []
    words = [*WORDS, *NEAREST]
    place = tmp_path / "p"
    plain = trained(MaskedSites(images, place, lost), tmp_path, "plain", *WORDS, *ROUNDED)
    grid = MaskedSites(images, tmp_path / "m", dies, killed=("query.unmask", "2"))
    with pytest.raises(Interrupted):
        trained(grid, tmp_path, "broken", *words, MASKED)
    grid.dies, grid.killed = (), None
    grid._secrets.clear()
    broken = resumed(grid, tmp_path / "runs" / "broken")
    assert sha256(broken) == sha256(plain)
    reasons = [row["reason"] for row in rows(broken, "clients.csv") if row["status"] != "ok"]
    assert len(reasons) == len(lost)
    assert all("a sum of this model was signed before, without it" in reason for reason in reasons)


EXACT = ("model=cnn", "data.image_size=32", "model.statistics=exact", "rounds=1", MASKED)


@pytest.mark.slow
def test_batch_norm_is_measured_as_a_sum_without_tell_statistics(
    images: Path, tmp_path: Path
) -> None:
    grid = MaskedSites(images, tmp_path / "m")
    plain = trained(grid, tmp_path, "plain", *WORDS, *EXACT, "seed=1", "model.statistics=averaged")
    whole = read_entries(trained(grid, tmp_path, "whole", *WORDS, *EXACT, "seed=2"))
    assert (whole["statistics"]["clients"], whole["statistics"]["layers"]) == (4, 10)
    assert "statistics" not in read_entries(plain)
    kept = (tmp_path / "m" / f"north.mem/{SIGNED}").rglob("measure-*.json")
    assert len(list(kept)) == 1  # one set of sites for all layers
    grid.dies = [("query.measure", "1")]
    record = read_entries(trained(grid, tmp_path, "less", *WORDS, *EXACT, "seed=3"))
    assert record["statistics"]["clients"] == 3
    assert list(record["statistics"]["missing"]) == ["3"]


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
    answer = "client 0: this model was summed before, with the participants 0, 1, 2"
    with pytest.raises(RunFailedError, match=answer):
        resumed(grid, tmp_path / "runs" / "broken")


def test_a_second_run_from_the_same_model_gets_no_other_sum(tmp_path: Path) -> None:
    """Without one site, or in another experiment, it would differ by single sites' updates."""
    images = making.tree(
        tmp_path / "images", [f"{name}/{label}" for name in NAMES for label in ("cat", "dog")], 5
    )
    grid = MaskedSites(images, tmp_path / "m")
    first = trained(grid, tmp_path, "first", *WORDS, MASKED, "rounds=1")
    again = trained(grid, tmp_path, "again", *WORDS, MASKED, "rounds=1")
    for run in (first, again):
        assert [row["status"] for row in rows(run, "clients.csv")] == ["ok"] * 4
    grid.dies = [("train.report", "1")]
    few = [*WORDS, MASKED, "rounds=1", "federation.attempts=1"]
    with pytest.raises(RunFailedError, match="with the participants 0, 1, 2, 3"):
        trained(grid, tmp_path, "without", *few)
    grid.dies = ()
    with pytest.raises(RunFailedError, match="was summed before, in another experiment; start"):
        trained(grid, tmp_path, "other", *few, "batch_size=4")
    making.save(images / "east" / "cat" / "pic_000.png", 99)
    with pytest.raises(RunFailedError, match="summed before, with other images or max-norm"):
        trained(grid, tmp_path, "changed", *WORDS, MASKED, "rounds=1", "federation.attempts=1")
    other_seed = trained(grid, tmp_path, "seed", *few, "batch_size=4", "seed=9")
    assert [row["status"] for row in rows(other_seed, "clients.csv")] == ["ok"] * 4


def test_a_site_that_requires_masks_rounds_to_the_nearest_unit_only_if_its_owner_allows_it(
    images: Path, tmp_path: Path
) -> None:
    """A coordinator that chooses models could scan single values with it."""
    grid = MaskedSites(images, tmp_path / "m")
    for name in NAMES:
        grid.configure(name, require_secure=True)
    text = refusal(grid, tmp_path, MASKED, *NEAREST)
    assert "site east takes part in masked rounds with secure.rounding=stochastic" in text
    for name in NAMES:
        grid.configure(name, allow_nearest=True)
    directory = trained(grid, tmp_path, "allowed", *WORDS, MASKED, *NEAREST, "rounds=1")
    assert [row["status"] for row in rows(directory, "clients.csv")] == ["ok"] * 4


def test_a_site_that_requires_masks_wants_equal_weights(tmp_path: Path) -> None:
    """With weights by images, a sum of updates with few possible values tells single ones."""
    grid = MaskedSites(of_different_sizes(tmp_path / "images"), tmp_path / "m")
    for name in NAMES:
        grid.configure(name, require_secure=True)
    words = [*WORDS, MASKED, "rounds=1", "federation.attempts=1"]
    refused = r"site east: with its require-secure or equal-weights, all must weigh the same"
    with pytest.raises(RunFailedError, match=refused):
        trained(grid, tmp_path, "run", *words)
    for name in NAMES:
        grid.configure(name, equal_weights=False)
    by_images = trained(grid, tmp_path, "by-images", *words, "seed=2")
    assert [row["status"] for row in rows(by_images, "clients.csv")] == ["ok"] * 4
    for name in NAMES:
        grid.configure(name, require_secure=False, equal_weights=True)
    with pytest.raises(RunFailedError, match=refused):
        trained(grid, tmp_path, "refused", *words, "seed=3")
    directory = trained(grid, tmp_path, "equal", *words, "strategy.weighting=uniform", "seed=1")
    assert [row["status"] for row in rows(directory, "clients.csv")] == ["ok"] * 4


def test_sites_do_not_round_to_the_nearest_unit_with_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weights that change from sum to sum, single values could be solved for."""
    grid = MaskedSites(of_different_sizes(tmp_path / "images"), tmp_path / "m")
    original = Coordinator.setup
    monkeypatch.setattr(Coordinator, "setup", lambda self: replace(original(self), uniform=False))
    words = [*WORDS, MASKED, *NEAREST, "rounds=1", "federation.attempts=1"]
    with pytest.raises(RunFailedError, match=r"rounding=nearest, all must weigh the same"):
        trained(grid, tmp_path, "run", *words)


def test_a_site_trains_in_round_1_from_the_named_model_only(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that sends another one in round 1 gets no update."""
    grid = MaskedSites(images, tmp_path / "m")
    words = [*WORDS, MASKED, "rounds=1", "federation.attempts=1"]
    first = trained(grid, tmp_path, "first", *words)
    given = f"model.weights={first / 'model.safetensors'}"
    second = trained(grid, tmp_path, "second", *words, given)
    assert [row["status"] for row in rows(second, "clients.csv")] == ["ok"] * 4
    lie_about_the_start(monkeypatch, lambda weights: {n: v + 1 for n, v in weights.items()})
    for name, more in (("seed", []), ("given", [given])):
        with pytest.raises(RunFailedError, match="round 1 starts from another model"):
            trained(grid, tmp_path, name, *words, *more)


@pytest.mark.parametrize("number", [2.0**20, float("nan"), float("inf")])
def test_a_model_with_numbers_that_masked_sums_do_not_take_is_refused(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    grid = MaskedSites(images, tmp_path / "m")

    def with_number(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        next(iter(weights.values())).view(-1)[0] = number
        return weights

    lie_about_the_start(monkeypatch, with_number)
    words = [*WORDS, MASKED, "rounds=1", "federation.attempts=1"]
    with pytest.raises(
        RunFailedError, match=r"the model has numbers of 1,048,576 or more|is not finite"
    ):
        trained(grid, tmp_path, "run", *words)


def test_a_site_does_not_say_why_it_does_not_report(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that chooses the model would learn which images made the training fail."""
    grid = MaskedSites(images, tmp_path / "m")
    words = [*WORDS, MASKED, "rounds=1", "federation.attempts=1"]
    with pytest.raises(RunFailedError, match=r"site east did not report; see the site's log$"):
        trained(grid, tmp_path, "diverged", *words, "optim.lr=1e30")

    def failing(*_: Any) -> None:
        raise TrainingError("class 7 has no images")

    monkeypatch.setattr(Worker, "train", failing)
    with pytest.raises(RunFailedError, match=r"site east did not report; see the site's log$"):
        trained(grid, tmp_path, "failed", *words, "seed=1")


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


COLUMNS = (
    "data=vectors", "rounds=1", "local_epochs=1", "partition=sites", "method=fedavg", MASKED,
    "evaluate_every=1", "watch.tensorboard=false", "federation.attempts=1", "seed=1",
)  # fmt: skip


def test_columns_are_summed_over_one_set_of_sites_without_tell_statistics(tmp_path: Path) -> None:
    """The sum over other sites, or other rows, would differ by single sites' sums."""
    root = tables.at_sites(tmp_path / "tables", NAMES)
    grid = MaskedSites(root, tmp_path / "m")

    def run(name: str, *more: str) -> Path:
        place = f"output_dir={tmp_path / 'runs'}", f"run_id={name}"
        words = [*COLUMNS, f"data.schema={root / 'schema.yaml'}", *WORDS, *place, *more]
        context = Context(1, 0, {}, RecordDict(), {"overrides": shlex.join(words)})
        server_app(grid=grid, context=context)
        return tmp_path / "runs" / name

    (tmp_path / "runs").mkdir()
    found = read_entries(run("first"))["config"]["data"]["measured"]
    ages = [int(str(row["Age"])) for row in tables.people(80) if row["Age"] != ""]
    assert found["mean"][0] == pytest.approx(sum(ages) / len(ages), rel=1e-7)
    assert read_entries(run("again", "seed=2"))["config"]["data"]["measured"] == found
    with pytest.raises(
        RunFailedError, match=r"in another experiment.*add data\.standardise=schema"
    ):
        run("drop", "data.duplicates=drop", "seed=4")
    grid.dies = [("query.masked_columns", "1")]
    with pytest.raises(RunFailedError, match="with the participants 0, 1, 2, 3"):
        run("without", "seed=5")
    same = json.loads(json.dumps(tables.people_schema()))
    for column in same["columns"]:
        column.setdefault("unit", None)
    spelled = tmp_path / "spelled.yaml"
    spelled.write_text(json.dumps(same))
    with pytest.raises(RunFailedError, match="with the participants 0, 1, 2, 3"):
        run("spelled", "seed=6", f"data.schema={spelled}")
