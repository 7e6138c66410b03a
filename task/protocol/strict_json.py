"""The reader of a message's header."""

import json
from typing import Any

from task.protocol.errors import ProtocolError

NOT_JSON = "its header is not JSON"


def read_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object in UTF-8 that the bytes hold.

    Raises:
        ProtocolError: they hold something else, a key twice, an integer of more than 4,300
            digits, or too many levels. NaN and infinite numbers are left to each field.
    """
    try:
        found = json.loads(content.decode(), object_pairs_hook=_each_key_once)
    except ProtocolError:
        raise
    except (ValueError, RecursionError):
        raise ProtocolError(NOT_JSON) from None
    if not isinstance(found, dict):
        raise ProtocolError("its header is not a JSON object")
    return found


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ProtocolError("its header holds a key twice")
    return found
