"""Weights that libraries publish (``model.weights=pretrained``), from servers of this machine."""

import hashlib
import http.server
import io
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from safetensors.torch import load_file, save
from torch import Tensor

from server_app.config import pretrained_weights
from server_app.config.composition import compose_experiment
from server_app.config.file_hash import with_hash
from server_app.config.recorded_words import recorded_words
from server_app.config.resuming import whole_words
from server_app.runs.identity import identity_of
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from task.given_weights import cached
from tests.conftest import Train, rows, sha256
from tests.interruption import ended_in

NAME = "timm/test_resnet.r160_in1k"
ON_HUB = ("model=timm", "model.architecture=test_resnet", "model.weights=pretrained")
AT_URL = ("model=torchvision", "model.architecture=shufflenet_v2_x0_5", "model.weights=pretrained")
FIRST, SECOND = "a" * 40, "b" * 40  # revisions

State = dict[str, Tensor]


class Hub(http.server.ThreadingHTTPServer):
    """Serves files by path, as the hub does if a revision is named.

    Attributes:
        files: the content of each path.
        revision: that of the branch ``main``.
        sent: the share of each file that is sent before the connection ends.
        requests: the paths that were asked for.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.revision, self.sent, self.requests = FIRST, 1.0, list[str]()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, content: bytes, file: str = "model.safetensors") -> str:
        """Publish a file in a new revision, and return its hash."""
        self.revision = FIRST if not self.files else SECOND
        self.files = {f"/{NAME}/resolve/{self.revision}/{file}": content}
        return hashlib.sha256(content).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for a file."""

    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        content = self.answer()
        self.wfile.write(content[: int(len(content) * self.server.sent)])

    def answer(self) -> bytes:
        self.server.requests.append(self.path)
        path = self.path.replace("/resolve/main/", f"/resolve/{self.server.revision}/")
        content = self.server.files.get(path)
        self.send_response(404 if content is None else 200)
        if content is None:
            self.send_header("X-Error-Code", "EntryNotFound")
        else:
            self.send_header("X-Repo-Commit", self.server.revision)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        return content or b""

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Yield a hub, and an empty cache of weights."""
    server = Hub()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path / "cache"))
    yield server
    server.shutdown()
    server.server_close()


def weights(value: float) -> State:
    """Return weights of the network, all of them of one value."""
    state: State = timm.create_model("test_resnet", pretrained=False).state_dict()
    return {n: torch.full_like(v, value) for n, v in state.items() if v.is_floating_point()}


def pickled(state: Mapping[str, object], *, legacy: bool) -> bytes:
    """Return what ``torch.save`` writes."""
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


def chosen(sha: str = "") -> dict[str, Any]:
    """Return the settings of the network, with its weights and their origin."""
    settings = compose_experiment(["model=timm", "model.architecture=test_resnet"]).model
    return with_hash({**settings, "weights": f"pretrained{sha and ':'}{sha}"})


@pytest.fixture
def shufflenet(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes, str], None]:
    """Return a function that publishes a file under a name for a network of torchvision."""

    def publish(content: bytes, name: str) -> None:
        hub.files[f"/{name}"] = content
        own = torchvision.models.get_model_weights("shufflenet_v2_x0_5").DEFAULT
        monkeypatch.setattr(own.value, "url", f"{hub.address}/{name}")

    return publish


def test_a_file_of_the_hub_is_downloaded_once(
    hub: Hub, train: Train, capfd: pytest.CaptureFixture[str]
) -> None:
    sha = hub.put(save(weights(0.01)))
    run = train(*ON_HUB, "rounds=1")
    asked = len(hub.requests)
    assert f"downloading {NAME}" in capfd.readouterr().err
    model = read_entries(run)["config"]["model"]
    source = f"{hub.address}/{NAME}/resolve/{FIRST}/model.safetensors"
    assert model["pretrained"] == {
        "name": NAME, "source": source, "sha256": sha, "image_size": 160,
        "interpolation": "bilinear",
    }  # fmt: skip
    assert model["weights_sha256"] == sha
    assert model["weights"] == str(cached(sha))
    events = [row["event"] for row in rows(run, "events.csv")]
    assert events[0].startswith("the network was made for images of 160 pixels with bilinear inter")
    assert events[0].endswith("have data.image_size=16 and data.interpolation=bilinear")
    assert events[1].endswith("keep their initial weights")
    local = compose_experiment(ON_HUB).local().model_dump_json()
    assert '"weights' not in local
    assert '"pretrained' not in local
    hub.put(save(weights(0.02)))  # nobody asks again
    assert chosen()["weights_sha256"] == sha
    assert len(hub.requests) == asked


def test_a_damaged_file_of_the_cache_is_downloaded_again(hub: Hub) -> None:
    sha = hub.put(save(weights(0.01)))
    place = Path(chosen()["weights"])
    place.write_bytes(b"damaged")
    assert chosen()["weights_sha256"] == sha
    place.with_suffix(".json").write_text("[]")
    assert chosen()["weights_sha256"] == sha


def test_a_run_needs_the_file_that_it_began_with(hub: Hub) -> None:
    sha = hub.put(save(weights(0.01)))
    assert chosen(sha)["weights_sha256"] == sha
    for path in cached(sha).parent.glob("*.*"):
        path.unlink()
    hub.put(save(weights(0.02)))
    with pytest.raises(ConfigError, match=f"{SECOND}.* has changed.* the run needs {sha}"):
        chosen(sha)
    assert not list(cached(sha).parent.glob("*.safetensors"))
    assert chosen()["pretrained"]["source"].split("/")[-2] == SECOND
    with pytest.raises(ConfigError, match="64 hex digits"):
        chosen("../../etc")


def test_the_words_of_a_record_name_the_hash(hub: Hub, tmp_path: Path) -> None:
    sha = hub.put(save(weights(0.01)))
    experiment = compose_experiment(ON_HUB).placed(tmp_path / "run")
    words = recorded_words(ON_HUB, experiment)
    assert f"model.weights='pretrained:{sha}'" in words
    again = compose_experiment(words)
    assert again.model == experiment.model
    moved = {**again.model_dump(), "model": {**again.model, "pretrained": {"source": "a mirror"}}}
    assert identity_of(moved, None) == identity_of(experiment.model_dump(), None)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickled_file_is_read_as_data(hub: Hub, legacy: bool) -> None:
    state = weights(0.01)
    sha = hub.put(pickled(state, legacy=legacy), "pytorch_model.bin")
    found = chosen()
    assert found["pretrained"]["sha256"] == sha
    stored = load_file(found["weights"])
    assert stored.keys() == state.keys()
    assert chosen(sha) == found
    cached(sha).with_suffix(".json").unlink()
    code = {"a": compose_experiment}
    hub.put(pickled(code, legacy=legacy), "pytorch_model.bin")
    with pytest.raises(ConfigError, match="is not a file of weights"):
        chosen()


def test_what_is_not_downloaded_whole_is_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = hub.put(save(weights(0.01)))
    hub.sent = 0.5
    with pytest.raises(ConfigError, match=f"{NAME} cannot be downloaded: .*model.weights=FILE"):
        chosen()
    hub.sent = 1
    with monkeypatch.context() as patch:
        patch.setattr(pretrained_weights, "MOST_MEGABYTES", 0)
        with pytest.raises(ConfigError, match="more than 0 MB"):
            chosen()
    hub.put(b"<html>no weights</html>")
    with pytest.raises(ConfigError, match=r"cannot be downloaded: .*model\.weights=FILE"):
        chosen()
    hub.files = {}
    with pytest.raises(ConfigError, match=r"has none of model\.safetensors, pytorch_model\.bin"):
        chosen()
    assert [path.name for path in cached(sha).parent.iterdir()] == ["download.lock"]


def test_a_server_that_is_away_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = hub.put(save(weights(0.01)))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConfigError, match=f"{NAME} cannot be downloaded.*model.weights=FILE"):
        chosen()
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    chosen()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the cache is filled now
    assert chosen()["weights_sha256"] == chosen(sha)["weights_sha256"] == sha


def test_a_file_of_torchvision_has_the_hash_of_its_name(
    shufflenet: Callable[[bytes, str], None], hub: Hub
) -> None:
    network = torchvision.models.get_model("shufflenet_v2_x0_5")
    content = pickled(network.state_dict(), legacy=True)
    sha = hashlib.sha256(content).hexdigest()
    shufflenet(content, "net-00000000.pth")
    with pytest.raises(ConfigError, match=f"its SHA-256 is {sha}, not 00000000; try again"):
        compose_experiment(AT_URL)
    name = f"net-{sha[:8]}.pth"
    shufflenet(content, name)
    model = compose_experiment(AT_URL).model
    assert model["pretrained"] == {
        "name": "torchvision/shufflenet_v2_x0_5.IMAGENET1K_V1",
        "source": f"{hub.address}/{name}",
        "sha256": sha,
        "image_size": 224,
        "interpolation": "bilinear",
    }
    assert torch.equal(load_file(model["weights"])["fc.weight"], network.fc.weight)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["model=cnn"], "only networks of model=timm and model=torchvision are published"),
        (
            ["model=timm", "model.architecture=resnet18.nowhere"],
            r"unknown tag; choose one of resnet18\.a1_in1k, resnet18\.a2_in1k",
        ),
        (["model=timm", "model.architecture=test_vit4"], "timm publishes no weights of test_vit4"),
    ],
)
def test_a_network_without_published_weights_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment([*words, "model.weights=pretrained"])


@pytest.mark.slow
def test_a_resumed_run_goes_on_from_the_same_file(hub: Hub, train: Train, tmp_path: Path) -> None:
    content = save(weights(0.01))
    sha = hub.put(content)
    whole = train(*ON_HUB, "rounds=2")
    (tmp_path / "file.safetensors").write_bytes(content)
    given = train(*ON_HUB[:-1], f"model.weights={tmp_path / 'file.safetensors'}", "rounds=2")
    assert sha256(given) == sha256(whole)
    with ended_in(2), pytest.raises(KeyboardInterrupt):
        train(*ON_HUB, "rounds=2", "run_id=ended")
    resume = whole_words([f"resume={whole.parent / 'ended'}"])
    for path in cached(sha).parent.glob("*.*"):
        path.unlink()
    hub.put(save(weights(0.02)))
    with pytest.raises(ConfigError, match="has changed"):
        train(*resume)
    hub.put(save(weights(0.01)))  # in another revision
    assert sha256(train(*resume)) == sha256(whole)


@pytest.mark.slow
def test_frozen_parts_train_from_it(hub: Hub, train: Train) -> None:
    hub.put(save(weights(0.01)))
    run = train(*ON_HUB, "rounds=2", "tune=head", "federation.workers=2")
    assert sha256(run) == sha256(train(*ON_HUB, "rounds=2", "tune=head", "engine=flower"))
