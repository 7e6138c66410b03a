"""A request for sums of clients' features, and these sums.

A sum is one vector of 64-bit integers: the upper triangle of the sum of the products of features,
by rows, if it is asked for, and then the sum of each class's features. Features have the length 1,
and are rounded to multiples of 2^-`FRACTION` before anything is added. So the sums are exact, and
the same in any order.
"""

from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from task.errors import ProtocolError
from task.protocol.after.sent_tensors import TensorsReply
from task.protocol.envelope import Kind, TableRequest
from task.protocol.limits import NAMES_AND_SHAPES, ReplyLimits
from task.protocol.tensors import PackedTensors, type_name

SUMS = "sums"
NUMBER_BYTES = 8
FRACTION = 20  # bits of a feature after the binary point
MOST_IMAGES = 2**22  # of all clients: a product is at most 2^40, and their sum at most 2^62
LONGEST = 2**FRACTION + 1  # of a rounded feature: it may be longer than 1 by half a unit


class Form(NamedTuple):
    """What a sum holds.

    Attributes:
        classes: D, the number of classes.
        features: d, the number of inputs of the classifier.
        products: whether it has the products.
    """

    classes: int
    features: int
    products: bool

    @property
    def triangle(self) -> int:
        """The number of products: of the upper triangle with its diagonal."""
        return self.features * (self.features + 1) // 2 if self.products else 0

    @property
    def length(self) -> int:
        """The number of integers."""
        return self.triangle + self.classes * self.features

    @property
    def bytes(self) -> int:
        """The size of the vector."""
        return NUMBER_BYTES * self.length

    def packed(self, products: Tensor, by_class: Tensor) -> Tensor:
        """Return the vector of products [d, d], of which it may have none, and sums [D, d]."""
        rows, columns = torch.triu_indices(self.features, self.features)
        upper = products[rows, columns] if self.products else products.new_empty(0)
        return torch.cat([upper, by_class.reshape(-1)])

    def unpacked(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return the products [d, d], or [0, 0] without any, and the sums [D, d]."""
        upper, by_class = vector.split([self.triangle, self.classes * self.features])
        size = self.features if self.products else 0
        products = vector.new_zeros(size, size)
        if self.products:
            rows, columns = torch.triu_indices(size, size)
            products[rows, columns] = upper
            products[columns, rows] = upper
        return products, by_class.view(self.classes, self.features)

    def bounds(self, images: int) -> Tensor:
        """Return the largest size of each number of a sum over so many images, [length] int64."""
        products = torch.full((self.triangle,), images * LONGEST**2)
        by_class = torch.full((self.classes * self.features,), images * LONGEST)
        return torch.cat([products, by_class])

    def check(self, vector: Tensor, images: int, noisy: bool = False) -> Tensor:
        """Return a vector, if it can be the sum over at most `images` images.

        Args:
            vector: the sums.
            images: how many images there are at most, or what noise makes of them.
            noisy: whether clients have added noise.

        Raises:
            ProtocolError: it has another form, or no images have this sum.
        """
        if vector.dtype != torch.int64 or tuple(vector.shape) != (self.length,):
            found = f"{type_name(vector.dtype)}{tuple(vector.shape)}"
            raise ProtocolError(f"its sums are {found}, not int64({self.length},)")
        bounds = self.bounds(images)
        if bool(((vector > bounds) | (vector < -bounds)).any()):
            raise ProtocolError(f"its sums are larger than {images} images can have")
        products, _ = self.unpacked(vector)
        if not noisy and bool((products.diagonal() < 0).any()):
            raise ProtocolError("its products have a number below 0 on the diagonal")
        return vector


class SumsRequest(TableRequest):
    """Asks a worker for sums over clients' training images under the global weights.

    Attributes:
        classes: D, the number of classes.
        features: d, the number of inputs of the classifier.
        products: whether the products of features are asked for, too.
        weights: the global weights.
    """

    classes: Annotated[int, Field(ge=1, le=10**6)]
    features: Annotated[int, Field(ge=1, le=10**6)]
    products: bool
    weights: PackedTensors

    @property
    def form(self) -> Form:
        """The form of each client's sums."""
        return Form(self.classes, self.features, self.products)

    def reply_limits(self) -> ReplyLimits:
        most = self.form.bytes + NAMES_AND_SHAPES
        arrays = {f"sent/{client}": most for client in self.clients}
        return ReplyLimits(super().reply_limits().header, arrays)


class SumsReply(TensorsReply):
    """By client, one tensor, `SUMS`, which `Form.check` describes."""


def check_sums(found: dict[str, Tensor], form: Form, images: int, noisy: bool = False) -> Tensor:
    """Return a client's sums, after checking them.

    Args:
        found: its tensors.
        form: what was asked for.
        images: the number of its training images.
        noisy: whether it has added noise.

    Raises:
        ProtocolError: a name, shape, type or number is not allowed.
    """
    if found.keys() != {SUMS}:
        raise ProtocolError(f"its arrays must be {SUMS}")
    return form.check(found[SUMS], images, noisy)


FEATURE_SUMS = Kind("query.sums", SumsRequest, SumsReply, counted=True)
