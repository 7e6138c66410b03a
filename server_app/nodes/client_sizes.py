"""How many images each client has."""

from array import array
from collections.abc import Sequence

import numpy as np

from server_app.nodes.registration import NodeInfo
from task.data.federated import FederatedData
from task.privacy.settings import UNTOLD_IMAGES


class ClientSizes:
    """The clients' image counts: from the split in a simulation, else from the sites.

    Args:
        data: the server's data set and split; sites' clients are empty in it.
        told: whether clients report their image counts. If not, all count as equal.

    Attributes:
        train: by client, its training images; 0 for a site that has not come yet.
        validation: by client, its validation images, likewise.
    """

    def __init__(self, data: FederatedData, told: bool = True) -> None:
        train, validation = data.clients.sizes()
        if not told:
            train = np.where(train > 0, UNTOLD_IMAGES, 0)
        self.train = array("q", train.tobytes())
        self.validation = array("q", validation.tobytes())

    def update(self, nodes: Sequence[NodeInfo]) -> None:
        """Take over the counts that sites report."""
        for node in nodes:
            if node.site:
                self.train[node.index] = node.train
                self.validation[node.index] = node.validation

    def images(self) -> list[int]:
        """Return each client's number of images, by client."""
        return list(map(sum, zip(self.train, self.validation, strict=True)))
