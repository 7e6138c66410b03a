"""A trained network for inference: pixels in, class probabilities out."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from task.config import LocalConfig
from task.data.batches import input_layer
from task.data.image_store.decoding import decode
from task.data.resizing import resized
from task.seeding import torch_generator
from task.tensors import Tensors
from task.training.worker import build_model

TEST_SHAPES = ((1, 40, 56), (3, 200, 120))  # images, height, width: inputs to test files with


class Classifier(nn.Module):
    """An experiment's network with resizing and normalisation before it and softmax after it.

    With ``task=multilabel`` each probability is a sigmoid, and they do not add up to 1.

    Args:
        config: the experiment.
        classes: the number of classes.
        weights: the network's ``state_dict``.

    Attributes:
        takes_rows: whether the input is rows of numbers.
        input_name: of the argument of ``forward``, also in exported files.
        axes: the names of the dimensions of the input that can have any length.
        size: the height and width that images are resized to, in pixels.
        channels: the number of channels of an image.
        resize: what is done with images that are not square.
        interpolation: how they are resized.
        window: center and width of the grey values of DICOM files; None for those in the file.
        multilabel: whether each class has a probability of its own.

    Raises:
        ConfigError: the network cannot be built.
        RuntimeError: the weights belong to another network.
    """

    takes_rows: ClassVar[bool] = False
    input_name: ClassVar[str] = "pixels"
    axes: ClassVar[tuple[str, ...]] = ("images", "height", "width")

    def __init__(self, config: LocalConfig, classes: int, weights: Tensors) -> None:
        super().__init__()
        source = config.source()
        self.size, self.channels, self.resize = source.image_size, source.channels, source.resize
        self.interpolation = source.interpolation
        self.window: list[float] | None = getattr(source, "window", None)
        network = build_model(config, self.size, self.channels, classes)
        generator = torch_generator(config.seed, "method")
        self.network = config.local_method().build(network, generator)
        self.network.load_state_dict(config.tuning().merged(weights))
        self.multilabel = config.task.multilabel
        self.normalised = input_layer(source.vectors, *config.mean_and_std)
        self.eval().requires_grad_(requires_grad=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return probabilities [n, D] of images [n, h, w, C], uint8, of any height and width.

        Images are resized as Pillow does it for `probabilities`, but not rounded to whole numbers:
        rounding could turn a difference of 1e-7 between two runtimes into one of 1.
        """
        x = resized(pixels.permute(0, 3, 1, 2).float(), self.size, self.resize, self.interpolation)
        return self.probabilities(x.permute(0, 2, 3, 1))

    def probabilities(self, pixels: Tensor) -> Tensor:
        """Return probabilities [n, D] of images [n, size, size, C], decoded as for training."""
        logits: Tensor = self.network(self.normalised(pixels)).logits
        return logits.float().sigmoid() if self.multilabel else logits.float().softmax(dim=1)

    def facts(self) -> dict[str, object]:
        """Return what the model card says of the input."""
        return {
            "name": self.input_name,
            "shape": [*self.axes, self.channels],
            "type": "uint8",
            "resized_to": self.size,
            "resize": self.resize,
            "interpolation": self.interpolation,
        }

    def decoded(self, image: Image.Image) -> NDArray[np.uint8]:
        """Return an opened image as for training, [size, size, C].

        Raises:
            OSError, ValueError: it cannot be decoded.
        """
        return decode(image, self.size, self.channels, self.resize, self.interpolation)

    def examples(self) -> Iterator[Tensor]:
        """Yield inputs of several shapes, with which exported files are tested: smooth images."""
        generator = torch_generator(0, "export")
        for images, height, width in TEST_SHAPES:
            coarse = torch.rand(images, self.channels, 5, 7, generator=generator) * 256
            larger = F.interpolate(coarse, (height, width)).to(torch.uint8)
            yield larger.permute(0, 2, 3, 1).contiguous()
