"""A request for the part of the model that each client keeps, and these parts."""

from task.protocol.after.sent_tensors import TensorsReply
from task.protocol.base import Count, Fingerprint
from task.protocol.envelope import Kind, StatefulRequest
from task.protocol.limits import ReplyLimits
from task.protocol.tensors import PackedTensors


class PersonalRequest(StatefulRequest):
    """Asks a simulated worker for the part of the model that each client keeps.

    A site sends nothing. It writes its part to a directory of its own, if its owner has named one.

    Attributes:
        model: the SHA-256 of the file with the shared part, to which the clients' parts belong.
        part_bytes: the size of the file with one client's part; 0 for a site, whose reply has none.
        weights: the shared part, with which a client may measure batch norm's statistics.
    """

    model: Fingerprint
    part_bytes: Count
    weights: PackedTensors

    def reply_limits(self) -> ReplyLimits:
        senders = self.clients if self.part_bytes else []
        arrays = {f"sent/{client}": self.part_bytes for client in senders}
        return ReplyLimits(super().reply_limits().header, arrays)


class PersonalReply(TensorsReply):
    """By client, the entries of the ``state_dict`` that are its own."""


PERSONAL = Kind("query.personal", PersonalRequest, PersonalReply, counted=True)
