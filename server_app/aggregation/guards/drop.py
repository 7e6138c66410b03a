"""Drop: reject updates with a large norm."""

from collections.abc import Mapping

from server_app.aggregation.guards.base import NormGuard


class Drop(NormGuard):
    """Rejects an update whose norm is above the bound."""

    def scales(self, norms: Mapping[int, float]) -> dict[int, float]:
        """Return 1 for each norm up to the bound, else 0."""
        bound = self.max_norm(list(norms.values()))
        return {client: float(norm <= bound) for client, norm in norms.items()}
