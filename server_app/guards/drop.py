"""Updates that are too long do not count."""

from collections.abc import Mapping

from server_app.guards.base import ByPeers


class Drop(ByPeers):
    """Drops an update that is longer than the bound."""

    def shares(self, lengths: Mapping[int, float]) -> dict[int, float]:
        """1, or 0 beyond the bound."""
        bound = self.bound(list(lengths.values()))
        return {client: float(length <= bound) for client, length in lengths.items()}
