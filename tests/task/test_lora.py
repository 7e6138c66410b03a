"""Training of low-rank adapters."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import timm
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from task.models.base import Network
from task.models.layers.low_rank import LowRank, merged, takes_adapter
from task.optim.parameters import trained_parameters
from task.seeding import torch_generator
from task.training.worker import Worker
from task.tuning.lora import Lora
from tests.conftest import CNN, SMALL, SMALL_CNN, SMALL_RESNET, Train, rows, sha256
from tests.interruption import ended_in
from univarfl.analysis.analysed_run import AnalysedRun
from univarfl.inference.export import export
from univarfl.inference.model import trained_model
from univarfl.records.reader import read_run

TUNED = "tune=lora"
VIT = ("model=timm", "model.architecture=test_vit", "data.image_size=32", "tune.rank=4")
LITE = ("model=timm", "model.architecture=tf_efficientnet_lite0", "data.image_size=32")
PRIVATE = (
    "privacy=example", "method=fedavg", "privacy.noise_multiplier=0", "privacy.sampling_rate=1",
    "optim.momentum=0", "optim.weight_decay=0", "optim.lr=0.5", "batch_size=7",
)  # fmt: skip


def worker_of(*words: str) -> Worker:
    return Worker(compose_experiment([*SMALL, TUNED, *words]).local())


@pytest.mark.parametrize("words", [CNN, (*VIT, "tune.rank=2")])
def test_adapters_and_head_are_all_that_moves_and_is_sent(words: tuple[str, ...]) -> None:
    worker = worker_of(*words)
    before = {name: value.clone() for name, value in worker.model.state_dict().items()}
    sent = worker.initial_weights()
    adapters = {name for name in sent if ".lora_" in name}
    tops = {name.partition(".")[0] for name in sent.keys() - adapters}
    assert tops <= {"projector", "classifier"}
    assert {name.rpartition(".lora_")[2] for name in adapters} == {"down.weight", "up.weight"}
    result = worker.train(sent, 1, 0)
    after = worker.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before if name not in sent)
    ups = [name for name in adapters if name.endswith("up.weight")]
    assert all(before[name].count_nonzero() == 0 for name in ups)
    assert all(result.weights[name].count_nonzero() for name in ups)
    second = worker.train(result.weights, 2, 0).weights  # with B = 0, A has no gradient
    assert all(not torch.equal(second[name], result.weights[name]) for name in adapters)
    norms = [layer for layer in worker.model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert not any(layer.training for layer in norms)


def draw_adapters(model: nn.Module) -> None:
    """Give each adapter a product that is not 0."""
    for layer in model.modules():
        if isinstance(layer, LowRank):
            nn.init.normal_(layer.lora_up.weight, std=0.05)


@pytest.mark.parametrize("words", [CNN, SMALL_RESNET, VIT, LITE])
def test_merged_equals_unmerged(words: tuple[str, ...]) -> None:
    local = compose_experiment([*SMALL, TUNED, *words]).local()
    size = local.source().image_size
    plain = local.network().build(1, 10).double().eval()
    adapted = copy.deepcopy(plain)
    local.tuning().adapt(adapted.float(), (1, 1, size, size), torch_generator(0, "tune"))
    x = torch.randn(3, 1, size, size, dtype=torch.float64)
    start = adapted.double().eval()(x).logits
    assert torch.allclose(start, plain(x).logits, atol=1e-6)
    draw_adapters(adapted)
    expected = adapted(x).logits
    assert not torch.allclose(expected, start, rtol=1e-3)
    weights = merged(adapted.state_dict())
    assert weights.keys() == plain.state_dict().keys()
    plain.load_state_dict(weights)
    assert torch.allclose(plain(x).logits, expected, atol=1e-6)


def test_the_product_is_that_of_its_definition() -> None:
    generator = torch.Generator().manual_seed(1)
    layer = nn.Linear(5, 4)
    adapted = LowRank(layer, 2, 6.0, generator)
    nn.init.normal_(adapted.lora_up.weight)
    x = torch.randn(3, 5)
    expected = layer(x) + 6 / 2 * x @ adapted.lora_down.weight.T @ adapted.lora_up.weight.T
    assert torch.allclose(adapted(x), expected, atol=1e-6)


def one_by_one(worker: Worker, weights: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Yield the gradient of each image of client 0, by autograd for one image."""
    worker.load(weights)
    model = worker.model.eval()
    parameters = trained_parameters(model)
    for position in worker.data.clients[0].train:
        x, y = worker.images[torch.tensor([position])]
        loss = F.cross_entropy(model(x).logits, y)
        found = torch.autograd.grad(loss, list(parameters.values()))
        yield dict(zip(parameters, found, strict=True))


@pytest.mark.parametrize(
    "words",
    [
        ("model=cnn", "data.image_size=32", "model.norm=group"),
        ("model=cnn", "data.image_size=32", "model.projector=none"),  # with frozen batch norm
        VIT,
        pytest.param((*LITE, "data.image_size=32"), marks=pytest.mark.slow),
    ],
)
def test_private_training_clips_the_gradient_of_each_image(words: tuple[str, ...]) -> None:
    """Adapters have gradients of single images: they are neither lost nor those of a batch."""
    words = ("num_clients=36", *words)
    worker = worker_of(*PRIVATE, *words)
    draw_adapters(worker.model)
    state = worker.model.state_dict()
    start = {name: state[name].clone() for name in worker.initial_weights()}
    gradients = list(one_by_one(worker, start))
    norms = torch.tensor([torch.stack([g.norm() for g in f.values()]).norm() for f in gradients])
    most = float(norms.median())
    trainer = worker_of(*PRIVATE, *words, f"privacy.clipping_norm={most}")
    after = trainer.train(start, 1, 0).weights
    clipped = (most / norms).clamp(max=1)
    assert (clipped < 1).any()
    for name in gradients[0]:
        each = torch.stack([found[name] for found in gradients])
        expected = -0.5 / 7 * torch.tensordot(clipped, each, dims=1)
        change = after[name] - start[name]
        assert float(expected.norm()) > 0
        assert float((change - expected).norm()) < 0.02 * float(expected.norm()), name


@pytest.mark.parametrize("tune", ["norm", "last_stage", "bias"])
def test_batch_norm_that_is_trained_has_no_gradient_of_one_image(tune: str) -> None:
    with pytest.raises(ConfigError, match=r"tune=lora model\.projector=none"):
        compose_experiment(["privacy=example", "method=fedavg", f"tune={tune}", *CNN])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("tune.rank=0",), "tune.rank=0: must be at least 1"),
        (("tune.alpha=0",), "tune.alpha=0.*must be above 0"),
        (("tune.targets=[]",), r"tune.targets=\[\]: must name a layer"),
        (("tune.rank=1000",), "tune.rank=1000: no layer before the head is larger"),
        (("model=linear", "model.features=64"), "use tune=head"),
        (("tune.targets=[qkv]",), "tune.targets=qkv: is no linear layer.*some are encoder.0, enc"),
        (("method=fedalign", *SMALL_RESNET), "method=fedalign: cuts the channels .*last_stage"),
        (("method=gradaug", *SMALL_RESNET), "method=gradaug: cuts the channels of layers"),
        (("method=fedbn", "model.projector=none", *CNN), "has no layer that it could keep"),
    ],
)
def test_what_cannot_be_adapted_is_refused(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        worker_of(*words)


def adapted_layers(name: str, size: int, **settings: object) -> set[str]:
    encoder = timm.create_model(name, num_classes=0)
    Lora(2, 2.0, **settings).adapt(encoder, (1, 3, size, size), torch.Generator())  # type: ignore[arg-type]
    found = {key for key, layer in encoder.named_modules() if isinstance(layer, LowRank)}
    return {key.rpartition("blocks.0.")[2] for key in found if ".0." in key or "." not in key}


def test_layers_with_an_adapter_are_those_whose_output_is_linear_in_their_weight() -> None:
    assert adapted_layers("test_vit", 160) == {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"}
    assert adapted_layers("test_vit", 160, targets=["qkv", "blocks.0.mlp.fc1"]) == {
        "attn.qkv", "mlp.fc1",
    }  # fmt: skip
    attention = nn.MultiheadAttention(8, 2)
    assert not takes_adapter(attention.out_proj)  # its weight is taken out, too
    assert not takes_adapter(nn.Conv2d(8, 8, 3, groups=8))


def test_draws_depend_on_the_seed_alone() -> None:
    def drawn(*words: str) -> Tensor:
        torch.rand(3)
        return worker_of(*words).initial_weights()["encoder.3.lora_down.weight"]

    assert torch.equal(drawn(), drawn("partition=dirichlet", "federation.workers=2"))
    assert not torch.equal(drawn(), drawn("seed=5"))


@pytest.fixture
def run(train: Train) -> Path:
    """Return a run with adapters."""
    return train(*SMALL_CNN, TUNED, "watch.models_every=1", "model.projector=none")


def test_its_model_predicts_exports_and_is_analysed(run: Path, tmp_path: Path) -> None:
    model = trained_model(run, "cpu")
    assert not any(isinstance(layer, LowRank) for layer in model.classifier.modules())
    analysed = AnalysedRun(read_run(run), 20)
    with torch.no_grad():
        images = analysed.worker.images
        x, _ = images[torch.arange(20)]
        unmerged = cast(Network, analysed.model())(x).logits
        whole = cast(Network, model.classifier.network)(x).logits
    assert any(isinstance(layer, LowRank) for layer in analysed.model().modules())
    assert torch.allclose(whole, unmerged, atol=1e-6)
    export(run, tmp_path / "exported", ["pt2"])
    assert (tmp_path / "exported" / "model.pt2").exists()
    assert read_entries(run)["request_bytes"] < (run / "model.safetensors").stat().st_size


def test_a_run_that_starts_from_it_has_the_merged_weights(run: Path, train: Train) -> None:
    words = (*SMALL_CNN, f"model.weights={run}", "model.projector=none", "rounds=1")
    expected = merged(load_file(run / "model.safetensors"))
    worker = Worker(compose_experiment([*words, "tune=head"]).local())
    state = worker.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in expected.items() if "enc" in name)
    (last,) = [
        row["value"] for row in rows(run, "rounds.csv")
        if (row["round"], row["split"], row["metric"]) == ("2", "test", "accuracy")
    ]  # fmt: skip
    for tune in ("all", "lora"):
        second = train(*words, f"tune={tune}")
        (first,) = [
            row["value"] for row in rows(second, "rounds.csv")
            if (row["round"], row["split"], row["metric"]) == ("0", "test", "accuracy")
        ]  # fmt: skip
        assert first == last
        assert trained_model(second, "cpu").classes


def test_a_file_without_a_part_of_an_adapter_is_refused(run: Path, tmp_path: Path) -> None:
    weights = load_file(run / "model.safetensors")
    del weights["encoder.15.lora_up.weight"]
    save_file(weights, tmp_path / "half.safetensors")
    with pytest.raises(ConfigError, match="is not a file of weights"):
        compose_experiment([*SMALL_CNN, f"model.weights={tmp_path / 'half.safetensors'}"])


def vit_file(place: Path, size: int) -> Path:
    """Return a file of weights of a transformer of timm, with timm's names."""
    torch.manual_seed(7)
    vit = timm.create_model("vit_tiny_patch16_224", img_size=size)
    save_file(vit.state_dict(), place / "vit.safetensors")
    return place / "vit.safetensors"


@pytest.mark.slow
def test_a_vision_transformer_on_small_images(train: Train, tmp_path: Path) -> None:
    vit = (*SMALL, "model=timm", "model.architecture=vit_tiny_patch16_224", "data.image_size=32")
    weights = vit_file(tmp_path, 32)
    words = (*vit, TUNED, "tune.rank=4", f"model.weights={weights}", "optim.lr=0.01")
    run = train(*words, "federation.workers=2")
    assert sha256(run) == sha256(train(*words))
    record = read_entries(run)
    assert record["config"]["model"]["image_size"] == 32
    assert record["request_bytes"] < 800_000  # of 22 MB
    frozen = load_file(run / "model.safetensors")
    base = frozen["encoder.blocks.0.attn.qkv.lora_base.weight"]
    assert torch.equal(base, load_file(weights)["blocks.0.attn.qkv.weight"])
    assert trained_model(run, "cpu").classes
    with pytest.raises(ConfigError, match=r"encoder\.pos_embed.*data\.image_size"):
        train(*words, "data.image_size=64")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("federation.workers=2",), ("engine=flower", "federation.workers=2"), ("method=scaffold",),
        ("after=finetune",), ("after=ccvr",),
        ("after=feddf",), ("method=fedper",), ("strategy=fedadam",), ("optim=adamw",),
        ("method=univarfl",), ("method=fedsol",), ("runtime=compiled",),
        ("privacy=client", "secure=masked", "model.projector=none", "privacy.reproducible=true"),
    ],
)  # fmt: skip
def test_bits_over_engines_and_workers(train: Train, words: tuple[str, ...]) -> None:
    one = [word for word in words if not word.startswith(("engine", "federation"))]
    first = train(*SMALL_CNN, TUNED, *one)
    assert sha256(first) == sha256(train(*SMALL_CNN, TUNED, *words))


@pytest.mark.slow
def test_masks_hide_adapters(train: Train) -> None:
    words = (*SMALL_CNN, TUNED, "num_clients=3")
    assert sha256(train(*words, "secure=masked")) == sha256(train(*words, "secure=rounded"))


@pytest.mark.slow
def test_a_resumed_run_has_the_same_bits(train: Train, tmp_path: Path) -> None:
    words = (*SMALL_CNN, TUNED, f"output_dir={tmp_path}", "optim.keep_momentum=true")
    whole = train(*words, "run_id=whole")
    with ended_in(2), pytest.raises(KeyboardInterrupt):
        train(*words, "run_id=ended")
    train(*whole_words([f"resume={tmp_path / 'ended'}"]))
    assert sha256(tmp_path / "ended") == sha256(whole)


@pytest.mark.slow
def test_the_curvature_of_a_transformer_is_measured(train: Train) -> None:
    run = train(*SMALL, *VIT, TUNED, "rounds=1")
    assert all(value > 0 for value in AnalysedRun(read_run(run), 2).eigenpairs.values)
