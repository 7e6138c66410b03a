"""Networks: shapes, narrower versions, dropped blocks, normalisation."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import resnet18

from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from task.models.base import Encoding, ModelSettings, Network, checked_network
from task.models.cnn import Cnn
from task.models.layers.narrow import kept, narrow
from task.models.layers.norm import Norm
from task.models.layers.position import Position, wave
from task.models.layers.residual import ResidualNet
from task.models.lenet import mean_pooled
from task.models.linear import LinearSettings
from task.models.mlp import Mlp
from task.models.resnet18 import ResNet18Settings
from task.models.resnet56 import ResNet56Settings

MODELS = choices()["model"]
OTHERS = (  # without our normalisation layers
    "lenet", "linear", "mlp", "module", "timm", "torchvision",
)  # fmt: skip


def settings(name: str, *overrides: str) -> ModelSettings:
    words = [f"model={name}", *overrides]
    return compose_experiment(words).local().network()


def small(norm: Norm = "batch") -> ResidualNet:
    """Return a network whose residual branches are not 0."""
    model = ResNet56Settings(32, norm).build(1, 5)
    for block in model.blocks():
        nn.init.ones_(block.last_norm.weight)
    return model


def test_the_linear_model_is_one_layer_on_the_pooled_pixels() -> None:
    model = settings("linear", "model.features=64").build(3, 7)
    assert sum(value.numel() for value in model.parameters()) == 3 * 64 * 7 + 7
    for size in (8, 28):
        x = torch.randn(2, 3, size, size)
        out = model(x)
        assert (out.logits.shape, out.features.shape) == ((2, 7), (2, 3 * 64))
        assert out.maps.shape == (2, 3, 8, 8)
    small = torch.randn(2, 3, 8, 8)
    assert torch.equal(model(small).features, small.flatten(1))


def test_the_linear_model_refuses_what_is_not_there() -> None:
    with pytest.raises(ConfigError, match="must be a square number, such as 784"):
        settings("linear", "model.features=776")
    for name in ("linear", "lenet"):
        with pytest.raises(ConfigError, match="has no normalisation"):
            settings(name, "model.norm=batch")


def test_lenet_has_the_parameters_of_niid_bench() -> None:
    small, colour = settings("lenet").build(1, 10), settings("lenet", "model.map_size=5")
    assert sum(value.numel() for value in small.parameters()) == 44_426
    assert sum(value.numel() for value in colour.build(3, 10).parameters()) == 62_006
    for size in (16, 28, 40):
        out = small(torch.randn(2, 1, size, size))
        assert (out.logits.shape, out.features.shape) == ((2, 10), (2, 84))
    for shape, size in (((5, 5), 4), ((1, 1), 4), ((7, 3), 2), ((13, 20), 5)):
        maps = torch.randn(2, 3, *shape)
        expected = torch.nn.functional.adaptive_avg_pool2d(maps, size)
        assert torch.allclose(mean_pooled(maps, size), expected, atol=1e-6)
    with pytest.raises(ConfigError, match="map_size=0: must be from 1 to 64"):
        settings("lenet", "model.map_size=0")


def test_the_linear_model_can_end_in_a_sigmoid() -> None:
    x = torch.randn(2, 3, 8, 8)
    torch.manual_seed(0)
    plain = settings("linear", "model.features=64").build(3, 7)(x)
    torch.manual_seed(0)
    squashed = settings("linear", "model.features=64", "model.sigmoid=true").build(3, 7)(x)
    torch.testing.assert_close(squashed.logits, 1 / (1 + torch.exp(-plain.logits)))
    assert torch.equal(squashed.features, plain.features)


def test_each_hidden_layer_of_the_mlp_is_a_level() -> None:
    model = Mlp(5, 3, [8, 4], "tanh")
    model.with_levels = True
    out = model(torch.randn(6, 5, 1, 1))
    assert [tuple(level.shape) for level in out.levels] == [(6, 8), (6, 4)]
    assert torch.equal(out.features, out.levels[-1].tanh())
    assert (out.logits.shape, out.maps.shape) == ((6, 3), (6, 4, 1, 1))
    assert torch.equal(out.logits, model.classifier(out.features))


@pytest.mark.parametrize("method", ["freeze", "moon", "fedprox+moon"])
def test_the_linear_model_refuses_methods_that_train_features(method: str) -> None:
    with pytest.raises(ConfigError, match="classifier, but model=linear has none"):
        settings("linear", f"method={method}")


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in OTHERS])
class TestEveryModel:
    def test_answers_from_its_least_image_size_on(self, name: str, norm: str) -> None:
        given = settings(name, f"model.norm={norm}")
        model = given.build(3, 7)
        for size in (given.least_image_size, given.least_image_size + 5):
            out = model(torch.randn(2, 3, size, size))
            assert out.logits.shape == (2, 7)
            assert out.features.shape == (2, given.features)
            assert out.maps.dim() == 4
            assert (out.stage_input is None) != given.residual

    def test_ends_in_a_projector_and_a_classifier(self, name: str, norm: str) -> None:
        model = settings(name, f"model.norm={norm}").build(3, 7)
        assert isinstance(model.classifier, nn.Linear)
        assert model.classifier.out_features == 7
        parts = [name for name, _ in model.named_modules() if name.startswith("projector.")]
        assert len(parts) == 6

    def test_group_norm_keeps_no_statistics(self, name: str, norm: str) -> None:
        model = settings(name, f"model.norm={norm}").build(3, 7)
        assert bool(list(model.buffers())) == (norm == "batch")


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet56"])
def test_residual_branches_start_at_0(name: str) -> None:
    model = settings(name).build(3, 7)
    assert isinstance(model, ResidualNet)
    blocks = model.blocks()
    assert len(blocks) == {"resnet18": 8, "resnet50": 16, "resnet56": 18}[name]
    for block in blocks:
        assert not block.last_norm.weight.any()


def test_resnet18_for_imagenet_is_torchvisions_with_the_cost_of_fedaligns_table() -> None:
    """Table 7 has 18.1 GFLOPs, ten times 1.81, and 11.22 million parameters with 100 classes."""
    words = ("model.layout=imagenet", "model.projector=none")
    model = settings("resnet18", *words).build(3, 100).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        out = model(torch.randn(1, 3, 224, 224))
    assert counter.get_total_flops() / 2e9 == pytest.approx(1.81, abs=0.01)
    layers = [part for part in model.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    assert sum(part.weight.numel() for part in layers) / 1e6 == pytest.approx(11.22, abs=0.005)
    theirs = resnet18(num_classes=100).eval()
    names = [name for name in theirs.state_dict() if not name.startswith("fc.")]
    ours = list(model.state_dict().values())[: len(names)]
    theirs.load_state_dict(dict(zip(names, ours, strict=True)), strict=False)
    maps = torch.nn.Sequential(*list(theirs.children())[:-2])
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(maps(x), model(x).maps, atol=1e-5)
    assert out.maps.shape == (1, 512, 7, 7)


def test_the_cnn_has_the_papers_layers() -> None:
    """Eight convolutions without padding take 32x32 to 3x3; the projector is 256 wide."""
    out = Cnn(3, 7, 256)(torch.randn(2, 3, 32, 32))
    assert out.maps.shape == (2, 64, 3, 3)
    assert out.features.shape == (2, 256)
    assert out.logits.shape == (2, 7)
    assert (out.features >= 0).all()
    convolutions = [m for m in Cnn(3, 7, 256).modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 8
    assert all(c.bias is None and c.padding == (0, 0) for c in convolutions)


@pytest.mark.parametrize(
    ("kind", "features", "parts"), [("normalised", 32, 6), ("plain", 32, 3), ("none", 64, 0)]
)
def test_a_projector_is_chosen(kind: str, features: int, parts: int) -> None:
    width = [] if kind == "none" else [f"model.features={features}"]
    model = settings("cnn", f"model.projector={kind}", *width).build(3, 7)
    out = model(torch.randn(2, 3, 32, 32))
    assert out.features.shape == (2, features)
    assert isinstance(model, Cnn)
    assert model.classifier.in_features == features
    assert len(model.projector) == parts
    if kind == "none":
        assert torch.equal(out.features, out.maps.mean(dim=(2, 3)))


def test_resnet56_without_projector_has_the_parameters_of_fedaligns_table_5() -> None:
    """0.61 million: convolutions and linear layers, without batch norm."""
    model = settings("resnet56", "model.projector=none").build(3, 100)
    layers = [part for part in model.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    assert sum(value.numel() for part in layers for value in part.parameters()) == 605_460


def test_resnet56_costs_what_fedalign_says() -> None:
    """FedAlign, Table 5: 87.3 million multiply-adds for an image of 32x32 and 100 classes."""
    model = ResNet56Settings(256, "batch").build(3, 100)
    with FlopCounterMode(display=False) as counter:
        model.eval()(torch.randn(1, 3, 32, 32))
    assert counter.get_total_flops() / 2e6 == pytest.approx(87.3, rel=0.005)


def test_resnets_have_the_resolutions_they_say() -> None:
    x = torch.randn(2, 3, 32, 32)
    assert ResNet18Settings(512, "batch").build(3, 10)(x).maps.shape == (2, 512, 2, 2)
    out = ResNet56Settings(256, "batch").build(3, 10)(x)
    assert out.maps.shape == (2, 256, 8, 8)
    assert out.stage_input.shape == (2, 128, 16, 16)
    assert len(small().blocks()) == 18


@pytest.mark.parametrize("settings", [ResNet18Settings, ResNet56Settings])
def test_a_fresh_resnets_branches_are_at_0(settings: type[ModelSettings]) -> None:
    model = settings(32, "batch").build(1, 5)
    assert isinstance(model, ResidualNet)
    for block in model.blocks():
        convolution = block.conv1
        assert isinstance(convolution, nn.Conv2d)
        assert block.residual(torch.randn(2, convolution.in_channels, 8, 8)).abs().max() == 0


WIDTHS = {  # of the levels
    "cnn": [16, 32, 64],
    "lenet": [6, 16],
    "resnet18": [64, 64, 128, 256, 512],
    "resnet50": [64, 256, 512, 1024, 2048],
    "resnet56": [16, 64, 128, 256],
}


class TestLevels:
    @pytest.mark.parametrize("name", WIDTHS)
    def test_they_change_no_bit_and_exist_in_training_alone(self, name: str) -> None:
        torch.manual_seed(0)
        model = settings(name).build(3, 7).train()
        x = torch.randn(2, 3, 32, 32)
        plain, gradients = [], []
        for with_levels in (False, True):
            model.with_levels = with_levels
            out = model(x)
            assert [level.shape for level in out.levels] == [
                (2, width) for width in WIDTHS[name] if with_levels
            ]
            model.zero_grad()
            out.logits.square().sum().backward()
            plain.append(out.logits)
            gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        assert torch.equal(*plain)
        assert all(map(torch.equal, *gradients))
        assert model.eval()(x).levels == ()

    @pytest.mark.parametrize("name", ["cnn", "lenet"])
    def test_those_of_a_sequence_are_inputs_of_its_relus(self, name: str) -> None:
        model, x = settings(name).build(3, 7).train(), torch.randn(2, 3, 32, 32)
        model.with_levels = True
        levels = model(x).levels
        encoder = model.encoder
        assert isinstance(encoder, nn.Sequential)
        places = {"cnn": (5, 14, 23), "lenet": (1, 4)}[name]
        for place, level in zip(places, levels, strict=True):
            assert isinstance(encoder[place], nn.ReLU)
            before = encoder[:place](x)
            assert (before < 0).any()
            assert torch.equal(level, before.mean(dim=(2, 3)))

    @pytest.mark.parametrize("dropped", [False, True])
    def test_those_of_a_resnet_are_before_the_relu_of_stem_and_stages(self, dropped: bool) -> None:
        model, x = small().train(), torch.randn(2, 1, 8, 8)
        if dropped:
            model.blocks()[-1].branch = 0.0
        model.with_levels = True
        out = model(x)
        assert torch.equal(out.levels[0], model.stem[:2](x).mean(dim=(2, 3)))
        last = model.stages[-1]
        assert isinstance(last, nn.Sequential)
        before = last[-1].before_relu(last[:-1](out.stage_input))  # type: ignore[operator]
        assert torch.equal(out.levels[-1], before.mean(dim=(2, 3)))
        assert torch.equal(out.maps, before.relu())

    def test_copies_have_their_own(self) -> None:
        model = settings("cnn").build(3, 7).train()
        model.with_levels = True
        copied, x = copy.deepcopy(model), torch.randn(2, 3, 32, 32)
        with torch.no_grad():
            next(model.parameters()).add_(1.0)
        assert not torch.equal(copied(x).levels[0], model(x).levels[0])


PAN = ("model.pan=multiply", "model.pan_frequency=1", "model.pan_amplitude=0.5")


class TestPan:
    @pytest.mark.parametrize("name", WIDTHS)
    @pytest.mark.parametrize("kind", ["add", "multiply"])
    def test_a_model_has_the_same_tensors_and_another_output(self, name: str, kind: str) -> None:
        models = []
        for pan in ("none", kind):
            torch.manual_seed(0)
            models.append(settings(name, f"model.pan={pan}").build(3, 7))
        plain, encoded = (model.state_dict() for model in models)
        assert list(plain) == list(encoded)
        assert all(torch.equal(plain[key], value) for key, value in encoded.items())
        x = torch.randn(2, 3, 32, 32)
        assert not torch.equal(models[0](x).logits, models[1](x).logits)
        assert not any(isinstance(layer, Position) for layer in models[0].modules())

    @pytest.mark.parametrize("name", WIDTHS)
    def test_each_convolution_and_linear_layer_but_the_last_has_an_encoding(
        self, name: str
    ) -> None:
        model, seen = settings(name, *PAN).build(3, 7), []
        layers = (nn.Conv2d, nn.Linear, Position, nn.ReLU)
        for layer in model.modules():
            if isinstance(layer, layers):
                layer.register_forward_hook(lambda layer, given, out: seen.append(type(layer)))
        model(torch.randn(2, 3, 32, 32))
        computed = [kind for kind in seen if kind is not nn.ReLU]
        assert computed == [nn.Conv2d, Position] * seen.count(nn.Conv2d) + [
            nn.Linear, Position,
        ] * (seen.count(nn.Linear) - 1) + [nn.Linear]  # fmt: skip
        assert all(seen[i - 1] is Position for i, kind in enumerate(seen) if kind is nn.ReLU)

    @pytest.mark.parametrize("kind", ["plain", "none"])
    def test_a_projector_has_one_after_each_layer(self, kind: str) -> None:
        model = settings("cnn", *PAN, f"model.projector={kind}").build(3, 7)
        assert isinstance(model, Cnn)
        found = [type(layer) for layer in model.projector.modules()]
        assert found.count(Position) == found.count(nn.Linear) == (2 if kind == "plain" else 0)

    def test_a_resnets_block_by_hand(self) -> None:
        """Both the branch and the shortcut of a first block have the encoding."""
        torch.manual_seed(0)
        plain = small().train()
        encoded = settings("resnet56", "model.features=32", *PAN).build(1, 5).train()
        assert isinstance(encoded, ResidualNet)
        encoded.load_state_dict(plain.state_dict())
        x, ones = torch.randn(2, 16, 8, 8), 1 + 0.5 * wave(64, 1).float()[:, None, None]
        block, with_positions = plain.blocks()[0], encoded.blocks()[0]
        inner = 1 + 0.5 * wave(16, 1).float()[:, None, None]
        first = (block.bn1(block.conv1(x)) * inner).relu()
        second = (block.bn2(block.conv2(first)) * inner).relu()
        branch = block.last_norm(block.conv3(second)) * ones  # type: ignore[operator]
        assert block.downsample is not None
        expected = branch + block.downsample(x) * ones
        assert torch.allclose(with_positions.before_relu(x), expected, atol=1e-5)

    def test_a_narrow_network_keeps_the_encodings_of_its_channels(self) -> None:
        model = settings("resnet56", *PAN).build(1, 5).train()
        assert isinstance(model, ResidualNet)
        state = narrow(model, 0.5)
        vectors = {name: value for name, value in model.named_buffers() if "vector" in name}
        assert len(vectors) == 1 + 18 * 2 + 3 + 2  # stem, blocks, shortcuts, projector
        for name, whole in vectors.items():
            assert torch.equal(state[name], whole[: len(whole) // 2])
        x = torch.randn(4, 1, 8, 8)
        assert torch.equal(model.narrower(x, 1.0).logits, model(x).logits)
        model.narrower(x, 0.5).logits.sum().backward()

    def test_levels_have_the_encoding(self) -> None:
        torch.manual_seed(0)
        model = settings("lenet", *PAN).build(3, 7).train()
        model.with_levels = True
        x = torch.randn(2, 3, 32, 32)
        convolution = model.encoder[0](x)  # type: ignore[index,operator]
        level = convolution.mean(dim=(2, 3)) * (1 + 0.5 * wave(6, 1).float())
        assert torch.allclose(model(x).levels[0], level, atol=1e-6)

    def test_bfloat16_stays_bfloat16(self) -> None:
        layer = Position(8, Encoding("multiply", 1, 0.05))
        assert layer(torch.ones(2, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16

    @pytest.mark.parametrize(
        ("name", "words", "message"),
        [
            ("cnn", ["pan_frequency=8"], "multiple of 8: the encoding of layers of 16 channels"),
            ("lenet", ["pan_frequency=3"], "multiple of 3: the encoding of layers of 6 channels"),
            (
                "cnn",
                ["features=8", "pan_frequency=4"],
                "multiple of 4: the encoding",
            ),
            ("resnet56", ["pan_frequency=16"], "multiple of 8"),
        ],
    )
    def test_an_encoding_without_effect_is_refused(
        self, name: str, words: list[str], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            settings(name, "model.pan=add", *(f"model.{word}" for word in words))

    def test_the_linear_model_has_no_layer_for_it(self) -> None:
        with pytest.raises(ConfigError, match="must be none"):
            LinearSettings(784, "group", pan="add")


class TestNarrow:
    def test_a_layer_by_hand(self) -> None:
        """Half of 4 outputs and half of 2 inputs of a linear layer."""
        layer = nn.Linear(2, 4)
        state = narrow(layer, 0.5)
        assert torch.equal(state["weight"], layer.weight[:2, :1])
        assert torch.equal(state["bias"], layer.bias[:2])
        assert torch.equal(narrow(layer, 0.5, ["weight"])["weight"], layer.weight[:2])
        assert torch.equal(narrow(layer, 0.5, (), ["weight"])["weight"], layer.weight[:, :1])

    def test_counts_are_rounded_down_to_steps_and_never_0(self) -> None:
        assert [kept(16, 0.8, 1), kept(16, 0.8, 8), kept(64, 0.25, 1)] == [12, 8, 16]
        assert kept(4, 0.01, 1) == 1
        assert all(kept(count, 1.0, 1) == count for count in range(1, 300))

    def test_full_width_is_the_network_itself(self) -> None:
        model = small().train()
        x = torch.randn(4, 1, 8, 8)
        assert torch.equal(model.narrower(x, 1.0).logits, model(x).logits)

    @pytest.mark.parametrize("norm", ["batch", "group"])
    def test_gradients_reach_the_first_channels_alone(self, norm: Norm) -> None:
        model = small(norm).train()
        model.narrower(torch.randn(4, 1, 8, 8), 0.5).logits.sum().backward()
        (gradient,) = [
            p.grad for name, p in model.named_parameters() if name == "stages.0.0.conv2.weight"
        ]
        assert gradient is not None
        assert gradient[:8, :8].abs().sum() > 0
        assert gradient[8:].abs().sum() == 0
        assert gradient[:, 8:].abs().sum() == 0

    def test_a_narrow_pass_leaves_weights_and_statistics_alone(self) -> None:
        model = small().train()
        before = copy.deepcopy(model.state_dict())
        out = model(torch.randn(4, 1, 8, 8))
        after_full = copy.deepcopy(model.state_dict())
        model.narrower(torch.randn(4, 1, 8, 8), 0.8)
        model.narrower_last_stage(out.stage_input, 0.25, whole_input=True)
        state = model.state_dict()
        assert all(torch.equal(state[name], value) for name, value in after_full.items())
        assert not torch.equal(before["stem.1.running_mean"], after_full["stem.1.running_mean"])

    def test_the_last_stage_reads_its_whole_input(self) -> None:
        model = small().train()
        stage_input = torch.randn(4, 128, 4, 4, requires_grad=True)
        _, maps = model.narrower_last_stage(stage_input, 0.25, whole_input=True)
        assert maps.shape == (4, 64, 2, 2)
        maps.square().sum().backward()
        assert stage_input.grad is not None
        assert (stage_input.grad.abs().sum(dim=(0, 2, 3)) > 0).all()


class TestDropping:
    def test_a_dropped_block_passes_its_shortcut_on_at_no_cost(self) -> None:
        model = small().train()
        block = model.blocks()[1]
        x = torch.randn(2, 64, 8, 8).relu()
        block.branch = 0.0
        with FlopCounterMode(display=False) as counter:
            assert torch.equal(block(x), x)
        assert counter.get_total_flops() == 0

    def test_a_scaled_branch_by_hand(self) -> None:
        block = small().train().blocks()[1]
        x = torch.randn(2, 64, 8, 8)
        once = block.residual(x)
        block.branch = 2.0
        assert torch.allclose(block(x), torch.relu(x + 2 * once))

    def test_scoring_uses_every_block_as_it_is(self) -> None:
        model, x = small().eval(), torch.randn(2, 1, 8, 8)
        whole = model(x).logits
        for block in model.blocks():
            block.branch = 0.0
        assert torch.equal(model(x).logits, whole)


class Plain(nn.Module):
    """Is no network of this project."""


class Headless(Network):
    """Calls its last layer by another name."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("network", "reason"),
    [(Plain(), "must return a subclass of"), (Headless(), "needs a last layer named classifier")],
)
def test_a_network_that_methods_cannot_use_is_refused(network: nn.Module, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"model=mine: its .*{reason}"):
        checked_network(network, "mine")
