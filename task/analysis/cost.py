"""What a method's training step costs, counted on a network of the real shapes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from numpy.polynomial import Polynomial
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from task.config import LocalConfig
from task.methods.base import LocalRound, Method, Term
from task.seeding import torch_generator
from task.training import objective

ROWS, DRAWS = (2, 3, 4), 20


@dataclass(frozen=True)
class Cost:
    """What a training step takes for each image of a full batch.

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

    Of a method whose batches differ in cost it is the mean of `DRAWS` of them.
    Batches of `ROWS` images are counted. Every operation is done once, for each image, or for each
    pair of them, so that the three tell what one of `config.batch_size` takes.
    """
    method = config.local_method()
    model = method.build(config.network().build(channels, classes), torch_generator(0, "build"))
    method.start(model.train(), LocalRound(1, 0, torch_generator(0, "draws")))
    memory = method.finish(model).memory
    counts = []
    for rows in ROWS:
        method.start(model, LocalRound(2, 0, torch_generator(0, "draws"), memory))
        counts.append(operations(method, model, (rows, channels, image_size, image_size), classes))
    stored = sum(tensor.numel() for tensor in held([model, method]))
    forward, step = (
        float(Polynomial.fit(ROWS, values, 2)(config.batch_size)) / config.batch_size
        for values in zip(*counts, strict=True)
    )
    return Cost(forward, step, stored)


def operations(
    method: Method, model: nn.Module, shape: tuple[int, int, int, int], classes: int
) -> tuple[float, float]:
    """The operations of a batch up to the loss, and with the backward pass."""
    batches = DRAWS if any(member.varies_cost for member in method.members()) else 1
    forward = 0
    with FlopCounterMode(display=False) as counter:
        for _ in range(batches):
            before = counter.get_total_flops()
            x, y = method.batch(torch.randn(shape), torch.arange(shape[0]) % classes)
            out = model(x)
            terms = {"ce": Term(F.cross_entropy(out.logits, y), 1.0), **method.loss(out, x, y)}
            forward += counter.get_total_flops() - before
            objective(terms).backward()
    return forward / batches, counter.get_total_flops() / batches


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
