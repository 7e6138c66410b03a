"""The local training loop: one for every method."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.config import LocalConfig
from task.data.batches import DeviceImages, epoch_batches
from task.errors import TrainingError
from task.methods.base import LocalRound, Method, Tensors, Term, trained_parameters
from task.runtime import Forward
from task.seeding import torch_generator
from task.sgd import LocalSgd


@dataclass(frozen=True)
class LocalResult:
    """What one client's local training gives.

    Attributes:
        weights: the trained model's ``state_dict``, copied to the CPU.
        examples: how many images it was trained on.
        losses: the mean over all images seen of each loss term, unweighted, ``ce`` first.
        memory: what the method keeps for this client's next round, on the CPU.
        extra: what the method sends to its server half, on the CPU.
    """

    weights: dict[str, Tensor]
    examples: int
    losses: dict[str, float]
    memory: dict[str, Tensor]
    extra: dict[str, Tensor]


class LocalTrainer:
    """Trains one client after another in the same model and optimizer, reset for each."""

    def __init__(self, model: nn.Module, method: Method, config: LocalConfig) -> None:
        self.model = model
        self.method = method
        self.config = config
        self.augmentation = config.augmenter()
        self.optimizer = LocalSgd(trained_parameters(model).values(), config.optim)
        self.forward = Forward(model, config.runtime, config.batch_size)

    def compile(self, images: DeviceImages) -> None:
        """Compile the step where the runtime has it so; until then it is not."""
        if self.config.runtime.compiled:
            rows = torch.zeros(self.config.batch_size, dtype=torch.int64, device=images.device)
            self.model.train()
            self.forward.compile(images[rows][0])
            self.optimizer.clear()

    def train(
        self,
        weights: Mapping[str, Tensor],
        images: DeviceImages,
        positions: Tensor,
        server_round: int,
        client: int,
        memory: Tensors,
        broadcast: Tensors,
        deadline: float = math.inf,
    ) -> LocalResult:
        """Train from the global weights on the images at `positions` for the local epochs.

        Args:
            weights: the global ``state_dict``.
            images: the data set.
            positions: the client's images in it.
            server_round: the round, from 1.
            client: the client's number.
            memory: what the method kept when this client was last accepted.
            broadcast: what the method's server half sends.
            deadline: by `time.monotonic`, when it has to be done.

        Raises:
            TrainingError: there are fewer than two images, the numbers stopped being finite, or the
                time is up.
        """
        if len(positions) < 2:
            raise TrainingError(f"{len(positions)} training images; at least 2 are needed")
        self.model.load_state_dict(weights)
        self.optimizer.reset()
        self.model.train()
        key = (self.config.seed, "local", server_round, client)
        this = LocalRound(
            server_round,
            client,
            torch_generator(*key, "method"),
            {name: value.to(positions.device) for name, value in memory.items()},
            {name: value.to(positions.device) for name, value in broadcast.items()},
        )
        self.method.start(self.model, this)
        meter, of_all = LossMeter(), f"of {self.config.local_epochs}"
        for epoch in range(self.config.local_epochs):
            batches = epoch_batches(
                images, positions, self.config.batch_size, self.augmentation, key, epoch
            )
            for x, y in batches:
                if time.monotonic() > deadline:
                    raise TrainingError(f"not done in time: epoch {epoch + 1} {of_all}")
                try:
                    self.step(x, y, meter)
                except torch.cuda.OutOfMemoryError as error:
                    raise TrainingError(self._what_fits(x, y, error)) from None
            if bad := meter.not_finite():
                raise TrainingError(f"training diverged: {bad} in epoch {epoch + 1} {of_all}")
        outcome = self.method.finish(self.model)
        return LocalResult(
            finite("model", self.model.state_dict()),
            len(positions),
            meter.means(),
            finite("memory", outcome.memory),
            finite("upload", outcome.extra),
        )

    def step(self, x: Tensor, y: Tensor, meter: "LossMeter") -> None:
        """One batch: forward, backward, step. The method has been started on the client."""
        rows = len(x)
        x, y = self.method.batch(x, y)
        with self.forward.autocast:
            out = self.forward(x)
            terms = {"ce": Term(F.cross_entropy(out.logits, y), 1.0), **self.method.loss(out, x, y)}
        self.optimizer.clear()
        objective(terms).backward()
        self.method.gradients(self.model)
        self.optimizer.step()
        meter.add(terms, rows)

    def _what_fits(self, x: Tensor, y: Tensor, error: torch.cuda.OutOfMemoryError) -> str:
        """What to say of a batch for which the GPU has no memory; spoils the model."""
        rows, asked = len(x) // 2, str(error).split("\n")[0]
        while rows >= 2:
            torch.cuda.empty_cache()
            try:
                self.step(x[:rows], y[:rows], LossMeter())
            except torch.cuda.OutOfMemoryError:
                rows //= 2
            else:
                fits = f"of {rows} fits; add batch_size={rows}, or fewer federation.workers"
                short = f"GPU memory is short for a batch of {len(x)} images"
                return f"{short}, and one {fits} ({asked})"
        helps = "a smaller model, data.image_size or federation.workers helps"
        return f"GPU memory is short even for a batch of 2 images; {helps} ({asked})"


def finite(what: str, values: Tensors) -> dict[str, Tensor]:
    """Copies on the CPU, contiguous.

    Raises:
        TrainingError: one of them holds NaN or infinity.
    """
    if values:
        # A sum of float32 in float64 cannot overflow: it is finite if and only if they all are.
        sums = torch.stack([value.sum(dtype=torch.float64) for value in values.values()]).isfinite()
        for name, fine in zip(values, sums.tolist(), strict=True):
            if not fine:
                raise TrainingError(f"training diverged: {what} {name} is no longer finite")
    return {name: value.to("cpu", copy=True).contiguous() for name, value in values.items()}


def objective(terms: Mapping[str, Term]) -> Tensor:
    """The weighted sum of the terms. A weight of 1 multiplies nothing, so that bits stay."""
    parts = [
        term.value
        if isinstance(term.weight, float) and term.weight == 1
        else term.value * term.weight
        for term in terms.values()
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class LossMeter:
    """Means of loss terms over images, kept on the device so that no step waits for it."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._images = 0

    def add(self, terms: Mapping[str, Term], rows: int) -> None:
        """Count one batch of `rows` images."""
        self._images += rows
        for name, term in terms.items():
            value = term.value.detach().double() * rows
            self._sums[name] = self._sums[name] + value if name in self._sums else value

    def not_finite(self) -> str:
        """The first term whose sum is no number any more, and what it is; waits for the device."""
        means = self.means()
        return next((f"{name} is {v}" for name, v in means.items() if not math.isfinite(v)), "")

    def means(self) -> dict[str, float]:
        """The mean of each term per image; waits for the device once."""
        return {name: float(total) / self._images for name, total in self._sums.items()}
