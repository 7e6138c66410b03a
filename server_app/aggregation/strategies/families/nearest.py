"""The updates that are closest to their neighbours, as Krum selects them."""

from collections.abc import Sequence

import numpy as np
from flwr.serverapp.strategy import MultiKrum

from server_app.aggregation.strategies.families.blocks import BlockwiseStrategy, Values


def nearest_updates(rows: Values, malicious: int, count: int) -> Sequence[int]:
    """Return the clients whose updates have the smallest distances to their neighbours.

    The operations are those of Flower's ``select_multikrum``, so that the rounding is the same. The
    doubled matrix is a second copy of all updates. Flower keeps distances of minus infinity, which
    two equal updates with very large numbers can have; their clients would be selected.

    Args:
        rows: each client's update, flattened.
        malicious: f, the number of malicious clients. All but f + 2 updates are neighbours.
        count: the number of clients to return, the best first.
    """
    squares = np.array([np.square(row).sum() for row in rows])
    distances = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    distances[~np.isfinite(distances)] = np.inf
    neighbours = max(1, len(rows) - malicious - 2)
    scores = [np.sum(row[np.argsort(row)[1 : neighbours + 1]]) for row in distances]
    return [int(client) for client in np.argsort(scores)[:count]]


class NearestMean(BlockwiseStrategy, MultiKrum):
    """Flower's MultiKrum, or its Krum if one update is selected, with less memory."""

    def select(self, rows: Values) -> Sequence[int]:
        return nearest_updates(rows, self.num_malicious_nodes, self.num_nodes_to_select)

    def combine(self, values: Values) -> Values:
        """Return the mean, with the rounding of Flower's weighted mean."""
        share = 1 / len(values)
        mean: Values = values[0] * share
        for value in values[1:]:
            mean += value * share
        return mean
