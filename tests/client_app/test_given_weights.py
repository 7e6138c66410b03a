"""The file of weights that a site gets when it registers."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save

from client_app.given_weights import MOST_FILES, keep_weights
from client_app.session import Session
from server_app.config.composition import compose_experiment
from task.errors import ConfigError, ProtocolError, SiteError
from task.given_weights import WEIGHTS_HASH, cached
from task.protocol.registration import RegistrationRequest
from task.protocol.tensors import PackedTensors
from task.site import Site
from task.training.worker import build_model

SITES = (
    "data=folder", "data.classes=[cat,dog]", "partition=sites", "partition.names=[north,south]",
    "model=lenet", "data.image_size=16", "tune=head",
)  # fmt: skip


class Case:
    """A site that registers for an experiment with a frozen network."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        network = build_model(compose_experiment(SITES).local(), 16, 3, 2)
        self.file = root / "base.safetensors"
        self.file.write_bytes(save(network.state_dict()))
        monkeypatch.setenv("UNIVARFL_CACHE", str(root / "coordinator"))
        local = compose_experiment([*SITES, f"model.weights={self.file}"]).local()
        self.text, self.sha256 = local.model_dump_json(), local.model[WEIGHTS_HASH]
        monkeypatch.setenv("UNIVARFL_CACHE", str(root / "site"))

    def keep(self, content: bytes, **settings: Any) -> None:
        request = RegistrationRequest(
            run="run", experiment=self.text, fingerprint="0" * 64, weights=PackedTensors(content)
        )
        session = Session(request, {"site": "north", "data-dir": "/data"})
        keep_weights(session, Site(name="north", directory="/data", **settings))


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(tmp_path, monkeypatch)


def test_the_file_is_kept_under_its_hash_and_clients_do_not_learn_its_path(case: Case) -> None:
    case.keep(case.file.read_bytes())
    assert cached(case.sha256).read_bytes() == case.file.read_bytes()
    assert str(case.file) not in case.text
    assert hashlib.sha256(case.file.read_bytes()).hexdigest() == case.sha256


def test_another_or_too_large_file_is_not_kept(case: Case) -> None:
    content = case.file.read_bytes()
    with pytest.raises(ProtocolError, match="not the one that the experiment names"):
        case.keep(content[:-1] + b"\1")
    with pytest.raises(SiteError, match=r"max-model-megabytes\), and the file"):
        case.keep(bytes(2_100_000), max_model_megabytes=2)
    assert not cached(case.sha256).exists()


def test_files_do_not_fill_the_disk(case: Case) -> None:
    cached(case.sha256).parent.mkdir(parents=True)
    for number in range(MOST_FILES + 3):
        cached(f"{number:064d}").write_bytes(b"")
    case.keep(case.file.read_bytes())
    kept = [path.stem for path in cached(case.sha256).parent.iterdir()]
    assert len(kept) == MOST_FILES
    assert case.sha256 in kept


@pytest.mark.parametrize("sha256", ["../../etc/passwd", "", "A" * 64, None, 3])
def test_a_name_that_is_no_hash_is_no_path(sha256: Any) -> None:
    with pytest.raises(ConfigError, match="must be a SHA-256"):
        cached(sha256)
