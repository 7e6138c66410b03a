"""The parts that all models share: output, feature levels, settings, projector and activation."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import gcd
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from task.errors import ConfigError, refuse
from task.given_weights import KEY, PRETRAINED
from task.models.layers.norm import GROUPS, Norm, norm_1d
from task.registry import named

ProjectorKind = Literal["normalised", "plain", "none"]
Pan = Literal["none", "add", "multiply"]
Statistics = Literal["averaged", "moments", "exact"]
Scaling = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation of each channel
POSITION = "task.models.layers.position:Position"  # of runs with model.pan
IS_SILENT = "task.models.layers.position:is_silent"


class OwnInput(NamedTuple):
    """The images that a network of a library was made for.

    Attributes:
        image_size: their height and width, in pixels.
        interpolation: how they were resized, such as ``bicubic``.
    """

    image_size: int
    interpolation: str


class Published(NamedTuple):
    """The weights that a library publishes for a network: ``model.weights=pretrained``.

    Attributes:
        name: for the record, such as ``timm/resnet18.a1_in1k``.
        files: names in the repository, of which the first that is there is taken; or one address.
        repository: on the Hugging Face hub; empty if `files` is an address.
    """

    name: str
    files: tuple[str, ...]
    repository: str = ""


class Encoding(NamedTuple):
    """The position encoding of every layer of a network.

    Attributes:
        kind: ``add`` or ``multiply``.
        frequency: T, the periods of the wave over the channels of a layer.
        amplitude: A.
    """

    kind: Pan
    frequency: int
    amplitude: float


class Output(NamedTuple):
    """A network's output for a batch of n images.

    Attributes:
        logits: [n, D], one column per class.
        features: [n, d], the projector's output and the classifier's input.
        maps: [n, C, h, w], the last convolution's output, before pooling; None for networks that
            others have written.
        stage_input: [n, C', h', w'], the input of the last stage of a residual network; None for
            other networks.
        levels: the feature levels [n, C''], in the order of the network: the maps before the ReLU
            that ends each resolution, pooled. Empty unless `Network.with_levels` is set.
    """

    logits: Tensor
    features: Tensor
    maps: Tensor | None
    stage_input: Tensor | None = None
    levels: tuple[Tensor, ...] = ()


class Network(nn.Module):
    """A module that maps images [n, C, H, W] to `Output`.

    Attributes:
        last_stage: the name of the module where the last stage of the feature extractor begins;
            empty if the names of its modules tell it (`task.tuning.last_stage`).
        with_levels: whether outputs in training have their levels. A method that needs them sets it
            in ``build``. A flag costs other methods nothing, and copies of the model keep it, which
            a hook that stores maps would not allow.
    """

    last_stage: ClassVar[str] = ""
    with_levels: bool = False

    @property
    def collects(self) -> bool:
        """Whether the next output has its levels: in training only."""
        return self.training and self.with_levels

    def through(
        self, layers: nn.Sequential, x: Tensor, ends: Collection[int]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the output of layers, and the levels before some of their ReLUs.

        Args:
            layers: applied in order.
            x: their input.
            ends: the ReLUs, counted from 0, that end a resolution.
        """
        if not self.collects:
            return layers(x), ()
        levels, passed = [], 0
        for layer in each_layer(layers):
            if isinstance(layer, nn.ReLU):
                if passed in ends:
                    levels.append(pooled(x))  # now, as the ReLU may overwrite its input
                passed += 1
            x = layer(x)
        return x, tuple(levels)


def each_layer(layers: nn.Sequential) -> Iterator[nn.Module]:
    """Yield the layers in order, those of an inner sequence one by one."""
    for layer in layers:
        if isinstance(layer, nn.Sequential):
            yield from each_layer(layer)
        else:
            yield layer


def pooled(maps: Tensor) -> Tensor:
    """Return the mean of maps [n, C, h, w] over all positions, [n, C]."""
    return maps.mean(dim=(2, 3))


@dataclass
class ModelSettings(ABC):
    """The settings of one architecture; builds the network.

    Every network ends in a ``projector`` and a ``classifier``, which is a linear layer.

    Attributes:
        least_image_size: the smallest height and width of an image, in pixels.
        takes_images: whether it can be trained on images.
        takes_vectors: whether it can be trained on vectors, which are images of one pixel.
        residual: whether the network is a `task.models.layers.residual.ResidualNet`.
        trained_features: whether layers that can be trained come before the classifier.
        normalised: whether it has normalisation layers; if not, `norm` must be ``group``.
        has_levels: whether outputs have levels, if they are asked for.
        takes_features: whether it is a `task.models.layers.backbone.BackboneNetwork`.
        draws: whether training draws from PyTorch's global generator, as dropout does.
        features: d, the width of the projector, at least 1.
        norm: ``batch``; ``fixed``, batch norm whose statistics stay from a round on (FixBN); or
            ``group``, which keeps no statistics of the data.
        projector: the layers before the classifier; see `projector`. Without any, the pooled maps
            are the features, and `features` is not used.
        pan: the position encodings of PAN before each ReLU: ``add``, ``multiply`` or ``none``; see
            `task.models.layers.position`.
        pan_frequency: T, the periods of an encoding over the channels of a layer, at least 1.
        pan_amplitude: A, the largest value of an encoding, above 0.
        statistics: how the global model gets its statistics of batch norm: ``averaged`` over the
            clients, from averaged ``moments``, or ``exact``, measured after the last round.
        fixed_after: the share of the rounds after which the statistics stay, with ``norm=fixed``;
            above 0 and below 1.
        statistics_images: the largest number of images of a client on which exact statistics are
            measured, at least 2.
    """

    least_image_size: ClassVar[int] = 1
    takes_images: ClassVar[bool] = True
    takes_vectors: ClassVar[bool] = False
    residual: ClassVar[bool] = False
    trained_features: ClassVar[bool] = True
    normalised: ClassVar[bool] = True
    has_levels: ClassVar[bool] = True
    takes_features: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    features: int
    norm: Norm
    projector: ProjectorKind = field(default="normalised", kw_only=True)
    pan: Pan = field(default="none", kw_only=True)
    pan_frequency: int = field(default=1, kw_only=True)
    pan_amplitude: float = field(default=0.05, kw_only=True)
    statistics: Statistics = field(default="averaged", kw_only=True)
    statistics_images: int = field(default=256, kw_only=True)
    fixed_after: float = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        if self.features < 1:
            refuse(self, "features", "must be at least 1")
        if not self.normalised and self.norm != "group":
            refuse(self, "norm", "must be group: this network has no normalisation")
        if self.normalised and self.norm == "group" and self.features % GROUPS:
            refuse(self, "features", f"must be a multiple of {GROUPS} with model.norm=group")
        if not 0 < self.fixed_after < 1:
            refuse(self, "fixed_after", "must be above 0 and below 1")
        if self.statistics != "averaged" and not self.keeps_statistics:
            refuse(self, "statistics", "must be averaged: this network has no batch norm")
        if self.statistics_images < 2:
            refuse(self, "statistics_images", "must be at least 2")
        self._check_encoding()

    def _check_encoding(self) -> None:
        if self.pan_frequency < 1:
            refuse(self, "pan_frequency", "must be at least 1")
        if self.pan_amplitude <= 0:
            refuse(self, "pan_amplitude", "must be above 0")
        if self.pan == "none":
            return
        if not self.trained_features:
            refuse(self, "pan", "must be none: this network has no layer before the classifier")
        for width in sorted(self.widths()):
            if named(IS_SILENT)(width, self.pan_frequency):
                allowed = (
                    f"must not be a multiple of {width // gcd(2, width)}: the encoding of layers "
                    f"of {width} channels would be 0"
                )
                refuse(self, "pan_frequency", allowed)

    @property
    def keeps_statistics(self) -> bool:
        """Whether the network has batch norm, whose statistics of the data are in the model."""
        return self.norm != "group"

    def fixes_statistics(self, server_round: int, rounds: int) -> bool:
        """Return whether the statistics of batch norm stay as they are in a round.

        Args:
            server_round: the round, from 1.
            rounds: the rounds of the whole run.
        """
        return self.norm == "fixed" and server_round > self.fixed_after * rounds

    @property
    def encoding(self) -> Encoding | None:
        """The position encoding of all layers before the classifier, if there is one."""
        if self.pan == "none":
            return None
        return Encoding(self.pan, self.pan_frequency, self.pan_amplitude)

    def widths(self) -> set[int]:
        """Return the numbers of channels of the layers before the classifier."""
        return set() if self.projector == "none" else {self.features}

    def scaling(self, channels: int) -> Scaling | None:
        """Return what is subtracted from each channel of images in [0, 1], and what divides it.

        None if the data set's constants are used.
        """
        return None

    def own_input(self) -> OwnInput | None:
        """Return the images that the network's library made it for; None if it is not of one."""
        return None

    def published(self) -> Published:
        """Return where the weights are that the network's library publishes.

        Raises:
            ConfigError: it publishes none.
        """
        allowed = "must be a file: only networks of model=timm and model=torchvision are published"
        raise ConfigError(KEY, PRETRAINED, allowed)

    @abstractmethod
    def build(self, channels: int, classes: int) -> Network:
        """Return a new network for images of `channels` channels in `classes` classes.

        Its weights are drawn from PyTorch's global CPU generator.
        """


def checked_network(network: nn.Module, name: str) -> Network:
    """Return a network that was built, if it has what methods need.

    Args:
        network: the network.
        name: that of its model.

    Raises:
        ConfigError: it is no `Network`, or does not end in a linear layer named ``classifier``.
    """
    if not isinstance(network, Network):
        allowed = "its build must return a subclass of task.models.base.Network"
        raise ConfigError("model", name, allowed)
    if not isinstance(getattr(network, "classifier", None), nn.Linear):
        allowed = "its network needs a last layer named classifier, an nn.Linear"
        raise ConfigError("model", name, allowed)
    return network


def projector(
    inputs: int,
    width: int,
    norm: Norm,
    kind: ProjectorKind = "normalised",
    encoding: Encoding | None = None,
) -> nn.Sequential:
    """Return the layers that map pooled maps [n, inputs] to features [n, width].

    ``normalised``: two linear layers, each with normalisation and ReLU (UniVarFL, section 4).
    ``plain``: two linear layers with a ReLU between them, as FedAlign's release has them for MOON.
    ``none``: no layer, so that the features are [n, inputs], as in FedAlign for other methods.
    """
    if kind == "none":
        return nn.Sequential()
    if kind == "plain":
        return nn.Sequential(
            nn.Linear(inputs, inputs),
            activation(inputs, encoding),
            nn.Linear(inputs, width),
            *positions(width, encoding),
        )
    return nn.Sequential(
        nn.Linear(inputs, width, bias=False),
        norm_1d(norm, width),
        activation(width, encoding),
        nn.Linear(width, width, bias=False),
        norm_1d(norm, width),
        activation(width, encoding),
    )


def positions(width: int, encoding: Encoding | None) -> list[nn.Module]:
    """Return the layer that encodes positions, or none without an encoding."""
    return [] if encoding is None else [named(POSITION)(width, encoding)]


def activation(width: int, encoding: Encoding | None) -> nn.Module:
    """Return a ReLU, with the encoding before it if there is one."""
    layers = [*positions(width, encoding), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers) if encoding else layers[0]
