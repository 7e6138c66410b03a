"""Messages: what is written is read back, and nothing out of bounds is."""

import json
import math
import random
from typing import Any

import pytest
import torch

from task.errors import ProtocolError
from task.fingerprint import fingerprint
from task.plain_text import one_line
from task.protocol.base import MAX_HEADER_BYTES
from task.protocol.limits import ReplyLimits
from task.protocol.packed import DATA, HEADER, JSON, PIECE_BYTES, Packed, pieces_of, place_of
from task.protocol.registration import REGISTER, RegistrationReply, RegistrationRequest
from task.protocol.tensors import MAX_INDEX_BYTES, PackedTensors, check_tensors
from task.protocol.training import SUM, TrainReply, TrainRequest

WEIGHTS = {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)}


def train_request(**changes: Any) -> TrainRequest:
    fields: dict[str, Any] = {
        "run": "run", "experiment": "{}", "fingerprint": fingerprint(), "round": 3, "attempt": 2,
        "clients": [1, 4], "accepted": [0, 2], "shares": [0.1, 1 / 3],
        "weights": PackedTensors.of(WEIGHTS), **changes,
    }  # fmt: skip
    return TrainRequest(**fields)


def changed_header(packed: Packed, **changes: Any) -> Packed:
    """A message whose header was changed on the way."""
    return Packed(json.dumps(json.loads(packed.header) | changes).encode(), packed.arrays)


class TestRoundTrip:
    def test_a_request_comes_back_as_it_was_written(self) -> None:
        written = train_request()
        read = TrainRequest.unpack(written.pack())
        assert read == written
        assert read.shares == [0.1, 1 / 3]
        assert torch.equal(read.weights.unpack()["w"], WEIGHTS["w"])
        assert read.broadcast.unpack() == {}

    def test_arrays_travel_by_themselves_and_empty_ones_not_at_all(self) -> None:
        packed = train_request().pack()
        assert list(packed.arrays) == ["weights"]
        assert b"weights" not in packed.header

    def test_a_group_of_arrays_keeps_its_keys(self) -> None:
        sent = PackedTensors.of(WEIGHTS)
        reply = TrainReply.to(train_request(), rows=[], weights={SUM: sent, "7": sent}, extra={})
        packed = reply.pack()
        assert set(packed.arrays) == {"weights/sum", "weights/7"}
        assert TrainReply.unpack(packed) == reply


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"round": "../../etc"}, "round: Input should be a valid integer"),
        ({"round": -1}, "round: Input should be greater than or equal to 0"),
        ({"round": True}, "round: Input should be a valid integer"),
        ({"attempt": 0}, "attempt: Input should be greater than or equal to 1"),
        ({"clients": 3}, "clients: Input should be a valid list"),
        ({"clients": [1, 0.5]}, "clients.1: Input should be a valid integer"),
        ({"clients": ["0/../../secret", 1]}, "clients.0: Input should be a valid integer"),
        ({"clients": [-1, 1]}, "clients.0: Input should be greater than or equal to 0"),
        ({"clients": [1]}, "accepted must have one entry for each client"),
        ({"seconds": -1.0}, "seconds: Input should be greater than or equal to 0"),
        ({"seconds": "1"}, "seconds: Input should be a valid number"),
        ({"max_norm": float("inf")}, "max_norm: Input should be a finite number"),
        ({"shares": [0.5]}, "shares must have one entry for each client, or none"),
        ({"shares": [1.5, 0.5]}, "shares.0: Input should be less than or equal to 1"),
        ({"shares": None}, "shares: Input should be a valid list"),
        ({"run": "../../elsewhere"}, "run: String should match pattern"),
        ({"fingerprint": "x"}, "fingerprint: String should match pattern"),
        ({"unknown": 1}, "unknown: Extra inputs are not permitted"),
        ({"experiment": "x" * 1_000_001}, "experiment: String should have at most 1000000"),
        ({"weights": "x"}, "weights: Input should be an instance of PackedTensors"),
    ],
)
def test_a_field_out_of_bounds_is_refused(changes: dict[str, Any], reason: str) -> None:
    packed = changed_header(train_request().pack(), **changes)
    if "weights" in changes:
        packed = Packed(packed.header, {})
    with pytest.raises(ProtocolError) as caught:
        TrainRequest.unpack(packed)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("header", "more", "reason"),
    [
        (b"[" * 200_000, {}, "its header is not JSON"),
        (b"\xff\xfe", {}, "its header is not JSON"),
        (b"[]", {}, "its header is not a JSON object"),
        (b"{}", {"more": b""}, "unknown array 'more'"),
        (b"{}", {"weights/3": b""}, "unknown array 'weights/3'"),
    ],
)
def test_bytes_of_another_form_are_refused(
    header: bytes, more: dict[str, bytes], reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason):
        TrainRequest.unpack(Packed(header, more))


def test_a_header_that_is_too_large_is_refused() -> None:
    with pytest.raises(ProtocolError, match="its header is larger than"):
        TrainRequest.unpack(Packed(b"x" * (MAX_HEADER_BYTES + 1), {}))


@pytest.mark.parametrize(
    "records", [{}, {"header": {}}, {"header": 3}, {"header": {"json": "text"}},
                {"header": {"json": b"{}"}, "weights.0": {"other": 1}},
                {"header": {"json": b"{}"}, "weights.0": {"data": 1}},
                {"header": {"json": b"{}"}, "weights": {"data": b"x"}},
                {"header": {"json": b"{}"}, "weights.1": {"data": b"x"}},
                {"header": {"json": b"{}"}, "weights.0": {"data": b"x"}, "weights.x": {}}],
)  # fmt: skip
def test_records_of_another_form_are_refused(records: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        Packed.of(records)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_an_array_of_any_size_travels_in_pieces(size: int) -> None:
    data = random.Random(size).randbytes(size)
    pieces = list(pieces_of(data))
    assert len(pieces) == max(1, math.ceil(size / PIECE_BYTES))
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)
    records = {place_of("a.b", number): {DATA: piece} for number, piece in enumerate(pieces)}
    assert Packed.of({HEADER: {JSON: b"{}"}, **records}).arrays == {"a.b": data}


def test_pieces_are_not_put_together_beyond_the_limits() -> None:
    piece = {DATA: bytes(PIECE_BYTES)}
    records = {place_of("weights", number): piece for number in range(100_000)}
    with pytest.raises(ProtocolError, match=r"weights has 419430400000 bytes, of 100 at most"):
        Packed.of({HEADER: {JSON: b"{}"}, **records}, ReplyLimits(10, {"weights": 100}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("run", "another"), ("round", 4), ("attempt", 1), ("fingerprint", "0" * 64)],
)
def test_a_reply_to_another_message_is_refused(name: str, value: object) -> None:
    request = train_request()
    reply = TrainReply.to(request, rows=[], weights={}, extra={})
    reply.check_answers(request)
    other = reply.model_copy(update={name: value})
    with pytest.raises(ProtocolError, match=f"its reply is for another {name}"):
        other.check_answers(request)


def test_rows_of_clients_that_were_not_asked_for_are_refused() -> None:
    request = train_request()
    row = {"client": 3, "device": "cpu"}
    reply = TrainReply.to(request, rows=[row], weights={}, extra={})
    with pytest.raises(ProtocolError, match="its rows name clients that were not asked for"):
        reply.check_answers(request)


def test_text_that_could_forge_a_line_of_a_log_is_refused() -> None:
    request = RegistrationRequest(run="run", experiment="{}", fingerprint=fingerprint())
    fields = {
        "index": 0, "nodes": 1, "site": "north", "train": 5, "validation": 1, "labels": [],
        "code": "", "device": "cpu", "cuda": False, "runtime": "process", "compiled": False,
        "host": "", "state": "", "error": "",
    }  # fmt: skip
    packed = RegistrationReply.to(request, **fields).pack()
    forged = changed_header(packed, site="north\nround 3/3 test 0.999")
    with pytest.raises(ProtocolError, match="site: must be printable, on one line"):
        REGISTER.reply.unpack(forged)
    assert one_line("two\nlines\x1b[2J") == "two lines?[2J"


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"w": WEIGHTS["w"]}, "other names"),
        ({**WEIGHTS, "w": torch.zeros(3)}, r"w is float32\(3,\), not float32\(2,\)"),
        ({**WEIGHTS, "n": torch.tensor(3.0)}, r"n is float32\(\), not int64\(\)"),
        ({**WEIGHTS, "w": torch.tensor([1.0, torch.nan])}, "w is not finite"),
    ],
)
def test_tensors_that_differ_from_the_expected_ones_are_refused(
    tensors: dict[str, torch.Tensor], reason: str
) -> None:
    check_tensors(WEIGHTS, WEIGHTS)
    with pytest.raises(ProtocolError, match=reason):
        check_tensors(tensors, WEIGHTS)


def test_a_file_whose_index_is_too_large_is_refused() -> None:
    """Its reader would make objects of all of it."""
    index = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    index = index.ljust(MAX_INDEX_BYTES + 8)
    with pytest.raises(ProtocolError, match="their index is above 1000000 bytes"):
        PackedTensors(len(index).to_bytes(8, "little") + index + bytes(4)).unpack()
