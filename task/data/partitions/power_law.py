"""Label shift with very different sizes: each client holds k classes, and few clients hold most.

T. Li et al., "Federated Optimization in Heterogeneous Networks" (FedProx), MLSys 2020, split MNIST
in this way among 1,000 clients with two digits each. FedML and FLUTE use that split. Each client
gets five images of each of its digits. The others are divided in proportion to numbers drawn from a
log-normal distribution with sigma 2, which the paper calls a power law.

Our choices:

* Classes are dealt to the clients as in ``partition=pathological``. FedProx gives client i the
  digits i and i + 1.
* Every image is used. FedProx rounds down, and leaves out what remains.
"""

import math
from dataclasses import dataclass

import numpy as np

from task.data.dataset import Positions
from task.data.partitions.pathological import PathologicalPartitioner
from task.errors import refuse

MOST_SIGMA = 10.0  # one client then holds almost all images of a class


@dataclass
class PowerLawPartitioner(PathologicalPartitioner):
    """Give each client `classes_per_client` classes, and a log-normal share of each.

    Attributes:
        sigma: standard deviation of the logarithm of a share; 0 gives even shares.
    """

    sigma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.sigma <= MOST_SIGMA:
            refuse(self, "sigma", f"must be from 0 to {MOST_SIGMA:g}")

    def split_class(
        self, of_class: Positions, clients: int, generator: np.random.Generator
    ) -> list[Positions]:
        """Give each client an even part of its minimum, and divide the rest by log-normal shares.

        With too few images of the class for these parts, they are smaller.
        """
        least = min(math.ceil(self.min_images / self.classes_per_client), len(of_class) // clients)
        shares = generator.lognormal(0, self.sigma, clients)
        rest = len(of_class) - least * clients
        cuts = np.rint(np.cumsum(shares / shares.sum())[:-1] * rest).astype(np.int64)
        return np.split(of_class, cuts + least * np.arange(1, clients))
