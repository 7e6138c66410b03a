"""Rounded changes: how far they are off, what they weigh, and what is refused on reception."""

import math

import pytest
import torch
from torch import Tensor

from task.errors import ProtocolError
from task.protocol.number_formats import STEP, UpdateFormat
from task.protocol.tensors import PackedTensors

START = {
    "w": torch.ones(30, 20), "empty": torch.empty(0), "mean": torch.zeros(3), "n": torch.tensor(2),
}  # fmt: skip
TRAINED = {"w", "empty", "another client's"}


def changes(size: float = 0.01) -> dict[str, Tensor]:
    """Random changes of what is trained."""
    drawn = torch.randn(30, 20, generator=torch.Generator().manual_seed(0))
    return {"w": size * drawn, "empty": torch.empty(0)}


def sent(name: str, size: float = 0.01) -> dict[str, Tensor]:
    """An honest update as it arrives."""
    trained = {**START, "mean": torch.full((3,), 0.1), "n": torch.tensor(5)}
    encoded = UpdateFormat(name, TRAINED).encode(trained, changes(size))
    return PackedTensors.of(encoded).unpack()


@pytest.mark.parametrize(("name", "most"), [("bfloat16", 2**-8), ("int8", 0.5 / 127)])
def test_a_change_is_rounded_to_the_nearest_number(name: str, most: float) -> None:
    found = UpdateFormat(name, TRAINED).received(sent(name), START)
    exact = changes()["w"]
    off = (found["w"] - 1 - exact).abs()
    relative_to = exact.abs() if name == "bfloat16" else exact.abs().max()
    assert (off <= most * relative_to + 1.3e-7).all()  # and the rounding of the float32 near 1
    assert off.max() > 1e-6
    assert torch.equal(found["mean"], torch.full((3,), 0.1))
    assert found["n"] == 5
    assert [value.dtype for value in found.values()] == [value.dtype for value in START.values()]


@pytest.mark.parametrize(("name", "size"), [("bfloat16", 2 * 600), ("int8", 600 + 4 + 4)])
def test_its_size_is_known_before(name: str, size: int) -> None:
    whole = UpdateFormat(name, TRAINED)
    assert whole.size(START) == size + 3 * 4 + 8
    assert whole.size(START) == sum(value.nbytes for value in sent(name).values())


@pytest.mark.parametrize("size", [0.0, 1e-42, 1e30])
def test_int8_has_changes_of_any_size(size: float) -> None:
    found = UpdateFormat("int8", TRAINED).changes(sent("int8", size), START)
    assert (found["w"] - changes(size)["w"]).abs().max() <= size / 30 + 1e-36


def test_same_changes_have_the_same_bytes() -> None:
    assert PackedTensors.of(sent("int8")) == PackedTensors.of(sent("int8"))


HOSTILE = [
    ("int8", {"w": torch.ones(30, 20)}, "w is float32(30, 20), not int8(30, 20)"),
    ("int8", {"w": torch.ones(30, 21).to(torch.int8)}, "w is int8(30, 21), not int8(30, 20)"),
    ("int8", {STEP + "w": torch.tensor(math.nan)}, "step of w is not finite"),
    ("int8", {STEP + "w": torch.tensor(math.inf)}, "step of w is not finite"),
    ("int8", {STEP + "w": torch.ones(10**6)}, "step of w is float32(1000000,), not float32()"),
    ("int8", {STEP + "w": torch.tensor(1.0).double()}, "step of w is float64(), not float32()"),
    ("int8", {STEP + "mean": torch.tensor(1.0)}, "the arrays have other names"),
    ("int8", {"mean": torch.zeros(3, dtype=torch.int8)}, "mean is int8(3,), not float32(3,)"),
    ("bfloat16", {"w": torch.ones(30, 20).half()}, "w is float16(30, 20), not bfloat16(30, 20)"),
    ("bfloat16", {"w": torch.full((30, 20), math.nan).bfloat16()}, "w is not finite"),
    ("bfloat16", {STEP + "w": torch.tensor(1.0)}, "the arrays have other names"),
    ("bfloat16", {"n": torch.tensor(2**62)}, "n counts beyond 2^53"),
]


@pytest.mark.parametrize(("name", "changed", "reason"), HOSTILE)
def test_a_hostile_update_is_refused(name: str, changed: dict[str, Tensor], reason: str) -> None:
    with pytest.raises(ProtocolError) as error:
        UpdateFormat(name, TRAINED).received({**sent(name), **changed}, START)
    assert str(error.value).startswith(reason)


def test_an_update_without_its_steps_is_refused() -> None:
    found = sent("int8")
    del found[STEP + "w"]
    with pytest.raises(ProtocolError, match="the arrays have other names"):
        UpdateFormat("int8", TRAINED).received(found, START)
