"""Clip: scale updates with a large norm down to the bound."""

from collections.abc import Mapping
from typing import ClassVar

from server_app.aggregation.guards.base import NormGuard


class Clip(NormGuard):
    """Scales an update whose norm is above the bound down to it."""

    clips: ClassVar = True

    def scales(self, norms: Mapping[int, float]) -> dict[int, float]:
        """Return 1 for each norm up to the bound, else bound / norm."""
        bound = self.max_norm(list(norms.values()))
        return {client: 1.0 if norm <= bound else bound / norm for client, norm in norms.items()}
