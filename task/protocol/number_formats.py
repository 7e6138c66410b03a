"""The numbers in which a client's update travels: ``update=bfloat16`` and ``update=int8``.

*What is rounded*: the change of each trained parameter, its value after training minus the global
one that was received. Changes are small and centred at 0, so that few bits describe them better
than they describe the values. Numbers are rounded to the nearest:

* bfloat16: 8 significant bits, 2 bytes each;
* int8: multiples of 1/127 of the tensor's largest change, 1 byte each, and this step as a float32.

*Error feedback* (``update.error_feedback``): a client adds what rounding changed to its next
update before this is rounded. Rounding to the nearest is biased: without feedback, changes below
half a step are lost in every round. The client keeps the error like the state of a method, and goes
on from that of its last accepted round. See Karimireddy et al., "Error Feedback Fixes SignSGD and
other Gradient Compression Schemes", ICML 2019. Without it a client keeps nothing.

*What travels as before*: batch norm's statistics and counters, which are few; what a method sends
in addition, such as SCAFFOLD's control variates; and the global model, which the server sends to
the clients. So every client starts from the same weights, and the download keeps its size.

*The sum stays exact.* The server adds each decoded change to the weights that it had sent, and goes
on with these weights as if they had been received. A simulated worker that adds up its clients does
the same before it adds. Decoding is one product and one sum of float32 numbers on the CPU, so the
bits are the same for each engine and number of workers, and at sites. A sum has 8 bytes a number,
whatever the format; `reply_bytes` of the record is what a client sends by itself.

*Reception.* Names, shapes, types and sizes follow from the global model. They are checked before a
decoded number is allocated, and so is that all numbers are finite, the steps of int8 too. The
decoded weights then pass the checks of any other update.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from task.config import LocalConfig
from task.errors import ConfigError
from task.protocol.tensors import check_tensors
from task.tensors import Tensors

LARGEST = 127
STEP = "step of "  # begins the names of the steps of int8; no entry of a model has spaces
LEAST_STEP = torch.finfo(torch.float32).tiny  # below it, numbers may be flushed to 0


class NumberFormat(ABC):
    """How the change of one tensor is written; all on the CPU."""

    @abstractmethod
    def encode(self, name: str, change: Tensor) -> dict[str, Tensor]:
        """Return what is sent of a tensor."""

    @abstractmethod
    def decode(self, name: str, sent: Tensors) -> Tensor:
        """Return the change of a tensor, float32."""

    @abstractmethod
    def form(self, name: str, start: Tensor) -> dict[str, Tensor]:
        """Return the shapes and types of what is sent, as tensors without memory."""


class Bfloat16(NumberFormat):
    """The upper half of a float32."""

    def encode(self, name: str, change: Tensor) -> dict[str, Tensor]:
        return {name: change.bfloat16()}

    def decode(self, name: str, sent: Tensors) -> Tensor:
        return sent[name].float()

    def form(self, name: str, start: Tensor) -> dict[str, Tensor]:
        return {name: torch.empty(start.shape, dtype=torch.bfloat16, device="meta")}


class Int8(NumberFormat):
    """Multiples of a step of each tensor."""

    def encode(self, name: str, change: Tensor) -> dict[str, Tensor]:
        step = (change.abs().max() if change.numel() else torch.zeros(())) / LARGEST
        if step < LEAST_STEP:
            return {name: torch.zeros_like(change, dtype=torch.int8), STEP + name: torch.zeros(())}
        units = (change / step).round_().clamp_(-LARGEST, LARGEST)
        return {name: units.to(torch.int8), STEP + name: step}

    def decode(self, name: str, sent: Tensors) -> Tensor:
        return sent[name].float() * sent[STEP + name]

    def form(self, name: str, start: Tensor) -> dict[str, Tensor]:
        return {
            name: torch.empty(start.shape, dtype=torch.int8, device="meta"),
            STEP + name: torch.empty((), device="meta"),
        }


FORMATS = {"bfloat16": Bfloat16(), "int8": Int8()}


class UpdateFormat:
    """Writes and reads the updates of one run.

    Args:
        name: of the format.
        trained: the names of the parameters whose changes are rounded; others may be among them.
    """

    def __init__(self, name: str, trained: Collection[str]) -> None:
        self._format, self._trained = FORMATS[name], frozenset(trained)

    def rounds(self, name: str) -> bool:
        """Return whether an entry of the model is rounded."""
        return name in self._trained

    def encode(self, weights: Tensors, changes: Tensors) -> dict[str, Tensor]:
        """Return what is sent.

        Args:
            weights: the trained model, of which the other entries are sent.
            changes: of the entries that are rounded.
        """
        sent: dict[str, Tensor] = {}
        for name, value in weights.items():
            sent |= self._format.encode(name, changes[name]) if name in changes else {name: value}
        return sent

    def changes(self, sent: Tensors, start: Tensors) -> dict[str, Tensor]:
        """Return the decoded change of each entry that was rounded.

        Args:
            sent: what `encode` returned.
            start: the weights that training began with.
        """
        return {name: self._format.decode(name, sent) for name in start if self.rounds(name)}

    def weights(self, sent: Tensors, start: Tensors, changes: Tensors) -> dict[str, Tensor]:
        """Return the trained model that was sent, given the changes that were decoded."""
        return {
            name: (value + changes[name]).to(value.dtype) if name in changes else sent[name]
            for name, value in start.items()
        }

    def received(self, sent: Tensors, start: Tensors) -> dict[str, Tensor]:
        """Return the trained model that another machine sent.

        Raises:
            ProtocolError: a name, shape or type is wrong, or a number is not finite.
        """
        check_tensors(sent, self.form(start))
        return self.weights(sent, start, self.changes(sent, start))

    def form(self, start: Tensors) -> dict[str, Tensor]:
        """Return the shapes and types of what is sent."""
        form: dict[str, Tensor] = {}
        for name, value in start.items():
            form |= self._format.form(name, value) if self.rounds(name) else {name: value}
        return form

    def size(self, start: Tensors) -> int:
        """Return the bytes of an update, without names and shapes."""
        return sum(value.nbytes for value in self.form(start).values())


def problems(config: LocalConfig) -> Iterator[ConfigError]:
    """Yield settings with which no update of a single client is sent."""
    written = config.update.format
    if config.secure.rounded:
        allowed = (
            f"does not fit secure={config.secure.mode}: masks add up in one fixed point of all "
            "clients, and each client would round in steps of its own; add update=float32, or "
            "secure=none"
        )
        yield ConfigError("update", written, allowed)
    if config.closed_form:
        allowed = f"has no effect with method={config.method['name']}, which sends no update"
        yield ConfigError("update", written, f"{allowed}; leave it out")
