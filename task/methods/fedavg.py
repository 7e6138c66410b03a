"""FedAvg's local training: cross-entropy alone.

Paper: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017. Hooks: none. State kept, extra upload, extra compute: none.
"""

from dataclasses import dataclass

from task.methods.base import Method


@dataclass
class FedAvg(Method):
    """Minimise the cross-entropy on the client's own data."""
