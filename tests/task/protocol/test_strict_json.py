"""The reader of a message's header."""

import pytest

from task.errors import ProtocolError
from task.protocol.base import read_object


@pytest.mark.parametrize("content", [b'{"a": 1, "a": 1}', b'{"a": {"b": 1, "c": 2, "b": 3}}'])
def test_a_key_twice_is_refused(content: bytes) -> None:
    with pytest.raises(ProtocolError, match="holds a key twice"):
        read_object(content)


def test_one_key_at_two_places_is_read() -> None:
    assert read_object(b'{"a": {"a": 1}, "b": [{"a": 2}]}') == {"a": {"a": 1}, "b": [{"a": 2}]}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(content: bytes) -> None:
    with pytest.raises(ProtocolError, match="its header is not JSON"):
        read_object(content)
