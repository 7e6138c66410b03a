"""PACS: photos, paintings, cartoons and sketches of seven things.

Source: D. Li et al., "Deeper, Broader and Artier Domain Generalization", ICCV 2017. The test set is
40 images of each class in each domain, 1,120 in all, as FedUV (CVPR 2024) takes them; it names no
list, so ours is drawn with a seed of its own.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.domains import DomainFolders


@dataclass
class Pacs(DomainFolders):
    """9,991 images as ``<domain>/<class>/*``."""

    domain_names: ClassVar = ("art_painting", "cartoon", "photo", "sketch")
    folder: ClassVar = "PACS"
    num_images: ClassVar = 9_991
    num_classes: ClassVar = 7
    test_images: ClassVar = 40
