"""The part of the model after the last round: a simulated client sends it, a site keeps it."""

import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Context, RecordDict
from safetensors.torch import load_file

from client_app.after import kept_parts
from client_app.after.kept_parts import KeptParts
from client_app.after.personal import parts_of_clients
from client_app.app import app as client_app
from client_app.client_state import ClientState
from client_app.forgetting import forget
from client_app.session import Session
from server_app.app import app as server_app
from server_app.config.composition import compose_experiment
from server_app.config.run_config import Submitted
from server_app.nodes.assignment import units_of_served
from server_app.nodes.failure import ABSENT
from server_app.rounds.ending import asking
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError, ProtocolError
from task.fingerprint import fingerprint_for
from task.machine.files import SpaceError
from task.protocol.after.personal import PersonalRequest
from task.protocol.after.sent_tensors import SentRow
from task.protocol.registration import ForgetRequest
from task.protocol.tensors import PackedTensors
from task.site import IN_PROCESS, Site
from task.training.personal.part import PERSONAL as OWN
from task.training.worker import Worker
from tests.conftest import SMALL_CNN, rows
from tests.site_grid import SiteGrid
from tests.task.data import making
from univarfl.engines.run_config import to_run_config
from univarfl.inference.model import trained_model
from univarfl.records.trained import load_client_part

NAMES = ["east", "north"]
SHARE = "data.validation_share=0.3"
SITES = (
    "method=fedbn", "data=folder", "data.classes=[cat,dog]", "data.image_size=32",
    "partition=sites", f"partition.names=[{','.join(NAMES)}]", "local_epochs=2", "rounds=2", SHARE,
)  # fmt: skip
MODEL, OTHER = (first * 64 for first in "ab")


def request_to(words: list[str], site: Site | None = None, **changes: Any) -> PersonalRequest:
    """Return the request for the part of client 0, which has not trained, after two rounds."""
    local = compose_experiment(words).local()
    worker = Worker(local, site)
    text = local.model_dump_json()
    request = PersonalRequest(
        run="run", experiment=text, fingerprint=fingerprint_for(text), round=2, clients=[0],
        accepted=[0], model=MODEL, part_bytes=10**6,
        weights=PackedTensors.of(worker.initial_weights()),
    )  # fmt: skip
    return request.model_copy(update=changes)


@pytest.mark.parametrize(
    ("words", "changes", "reason"),
    [
        (["method=fedavg"], {}, "no part of the model stays with the clients"),
        (["method=fedbn"], {"round": 1}, "is asked for after the last round alone"),
    ],
)
def test_a_worker_refuses_what_no_run_asks_for(
    words: list[str], changes: dict[str, Any], reason: str
) -> None:
    request = request_to([*SMALL_CNN, SHARE, *words], **changes)
    with pytest.raises(ProtocolError, match=reason):
        parts_of_clients(Session(request, {IN_PROCESS: True}))


class OneSite:
    """A site with images, which has trained in both rounds of a run.

    Attributes:
        settings: its ``--node-config``.
        models: the directory in which it keeps its parts.
        part: its part of the model.
    """

    def __init__(self, root: Path) -> None:
        self.models = root / "kept" / "models"
        self.settings = {
            "site": "east", "data-dir": str(making.tree(root / "east", ["cat", "dog"], 10)),
            "memory-dir": str(root / "memory"), "models-dir": str(self.models),
        }  # fmt: skip
        first = Worker(compose_experiment(list(SITES)).local(), self.site).personal.initial
        self.part = {name: value + 1 for name, value in first.items()}
        state = ClientState("run", site=self.site)
        state.require_experiment(compose_experiment(list(SITES)).local().model_dump_json())
        for server_round, part in enumerate((first, self.part), 1):
            kept = {OWN + name: value for name, value in part.items()}
            state.keep(0, server_round, server_round - 1, kept)

    @property
    def site(self) -> Site:
        """Its settings."""
        return Site.from_node_config(self.settings)

    def reason(self, *words: str, **changes: Any) -> str:
        """Answer a request; return the reason in the reply, which has no tensor."""
        request = request_to(
            [*SITES, *words], self.site, part_bytes=0, **{"accepted": [2], **changes}
        )
        assert request.reply_limits().arrays == {}
        reply = parts_of_clients(Session(request, self.settings))
        assert reply.sent == {}
        return SentRow.checked(reply.fields_of(0)).reason

    def forget(self) -> bool:
        """Ask the site to delete its state; return whether it did."""
        request = ForgetRequest(run="run", experiment="{}", fingerprint="0" * 64, round=1)
        forget(Session(request, self.settings))
        return not ClientState("run", site=self.site).directory.exists()


@pytest.fixture
def site(tmp_path: Path) -> OneSite:
    return OneSite(tmp_path)


def test_a_site_keeps_its_part_and_sends_nothing(site: OneSite) -> None:
    assert site.reason() == ""
    (path,) = site.models.rglob("*.safetensors")
    assert path.relative_to(site.models) == Path(f"run-run-{MODEL[:12]}/0.safetensors")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    kept = load_file(path)
    assert kept.keys() == site.part.keys()
    assert all(kept[name].equal(site.part[name]) for name in kept)
    assert site.forget()


def test_the_owner_may_keep_nothing(site: OneSite, tmp_path: Path) -> None:
    del site.settings["models-dir"]
    assert site.reason() == ""
    assert not (tmp_path / "kept").exists()
    assert site.forget()


@pytest.mark.parametrize(
    "changes", [{}, {"accepted": [1]}, {"accepted": [0]}, {"words": ["method=fedper", "seed=9"]}]
)
def test_a_later_request_replaces_nothing(changes: dict[str, Any], site: OneSite) -> None:
    site.reason()
    (path,) = site.models.rglob("*.safetensors")
    before = path.read_bytes()
    site.reason(*changes.pop("words", []), **changes)
    site.reason(model=OTHER)
    assert path.read_bytes() == before
    assert len(list(site.models.iterdir())) == 2


def test_a_request_after_the_state_is_gone_finds_the_part(site: OneSite) -> None:
    site.reason()
    assert site.forget()
    assert site.reason() == ""


def test_a_client_that_has_not_trained_has_no_part(site: OneSite) -> None:
    assert site.reason(accepted=[0]) == "a client that has not trained has no part of the model"
    assert not site.models.exists()


def test_too_many_models_are_refused(site: OneSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_parts, "MAX_MODELS", 1)
    assert site.reason() == ""
    assert site.reason(model=OTHER) == "its models-dir has 1 models, the limit; delete old ones"
    assert site.reason() == ""


def test_a_part_that_would_fill_the_disk_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="keep-free-megabytes"):
        KeptParts(tmp_path, "run", spare=10**9).keep(0, MODEL, lambda: {"w": torch.ones(2)})
    assert not list(tmp_path.iterdir())


def test_a_part_that_cannot_be_written_stays_in_the_state(site: OneSite) -> None:
    site.models.parent.mkdir()
    site.models.touch()
    assert site.reason() == "site east failed; see the site's log for the reason"
    assert not site.forget()
    site.models.unlink()
    assert site.reason() == ""
    assert site.forget()


def trained_at_sites(root: Path) -> Path:
    """Train at two sites; return the run directory."""
    for name in NAMES:
        making.tree(root / name, ["cat", "dog"], 10)
    words = [*SITES, f"output_dir={root}", "run_id=run", "watch.tensorboard=false"]
    experiment = compose_experiment(words)
    context = Context(1, 0, {}, RecordDict(), to_run_config(Submitted(experiment, words)))
    server_app(grid=SiteGrid(client_app, root, NAMES, root), context=context)
    return root / "run"


def states(root: Path, name: str) -> list[Path]:
    """Return the files with the states that a site still has."""
    return list((root / f"{name}.mem").rglob("*.safetensors"))


def test_the_part_is_used_with_the_coordinators_model(tmp_path: Path) -> None:
    """The second site cannot write its part, which the record says."""
    (tmp_path / "north.models").touch()
    run = trained_at_sites(tmp_path)
    events = [(row["site"], row["event"]) for row in rows(run, "events.csv")]
    failed = "site north failed; see the site's log for the reason"
    assert ("north", f"it did not keep its part of the model: {failed}") in events
    assert states(tmp_path, "north")
    assert not states(tmp_path, "east")
    with pytest.raises(ConfigError, match="A site keeps its own in its models-dir: copy that file"):
        trained_model(run, "cpu", 0)
    (path,) = (tmp_path / "east.models").rglob("*.safetensors")
    copy = tmp_path / "copy"
    shutil.copytree(path.parent, copy / "clients")
    for name in ("run.json", "rounds.csv", "classes.csv", "model.safetensors"):
        shutil.copy(run / name, copy)
    own = load_client_part(copy, 0, read_entries(run)["model_sha256"])
    network = trained_model(copy, "cpu", 0).classifier.network.state_dict()
    assert own.keys() == set(read_entries(run)["personal"])
    assert all((network[name].numpy() == own[name]).all() for name in own)


def test_a_site_that_is_away_keeps_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        asking, "units_of_served",
        lambda clients, sizes, nodes: units_of_served(list(clients)[1:], sizes, nodes),
    )  # fmt: skip
    run = trained_at_sites(tmp_path)
    assert read_entries(run)["status"] == "completed"
    events = [(row["site"], row["event"]) for row in rows(run, "events.csv")]
    assert ("east", f"it did not keep its part of the model: {ABSENT}") in events
    assert states(tmp_path, "east")
    assert not states(tmp_path, "north")
