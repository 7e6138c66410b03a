"""A SuperNode's registration, and the end of a run there."""

from typing import Annotated, ClassVar

from pydantic import Field

from task.protocol.base import Count, Line
from task.protocol.envelope import Client, Kind, Reply, Request
from task.protocol.limits import LABEL_BYTES, SHORT_HEADER, ReplyLimits
from task.protocol.tensors import PackedTensors


class RegistrationRequest(Request):
    """Asks a SuperNode to describe itself and to get ready.

    Attributes:
        weights: the file of ``model.weights``, for a site that trains a part of the network; empty
            otherwise.
    """

    weights: PackedTensors = PackedTensors()

    def reply_limits(self) -> ReplyLimits:
        """Return the size of the largest reply: the experiment names each class that it counts."""
        return ReplyLimits(SHORT_HEADER + LABEL_BYTES * len(self.experiment))


class RegistrationReply(Reply):
    """A SuperNode's description of itself.

    Attributes:
        index: its place among the SuperNodes, from 0; for a site, its client's number.
        nodes: how many SuperNodes there are, or sites in the experiment.
        site: the site's name; empty for a simulated worker.
        train: the number of images that the site trains on.
        validation: the number of images that it validates on.
        labels: its training images by class; empty if it does not share them.
        statistics: whether the site sends statistics of its images' features.
        code: the directory of its code; empty for a site.
        device: what it trains on.
        cuda: whether it sees a GPU.
        runtime: ``ray`` or ``process``.
        compiled: whether it trains through the compiler.
        host: its machine's name; empty for a site.
        state: names the storage of its clients' states, the same for all workers who share it;
            empty if there is none, and for a site, whose storage is its own.
        error: why it cannot train; empty if it can.
    """

    # A node that runs other code is refused with a text of its own.
    compared: ClassVar[tuple[str, ...]] = ("run", "round", "attempt", "nonce")

    index: Client
    nodes: Annotated[int, Field(ge=1, le=10**9)]
    site: Line
    train: Count
    validation: Count
    labels: Annotated[list[Count], Field(max_length=1_000_000)]
    statistics: bool = False
    code: Line
    device: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]
    cuda: bool
    runtime: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]
    compiled: bool
    host: Line
    state: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
    error: Line


class ForgetRequest(Request):
    """Asks a worker to delete the states that the run's clients keep."""


class ForgetReply(Reply):
    """Confirms that the states are deleted."""


REGISTER = Kind("query", RegistrationRequest, RegistrationReply)
FORGET = Kind("query.forget", ForgetRequest, ForgetReply)
