"""A trained network for rows of numbers."""

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor

from task.config import LocalConfig
from task.data.batches import Standardisation
from task.data.sources.vectors import Vectors
from task.inference.classifier import Classifier
from task.seeding import torch_generator
from task.tensors import Tensors

TEST_ROWS = (1, 7)


class RowClassifier(Classifier):
    """An experiment's network with standardisation before it and softmax or sigmoid after it.

    Attributes:
        schema: describes the rows.
    """

    takes_rows: ClassVar = True
    input_name: ClassVar = "rows"
    axes: ClassVar = ("rows",)

    def __init__(self, config: LocalConfig, classes: int, weights: Tensors) -> None:
        super().__init__(config, classes, weights)
        source = config.source()
        assert isinstance(source, Vectors)
        self.schema = source.schema_content

    def forward(self, rows: Tensor) -> Tensor:
        """Return probabilities [n, D] of rows [n, C], float32, NaN where a number is missing."""
        return self.probabilities(rows[:, None, None, :])

    def facts(self) -> dict[str, object]:
        columns = [each.name for each in self.schema.encoded]
        shape = [*self.axes, self.channels]
        return {"name": self.input_name, "shape": shape, "type": "float32", "columns": columns}

    def examples(self) -> Iterator[Tensor]:
        generator = torch_generator(0, "export")
        layer = self.normalised
        assert isinstance(layer, Standardisation)
        mean, std = layer.mean.view(-1), layer.std.view(-1)
        for rows in TEST_ROWS:
            yield torch.randn(rows, self.channels, generator=generator) * std + mean
