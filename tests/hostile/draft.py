"""A reply or request that is changed before it is sent, and the changes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from task.protocol.packed import DATA, HEADER, JSON, SIGNATURE, Packed, pieces_of, place_of
from task.protocol.signature import sign
from task.protocol.tensors import PackedTensors

Records = dict[str, ArrayRecord | ConfigRecord | MetricRecord]


@dataclass
class Draft:
    """A message that was valid, and may be changed in any way.

    Attributes:
        fields: its header's fields.
        arrays: the bytes of its arrays.
        header: what is sent in place of the fields.
        signature: what is sent in place of the sender's signature.
        records: what is sent in addition, or in place of records of the same name.
        reason: if set, an error with this reason is sent in place of all that.
    """

    fields: dict[str, Any]
    arrays: dict[str, bytes]
    header: bytes | None = None
    signature: bytes | None = None
    records: Records = field(default_factory=dict)
    reason: str | None = None

    @classmethod
    def of(cls, content: RecordDict) -> "Draft":
        """Return a message as a draft."""
        packed = Packed.of(content)
        return cls(json.loads(packed.header), dict(packed.arrays))

    @property
    def row(self) -> dict[str, Any]:
        """The one row of a reply from a site."""
        (row,) = self.fields["rows"]
        return row  # type: ignore[no-any-return]

    def content(self, kind: str, key: EllipticCurvePrivateKey | None) -> RecordDict:
        """Return the message; the sender signs it if it has a key."""
        header = json.dumps(self.fields).encode() if self.header is None else self.header
        entries: dict[str, Any] = {JSON: header}
        if self.signature is not None:
            entries[SIGNATURE] = self.signature
        elif key is not None:
            entries[SIGNATURE] = sign(key, kind, Packed(header, self.arrays))
        records: Records = {HEADER: ConfigRecord(entries)}
        for name, data in self.arrays.items():
            for number, piece in enumerate(pieces_of(data)):
                records[place_of(name, number)] = ConfigRecord({DATA: piece})
        return RecordDict(records | self.records)


Change = Callable[[Draft], None]


class Case(NamedTuple):
    """A hostile message.

    Attributes:
        name: what is wrong with it.
        change: makes a valid message into it.
        outcome: a part of the reason for which it is refused.
    """

    name: str
    change: Change
    outcome: str


def fields(**changes: Any) -> Change:
    """Change fields of the header."""

    def change(draft: Draft) -> None:
        draft.fields |= changes

    return change


def row(**changes: Any) -> Change:
    """Change fields of the row."""

    def change(draft: Draft) -> None:
        draft.row.update(changes)

    return change


def rows(make: Callable[[dict[str, Any]], list[Any]]) -> Change:
    """Replace the rows by others made from the row."""

    def change(draft: Draft) -> None:
        draft.fields["rows"] = make(draft.row)

    return change


def text(make: Callable[[str], str | bytes]) -> Change:
    """Replace the header's text."""

    def change(draft: Draft) -> None:
        made = make(json.dumps(draft.fields))
        draft.header = made if isinstance(made, bytes) else made.encode()

    return change


def tensors(make: Callable[[dict[str, Tensor]], Mapping[str, Tensor]], name: str = "") -> Change:
    """Change the tensors of the message's first array, or of the one with this name."""

    def on_bytes(data: bytes) -> bytes:
        return PackedTensors.of(make(PackedTensors(data).unpack())).data

    return content(on_bytes, name)


def content(make: Callable[[bytes], bytes], name: str = "") -> Change:
    """Change the bytes of the message's first array, or of the one with this name."""

    def change(draft: Draft) -> None:
        place = name or min(draft.arrays)
        draft.arrays[place] = make(draft.arrays.get(place, b""))

    return change


def index(make: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """Change the index of the first array's safetensors file, and not what it describes."""

    def on_bytes(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        return tensors_file(make(json.loads(data[8 : 8 + length])), data[8 + length :])

    return content(on_bytes)


def tensors_file(found: dict[str, Any], data: bytes = b"") -> bytes:
    """Return a safetensors file with an index of one's choice."""
    written = json.dumps(found).encode()
    return len(written).to_bytes(8, "little") + written + data


def records(make: Callable[[Draft], Records]) -> Change:
    """Send further records."""

    def change(draft: Draft) -> None:
        draft.records = make(draft)

    return change


def arrays(make: Callable[[bytes], dict[str, bytes]]) -> Change:
    """Send further arrays, made from the first one."""

    def change(draft: Draft) -> None:
        draft.arrays |= make(draft.arrays[min(draft.arrays)])

    return change


def only(make: Callable[[bytes], dict[str, bytes]]) -> Change:
    """Send other arrays in place of all."""

    def change(draft: Draft) -> None:
        draft.arrays = make(draft.arrays[min(draft.arrays)])

    return change


def failure(reason: str) -> Change:
    """Send one of Flower's error replies."""

    def change(draft: Draft) -> None:
        draft.reason = reason

    return change


def signature(value: bytes) -> Change:
    """Send another signature."""

    def change(draft: Draft) -> None:
        draft.signature = value

    return change
