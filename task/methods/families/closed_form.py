"""Methods that train nothing: the server solves the classifier from sums of all clients' features.

`server_app.rounds.closed_form` says what is exchanged instead of a round of training.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.methods.base import Method
from task.models.base import ModelSettings


@dataclass
class ClosedForm(Method):
    """A method without training.

    Attributes:
        needs_products: whether clients send the sum of the products of their features, too.
    """

    closed_form: ClassVar = True
    sets_classifier: ClassVar = True
    needs_products: ClassVar[bool] = False

    def problem_with(self, network: ModelSettings, name: str, epochs: int) -> str:
        if network.trained_features:
            return ""
        return (
            f"needs features, and model={name} has no layers before its classifier; "
            "add model=cnn, or choose another method"
        )
