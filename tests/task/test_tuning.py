"""What is trained of a network, what is frozen, and what is sent."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.data.image_store.store import store_root
from task.errors import ConfigError
from task.given_weights import MODEL, cached
from task.machine.files import SpaceError
from task.models.layers.backbone import BackboneNetwork
from task.training.features import FrozenFeatures
from task.training.worker import Worker
from tests.conftest import SMALL, SMALL_CNN, SMALL_RESNET, Train, rows, sha256
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.inference.model import trained_model
from univarfl.records.reader import read_run

OWN_NETWORK = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc({factor} * self.conv(x).mean((2, 3)))
"""
HEAD = ("tune=head", "model.projector=none")


def worker_of(*words: str) -> Worker:
    return Worker(compose_experiment([*SMALL, *words]).local())


@pytest.mark.parametrize(
    ("tune", "kinds"),
    [
        ("head", {"projector", "classifier"}),
        ("bias", {"projector", "classifier", "bias"}),
        ("norm", {"projector", "classifier", "norm"}),
    ],
)
def test_what_is_trained_changes_and_is_all_that_is_sent(tune: str, kinds: set[str]) -> None:
    worker = worker_of(*SMALL_RESNET, f"tune={tune}")
    norms = {
        name for name, layer in worker.model.named_modules() if isinstance(layer, nn.BatchNorm2d)
    }

    def kind(name: str) -> str:
        top, (layer, _, entry) = name.partition(".")[0], name.rpartition(".")
        if top in ("projector", "classifier"):
            return top
        if layer in norms and tune == "norm":
            return "norm"
        return entry

    before = {name: value.clone() for name, value in worker.model.state_dict().items()}
    parameters = dict(worker.model.named_parameters())
    sent = worker.initial_weights()
    assert {kind(name) for name in sent} == kinds
    assert sent.keys() & parameters.keys() == {name for name in parameters if kind(name) in kinds}
    statistics = sent.keys() - parameters.keys()
    assert {name.partition(".")[0] for name in statistics} == {"projector"}  # of its batch norm
    result = worker.train(sent, 1, 0)
    assert result.weights.keys() == sent.keys()
    for name, value in worker.model.state_dict().items():
        if name not in sent:
            assert torch.equal(value, before[name]), name  # also batch norm's statistics
    assert any(not torch.equal(result.weights[name], before[name]) for name in sent)


def test_a_frozen_layer_runs_in_evaluation_mode_even_after_a_method_froze_another() -> None:
    worker = worker_of(*SMALL_RESNET, "tune=norm", "method=fedrep", "local_epochs=2")
    worker.train(worker.initial_weights(), 1, 0)
    trained = {name for name, value in worker.model.named_parameters() if value.requires_grad}
    parameters = dict(worker.model.named_parameters()).keys()
    assert trained == {*worker.initial_weights(), *worker.personal.names} & parameters
    layers = [layer for layer in worker.model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert not any(layer.training for layer in layers)


@pytest.mark.parametrize("words", [("method=fedper", *HEAD), ("method=fedbn", *HEAD)])
def test_a_part_of_the_client_that_leaves_nothing_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"leaves nothing|has no layer that it could"):
        worker_of("model=cnn", "data.image_size=32", *words)


def test_statistics_that_do_not_change_are_not_measured_and_need_no_privacy() -> None:
    with pytest.raises(ConfigError, match="is for a network that is trained as a whole"):
        compose_experiment(["tune=head", "model.statistics=exact"])
    compose_experiment(["tune=norm", "model.projector=none", "strategy=dp_fixed", "method=fedavg"])
    with pytest.raises(ConfigError, match="batch norm reveal"):
        compose_experiment(["strategy=dp_fixed", "method=fedavg"])


@pytest.fixture
def base(train: Train) -> Path:
    """Return a run whose model others start from."""
    return train(*SMALL_CNN, "rounds=1", "run_id=base")


def test_a_run_on_a_frozen_network_keeps_it_and_records_what_it_sends(
    train: Train, base: Path
) -> None:
    run = train(*SMALL_CNN, "tune=head", f"model.weights={base}", "rounds=1")
    before, after = load_file(base / "model.safetensors"), load_file(run / "model.safetensors")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name.partition(".")[0] for name in moved} == {"projector", "classifier"}
    record = read_entries(run)
    assert record["request_bytes"] < 0.9 * read_entries(base)["request_bytes"]
    assert "statistics" not in record
    assert trained_model(run, "cpu").classes
    (untrained,) = [
        row["value"] for row in rows(run, "rounds.csv")
        if (row["round"], row["split"], row["metric"]) == ("0", "test", "accuracy")
    ]  # fmt: skip
    (first,) = [
        row["value"] for row in rows(base, "rounds.csv")
        if (row["round"], row["split"], row["metric"]) == ("1", "test", "accuracy")
    ]  # fmt: skip
    assert untrained == first


def test_models_of_kept_rounds_are_measured_with_what_is_frozen(train: Train, base: Path) -> None:
    words = (*SMALL_CNN, "tune=head", f"model.weights={base}", "rounds=1")
    run = train(*words, "watch.models_every=1")
    analysed = AnalysedRun(read_run(run), 10)
    ((_, models),) = analysed.rounds()
    measured, final = analysed.model(models.aggregated).state_dict(), load_file(run / MODEL)
    assert all(torch.equal(measured[name], value) for name, value in final.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("federation.workers=2",), ("engine=flower", "federation.workers=2"), ("method=scaffold",),
        ("strategy=fedbuff", "strategy.buffer_size=2", "clock=virtual"), ("after=finetune",),
        ("method=fedrep", "tune=norm", "local_epochs=2"), ("after=ccvr",),
        ("after=feddf",), ("watch.models_every=1",),
    ],
)  # fmt: skip
def test_bits_over_engines_workers_and_a_resumed_run(
    train: Train, base: Path, words: tuple[str, ...]
) -> None:
    frozen = (*SMALL_CNN, "tune=head", f"model.weights={base}", "rounds=2")
    one = [word for word in words if not word.startswith(("engine", "federation"))]
    assert sha256(train(*frozen, *one)) == sha256(train(*frozen, *words))


@pytest.mark.slow
def test_masks_hide_what_is_trained(train: Train, base: Path) -> None:
    frozen = (*SMALL_CNN, "tune=head", f"model.weights={base}", "rounds=2", "num_clients=3")
    masked, rounded = train(*frozen, "secure=masked"), train(*frozen, "secure=rounded")
    assert sha256(masked) == sha256(rounded)


@pytest.mark.slow
def test_a_worker_without_the_file_says_where_it_goes(train: Train, base: Path) -> None:
    words = [*SMALL_CNN, "tune=head", f"model.weights={base}"]
    local = compose_experiment(words).local()
    place = cached(sha256(base))
    content = place.read_bytes()
    place.unlink()
    try:
        with pytest.raises(ConfigError, match="put the coordinator's file of weights there"):
            Worker(local)
        place.write_bytes(content[:-1] + b"0")
        with pytest.raises(ConfigError, match="has changed; delete it"):
            Worker(local)
    finally:
        place.write_bytes(content)


BACKBONE = ("model=torchvision", "model.architecture=shufflenet_v2_x0_5", "tune=head", "seed=3")


class TestFeatures:
    """Features of a frozen backbone, which are computed once."""

    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path / "cache"))

    def directory(self) -> Path:
        (found,) = (store_root() / "features").iterdir()
        return found

    def test_they_are_those_of_the_network_and_do_not_depend_on_who_asks_first(self) -> None:
        worker = worker_of(*BACKBONE)
        images = worker.images
        assert isinstance(images, FrozenFeatures)
        some = torch.tensor([400, 3, 77])
        found, labels = images[some]
        with torch.no_grad():
            network = worker.model.eval()
            assert isinstance(network, BackboneNetwork)
            pixels = images.normalised(images.pixels(some))
            expected = network.encoder(pixels.expand(-1, 3, -1, -1))
            assert torch.allclose(found, expected, atol=1e-5)
            assert torch.equal(network(found).features, found)
        assert torch.equal(labels, images.labels(some))
        written = self.directory() / "features.npy"
        before = (written.read_bytes(), images[torch.arange(440)][0])
        shutil.rmtree(self.directory())
        other = worker_of(*BACKBONE, "partition=dirichlet", "num_clients=2")
        assert torch.equal(other.images[torch.arange(440).flip(0)][0].flip(0), before[1])
        assert torch.equal(other.images[some][0], found)

    def test_a_process_uses_what_another_has_finished_and_no_half_chunk(self) -> None:
        first = worker_of(*BACKBONE)
        everything = torch.arange(440)
        features = first.images[everything][0].clone()
        (self.directory() / "1.done").unlink()  # as if the process had been killed then
        rows = np.lib.format.open_memmap(self.directory() / "features.npy", mode="r+")
        rows[256:300] = 0  # within the second chunk
        rows.flush()
        second = worker_of(*BACKBONE)
        assert torch.equal(second.images[everything][0], features)
        assert not [path for path in self.directory().iterdir() if path.suffix == ".partial"]

    def test_no_other_user_reads_them(self) -> None:
        images = worker_of(*BACKBONE).images
        assert images[torch.tensor([3])][0].shape[0] == 1
        for place in (self.directory(), self.directory().parent, store_root()):
            assert place.stat().st_mode & 0o077 == 0

    def test_they_leave_free_what_the_owner_wants_whenever_they_are_written(self) -> None:
        """The file is sparse, so the space is not taken before."""
        images = worker_of(*BACKBONE).images
        assert isinstance(images, FrozenFeatures)
        images._keep_free = 10**9
        with pytest.raises(SpaceError, match="must stay free"):
            images[torch.tensor([3])]

    @pytest.mark.parametrize("words", [("seed=4",), ("data.image_size=24",)])
    def test_other_weights_or_images_have_features_of_their_own(self, words: tuple[str]) -> None:
        worker_of(*BACKBONE)
        worker_of(*BACKBONE, *words)
        assert len(list((store_root() / "features").iterdir())) == 2

    def test_other_code_of_ones_own_network_has_features_of_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        words = ("model=module", "model.target=own_blocks:Net", "model.head=fc", "tune=head")
        for factor in (1, 100):
            (tmp_path / "own_blocks.py").write_text(OWN_NETWORK.format(factor=factor))
            sys.modules.pop("own_blocks", None)
            worker_of(*words)
        assert len(list((store_root() / "features").iterdir())) == 2

    @pytest.mark.parametrize("word", ["augmentation=crop_flip", "method=mixup", "tune=norm"])
    def test_images_that_change_have_none(self, word: str) -> None:
        assert not isinstance(worker_of(*BACKBONE, word).images, FrozenFeatures)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "words",
        [("federation.workers=2",), ("engine=flower", "federation.workers=2"), ("method=moon",)],
    )
    def test_the_bits_are_equal(self, train: Train, words: tuple[str, ...]) -> None:
        one = [word for word in words if not word.startswith(("engine", "federation"))]
        first = sha256(train(*BACKBONE, *one))
        shutil.rmtree(store_root() / "features")
        assert sha256(train(*BACKBONE, *words)) == first
