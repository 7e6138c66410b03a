"""A reply with tensors of single clients, and the reason of each client that has none."""

from torch import Tensor

from task.errors import ProtocolError
from task.protocol.base import Line, Schema
from task.protocol.envelope import Client, TableReply
from task.protocol.tensors import PackedTensors


class SentRow(Schema):
    """Whether a client's tensors are sent.

    Attributes:
        client: its number.
        reason: why they are not; empty if they are.
    """

    client: Client
    reason: Line = ""


class TensorsReply(TableReply):
    """Tensors of clients: a `SentRow` for each client.

    Attributes:
        sent: by client, its tensors.
    """

    sent: dict[str, PackedTensors]

    def check_succeeded(self, client: int) -> None:
        """Refuse the row of a client that failed.

        Raises:
            ProtocolError: it failed, or its row is missing or damaged.
        """
        row = SentRow.checked(self.fields_of(client))
        if row.reason:
            raise ProtocolError(row.reason)

    def of(self, client: int) -> dict[str, Tensor]:
        """Return a client's tensors, unchecked.

        Raises:
            ProtocolError: the client failed, or its row or its tensors are missing or damaged.
        """
        self.check_succeeded(client)
        if str(client) not in self.sent:
            raise ProtocolError("its tensors are missing")
        return self.sent[str(client)].unpack()
