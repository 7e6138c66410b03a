"""Training of the last stage alone."""

import pytest
import timm
import torch
import torchvision.models
from torch import nn

from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from task.models.layers.backbone import without_last_linear
from task.training.worker import Worker
from task.tuning.last_stage import LastStage
from tests.conftest import CNN, SMALL, SMALL_RESNET, Train, sha256
from univarfl.inference.model import trained_model

TUNED = "tune=last_stage"


def worker_of(*words: str) -> Worker:
    return Worker(compose_experiment([*SMALL, *words, TUNED]).local())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (SMALL_RESNET, ("stages.2.", "projector.", "classifier.")),
        (CNN, ("encoder.15.", "encoder.16.", "encoder.18.", "encoder.19.", "encoder.21.",
               "encoder.22.", "projector.", "classifier.")),
        ((), ("encoder.3.", "projector.", "classifier.")),
        (
            ("model=torchvision", "model.architecture=shufflenet_v2_x0_5", "data.image_size=32"),
            ("encoder.stage4.", "encoder.conv5.", "classifier."),
        ),
    ],
)  # fmt: skip
def test_it_is_all_that_changes_and_is_sent(words: tuple[str, ...], parts: tuple[str]) -> None:
    worker = worker_of(*words)
    before = {name: value.clone() for name, value in worker.model.state_dict().items()}
    sent = worker.initial_weights()
    parameters = [name for name, _ in worker.model.named_parameters()]
    assert {n for n in parameters if n.startswith(parts)} == sent.keys() & {*parameters}
    assert not [part for part in parts if not any(name.startswith(part) for name in sent)]
    result = worker.train(sent, 1, 0)
    after = worker.model.state_dict()
    still = [name for name in before if name not in sent]
    assert all(torch.equal(after[name], before[name]) for name in still)  # statistics, too
    assert all(not torch.equal(result.weights[n], before[n]) for n in sent if "weight" in n)


def test_batch_norm_of_the_last_stage_uses_its_statistics() -> None:
    worker = worker_of(*SMALL_RESNET)
    worker.train(worker.initial_weights(), 1, 0)
    norms = [layer for layer in worker.model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert not any(layer.training for layer in norms)
    assert any(next(layer.parameters()).requires_grad for layer in norms)


class Whole(nn.Module):
    """A network as a backbone's names have it."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(1, 2)


@pytest.mark.parametrize(
    ("library", "name", "stage", "last"),
    [
        ("torchvision", "resnet18", "layer4", "layer4.1.bn2.bias"),
        ("torchvision", "efficientnet_b0", "features.7", "features.8.1.bias"),
        ("torchvision", "vit_b_16", "encoder.layers.encoder_layer_11", "encoder.ln.bias"),
        ("timm", "resnet18", "layer4", "layer4.1.bn2.bias"),
        ("timm", "tf_efficientnet_lite0", "blocks.6", "bn2.bias"),
        ("timm", "convnext_atto", "stages.3", "head.norm.bias"),
        ("timm", "vit_tiny_patch16_224", "blocks.11", "norm.bias"),
        ("timm", "densenet121", "features.denseblock4", "features.norm5.bias"),
        ("timm", "regnety_002", "s4", "s4.b7.conv3.bn.bias"),
    ],
)
def test_the_stage_of_libraries_networks(library: str, name: str, stage: str, last: str) -> None:
    with torch.device("meta"):
        if library == "timm":
            encoder = timm.create_model(name, num_classes=0)
        else:
            encoder = without_last_linear(torchvision.models.get_model(name), "")
        found = list(LastStage().trained(Whole(encoder)))
    assert found[0].startswith(f"encoder.{stage}.")
    assert f"encoder.{last}" in found
    before = [n for n, _ in Whole(encoder).named_parameters() if n not in found]
    assert not [name for name in before if name.startswith(f"encoder.{stage}.")]
    assert before


def test_a_network_without_stages_says_how_to_name_one() -> None:
    words = ("model=torchvision", "model.architecture=mobilenet_v3_small")
    with pytest.raises(ConfigError, match=r"tune.stage=NAME names .* encoder.features.12"):
        worker_of(*words)
    sent = worker_of(*words, "tune.stage=encoder.features.12").initial_weights()
    assert {name.rpartition(".features.12")[0] for name in sent} == {"encoder", ""}
    with pytest.raises(ConfigError, match=r"tune.stage=layer9: this network has no such module"):
        worker_of(*words, "tune.stage=layer9")
    with pytest.raises(ConfigError, match=r"tune=last_stage: finds no stage.*choose tune=all"):
        LastStage().trained(nn.Linear(2, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("federation.workers=2",), ("engine=flower", "federation.workers=2"), ("method=fedalign",),
        ("method=univarfl",), ("secure=masked", "num_clients=3"), ("after=finetune",),
    ],
)  # fmt: skip
def test_bits_over_engines_and_workers(train: Train, words: tuple[str, ...]) -> None:
    one = [word for word in words if not word.startswith(("engine", "federation"))]
    first = train(*SMALL_RESNET, TUNED, *["secure=rounded" if w == "secure=masked" else w
                                          for w in one])  # fmt: skip
    assert sha256(first) == sha256(train(*SMALL_RESNET, TUNED, *words))
    assert trained_model(first, "cpu").classes
