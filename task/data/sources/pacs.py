"""PACS: photos, paintings, cartoons and sketches of seven classes.

Source: D. Li et al., "Deeper, Broader and Artier Domain Generalization", ICCV 2017. The test
set has 40 images of each class in each domain, 1,120 in all, as in FedUV (CVPR 2024). The paper
does not list them, so ours are drawn with a fixed seed.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.domains import DomainBenchmark


@dataclass
class Pacs(DomainBenchmark):
    """9,991 images as ``<domain>/<class>/*``."""

    domain_names: ClassVar = ("art_painting", "cartoon", "photo", "sketch")
    folder: ClassVar = "PACS"
    num_images: ClassVar = 9_991
    num_classes: ClassVar = 7
    test_images: ClassVar = 40
