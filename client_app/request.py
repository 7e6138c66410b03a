"""What the server asks of a worker, read from its message and checked."""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from flwr.app import Message
from torch import Tensor

from task import wire
from task.fingerprint import code_directories, fingerprint
from task.worker import Worker, shared_worker


class CodeMismatchError(RuntimeError):
    """Server and client run different code, so nothing may be trained."""


@dataclass
class Request:
    """A request, whatever its kind.

    Attributes:
        run: the run's id.
        experiment: the `LocalConfig` as JSON.
        fingerprint: of the code that the server runs.
        round: the server's round; 0 before the first.
        clients: the cohort.
        accepted: for each of them, the round it was last accepted in; 0 before that.
        weights: the global weights; empty in a query.
        broadcast: what the method's server half sends, if anything.
    """

    run: str
    experiment: str
    fingerprint: str
    round: int
    clients: list[int]
    accepted: list[int]
    weights: dict[str, Tensor]
    broadcast: dict[str, Tensor]

    @classmethod
    def of(cls, message: Message) -> "Request":
        """Read a message."""
        config = message.content.config_records[wire.REQUEST]
        return cls(
            run=cast(str, config["run"]),
            experiment=cast(str, config["experiment"]),
            fingerprint=cast(str, config["fingerprint"]),
            round=cast(int, config["round"]),
            clients=cast(list[int], config["clients"]),
            accepted=cast(list[int], config["accepted"]),
            weights=tensors(message, wire.ARRAYS),
            broadcast=tensors(message, wire.BROADCAST),
        )

    @cached_property
    def worker(self) -> Worker:
        """This process's worker for the experiment, if it runs the server's code.

        Raises:
            CodeMismatchError: it does not.
        """
        if fingerprint() != self.fingerprint:
            raise CodeMismatchError(
                f"this worker would train with {code_directories()['task'].parent} "
                f"({fingerprint()[:12]}), the server runs other code ({self.fingerprint[:12]})"
            )
        return shared_worker(self.experiment)


def tensors(message: Message, name: str) -> dict[str, Tensor]:
    """The arrays that a message holds under a name; empty when there are none."""
    arrays = message.content.array_records.get(name)
    return {} if arrays is None else dict(arrays.to_torch_state_dict())
