"""Networks of libraries and of other packages: backbones with a classifier of ours."""

import sys
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from client_app.session import Session
from server_app.aggregation.starting_weights import starting_weights
from server_app.config.composition import compose_experiment
from server_app.config.file_hash import with_hash
from server_app.runs import identity
from server_app.runs.records.run_record import read_record
from task import extensions
from task.data.batches import Normalisation
from task.errors import ConfigError, SiteError
from task.fingerprint import fingerprint, fingerprint_for
from task.given_weights import given_weights
from task.models.base import ModelSettings
from task.protocol.registration import RegistrationRequest
from task.rules import check_local_config
from task.training.worker import Worker, build_model
from tests.conftest import SMALL, Train, sha256
from tests.extension_package import forget_extensions
from univarfl.inference.model import trained_model

SHUFFLENET = ("model=torchvision", "model.architecture=shufflenet_v2_x0_5")
PLAIN = ("model=module", "model.target=hospital_extras.two_blocks:Plain", "model.head=fc")
SITE_WORDS = ("partition=sites", "partition.names=[north]", "data=folder", "data.classes=[cat,dog]")


def settings(*words: str) -> ModelSettings:
    return compose_experiment(words).network()


@pytest.mark.parametrize(
    ("words", "width"),
    [
        (SHUFFLENET, 1024),
        ((*SHUFFLENET, "model.projector=normalised", "model.features=24"), 24),
        (("model=timm", "model.architecture=test_resnet"), 96),
        (("model=timm", "model.architecture=test_vit"), 64),
        (("model=torchvision", "model.architecture=alexnet", "data.image_size=64"), 4096),
    ],
)
def test_features_of_a_backbone_are_the_classifiers_input(
    words: tuple[str, ...], width: int
) -> None:
    chosen = compose_experiment(words)
    network = chosen.network().build(1, 7).eval()
    size = chosen.data["image_size"]
    with torch.no_grad():
        out = network(torch.randn(2, 1, size, size))
    assert (out.logits.shape, out.features.shape) == ((2, 7), (2, width))
    assert torch.equal(out.logits, cast(nn.Linear, network.classifier)(out.features))
    assert out.maps is None


@pytest.mark.parametrize(
    "name", ["hf-hub:someone/model", "local-dir:/tmp", "resnet", "../resnet18"]
)
@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_only_registered_networks_are_built(library: str, name: str) -> None:
    """Timm would load other names from the network or from a file."""
    with pytest.raises(ConfigError, match=r"model.architecture=.*is no"):
        compose_experiment([f"model={library}", f'model.architecture="{name}"'])


@pytest.mark.parametrize(("size", "reason"), [(64, "must be data.image_size=32"), (10**5, "1024")])
def test_a_network_is_built_for_the_size_of_the_images(size: int, reason: str) -> None:
    """A site would compute an image of this size before it knows the number of features."""
    words = (*SHUFFLENET, "data.image_size=32", f"model.image_size={size}")
    with pytest.raises(ConfigError, match=rf"model.image_size={size}: .*{reason}"):
        check_local_config(compose_experiment(words).local())


def test_pixels_are_scaled_for_the_network() -> None:
    def constants(*words: str) -> object:
        return compose_experiment(words).local().mean_and_std

    colour = ("data=svhn", "model=timm", "model.architecture=tf_efficientnet_lite0")
    assert constants(*colour) == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    own = constants("data=svhn")
    assert constants(*colour, "model.normalisation=data") == own != constants(*colour)
    grey = constants(*SHUFFLENET, "data=digits")
    assert grey == (pytest.approx((0.449,)), pytest.approx((0.226,)))
    worker = Worker(compose_experiment([*SMALL, *SHUFFLENET]).local())
    assert isinstance(worker.images.normalised, Normalisation)
    assert worker.images.normalised.shift.item() == pytest.approx(-0.449 / 0.226)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("method=fedrcl",), "needs the network's levels, but model=torchvision has none"),
        (("method=fedalign",), "needs residual blocks, but model=torchvision has none"),
        (("model.norm=group",), "must be batch or fixed: the network has layers of its own"),
        (
            ("model.architecture=vit_b_16", "model.statistics=exact"),
            "this network has no batch norm",
        ),
        (("privacy=example", "method=fedavg"), "model.norm"),
    ],
)
def test_what_a_backbone_lacks_is_refused_by_name(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        compose_experiment([*SHUFFLENET, *words])


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_a_librarys_file_gives_the_backbone(tmp_path: Path, suffix: str) -> None:
    experiment = compose_experiment(SHUFFLENET)
    network = build_model(experiment.local(), 32, 1, 10)
    theirs = {
        name.removeprefix("encoder."): torch.full_like(value, 2)
        for name, value in network.state_dict().items()
        if name.startswith("encoder.") and not name.endswith("num_batches_tracked")
    }
    theirs["fc.weight"] = torch.zeros(1000, 1024)
    path = tmp_path / f"weights.{suffix}"
    if suffix == "pth":
        torch.save({"state_dict": theirs, "epoch": 3}, path)
    else:
        save_file(theirs, path)
    given = given_weights(with_hash({"weights": str(path)}))
    assert given is not None
    weights, notes = starting_weights(given, network.state_dict())
    assert notes[0].endswith("the layers after the backbone keep their initial weights")
    assert notes[1].endswith("encoder.fc.weight")
    for name, value in network.state_dict().items():
        new = name.startswith("encoder.") and not name.endswith("num_batches_tracked")
        assert torch.equal(weights[name], torch.full_like(value, 2) if new else value), name


class Opens:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("/dev/null", "w")


@pytest.mark.parametrize("content", [{"a": Opens()}, {}, [1], {"epoch": 1}])
def test_a_pickle_that_holds_no_weights_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "weights.pth")
    with pytest.raises(ConfigError, match="is not a file of weights"):
        compose_experiment([*SHUFFLENET, f"model.weights={tmp_path / 'weights.pth'}"])


@pytest.mark.usefixtures("installed")
class TestPackage:
    """Networks of a package."""

    def test_its_model_trains(self, train: Train) -> None:
        run = train("model=two_blocks", "rounds=1")
        assert "hospital_extras.two_blocks" in read_record(run).components
        assert trained_model(run, "cpu").classes

    def test_a_module_of_ones_own_trains_to_the_same_bits(self, train: Train) -> None:
        """It has dropout, whose draws belong to a client and round."""
        first = train(*PLAIN, "rounds=1", "federation.workers=1")
        second = train(*PLAIN, "rounds=1", "federation.workers=2")
        assert sha256(first) == sha256(second)
        assert trained_model(first, "cpu").classes

    @pytest.mark.parametrize(
        ("target", "reason"),
        [
            ("nowhere_at_all:Net", "must be PACKAGE.MODULE:NAME, and Python must find the package"),
            ("hospital_extras.two_blocks", "must be PACKAGE.MODULE:NAME"),
            ("hospital_extras.nothing:Net", "cannot be imported"),
            ("hospital_extras.two_blocks:nothing", "cannot be imported"),
            ("hospital_extras.two_blocks:number", "must return an nn.Module, and returns int"),
            (
                "hospital_extras.two_blocks:maps",
                r"fails on images .* flatten or pool",
            ),
        ],
    )
    def test_what_is_no_network_is_refused(self, target: str, reason: str) -> None:
        def build(*words: str) -> None:
            build_model(compose_experiment(words).local(), 32, 1, 10)

        with pytest.raises(ConfigError, match=reason):
            build("model=module", f"model.target={target}", "model.head=null")

    def test_a_module_without_a_place_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "nowhere", ModuleType("nowhere"))  # as __main__ can be
        with pytest.raises(ConfigError, match=r"must be PACKAGE\.MODULE:NAME"):
            settings("model=module", "model.target=nowhere:Net")

    def test_another_head_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"head=tail: must name a linear layer.*fc"):
            settings(*PLAIN[:2], "model.head=tail").build(1, 10)

    def test_its_code_is_in_the_identity(self, hospital_package: Path) -> None:
        def hashes() -> tuple[str, str]:
            fingerprint.cache_clear()
            identity.component_hash.cache_clear()
            experiment = compose_experiment(PLAIN)
            config = experiment.model_dump()
            whole = identity.identity_of(config, identity.code_of(config))
            return fingerprint_for(experiment.local().model_dump_json()), whole

        before = hashes()
        (hospital_package / "hospital_extras" / "helper.py").write_text("VALUE = 1\n")
        try:
            after = hashes()
        finally:
            (hospital_package / "hospital_extras" / "helper.py").unlink()
            fingerprint.cache_clear()
        assert before[0] != after[0]
        assert before[1] != after[1]

    @pytest.mark.parametrize("words", [PLAIN, ("model=two_blocks",)])
    def test_a_site_runs_it_only_if_its_owner_lists_it(self, words: tuple[str, ...]) -> None:
        text = compose_experiment([*SITE_WORDS, *words]).local().model_dump_json()
        for name in [name for name in sys.modules if name.startswith("hospital_extras")]:
            del sys.modules[name]
        request = RegistrationRequest(run="run", experiment=text, fingerprint=fingerprint_for(text))
        session = Session(request, {"site": "north", "data-dir": "/data"})
        with pytest.raises(SiteError, match="does not run code of the package 'hospital-extras'"):
            _ = session.worker
        assert "hospital_extras.two_blocks" not in sys.modules

    def test_a_site_runs_it_only_once_its_owner_approves(self, tmp_path: Path) -> None:
        """Whether a network has batch norm is known when it is built, and settings depend on it."""
        words = [*SITE_WORDS, *PLAIN, "model.statistics=exact"]
        text = compose_experiment(words).local().model_dump_json()
        forget_extensions()
        request = RegistrationRequest(run="run", experiment=text, fingerprint=fingerprint_for(text))
        own = {"data-dir": "/data", "require-approval": True, "memory-dir": str(tmp_path)}
        session = Session(request, {"site": "north", "extensions": "hospital-extras", **own})
        with pytest.raises(SiteError, match="has not approved this experiment"):
            _ = session.config
        assert "hospital_extras.two_blocks" not in sys.modules


def test_a_single_file_is_its_own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my_networks.py"
    file.write_text("import torch\n\ndef net():\n    return torch.nn.Flatten()\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = extensions.target_of({"name": "module", "target": "my_networks:net"})
    assert found is not None
    assert (found.package, found.directory) == ("my-networks", file)
    before = found.content()
    file.write_text(file.read_text() + "\n")
    assert found.content() != before


def test_dropout_draws_from_the_run() -> None:
    """The draws depend on client and round, not on what the process has drawn before."""
    words = [*SMALL, "model=module", f"model.target={__name__}:Dropping", "model.head=fc"]
    worker = Worker(compose_experiment(words).local())
    weights = worker.initial_weights()

    def trained(client: int) -> torch.Tensor:
        return worker.train(weights, 1, client).weights["classifier.weight"]

    first = trained(0)
    torch.rand(3)
    assert torch.equal(trained(0), first)


class Dropping(nn.Sequential):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.5))
        self.fc = nn.Linear(48, 3)
