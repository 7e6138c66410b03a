"""A site whose owner approves each experiment, from the refusal to the end of the run."""

import itertools
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from typer.testing import CliRunner

from client_app.app import app as client_app
from client_app.client_state import ClientState
from client_app.kinds import HANDLERS
from client_app.session import Session
from server_app.app import app as server_app
from server_app.config.composition import compose_experiment
from server_app.nodes.failure import Failure
from server_app.nodes.messages import AddressedRequest, Exchange
from server_app.nodes.registration import RegistrationError
from server_app.runs.records.run_record import read_entries
from task.approval import approvals
from task.approval.approvals import DIGITS, MOST_ANSWERS, MOST_RUNS, Approvals
from task.errors import ConfigError, ProtocolError, SiteError
from task.fingerprint import code_directories, fingerprint
from task.models.layers.norm import batch_norm_layers
from task.protocol.after.finetuning import FINETUNE
from task.protocol.after.moments import MOMENTS
from task.protocol.after.statistics import STATISTICS
from task.protocol.envelope import Kind
from task.protocol.evaluation import EVALUATE
from task.protocol.registration import ForgetRequest
from task.protocol.tensors import PackedTensors
from task.protocol.training import TRAIN
from task.registry import named
from task.training.worker import Worker
from tests.site_grid import SiteGrid
from tests.task.data import making
from univarfl.cli.main import application
from univarfl.deploy.places import SitePlace
from univarfl.deploy.site_keys import make_site

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
    assert read_entries(site.train())["status"] == "completed"
    assert f"{digits}  approved" in site.said()
    assert "used in 1 of 3 runs, 2 requests about its images" in site.said()
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
            kept.require("north", text, "run")
    with pytest.raises(SiteError, match="2 experiments wait for approval"):
        kept.require("north", "three", "run")
    first, second = kept.asked()
    kept.approve(first)
    kept.require("north", "one", "run")
    with pytest.raises(SiteError, match="has not approved"):
        kept.require("north", "three", "run")  # the approved one does not wait any more
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
        kept.require("north", long + "1", "run")
    (asked,) = kept.asked()
    kept.approve(asked)
    kept.require("north", long + "1", "run")
    with pytest.raises(SiteError, match="has not approved"):
        kept.require("north", long + "2", "run")


def test_a_request_beyond_the_approved_rounds_is_refused(site: Site) -> None:
    """A coordinator cannot train for more rounds in one run."""
    with pytest.raises(RegistrationError):
        site.train()
    site.said(site.said().split()[0])
    experiment = compose_experiment(WORDS).local().model_dump_json()
    node = {**tomllib.loads(site.place.settings.read_text())}
    later = ForgetRequest(run="run", experiment=experiment, round=2, fingerprint=fingerprint())
    with pytest.raises(ProtocolError, match="names round 2, and the experiment has 1"):
        _ = Session(later, node).site


def test_the_owner_sees_and_approves_the_stage_after_training(site: Site) -> None:
    tuned = ("after=finetune", "after.epochs=1", "data.validation_share=0.3")
    with pytest.raises(RegistrationError):
        site.train(*tuned)
    shown = site.said()
    assert "after.name                finetune" in shown
    assert "after.epochs              1" in shown
    site.said(shown.split()[0])
    assert read_entries(site.train(*tuned))["after"]["clients"] == 1
    with pytest.raises(RegistrationError, match="has not approved"):
        site.train(*tuned, "after.epochs=2")


def test_an_approval_holds_for_three_runs(site: Site) -> None:
    with pytest.raises(RegistrationError):
        site.train()
    digits = site.said().split()[0]
    site.said(digits)
    for _ in range(MOST_RUNS):
        site.train()
    with pytest.raises(RegistrationError, match=r"approved this experiment for 3 runs, which have"):
        site.train()
    assert "used in 3 of 3 runs, 6 requests" in site.said()
    site.said(digits)
    assert "used in 0 of 3 runs, 0 requests" in site.said()
    site.train()


class Asking(Site):
    """A coordinator that asks an approved site as it likes, over rounds and runs.

    Args:
        root: an empty directory.
        words: more of the experiment.
        tell_statistics: whether the site tells its statistics.
    """

    def __init__(self, root: Path, *words: str, tell_statistics: bool = False) -> None:
        super().__init__(root)
        self.config = compose_experiment([*WORDS, *words]).local()
        self.worker = Worker(self.config)
        self.grid = SiteGrid(client_app, root / "images", ["north"], root)
        (self.node,) = self.grid.registered
        settings = self.grid._supernodes[self.node].context.node_config
        settings |= {**tomllib.loads(self.place.settings.read_text()), "key": settings["key"]}
        settings["tell-statistics"] = tell_statistics
        assert "has not approved" in self.ask(TRAIN, 1)
        self.said(self.said().split()[0])

    def ask(self, kind: Kind[Any, Any], server_round: int, run: str = "run", **more: Any) -> str:
        """Return why the site refuses, or an empty text; each request has another model."""
        weights = self.worker.initial_weights()
        weights["classifier.bias"][0] = next(COUNT)
        fields = {
            "run": run, "round": server_round, "experiment": self.config.model_dump_json(),
            "fingerprint": fingerprint(), "clients": [0], "accepted": [0], "shares": [],
            "weights": PackedTensors.of(weights), **more,
        }  # fmt: skip
        known = kind.request.model_fields
        request = kind.request(**{key: fields[key] for key in fields if key in known})
        addressed = AddressedRequest(self.node, request, self.grid.keys[self.node])
        (reply,) = Exchange(self.grid, kind, [addressed], 60).replies()
        return str(reply.reason if isinstance(reply, Failure) else reply.rows[0].get("reason"))


COUNT = itertools.count()
SCORED = ("data.validation_share=0.3",)


@pytest.mark.parametrize("kind", [TRAIN, EVALUATE])
def test_other_models_in_one_round_are_few(tmp_path: Path, kind: Kind[Any, Any]) -> None:
    coordinator = Asking(tmp_path, *SCORED)
    assert [coordinator.ask(kind, 1) for _ in range(MOST_ANSWERS)] == [""] * MOST_ANSWERS
    refused = f"has answered 5 requests '{kind.message_type} 1' of this run"
    assert refused in coordinator.ask(kind, 1)
    assert "it names round 0" in coordinator.ask(kind, 0)
    assert [coordinator.ask(kind, 1, run) for run in ("second", "third")] == ["", ""]
    assert "for 3 runs, which have begun" in coordinator.ask(kind, 1, "fourth")
    assert refused in coordinator.ask(kind, 1)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (FINETUNE, {}),
        (STATISTICS, {"classes": 2, "features": 128}),
    ],
)
def test_a_stage_that_was_not_approved_is_refused(
    tmp_path: Path, kind: Kind[Any, Any], more: dict[str, Any]
) -> None:
    coordinator = Asking(tmp_path, *SCORED)
    assert "and the experiment has another stage" in coordinator.ask(kind, 1, **more)


def test_batch_norm_is_not_measured_in_an_experiment_that_was_approved_without_it(
    tmp_path: Path,
) -> None:
    coordinator = Asking(tmp_path, *SCORED)
    more: dict[str, Any] = {"layer": "encoder.1", "channels": 16, "images": 256}
    assert "does not have model.statistics=exact" in coordinator.ask(MOMENTS, 1, **more)


def test_batch_norm_is_not_measured_where_the_owner_does_not_allow_it(tmp_path: Path) -> None:
    coordinator = Asking(tmp_path, "model.statistics=exact")
    more: dict[str, Any] = {"layer": "encoder.1", "channels": 16, "images": 256}
    assert "its owner can set tell-statistics = true" in coordinator.ask(MOMENTS, 1, **more)


def test_statistics_of_other_models_are_few(tmp_path: Path) -> None:
    """A site forgets what it has described when the coordinator says that the run is over."""
    coordinator = Asking(tmp_path, "after=batch_norm", tell_statistics=True)
    layers = batch_norm_layers(coordinator.worker.model)
    name, layer = next(iter(layers.items()))
    more: dict[str, Any] = {"layer": name, "channels": layer.num_features, "images": 256}
    assert coordinator.ask(MOMENTS, 1, **more) == ""
    most = MOST_ANSWERS * len(layers)
    for _ in range(most - 1):
        assert "of another model in this run" in coordinator.ask(MOMENTS, 1, **more)
    ClientState("run").delete()
    assert f"has answered {most} requests" in coordinator.ask(MOMENTS, 1, **more)


def test_every_reply_about_images_is_counted() -> None:
    """The others tell nothing of the images, or only what masks and a ledger of their own allow."""
    others = {
        kind.message_type
        for kind in (named(each.kind) for each in HANDLERS.values())
        if not kind.counted
    }
    assert others == {
        "query", "query.forget", "query.keys", "query.shares", "query.agree", "query.unmask",
    }  # fmt: skip


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
