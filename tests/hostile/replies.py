"""Hostile replies of a site: to the registration, in training and in validation.

Each is the reply of an honest site with one change. The outcome is a part of the reason in the
record, and nothing else of it counts.
"""

import gzip
import io
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from torch import Tensor

from task.protocol.packed import DATA, HEADER, PIECE_BYTES
from tests.hostile.draft import (
    Case,
    Change,
    arrays,
    content,
    failure,
    fields,
    index,
    only,
    records,
    row,
    rows,
    signature,
    tensors,
    tensors_file,
    text,
)

HUGE = 10**4000  # Python reads integers of up to 4,300 digits
FORGED = "ok\nround 9/9  test 0.999"
ANSI = "\x1b[2J\x1b[31mred"
BIDI = "user\u202egnp.exe"
HTML = "<script>alert(1)</script>"
FORMULA = "=cmd|'/c calc'!A1"
PICKLE_WAS_READ = Path(tempfile.gettempdir()) / "univarfl-read-a-pickle"
MALFORMED = "its header is not JSON"
TOO_LARGE = "its header has"
UNREADABLE = "the arrays cannot be read"


def numpy_zip() -> bytes:
    """Return 50 MB of zeros as NumPy's compressed file."""
    file = io.BytesIO()
    np.savez_compressed(file, w=np.zeros(50_000_000, np.uint8))
    return file.getvalue()


class Opened:
    """An object whose pickle would write a file."""

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (str(PICKLE_WAS_READ), "w")


def piece(data: bytes) -> ConfigRecord:
    """Return the record of a piece of an array."""
    return ConfigRecord({DATA: data})


ARRAYS = ArrayRecord({DATA: Array("uint8", (2,), "bytes", b"{}")})
LARGEST = piece(bytes(PIECE_BYTES))


def first(found: dict[str, Tensor]) -> str:
    """Return the name of the first tensor of numbers that are not integers."""
    return min(name for name, value in found.items() if value.is_floating_point())


def counter(found: dict[str, Tensor]) -> str:
    """Return the name of the first integer."""
    return min(name for name, value in found.items() if not value.is_floating_point())


def filled(value: float) -> Change:
    """Fill the first tensor with a number."""
    return tensors(
        lambda found: {**found, first(found): torch.full_like(found[first(found)], value)}
    )


def described(**changes: Any) -> Change:
    """Describe a tensor of a safetensors file otherwise than it is."""

    def change(found: dict[str, Any]) -> dict[str, Any]:
        name = min(found)
        return {**found, name: {**found[name], **changes}}

    return index(change)


def only_tensor(kind: str, shape: list[int], data: bytes = b"") -> Change:
    """Send one tensor of a type and shape in place of all."""
    found = {"x": {"dtype": kind, "shape": shape, "data_offsets": [0, len(data)]}}
    return content(lambda _: tensors_file(found, data))


def many(count: int) -> dict[str, Any]:
    """Return the index of many empty tensors."""
    return {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(count)}


TRAINING = (
    # The header's fields.
    Case("claims 10^9 training images", row(examples=10**9), "it reports 1000000000 training"),
    Case("claims -5 training images", row(examples=-5), "examples: Input should be greater"),
    Case("claims 10^4000 images", row(examples=HUGE), "examples: Input should be less"),
    Case("claims 2.5 images", row(examples=2.5), "examples: Input should be a valid integer"),
    Case("infinite seconds", row(seconds=float("inf")), "seconds: Input should be a finite"),
    Case("10^4000 seconds", row(seconds=HUGE), "seconds: Input should be"),
    Case("a loss that is NaN", row(losses={"ce": float("nan")}), "losses.ce: Input should be a fi"),
    Case("a loss of 1e308", row(losses={"ce": 1e308}), "losses.ce: Input should be less"),
    Case("a loss of 10^4000", row(losses={"ce": HUGE}), "losses.ce: Input should be"),
    Case("a loss called epsilon", row(losses={"epsilon": 0.1}), "it reports the loss epsilon, whi"),
    Case("a loss called accuracy", row(losses={"ce": 1.0, "accuracy": 1.0}), "the loss accuracy"),
    Case("a loss whose name forges a line", row(losses={FORGED: 1.0}), "should match pattern"),
    Case("a loss whose name is a formula", row(losses={FORMULA: 1.0}), "should match pattern"),
    Case("200 losses", row(losses={f"l{n}": 1.0 for n in range(200)}), "losses: Dictionary should"),
    Case("a device with colours", row(device=ANSI), "device: String should match pattern"),
    Case("a reason that forges a line", row(reason=FORGED), "reason: must be printable, on one"),
    Case("a reason with ANSI escapes", row(reason=ANSI), "reason: must be printable, on one line"),
    Case("a reason written backwards", row(reason=BIDI), "reason: must be printable, on one line"),
    Case("a reason with half a character", row(reason="\ud800"), "reason: "),
    Case("a reason that is HTML", row(reason=HTML), HTML),
    Case("a reason that is a formula", row(reason=FORMULA), FORMULA),
    Case("a reason of 40,000 characters", row(reason="x" * 40_000), "reason: String should have"),
    Case("a reason of 1 MB", row(reason="x" * 1_000_000), TOO_LARGE),
    Case("a field that nobody knows", row(more=1), "more: Extra inputs are not permitted"),
    Case("no row", rows(lambda own: []), "the worker's reply has no row for it"),
    Case("the row twice", rows(lambda own: [own, own]), "the rows name a client twice"),
    Case("rows of other clients", rows(lambda own: [own, {**own, "client": 0}]), "not asked for"),
    Case("10,000 rows", rows(lambda own: [{**own, "client": n} for n in range(10_000)]), TOO_LARGE),
    Case("a row of client 'true'", rows(lambda own: [{**own, "client": True}]), "must name its cl"),
    Case("a row that is a list", rows(lambda own: [[1]]), "rows.0: Input should be a valid dict"),
    Case("an earlier round", fields(round=0), "its reply is for another round"),
    Case("another run, a path", fields(run="../../etc"), "run: String should match pattern"),
    Case("another run", fields(run="other"), "its reply is for another run"),
    Case("other code", fields(fingerprint="0" * 64), "its reply is for another fingerprint"),
    Case("another request's nonce", fields(nonce="0" * 32), "its reply is for another nonce"),
    # The header's text.
    Case("a key twice", text(lambda own: own[:-1] + ', "run": "other"}'), "holds a key twice"),
    Case("5,000 levels of lists", text(lambda own: "[" * 5000), MALFORMED),
    Case("5,000 levels of objects", text(lambda own: '{"a":' * 5000), MALFORMED),
    Case("4 MB of empty lists", text(lambda own: f"[{'[],' * 1_300_000}[]]"), TOO_LARGE),
    Case("an integer of 10,000 digits", text(lambda own: f'{{"a": {"9" * 10_000}}}'), MALFORMED),
    Case("bytes that are no UTF-8", text(lambda own: b"\xff\xfe{}"), MALFORMED),
    Case("UTF-16", text(lambda own: own.encode("utf-16")), MALFORMED),
    Case("a list", text(lambda own: "[]"), "its header is not a JSON object"),
    Case("nothing", text(lambda own: ""), MALFORMED),
    Case("a header that is cut off", text(lambda own: own[: len(own) // 2]), MALFORMED),
    # The tensors.
    Case("a shape beyond its bytes", described(shape=[10**9]), UNREADABLE),
    Case("a shape beyond 64 bits", described(shape=[2**62, 2**62]), UNREADABLE),
    Case("an empty tensor of 2^80", only_tensor("F32", [0, 2**40, 2**40]),
         UNREADABLE),
    Case("overlapping tensors", described(data_offsets=[0, 4]), UNREADABLE),
    Case("a type that PyTorch has not", only_tensor("F8_E8M0", [4], bytes(4)), UNREADABLE),
    Case("a type that nobody has", described(dtype="F4096"), UNREADABLE),
    Case("an index of 2^63 bytes", content(lambda data: b"\xff" * 8 + data[8:]), UNREADABLE),
    Case("an index that forges a line", index(lambda found: {FORGED: {"dtype": "F"}}), UNREADABLE),
    Case("10,000 empty tensors", index(lambda found: many(10_000)), "bytes, of"),
    Case("a tensor too many", tensors(lambda found: {**found, "x": torch.ones(1)}), "other names"),
    Case("a tensor too few", tensors(lambda found: {first(found): found[first(found)]}),
         "the arrays have other names"),
    Case("a tensor of another shape",
         tensors(lambda found: {**found, first(found): found[first(found)].flatten()[:1]}), "not "),
    Case("a tensor of another type",
         tensors(lambda found: {**found, first(found): found[first(found)].half()}), "is float16"),
    Case("NaN", filled(float("nan")), "is not finite"),
    Case("infinity", filled(float("inf")), "is not finite"),
    Case("1e30", filled(1e30), "has numbers beyond 65,536"),
    Case("a counter of 2^62",
         tensors(lambda found: {**found, counter(found): torch.tensor(2**62)}), "counts beyond 2^"),
    Case("tensors that are cut off", content(lambda data: data[:-1]), UNREADABLE),
    Case("no tensors", only(lambda data: {}), "its reply holds no weights"),
    Case("tensors of ten times the size", content(lambda data: data * 10), "bytes, of"),
    Case("50 MB of zeros as gzip", content(lambda data: gzip.compress(bytes(50_000_000))),
         UNREADABLE),
    Case("50 MB of zeros as npz", content(lambda data: numpy_zip()), UNREADABLE),
    Case("a pickle that writes a file", content(lambda data: pickle.dumps(Opened())), UNREADABLE),
    # The records.
    Case("an array whose name is a path", arrays(lambda data: {"weights/../../x": data}), "not as"),
    Case("another client's model", arrays(lambda data: {"weights/0": data}), "not asked for"),
    Case("a sum in place of the model", only(lambda data: {"weights/sum": data}), "not asked for"),
    Case("something that the method does not send",
         records(lambda draft: {f"extra/{draft.row['client']}.0": piece(b"x")}), "bytes, of "),
    Case("an array whose name is half a character",
         records(lambda draft: {"\ud800.0": piece(b"")}), "not asked for"),
    Case("20,000 empty arrays",
         records(lambda draft: dict.fromkeys((f"a{n}.0" for n in range(20_000)), piece(b""))),
         "not asked for"),
    Case("a record of numbers",
         records(lambda draft: {f"{min(draft.arrays)}.0": MetricRecord({"a": 1})}),
         "a record is missing or has another form"),
    Case("a record of arrays", records(lambda draft: {f"{min(draft.arrays)}.0": ARRAYS}),
         "holds something other than bytes"),
    Case("an array without its first piece", records(lambda draft: {"extra/2.1": piece(b"x")}),
         "a record is missing or has another form"),
    Case("a piece that is named 20,000 times",
         records(lambda draft: dict.fromkeys((f"extra/2.{n}" for n in range(20_000)), LARGEST)),
         "not asked for"),
    Case("an array without a number", records(lambda draft: {"extra/2": piece(b"x")}),
         "a record is missing or has another form"),
    Case("a header that is an array", records(lambda draft: {HEADER: ARRAYS}),
         "a record is missing or has another form"),
    Case("a header that is a list", records(lambda draft: {HEADER: ConfigRecord({"json": [1]})}),
         "a record holds something other than bytes"),
    Case("no signature", signature(b""), "it is not signed"),
    Case("a signature of 1 MB", signature(bytes(1_000_000)), "its signature is larger than"),
    # Flower's own error replies.
    Case("an error that forges a line", failure(FORGED), "the worker failed: round 9/9 test 0.999"),
    Case("an error with ANSI escapes", failure(ANSI), "the worker failed: ?[2J?[31mred"),
    Case("an error of 2 MB", failure("x" * 2_000_000), "the worker failed: xxx"),
    Case("an error of empty lines", failure("\n" * 100_000), "the worker failed: no reason given"),
)  # fmt: skip

VALIDATION = (
    Case("more correct than there are", row(correct=10**6), "images are correct"),
    Case("10^9 validation images", row(examples=10**9), "it reports 1000000000 validation images"),
    Case("a loss of 1e308", row(loss=1e308), "loss: Input should be less"),
    Case("a loss below 0", row(loss=-1.0), "loss: Input should be greater"),
    Case("a loss of 10^4000", row(loss=HUGE), "loss: Input should be"),
    Case("rows of other clients", rows(lambda own: [own, {**own, "client": 0}]), "not asked for"),
    Case("a model", records(lambda draft: {"weights/2.0": piece(b"x")}), "not asked for"),
    Case("4 MB of empty objects", text(lambda own: f"[{'{},' * 1_300_000}{{}}]"), TOO_LARGE),
    Case("an error with ANSI escapes", failure(ANSI), "?[2J?[31mred"),
)  # fmt: skip

REGISTRATION = (
    Case("claims 10^11 training images", fields(train=10**11), "claims 100000000000 training"),
    Case("claims 10^4000 training images", fields(train=HUGE), "train: Input should be less"),
    Case("counts 100,000 classes", fields(labels=[1] * 100_000), TOO_LARGE),
    Case("counts three classes of two", fields(labels=[1, 1, 1]), "counts images of 3 classes"),
    Case("a name that forges a line", fields(site=FORGED), "site: must be printable, on one line"),
    Case("an error with ANSI escapes", fields(error=ANSI), "error: must be printable, on one line"),
    Case("an error that is HTML", fields(error=HTML), HTML),
    Case("a host of 2,000 characters", fields(host="x" * 2000), "host: String should have at most"),
    Case("a storage that is a path", fields(state="../../etc"), "state: String should match"),
    Case("client -1", fields(index=-1), "index: Input should be greater"),
    Case("client 10^4000", fields(index=HUGE), "index: Input should be less"),
    Case("5,000 levels of lists", text(lambda own: "[" * 5000), MALFORMED),
    Case("an error reply that forges a line", failure(FORGED), "round 9/9 test 0.999"),
)  # fmt: skip
