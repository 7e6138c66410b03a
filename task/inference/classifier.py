"""A trained network for inference: pixels in, class probabilities out."""

from torch import Tensor, nn

from task.config import LocalConfig
from task.data.batches import Normalisation
from task.data.resizing import resized
from task.seeding import torch_generator
from task.tensors import Tensors
from task.training.worker import build_model


class Classifier(nn.Module):
    """An experiment's network with resizing and normalisation before it and softmax after it.

    Args:
        config: the experiment.
        classes: the number of classes.
        weights: the network's ``state_dict``.

    Attributes:
        size: the height and width that images are resized to, in pixels.
        channels: the number of channels of an image.
        resize: what is done with images that are not square.

    Raises:
        ConfigError: the network cannot be built.
        RuntimeError: the weights belong to another network.
    """

    def __init__(self, config: LocalConfig, classes: int, weights: Tensors) -> None:
        super().__init__()
        source = config.source()
        self.size, self.channels, self.resize = source.image_size, source.channels, source.resize
        network = build_model(config, self.size, self.channels, classes)
        generator = torch_generator(config.seed, "method")
        self.network = config.local_method().build(network, generator)
        self.network.load_state_dict(weights)
        self.normalised = Normalisation(*config.mean_and_std)
        self.eval().requires_grad_(requires_grad=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return probabilities [n, D] of images [n, h, w, C], uint8, of any height and width.

        Images are resized as Pillow does it for `probabilities`, but not rounded to whole numbers:
        rounding could turn a difference of 1e-7 between two runtimes into one of 1.
        """
        x = resized(pixels.permute(0, 3, 1, 2).float(), self.size, self.resize)
        return self.probabilities(x.permute(0, 2, 3, 1))

    def probabilities(self, pixels: Tensor) -> Tensor:
        """Return probabilities [n, D] of images [n, size, size, C], decoded as for training."""
        logits: Tensor = self.network(self.normalised(pixels)).logits
        return logits.float().softmax(dim=1)
