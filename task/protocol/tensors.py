"""Tensors as they travel: one safetensors file for each model."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from task.errors import ProtocolError
from task.plain_text import one_line
from task.tensors import is_finite

MAX_INDEX_BYTES = 1_000_000  # of a file's index of names, types and shapes
MOST_COUNTED = 2**53  # of an integer, such as batch norm's counter
COUNTED_IN_ROUND = 10**9  # the largest growth of an integer in a round; a step adds 1
MAX_REASON = 200
# `load` documents `SafetensorError` alone; types and shapes that PyTorch has not raise the others.
READ_ERRORS = (
    SafetensorError, AssertionError, KeyError, OverflowError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True)
class PackedTensors:
    """Named tensors in the safetensors format.

    One array for each model, because Flower sends every array in requests of its own.

    Attributes:
        data: the file's bytes; empty for no tensors.
    """

    data: bytes = b""

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "PackedTensors":
        """Pack tensors that are on the CPU."""
        if not tensors:
            return cls()
        return cls(save({name: tensor.contiguous() for name, tensor in tensors.items()}))

    def unpack(self) -> dict[str, Tensor]:
        """Return the tensors, in no particular order.

        Raises:
            ProtocolError: the bytes are not a safetensors file, or hold a type that PyTorch has
                not. Nothing larger than the bytes was allocated.
        """
        if not self.data:
            return {}
        if int.from_bytes(self.data[:8], "little") > MAX_INDEX_BYTES:
            raise ProtocolError(
                f"the arrays cannot be read: their index is above {MAX_INDEX_BYTES} bytes"
            )
        try:
            return load(self.data)
        except READ_ERRORS as error:
            reason = one_line(f"{type(error).__name__}: {error}", MAX_REASON)
            raise ProtocolError(f"the arrays cannot be read: {reason}") from None


def check_tensors(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    summed: bool = False,
) -> None:
    """Compare received tensors with those that the receiver has.

    Args:
        tensors: what was received.
        expected: has the names, shapes and types that they must have.
        summed: whether they are the totals of an `IntegerSum`, all of them int64.

    Raises:
        ProtocolError: a name, shape or type differs, or a number is not finite or too large.
    """
    if tensors.keys() != expected.keys():
        raise ProtocolError("the arrays have other names than those that were sent")
    for name, value in tensors.items():
        wanted = torch.int64 if summed else expected[name].dtype
        if value.shape != expected[name].shape or value.dtype != wanted:
            found = f"{type_name(value.dtype)}{tuple(value.shape)}"
            raise ProtocolError(
                f"{name} is {found}, not {type_name(wanted)}{tuple(expected[name].shape)}"
            )
        if value.is_floating_point() and not is_finite(value):
            raise ProtocolError(f"{name} is not finite")
        if not (summed or value.is_floating_point()) and value.numel():
            least, most = value.aminmax()
            if not -MOST_COUNTED <= int(least) <= int(most) <= MOST_COUNTED:
                raise ProtocolError(f"{name} counts beyond 2^53")


def check_counters(tensors: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> None:
    """Check that no integer has grown by more than a round can count.

    The largest value of the clients becomes the global one. Without this limit, one client could
    raise a counter so far that the values of all others are refused in the next round.

    Args:
        tensors: what a client has sent, or the totals of an `IntegerSum`.
        before: the global weights.

    Raises:
        ProtocolError: one has grown by more.
    """
    for name, start in before.items():
        if start.is_floating_point() or not start.numel():
            continue
        if (tensors[name] > start + COUNTED_IN_ROUND).any():
            raise ProtocolError(f"{name} counts more than a round can")


def type_name(dtype: torch.dtype) -> str:
    """Return a type's name without the package, such as ``float32``."""
    return str(dtype).removeprefix("torch.")
