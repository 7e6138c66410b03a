"""The table of message kinds: each line names what it says."""

import pytest

from client_app.kinds import HANDLERS, Handler
from task.protocol.envelope import Kind
from task.registry import named


@pytest.mark.parametrize(("message_type", "handler"), HANDLERS.items())
def test_a_line_names_a_kind_of_its_type_and_a_function(
    message_type: str, handler: Handler
) -> None:
    kind = named(handler.kind)
    assert isinstance(kind, Kind)
    assert kind.message_type == message_type
    assert callable(named(handler.work))
