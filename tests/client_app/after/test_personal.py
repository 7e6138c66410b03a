"""The part of the model after the last round: a simulated client sends it, a site keeps it."""

import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from safetensors.torch import load_file

from client_app.after import personal
from client_app.after.personal import parts_of_clients
from client_app.app import app as client_app
from client_app.session import Session
from server_app.app import app as server_app
from server_app.config.composition import compose_experiment
from server_app.config.run_config import to_run_config
from server_app.inference.model import trained_model
from server_app.runs.client_parts import load_client_part
from server_app.runs.records.record import read_record
from task.errors import ConfigError
from task.fingerprint import fingerprint_for
from task.protocol.after.sent_tensors import SentRow
from task.protocol.errors import ProtocolError
from task.protocol.messages import PersonalRequest
from task.protocol.tensors import PackedTensors
from task.site import IN_PROCESS, Site
from task.training.worker import Worker
from tests.conftest import SMALL, rows
from tests.site_grid import SiteGrid
from tests.task.data import making

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
        accepted=[0], model=MODEL, part_bytes=worker.personal.size,
        weights=PackedTensors.of(worker.initial_weights()),
    )  # fmt: skip
    return request.model_copy(update=changes)


@pytest.mark.parametrize(
    ("words", "changes", "reason"),
    [
        (["method=fedavg"], {}, "no part of the model stays with the clients"),
        (["method=fedbn", "secure=masked"], {}, "secure=masked: the part of the model of one"),
        (["method=fedbn"], {"round": 1}, "is asked for after the last round alone"),
    ],
)
def test_a_worker_refuses_what_no_run_asks_for(
    words: list[str], changes: dict[str, Any], reason: str
) -> None:
    request = request_to([*SMALL, SHARE, *words], **changes)
    with pytest.raises(ProtocolError, match=reason):
        parts_of_clients(Session(request, {IN_PROCESS: True}))


class OneSite:
    """A site with images.

    Attributes:
        settings: its ``--node-config``.
        models: the directory in which it keeps its parts.
    """

    def __init__(self, root: Path) -> None:
        self.models = root / "kept" / "models"
        self.settings = {
            "site": "east", "data-dir": str(making.tree(root / "east", ["cat", "dog"], 10)),
            "memory-dir": str(root / "memory"), "models-dir": str(self.models),
        }  # fmt: skip

    def reason(self, *words: str, **changes: Any) -> str:
        """Answer a request; return the reason in the reply, which has no tensor."""
        site = Site.from_node_config(self.settings)
        request = request_to([*SITES, *words], site, **changes)
        reply = parts_of_clients(Session(request, self.settings))
        assert reply.sent == {}
        return SentRow.checked(reply.fields_of(0)).reason


@pytest.fixture
def site(tmp_path: Path) -> OneSite:
    return OneSite(tmp_path)


@pytest.mark.parametrize("secure", ["none", "masked"])
def test_a_site_keeps_its_part_and_sends_nothing(secure: str, site: OneSite) -> None:
    assert site.reason(f"secure={secure}") == ""
    (path,) = site.models.rglob("*.safetensors")
    assert path.relative_to(site.models) == Path(f"run-{MODEL[:12]}/0.safetensors")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    local = compose_experiment(list(SITES)).local()
    first = Worker(local, Site.from_node_config(site.settings)).personal.initial
    kept = load_file(path)
    assert kept.keys() == first.keys()
    assert all(kept[name].equal(first[name]) for name in first)


def test_the_owner_may_keep_nothing(site: OneSite, tmp_path: Path) -> None:
    del site.settings["models-dir"]
    assert site.reason() == ""
    assert not (tmp_path / "kept").exists()


def test_a_run_with_the_id_of_an_old_one_overwrites_nothing(site: OneSite) -> None:
    site.reason()
    site.reason()
    site.reason(model=OTHER)
    assert sorted(path.name for path in site.models.iterdir()) == [
        f"run-{MODEL[:12]}", f"run-{OTHER[:12]}",
    ]  # fmt: skip


def test_too_many_models_are_refused(site: OneSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(personal, "MAX_MODELS", 1)
    assert site.reason() == ""
    assert site.reason(model=OTHER) == "its models-dir has the models of 1 runs; delete old ones"
    assert site.reason() == ""


def test_a_part_that_cannot_be_written_is_not_described_to_the_server(site: OneSite) -> None:
    site.models.parent.mkdir()
    site.models.touch()
    assert site.reason() == "site east failed; see the site's log for the reason"


def test_the_part_is_used_with_the_coordinators_model(tmp_path: Path) -> None:
    """The second site cannot write its part, which the record says."""
    for name in NAMES:
        making.tree(tmp_path / name, ["cat", "dog"], 10)
    (tmp_path / "north.models").touch()
    words = [*SITES, f"output_dir={tmp_path}", "run_id=run", "watch.tensorboard=false"]
    experiment = compose_experiment(words)
    context = Context(1, 0, {}, RecordDict(), to_run_config(experiment, words))
    server_app(grid=SiteGrid(client_app, tmp_path, NAMES, tmp_path), context=context)
    run = tmp_path / "run"
    events = [(row["site"], row["event"]) for row in rows(run, "events.csv")]
    failed = "site north failed; see the site's log for the reason"
    assert ("north", f"it did not keep its part of the model: {failed}") in events
    with pytest.raises(ConfigError, match="A site keeps its own in its models-dir: copy that file"):
        trained_model(run, "cpu", 0)
    (path,) = (tmp_path / "east.models").rglob("*.safetensors")
    copy = tmp_path / "copy"
    shutil.copytree(path.parent, copy / "clients")
    for name in ("run.json", "rounds.csv", "classes.csv", "model.safetensors"):
        shutil.copy(run / name, copy)
    own = load_client_part(copy, 0, read_record(run)["model_sha256"])
    network = trained_model(copy, "cpu", 0).classifier.network.state_dict()
    assert own.keys() == set(read_record(run)["personal"])
    assert all((network[name].numpy() == own[name]).all() for name in own)
