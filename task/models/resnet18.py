"""ResNet-18 with four stages of two basic blocks, for small images or those of ImageNet.

``layout=small`` is FedUV's on CIFAR-100 and HAM10000: a 3x3 stem at stride 1, no max-pooling, and
each stage at stride 2. ``layout=imagenet`` is the one of He et al., as torchvision has it: a 7x7
stem at stride 2, max-pooling, and the first stage at stride 1. FedAlign runs it on ImageNet-200
with images of 224x224. The smallest image of both is 16x16.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from task.models.layers.blocks import Basic
from task.models.layers.residual import ResidualSettings, Shape

LATER_STAGES = ((2, 128, 2), (2, 256, 2), (2, 512, 2))
SHAPES = {
    "small": Shape((64, 3, 1), Basic, ((2, 64, 2), *LATER_STAGES)),
    "imagenet": Shape((64, 7, 2), Basic, ((2, 64, 1), *LATER_STAGES), max_pool=True),
}


@dataclass
class ResNet18Settings(ResidualSettings):
    """Settings of ResNet-18; FedUV uses 512 features.

    Attributes:
        layout: ``small`` or ``imagenet``, for images of 224x224.
    """

    least_image_size: ClassVar = 16
    layout: Literal["small", "imagenet"] = field(default="small", kw_only=True)

    def shape(self) -> Shape:
        return SHAPES[self.layout]
