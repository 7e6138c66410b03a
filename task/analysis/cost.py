"""The operations and the memory of a method's training step, counted on the real network."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from numpy.polynomial import Polynomial
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from task.config import LocalConfig
from task.methods.base import LocalRound, Method
from task.seeding import torch_generator
from task.training.losses import loss_terms, weighted_sum

ROWS, DRAWS = (2, 3, 4), 20


@dataclass(frozen=True)
class Cost:
    """The cost of a training step, per image of a full batch.

    Attributes:
        forward: FLOPs of convolutions and matrix products up to the loss; one multiplication and
            one addition count as two.
        step: the same with the backward pass.
        stored: how many numbers a client keeps in memory: the model, and the copies of models and
            other tensors that the method keeps.
    """

    forward: float
    step: float
    stored: int


def training_cost(config: LocalConfig, channels: int, image_size: int, classes: int) -> Cost:
    """Return the cost of a method in a client's second round, when client state exists.

    If the cost varies between batches, it is the mean of `DRAWS` batches. Batches of each size in
    `ROWS` are counted. Each operation runs once per batch, per image, or per pair of images. So a
    polynomial of degree 2 through these counts gives the cost of ``batch_size`` images.

    Args:
        config: the experiment.
        channels: of the images.
        image_size: height and width in pixels.
        classes: the number of classes.
    """
    method = config.local_method()
    network, tuning = config.network().build(channels, classes), config.tuning()
    tuning.adapt(network, (1, channels, image_size, image_size), torch_generator(0, "tune"))
    model = method.build(network, torch_generator(0, "build"))
    tuning.freeze(model)
    tuning.set_mode(model)
    counts = torch.ones(classes, dtype=torch.int64)
    method.start(model, LocalRound(1, 0, torch_generator(0, "draws"), counts))
    shape = (min(ROWS), channels, image_size, image_size)
    operations(method, model, shape, classes)  # because some methods divide by the number of steps
    memory = method.finish(model).state
    found = []
    for rows in ROWS:
        method.start(model, LocalRound(2, 0, torch_generator(0, "draws"), counts, memory))
        found.append(operations(method, model, (rows, channels, image_size, image_size), classes))
    stored = sum(tensor.numel() for tensor in tensors_in([model, method]))
    forward, step = (
        float(Polynomial.fit(ROWS, values, 2)(config.batch_size)) / config.batch_size
        for values in zip(*found, strict=True)
    )
    return Cost(forward, step, stored)


def operations(
    method: Method, model: nn.Module, shape: tuple[int, int, int, int], classes: int
) -> tuple[float, float]:
    """Return the FLOPs of one batch up to the loss, and with the backward pass.

    Args:
        method: its ``start`` has been called.
        model: in training mode.
        shape: of the batch, (n, C, H, W).
        classes: the number of classes.
    """
    batches = DRAWS if any(member.varies_cost for member in method.members()) else 1
    forward = 0
    with FlopCounterMode(display=False) as counter:
        for _ in range(batches):
            before = counter.get_total_flops()
            x, y = method.batch(torch.randn(shape), torch.arange(shape[0]) % classes)
            terms = loss_terms(method, model(x), x, y)
            forward += counter.get_total_flops() - before
            weighted_sum(terms).backward()
            method.gradients(model)
    return forward / batches, counter.get_total_flops() / batches


def tensors_in(objects: Iterable[object]) -> Iterator[Tensor]:
    """Yield each tensor in some objects once.

    Looks into containers, the state of modules, and the attributes of methods.
    """
    seen: set[int] = set()
    waiting = list(objects)
    while waiting:
        item = waiting.pop()
        if isinstance(item, Tensor):
            if item.data_ptr() not in seen:
                seen.add(item.data_ptr())
                yield item
        elif isinstance(item, nn.Module):
            waiting += item.state_dict(keep_vars=True).values()
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
        elif isinstance(item, Method | LocalRound):
            waiting += vars(item).values()
