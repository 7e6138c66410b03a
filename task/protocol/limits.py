"""How large may a reply be? Known before it arrives, from its request."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from task.errors import ProtocolError
from task.protocol.tensors import PackedTensors

SHORT_HEADER = 32_000  # bytes of a header without rows
ROW_BYTES = 16_000  # a row with a reason of 1,000 characters and 100 loss terms
LABEL_BYTES = 16
NAMES_AND_SHAPES = 10_000  # bytes that a file of the same tensors may need in addition
WIDEST_ENTRY = 8  # bytes of an integer in a sum, for an entry of at least one byte


@dataclass(frozen=True)
class ReplyLimits:
    """The largest reply to one request, in bytes.

    Attributes:
        header: of its header.
        arrays: of each array that it may hold, by name; others are refused.
    """

    header: int = SHORT_HEADER
    arrays: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The size of the largest reply."""
        return self.header + sum(self.arrays.values())

    def check(self, header: int, arrays: Mapping[str, int]) -> None:
        """Refuse a reply that is larger, before any of it is read.

        Args:
            header: the bytes of its header.
            arrays: the bytes of each of its arrays.

        Raises:
            ProtocolError: it is.
        """
        if header > self.header:
            raise ProtocolError(f"its header has {header} bytes, of {self.header} at most")
        for name, size in arrays.items():
            if name not in self.arrays:
                raise ProtocolError("it holds an array that was not asked for")
            if size > self.arrays[name]:
                raise ProtocolError(f"{name} has {size} bytes, of {self.arrays[name]} at most")


def same_tensors(sent: PackedTensors, summed: bool = False) -> int:
    """Return the size of the largest file of tensors with the names and shapes of those sent.

    Args:
        sent: the request's.
        summed: whether they come back as sums, 64-bit integers.
    """
    if not sent.data:
        return 0
    return len(sent.data) * (WIDEST_ENTRY if summed else 1) + NAMES_AND_SHAPES
