"""A message as bytes, and the names of the records in which Flower carries it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from task.errors import ProtocolError
from task.plain_text import one_line

if TYPE_CHECKING:  # it imports PyTorch, and programs without it read messages, too
    from task.protocol.limits import ReplyLimits

HEADER, JSON, DATA = "header", "json", "data"  # the names of a message's records and their entries
SIGNATURE = "signature"  # the entry beside `JSON` with a site's signature
SALT, SALT_BYTES = "salt", 16  # the entry beside `DATA` that makes a request's records unique
MAX_SIGNATURE_BYTES = 150
PIECE_BYTES = 4 * 2**20  # Flower sends each record in one request


@dataclass(frozen=True)
class Packed:
    """A message as bytes.

    Attributes:
        header: the fields, as JSON.
        arrays: each array field's bytes; ``field/key`` for an entry of a group.
        signature: of a site's reply; see `task.protocol.signature`.
    """

    header: bytes
    arrays: dict[str, bytes]
    signature: bytes = b""

    @classmethod
    def of(cls, records: Mapping[str, Any], limits: "ReplyLimits | None" = None) -> "Packed":
        """Read a message from Flower's records, which this package does not import.

        Args:
            records: `HEADER`, a record with the header under `JSON` and perhaps a signature under
                `SIGNATURE`; and for each piece of an array, named by `place_of`, a record with its
                bytes under `DATA`.
            limits: the largest sizes, which are checked before the pieces are put together.

        Raises:
            ProtocolError: they are not of this form, or larger.
        """
        pieces: dict[str, dict[str, Any]] = {}
        try:
            header = records[HEADER][JSON]
            signature = records[HEADER].get(SIGNATURE, b"")
            for place in records:
                if place != HEADER:
                    name, _, number = place.rpartition(".")
                    pieces.setdefault(name, {})[number] = records[place][DATA]
            arrays = {
                name: [found[str(number)] for number in range(len(found))]
                for name, found in pieces.items()
            }
        except (AttributeError, KeyError, TypeError, IndexError) as error:
            raise ProtocolError(
                one_line(f"a record is missing or has another form: {error}")
            ) from None
        parts = [header, signature, *(piece for found in arrays.values() for piece in found)]
        if not all(isinstance(part, bytes) for part in parts):
            raise ProtocolError("a record holds something other than bytes")
        if len(signature) > MAX_SIGNATURE_BYTES:
            raise ProtocolError(f"its signature is larger than {MAX_SIGNATURE_BYTES} bytes")
        if limits is not None:
            sizes = {name: sum(map(len, found)) for name, found in arrays.items()}
            limits.check(len(header), sizes)
        return cls(header, {name: b"".join(found) for name, found in arrays.items()}, signature)


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Yield the pieces in which an array travels, in order."""
    for start in range(0, max(len(data), 1), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


def place_of(name: str, number: int) -> str:
    """Return the name of the record that holds a piece of an array."""
    return f"{name}.{number}"
