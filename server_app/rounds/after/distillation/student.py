"""The ensemble of the clients' models, and a student that is trained towards it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from task.data.batches import DeviceImages
from task.optim.parameters import trained_parameters
from task.seeding import torch_generator
from task.tensors import Tensors
from task.training.evaluation import predict
from task.training.losses import divergence
from task.training.worker import Worker

PURPOSE = "after feddf"


@dataclass(frozen=True)
class Distillation:
    """How the student is trained: Adam at `lr`, which falls to 0 along a cosine."""

    steps: int
    batch_size: int
    lr: float
    max_gradient_norm: float


def batches(count: int, how: Distillation, seed: int) -> Tensor:
    """Return the images of each step as places from 0 to `count` - 1, [steps, n] int64.

    All images are shuffled, and divided into full batches; the rest of them is dropped, and
    shuffled again with the others. With fewer images than a batch, each step has all of them.
    """
    generator = torch_generator(seed, PURPOSE)
    size = min(count, how.batch_size)
    rows = count // size
    passes = math.ceil(how.steps / rows)
    orders = [torch.randperm(count, generator=generator)[: rows * size] for _ in range(passes)]
    return torch.cat(orders).view(-1, size)[: how.steps]


def ensemble_logits(
    worker: Worker, models: Iterable[Tensors], images: DeviceImages, positions: Tensor
) -> Tensor:
    """Return the mean of the models' logits in eval mode, [n, D] float32, on the CPU.

    Args:
        worker: computes them, and keeps the last model.
        models: at least one, in the order in which they are added up.
        images: the images.
        positions: indices of images, [n].
    """
    total, count = torch.zeros(()), 0
    for model in models:
        worker.load(model)
        logits, _ = predict(worker.model, images, positions)
        total, count = total + logits.double(), count + 1
    return (total / count).float()


def distil(
    worker: Worker, images: DeviceImages, steps: Iterable[tuple[Tensor, Tensor]], how: Distillation
) -> None:
    """Train the worker's model towards an ensemble, in train mode.

    Args:
        worker: with the student's first weights.
        images: the images.
        steps: for each step, positions of images [n], and the ensemble's logits for them [n, D].
        how: the settings.
    """
    model: nn.Module = worker.model
    parameters = list(trained_parameters(model).values())
    optimizer = torch.optim.Adam(parameters, lr=how.lr)
    model.train()
    for step, (positions, toward) in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = how.lr * (1 + math.cos(math.pi * step / how.steps)) / 2
        x, _ = images[positions]
        optimizer.zero_grad()
        divergence(model(x).logits, toward).backward()
        nn.utils.clip_grad_norm_(parameters, how.max_gradient_norm)
        optimizer.step()
