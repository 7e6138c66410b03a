"""A figure that a notebook shows without pyplot."""

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure of Matplotlib that is the output of a notebook's cell if it is its last value.

    Args:
        width: in inches.
        height: in inches.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=100)
        return content.getvalue()
