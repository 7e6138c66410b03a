"""A site whose owner approves each experiment, from the refusal to the end of the run."""

import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from typer.testing import CliRunner

from client_app.app import app as client_app
from client_app.session import Session
from server_app.app import app as server_app
from server_app.cli.main import application
from server_app.config.composition import compose_experiment
from server_app.deploy.places import SitePlace
from server_app.deploy.site_keys import make_site
from server_app.nodes.registration import RegistrationError
from server_app.rounds.errors import RunFailedError
from server_app.runs.records.record import read_record
from task.approval import approvals
from task.approval.approvals import DIGITS, Approvals
from task.errors import ConfigError, SiteError
from task.fingerprint import code_directories, fingerprint
from task.protocol.errors import ProtocolError
from task.protocol.messages import ForgetRequest
from tests.site_grid import SiteGrid
from tests.task.data import making

WORDS = [
    "data=folder", "data.classes=[cat,dog]", "data.image_size=32", "rounds=1", "local_epochs=1",
    "partition=sites", "partition.names=[north]", "watch.tensorboard=false",
]  # fmt: skip


class Site:
    """A site with ``require-approval``, and what its owner types."""

    def __init__(self, root: Path) -> None:
        making.tree(root / "images" / "north", ["cat", "dog"], 8)
        self.root, self.place = root, SitePlace(root / "north")
        make_site(self.place, "north", root / "images" / "north")
        with self.place.settings.open("a") as file:
            file.write("require-approval = true\n")

    def train(self, *words: str) -> Path:
        """Run an experiment on the site; return its record's directory."""
        grid = SiteGrid(client_app, self.root / "images", ["north"], self.root)
        (node,) = grid._supernodes.values()
        key = node.context.node_config["key"]
        node.context.node_config = {**tomllib.loads(self.place.settings.read_text()), "key": key}
        runs = self.root / "runs"
        text = shlex.join([*WORDS, f"output_dir={runs}", *words])
        server_app(grid=grid, context=Context(1, 0, {}, RecordDict(), {"overrides": text}))
        return max(runs.iterdir(), key=lambda path: path.stat().st_mtime)

    def said(self, *words: str) -> str:
        """Return what ``univarfl deploy approve`` prints."""
        typed = ["deploy", "approve", str(self.place.directory), *words]
        result = CliRunner().invoke(application, typed, catch_exceptions=False)
        return result.output


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_an_experiment_runs_once_its_owner_has_approved_it(site: Site) -> None:
    assert site.said().splitlines() == ["no coordinator has asked this site to train yet"]
    with pytest.raises(RegistrationError, match="the owner of site north has not approved"):
        site.train()
    head, *settings, place, cure = site.said().splitlines()
    digits = head.split()[0]
    assert "waits, first asked on" in head
    shown = dict(line.split(maxsplit=1) for line in settings)
    assert shown["method.name"] == "univarfl"
    assert shown["privacy.unit"] == "none"
    assert shown["rounds"] == "1"
    assert "all settings are in" in place
    assert cure == f"approve one with: univarfl deploy approve {site.place.directory} HASH"
    assert site.said(digits).startswith(f"{digits} is approved")
    assert read_record(site.train())["status"] == "completed"
    assert f"{digits}  approved" in site.said()
    assert "not approved any more" in site.said(digits, "--withdraw")
    with pytest.raises(RegistrationError, match="has not approved"):
        site.train()


def test_an_approval_holds_for_exactly_its_settings(site: Site) -> None:
    with pytest.raises(RegistrationError):
        site.train()
    site.said(site.said().split()[0])
    with pytest.raises(RegistrationError, match="has not approved"):
        site.train("rounds=2")
    assert [line.split()[1] for line in site.said().splitlines() if "asked on" in line] == [
        "approved,", "waits,",
    ]  # fmt: skip


def test_experiments_that_wait_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "MOST_WAITING", 2)
    kept = Approvals(tmp_path / "approvals")
    for text in ("one", "two", "one"):
        with pytest.raises(SiteError, match="has not approved"):
            kept.require("north", text)
    with pytest.raises(SiteError, match="2 experiments wait for approval"):
        kept.require("north", "three")
    first, second = kept.asked()
    kept.approve(first)
    kept.require("north", "one")
    with pytest.raises(SiteError, match="has not approved"):
        kept.require("north", "three")  # the approved one does not wait any more
    assert kept.find(second.name[:DIGITS]) == second
    for digits in ("", "0" * 64):
        with pytest.raises(
            ConfigError, match="must be the first digits of exactly one of these hashes: "
        ):
            kept.find(digits)


def test_an_approval_is_of_the_whole_text(tmp_path: Path) -> None:
    """Two experiments may differ in their last character alone."""
    kept, long = Approvals(tmp_path / "approvals"), "x" * 5000
    with pytest.raises(SiteError):
        kept.require("north", long + "1")
    (asked,) = kept.asked()
    kept.approve(asked)
    kept.require("north", long + "1")
    with pytest.raises(SiteError, match="has not approved"):
        kept.require("north", long + "2")


def test_a_request_beyond_the_approved_rounds_is_refused(site: Site) -> None:
    """A coordinator cannot train for more rounds in one run, nor fine-tune as it likes."""
    with pytest.raises(RegistrationError):
        site.train()
    site.said(site.said().split()[0])
    experiment = compose_experiment(WORDS).local().model_dump_json()
    node = {**tomllib.loads(site.place.settings.read_text())}
    later = ForgetRequest(run="run", experiment=experiment, round=2, fingerprint=fingerprint())
    with pytest.raises(ProtocolError, match="names round 2, and the experiment has 1"):
        _ = Session(later, node).site
    with pytest.raises(RunFailedError, match="which cannot include fine-tuning"):
        site.train("after=finetune")


def test_an_experiment_with_a_key_twice_is_not_shown_to_the_owner(site: Site) -> None:
    """The last one counts, and the owner may read the first one only."""
    experiment = compose_experiment(WORDS).local().model_dump_json()
    twice = '{"rounds":1,' + experiment[1:].replace('"rounds":1', '"rounds":9')
    node = {**tomllib.loads(site.place.settings.read_text())}
    asked = ForgetRequest(run="run", experiment=twice, round=1, fingerprint=fingerprint())
    with pytest.raises(ProtocolError, match="not in the form in which a server writes it"):
        _ = Session(asked, node).site
    assert site.said().splitlines() == ["no coordinator has asked this site to train yet"]


def test_a_site_whose_code_changed_since_its_start_trains_no_more(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run new code under the hash of the old one."""
    changed = tmp_path / "client_app"
    shutil.copytree(code_directories()["client_app"], changed)
    (changed / "new.py").touch()
    fingerprint()
    with pytest.raises(RegistrationError):
        site.train()
    site.said(site.said().split()[0])
    directories = {**code_directories(), "client_app": changed}
    monkeypatch.setattr("task.fingerprint.code_directories", lambda: directories)
    with pytest.raises(RegistrationError, match="runs other code than the coordinator"):
        site.train()
