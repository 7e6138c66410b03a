"""A message as bytes, and the names of the records in which Flower carries it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from task.plain_text import one_line
from task.protocol.errors import ProtocolError

HEADER, JSON, DATA = "header", "json", "data"  # the names of a message's records and their entries
SIGNATURE = "signature"  # the entry beside `JSON` with a site's signature
MAX_SIGNATURE_BYTES = 150


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
    def of(cls, records: Mapping[str, Any]) -> "Packed":
        """Read a message from Flower's records, which this package does not import.

        Args:
            records: `HEADER`, a record with the header under `JSON` and perhaps a signature under
                `SIGNATURE`; and for each array a record with the array under `DATA`.

        Raises:
            ProtocolError: they are not of this form.
        """
        try:
            header = records[HEADER][JSON]
            signature = records[HEADER].get(SIGNATURE, b"")
            arrays = {name: records[name][DATA].data for name in records if name != HEADER}
        except (AttributeError, KeyError, TypeError, IndexError) as error:
            raise ProtocolError(
                one_line(f"a record is missing or has another form: {error}")
            ) from None
        if not all(isinstance(part, bytes) for part in (header, signature, *arrays.values())):
            raise ProtocolError("a record holds something other than bytes")
        if len(signature) > MAX_SIGNATURE_BYTES:
            raise ProtocolError(f"its signature is larger than {MAX_SIGNATURE_BYTES} bytes")
        return cls(header, arrays, signature)
