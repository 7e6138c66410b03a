"""What a method's training step costs, counted on a network of the real shapes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from task.config import LocalConfig
from task.methods.base import LocalRound, Method, Term
from task.seeding import torch_generator
from task.training import objective

ROWS, DRAWS = 2, 20


@dataclass(frozen=True)
class Cost:
    """What one image's training step takes.

    Attributes:
        forward: operations of convolutions and matrix products up to the loss; a multiplication
            with an addition is two.
        step: those of the backward pass included.
        stored: how many numbers a client keeps in memory: the model, and whatever else the method
            holds on to, as copies of models.
    """

    forward: float
    step: float
    stored: int


def training_cost(config: LocalConfig, channels: int, image_size: int, classes: int) -> Cost:
    """The cost of a method in its second round, when it has a memory if it keeps one.

    Of a method that varies the network from batch to batch it is the mean of `DRAWS` batches.
    """
    method = config.local_method()
    model = method.build(config.network().build(channels, classes), torch_generator(0, "build"))
    generator = torch_generator(0, "draws")
    method.start(model.train(), LocalRound(1, 0, generator))
    method.start(model, LocalRound(2, 0, generator, method.finish(model).memory))
    stored = sum(tensor.numel() for tensor in held([model, method]))
    batches = DRAWS if any(member.varies_network for member in method.members()) else 1
    forward = 0
    with FlopCounterMode(display=False) as counter:
        for _ in range(batches):
            before = counter.get_total_flops()
            x = torch.randn(ROWS, channels, image_size, image_size)
            x, y = method.batch(x, torch.arange(ROWS) % classes)
            out = model(x)
            terms = {"ce": Term(F.cross_entropy(out.logits, y), 1.0), **method.loss(out, x, y)}
            forward += counter.get_total_flops() - before
            objective(terms).backward()
    rows = ROWS * batches
    return Cost(forward / rows, counter.get_total_flops() / rows, stored)


def held(things: Iterable[object]) -> Iterator[Tensor]:
    """The tensors that things hold, each once: states of modules, attributes all the way."""
    seen: set[int] = set()
    waiting = list(things)
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, Tensor):
            if thing.data_ptr() not in seen:
                seen.add(thing.data_ptr())
                yield thing
        elif isinstance(thing, nn.Module):
            waiting += thing.state_dict(keep_vars=True).values()
        elif isinstance(thing, Mapping):
            waiting += thing.values()
        elif isinstance(thing, list | tuple):
            waiting += thing
        elif isinstance(thing, Method | LocalRound):
            waiting += vars(thing).values()
