"""Updates that are too long are shortened."""

from collections.abc import Mapping
from typing import ClassVar

from server_app.guards.base import ByPeers


class Clip(ByPeers):
    """Shortens an update to the bound."""

    shortens: ClassVar = True

    def shares(self, lengths: Mapping[int, float]) -> dict[int, float]:
        """1, or what brings an update down to the bound."""
        bound = self.bound(list(lengths.values()))
        return {
            client: 1.0 if length <= bound else bound / length for client, length in lengths.items()
        }
