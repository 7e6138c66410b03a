"""The clients' numbers of training images, and their weights in a mean."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence

from server_app.aggregation.strategies.base import strategy_of
from server_app.config.experiment import Experiment
from task.exact_sum import normalise_weights, relative_weights


class ClientWeights:
    """All clients of a run, as the strategy weighs them.

    Args:
        experiment: the experiment.
        sizes: by client, its training images. They are read each round, because sites may come
            late, and `restore` fills in those of sites that are not back yet.

    Attributes:
        sizes: by client, its training images.
        site_sizes: by site that had come when the weights last changed, its training images.
        known: the sum of all clients' weights at the last server update.
    """

    def __init__(self, experiment: Experiment, sizes: MutableSequence[int]) -> None:
        self.sizes, self._weight = sizes, strategy_of(experiment).weight
        self._rounded = experiment.secure.rounded
        self._sites = len(experiment.partitioner().sites)  # whose sizes are known once they come
        self.site_sizes: dict[int, int] = {}
        self.known = experiment.num_clients * self._weight(0)

    def shares(self, clients: Sequence[int]) -> dict[int, float]:
        """Return the weight of each of these clients in their mean; at most 1."""
        weights = {client: self._weight(self.sizes[client]) for client in clients}
        return relative_weights(weights) if self._rounded else normalise_weights(weights)

    def shares_of_any(self, updates: int) -> Callable[[int], float]:
        """Return a function for each client's share in a mean of any `updates` clients.

        The largest client has the share 1 / `updates`, and smaller ones less in proportion. So the
        shares of any `updates` clients sum to at most 1. A larger site that joins later has
        1 / `updates`, too.
        """
        most = max(map(self._weight, set(self.sizes))) or 1.0
        return lambda client: min(self._weight(self.sizes[client]), most) / (most * updates)

    def of_server_update(self, accepted: Iterable[int]) -> tuple[float, float]:
        """Return the share of some clients among all, and of all who were known at the last call.

        Both are of the sum of the weights of all clients that are known now, which `known` becomes.
        """
        total = sum(self._weight(size) * count for size, count in Counter(self.sizes).items())
        share = sum(self._weight(self.sizes[client]) for client in sorted(accepted)) / total
        before, self.known = self.known, total
        return share, before / total

    def remember_sites(self) -> None:
        """Note which sites have come, for a checkpoint."""
        self.site_sizes = {
            client: size for client in range(self._sites) if (size := self.sizes[client])
        }

    def restore(self, site_sizes: Mapping[int, int], known: float) -> None:
        """Continue from a checkpoint's `site_sizes` and `known`."""
        self.site_sizes, self.known = dict(site_sizes), known
        for client, before in self.site_sizes.items():
            self.sizes[client] = self.sizes[client] or before
