"""FedAvg: local training with the cross-entropy alone.

Loss: cross-entropy.
Paper: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, Algorithm 1.
Hooks: none. Client state: none. Extra upload: none. Extra compute: none.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.methods.base import Method


@dataclass
class FedAvg(Method):
    """Cross-entropy on the client's own images; no settings."""

    separable: ClassVar = True
    replayable: ClassVar = True
    multilabel: ClassVar = True
