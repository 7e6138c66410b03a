"""The local training loop, the same for every method, and its compiled forward pass."""

import gc
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.config import LocalConfig, Runtime
from task.data.batches import DeviceImages, epoch_batches, largest_batch
from task.data.image_store.store import store_root
from task.error_messages import NO_ENGINE, is_gpu_shortage
from task.errors import TrainingError, UntrainableDataError, diverged, out_of_time
from task.methods.base import LocalRound, Method
from task.models.base import Output
from task.models.layers.norm import fix_statistics
from task.optim.base import LocalOptimizer, without_optimizer
from task.optim.parameters import trained_parameters, without_gradients
from task.registry import named
from task.seeding import derived_seed, torch_generator
from task.tensors import Tensors
from task.training.losses import Entropy, LossMeter, entropy_of, loss_terms, weighted_sum
from task.training.transfer import copy_to_cpu, to_device

Key = tuple[int, str, int, int]  # the experiment's seed, a purpose, the round and the client
Epochs = Callable[[Key, LossMeter], None]
Step = Callable[[Tensor, Tensor], None]  # of the arguments of `DeviceImages.augmented`
GRAPHED = "task.training.graphed:GraphedSteps"


class Forward:
    """A model's forward pass in training.

    Each setting of `task.config.Runtime` rounds in its own way. With the same setting, equal seeds
    give equal bits.

    Args:
        model: on its device; its weights are loaded and trained in place.
        runtime: precision and compilation.
        batch_size: the number of rows to compile for. A client's last batch may have another number
            of rows and runs uncompiled, since each number of rows needs its own compilation.

    Attributes:
        autocast: the context manager for the forward pass and the losses.
        compiled: whether full batches run compiled.
    """

    def __init__(self, model: nn.Module, runtime: Runtime, batch_size: int) -> None:
        device = next(model.parameters()).device
        narrow = runtime.precision == "bfloat16"
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=narrow)
        self.compiled = False
        self._model = model
        self._rows = batch_size
        self._of_full_batches: Callable[[Tensor], Output] = model

    def __call__(self, x: Tensor) -> Output:
        """Return the model's output for images [n, C, H, W]."""
        return (self._of_full_batches if len(x) == self._rows else self._model)(x)

    def compile(self, x: Tensor) -> None:
        """Compile for batches shaped like `x`; if the compiler fails, warn and run uncompiled.

        Changes the batch-norm statistics and leaves gradients on the parameters.
        """
        compiled = compile_model(self._model)
        try:
            with self.autocast:
                total = compiled(x).logits.float().sum()
            total.backward()
        except Exception as error:
            reason = str(error).strip().split("\n")[0]
            warnings.warn(
                f"runtime.compiled: the compiler failed ({type(error).__name__}: {reason}); "
                "training continues uncompiled",
                stacklevel=2,
            )
        else:
            self._of_full_batches, self.compiled = compiled, True


def compile_model(model: nn.Module) -> Callable[[Tensor], Output]:
    """Return the model compiled for the batch size of its first call, with a cache on disk."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(store_root() / "compiled"))
    torch.use_deterministic_algorithms(True)  # this call also sets it for the compiler
    compiled: Callable[[Tensor], Output] = torch.compile(model, dynamic=False)
    return compiled


@dataclass(frozen=True)
class LocalResult:
    """The result of one client's local training.

    Attributes:
        weights: the trained model's ``state_dict``, copied to the CPU.
        examples: the number of training images.
        losses: the mean of each loss term over all images seen, unweighted, ``ce`` first.
        state: what the method keeps for this client's next round, and the momentum if that is
            kept, on the CPU.
        extra: what the method sends to its server update, on the CPU.
    """

    weights: dict[str, Tensor]
    examples: int
    losses: dict[str, float]
    state: dict[str, Tensor]
    extra: dict[str, Tensor]

    @property
    def sent(self) -> Tensors:
        """The weights as they travel."""
        return self.weights


class LocalTrainer:
    """Trains clients one after another in the same model and optimizer, reset for each client.

    Attributes:
        least_images: the smallest number of images of a client that can be trained.
    """

    least_images: ClassVar[int] = 2

    def __init__(self, model: nn.Module, method: Method, config: LocalConfig) -> None:
        self.model = model
        self.method = method
        self.config = config
        self.augmentation = config.augmenter()
        self._tuning = config.tuning()
        self.optimizer: LocalOptimizer[Any] = named(config.optim.steps)(
            trained_parameters(model), config.optim
        )
        self.forward = Forward(model, config.runtime, config.batch_size)
        device = next(model.parameters()).device
        self._graphed = named(GRAPHED)(device) if config.runtime.graphed else None
        self._frozen: Collection[nn.Parameter] = ()
        self.entropy: Entropy = F.cross_entropy  # of the client in training

    def compile(self, images: DeviceImages) -> None:
        """Compile the forward and backward pass if ``runtime.compiled`` is set."""
        if self.config.runtime.compiled:
            rows = torch.zeros(self.config.batch_size, dtype=torch.int64, device=images.device)
            self._tuning.set_mode(self.model)
            self.forward.compile(images[rows][0])
            self.optimizer.clear_gradients()

    def train(
        self,
        weights: Mapping[str, Tensor],
        images: DeviceImages,
        positions: Tensor,
        server_round: int,
        client: int,
        state: Tensors,
        broadcast: Tensors,
        deadline: float = math.inf,
    ) -> LocalResult:
        """Train one client for the local epochs, starting from the global weights.

        Args:
            weights: the global ``state_dict``.
            images: the data set.
            positions: the indices of the client's training images in it, [n] int64.
            server_round: the round, from 1.
            client: the client's number.
            state: the `LocalResult.state` of this client's last accepted update; empty before.
            broadcast: what the method's server update sends to every client.
            deadline: the time at which training must be finished, in seconds of `time.monotonic`.

        Raises:
            TrainingError: the client has fewer than two images, a loss or weight is not finite,
                the GPU has too little memory, or the deadline has passed.
        """
        if len(positions) < self.least_images:
            raise UntrainableDataError(f"{len(positions)} training images; at least 2 are needed")
        epochs = partial(self.run_epochs, images, positions, deadline)
        counts, examples = images.counts(positions), len(positions)
        return self.train_with(
            epochs, weights, counts, examples, server_round, client, state, broadcast
        )

    def train_with(
        self,
        epochs: Epochs,
        weights: Mapping[str, Tensor],
        counts: Tensor,
        examples: int,
        server_round: int,
        client: int,
        state: Tensors,
        broadcast: Tensors,
    ) -> LocalResult:
        """Train one client by any source of batches; see `train`.

        Args:
            epochs: takes the steps of all local epochs, given what makes the training unique, and
                the meter of the losses.
            weights: the global ``state_dict``.
            counts: the number of the client's training images of each class, [D] int64.
            examples: the number of the client's training images.
            server_round: the round, from 1.
            client: the client's number.
            state: as for `train`.
            broadcast: as for `train`.
        """
        device = counts.device
        self.model.load_state_dict(to_device(weights, device))
        kept_before = to_device(state, device)
        self.optimizer.begin(kept_before)
        self.optimizer.rate = self.config.optim.rate(server_round, self.config.rounds)
        self._tuning.set_mode(self.model)
        network = self.config.network()
        if network.fixes_statistics(server_round, self.config.rounds):
            fix_statistics(self.model)
        self.entropy = entropy_of(self.config, counts)
        key = (self.config.seed, "local", server_round, client)
        if network.draws:
            torch.manual_seed(derived_seed(*key, "network"))
        this = LocalRound(
            server_round,
            client,
            torch_generator(*key, "method"),
            counts,
            without_optimizer(kept_before),
            to_device(broadcast, device),
            self.config.optim.momentum,
            self.config.optim.nesterov,
        )
        meter = LossMeter()
        try:
            self.method.start(self.model, this)
            epochs(key, meter)
            outcome = self.method.finish(self.model)
        finally:
            self.method.clean(self.model)
        told, losses = self.told(examples, meter)
        return LocalResult(
            copy_to_cpu("model", self.model.state_dict()),
            told,
            losses,
            copy_to_cpu("state", {**outcome.state, **self.optimizer.state()}),
            copy_to_cpu("upload", outcome.extra),
        )

    def run_epochs(
        self,
        images: DeviceImages,
        positions: Tensor,
        deadline: float,
        key: Key,
        meter: LossMeter,
    ) -> None:
        """Take the steps of all local epochs; see `train`.

        Args:
            images: the data set.
            positions: the indices of the client's training images.
            deadline: the time at which training must be finished.
            key: the experiment's seed, and what makes this client and round unique.
            meter: adds up the loss terms.
        """
        of_all = f"of {self.config.local_epochs}"
        epochs = self.config.local_epochs

        def step(rows: Tensor, changes: Tensor) -> None:
            self.step(*images.augmented(rows, changes, self.augmentation), meter)

        if self._graphed:
            self._graphed.begin()
        for epoch in range(epochs):
            self._frozen = self.method.frozen(self.model, epoch, epochs)
            batches = epoch_batches(
                positions, self.config.batch_size, self.config.last_batch, self.augmentation,
                key, epoch,
            )  # fmt: skip
            take = self._taking(step)
            with without_gradients(self._frozen):
                for batch in batches:
                    if time.monotonic() > deadline:
                        raise out_of_time(f"epoch {epoch + 1} {of_all}")
                    if shortage := shortage_of(take, *batch):
                        raise TrainingError(self._advise_batch_size(take, *batch, shortage))
                    meter.images += len(batch[0])
            if problem := meter.not_finite():
                raise diverged(f"{problem} in epoch {epoch + 1} {of_all}")

    def told(self, examples: int, meter: LossMeter) -> tuple[int, dict[str, float]]:
        """Return what the server learns of a training: the number of images, and the losses."""
        return examples, meter.means()

    def step(self, x: Tensor, y: Tensor, meter: LossMeter) -> None:
        """Take one optimizer step on a batch; the method's ``start`` must have been called.

        Args:
            x: images [n, C, H, W], normalised.
            y: classes [n], int64, or several labels of an image, [n, D].
            meter: adds up the loss terms, but does not count the images.
        """
        rows = len(x)
        self.optimizer.clear_gradients()  # first: they take memory that the activations need
        with self.forward.autocast:
            x, y = self.method.batch(x, y)
        # Its end clears autocast's copies of the weights, which `batch` may have changed.
        with self.forward.autocast:
            terms = loss_terms(self.method, self.forward(x), x, y, self.entropy)
        weighted_sum(terms).backward()
        self.method.gradients(self.model)
        for parameter in self._frozen:  # it has one if `gradients` adds to it
            parameter.grad = None
        self.optimizer.step()
        meter.add(terms, rows)

    def _taking(self, step: Step) -> Step:
        """Return what takes the steps of an epoch: `step` itself, or its recordings."""
        if self._graphed is None:
            return step
        frozen = frozenset(map(id, self._frozen))
        return partial(self._graphed.take, step, frozen)

    def _advise_batch_size(
        self, take: Step, positions: Tensor, changes: Tensor, shortage: str
    ) -> str:
        """Return the error for a batch that the GPU has no memory for, with one that fits.

        Halves the batch size until its largest batch fits. Two steps are tried, since momentum
        exists from the second on. They train the model, which is of no use afterwards.

        Args:
            take: takes a step.
            positions: the batch that failed.
            changes: its augmentation.
            shortage: the reason, of `shortage_of`.
        """
        size = len(positions) // 2
        while size >= 2:
            self._free_failed_step()
            rows = largest_batch(size)
            if not any(shortage_of(take, positions[:rows], changes[:rows]) for _ in range(2)):
                return (
                    f"the GPU has too little memory for a batch of {len(positions)} images; "
                    f"batch_size={size} fits: add batch_size={size}, or lower federation.workers "
                    f"({shortage})"
                )
            size //= 2
        self._free_failed_step()
        if NO_ENGINE in shortage:  # also said of a convolution that cuDNN cannot compute
            return shortage
        return (
            "the GPU has too little memory even for a batch of 2 images; use a smaller model, a "
            f"smaller data.image_size or a lower federation.workers ({shortage})"
        )

    def _free_failed_step(self) -> None:
        """Free all memory that a failed step has left: gradients, momentum, and PyTorch's cache."""
        if self._graphed:
            self._graphed.free()
        self.optimizer.clear_gradients()
        self.optimizer.begin({})
        gc.collect()
        torch.cuda.empty_cache()


def shortage_of(take: Step, positions: Tensor, changes: Tensor) -> str:
    """Take one step; return why the GPU's memory is too small for it, or "" if it is not.

    CUDA's text ends at the size that it asked for: the GPU's other processes stay at the site. It
    is returned instead of the exception, whose traceback would keep all tensors alive.
    """
    try:
        take(positions, changes)
    except RuntimeError as error:
        if not is_gpu_shortage(error):
            raise
        return re.split(r"\n|\. GPU \d", str(error))[0] or "CUDA out of memory"
    return ""
