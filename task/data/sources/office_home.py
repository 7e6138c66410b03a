"""Office-Home: objects of office and home in four domains.

Source: H. Venkateswara et al., "Deep Hashing Network for Unsupervised Domain Adaptation", CVPR
2017. The test set has 7 images of each class in each domain, 1,820 in all, as in FedUV (CVPR 2024).
The paper does not list them, so ours are drawn with a fixed seed.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.data.sources.families.domains import DomainBenchmark


@dataclass
class OfficeHome(DomainBenchmark):
    """15,588 images as ``<domain>/<class>/*``, named as in the release of 2016-10-07."""

    domain_names: ClassVar = ("Art", "Clipart", "Product", "Real World")
    folder: ClassVar = "OfficeHomeDataset_10072016"
    num_images: ClassVar = 15_588
    num_classes: ClassVar = 65
    test_images: ClassVar = 7
