"""The local training loop: order of the hooks, errors, and no effects between clients."""

import math
import platform
import subprocess
import sys
import weakref
from dataclasses import dataclass, field
from functools import cache
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from server_app.config.composition import compose_experiment
from task.config import LocalConfig
from task.errors import TrainingError
from task.methods.base import LocalRound, Method, Outcome, Term
from task.models.base import Output
from task.models.cnn import Cnn
from task.models.layers.residual import ResidualNet
from task.optim.base import MOMENTUM
from task.optim.parameters import trained_parameters
from task.seeding import torch_generator
from task.training.evaluation import Score, evaluate
from task.training.loop import LocalTrainer
from task.training.losses import weighted_sum
from task.training.worker import Worker


def config(*overrides: str) -> LocalConfig:
    return compose_experiment(["local_epochs=1", *overrides]).local()


@cache
def worker(method: str = "fedavg") -> Worker:
    return Worker(config(f"method={method}"))


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


KEEPING = """
import resource
import numpy as np
from task.training.device import keep_freed_memory

def step():
    blocks = [np.ones(20_000_000, np.uint8) for _ in range(4)]

def paged_in():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
step()
print(paged_in())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc returns it")
def test_memory_that_a_step_frees_is_not_paged_in_again() -> None:
    """By default, glibc maps 21,000 pages again in these ten steps."""
    done = subprocess.run(
        [sys.executable, "-c", KEEPING], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1000


def test_one_step_is_sgd_on_the_cross_entropy() -> None:
    """One batch of all images of a client, without momentum or decay: w - lr * gradient."""
    one = Worker(
        config(
            "method=fedavg", "batch_size=1024", "optim.momentum=0", "optim.weight_decay=0",
            "optim.lr=0.5",
        )
    )  # fmt: skip
    weights = one.initial_weights()
    trained = one.train(weights, 1, 1)
    model = Cnn(1, 10, 256).to(one.device).to(memory_format=torch.channels_last)
    model.load_state_dict(weights)
    positions = one.images.index(one.data.clients[1].train)
    order = torch.randperm(len(positions), generator=torch_generator(0, "local", 1, 1, "order", 0))
    x, y = one.images[positions[order]]
    loss = F.cross_entropy(model(x).logits, y)
    loss.backward()
    assert trained.losses["ce"] == pytest.approx(loss.item(), rel=1e-6)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        expected = parameter.detach() - 0.5 * parameter.grad
        assert torch.allclose(trained.weights[name], expected.cpu(), atol=1e-6), name


def test_a_worker_computes_with_one_thread_and_deterministically_whatever_was_set() -> None:
    one, weights = worker(), worker().initial_weights()
    for work in (lambda: one.train(weights, 1, 1), lambda: one.test(weights)):
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(False)
        work()
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()


def test_a_round_of_the_cosine_trains_with_its_rate() -> None:
    """Round 2 of 3 has three quarters of the rate, whatever round the worker trained before."""
    words = "method=fedavg", "rounds=3"
    falling = Worker(config(*words, "optim.schedule=cosine"))
    constant = Worker(config(*words, f"optim.lr={0.01 * (1 + math.cos(math.pi / 3)) / 2!r}"))
    weights = falling.initial_weights()
    falling.train(weights, 3, 0)
    trained = falling.train(weights, 2, 0).weights
    assert same(trained, constant.train(weights, 2, 0).weights)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_round_of_the_warm_up_trains_with_its_rate(optimizer: str) -> None:
    words = "method=fedavg", f"optim={optimizer}", "optim.lr=0.01", "rounds=4"
    rising = Worker(config(*words, "optim.warmup_rounds=3"))
    constant = Worker(config(*words, "optim.lr=0.005"))
    weights = rising.initial_weights()
    trained = rising.train(weights, 2, 0).weights
    assert same(trained, constant.train(weights, 2, 0).weights)


def test_momentum_does_not_leak_into_the_next_client() -> None:
    """The second client starts with an empty buffer, as in a new process."""
    heavy = config("method=fedavg", "optim.momentum=0.99")
    used, fresh = Worker(heavy), Worker(heavy)
    weights = used.initial_weights()
    used.train(weights, 1, 0)
    assert same(used.train(weights, 1, 1).weights, fresh.train(weights, 1, 1).weights)


@pytest.mark.parametrize("method", ["fedavg", "moon"])
def test_a_kept_momentum_goes_on_in_the_clients_next_round(method: str) -> None:
    """Also in another worker, which trained another client; the method's own state is beside it."""
    words = f"method={method}", "optim.keep_momentum=true"
    one, another = Worker(config(*words)), Worker(config(*words))
    weights = one.initial_weights()
    kept = one.train(weights, 1, 0).state
    names = {name for name in kept if name.startswith(MOMENTUM)}
    assert names == {MOMENTUM + name for name in trained_parameters(one.model)}
    assert (len(kept) > len(names)) == (method == "moon")
    another.trainer.optimizer.begin(kept)
    for name, parameter in trained_parameters(another.model).items():
        ours = another.trainer.optimizer.state()[MOMENTUM + name]
        assert ours.stride() == parameter.stride(), "SGD's fused kernel for a GPU needs it"
    another.train(weights, 1, 1)
    goes_on = another.train(weights, 2, 0, kept)
    assert same(goes_on.weights, one.train(weights, 2, 0, kept).weights)
    rest = {name: value for name, value in kept.items() if name not in names}
    begins_anew = one.train(weights, 2, 0, rest)
    assert not same(goes_on.weights, begins_anew.weights)
    plain = Worker(config(f"method={method}"))
    assert same(begins_anew.weights, plain.train(weights, 2, 0, rest).weights)


def test_the_hooks_are_called_in_the_order_they_promise() -> None:
    calls: list[str] = []

    @dataclass
    class Spy(Method):
        def build(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
            calls.append("build")
            return model

        def start(self, model: nn.Module, this: LocalRound) -> None:
            calls.append(f"start {this.round} {this.client}")

        def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            calls.append("batch")
            return x, y

        def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
            calls.append("loss")
            return {"extra": Term(out.logits.square().mean(), 0.1)}

        def gradients(self, model: nn.Module) -> None:
            assert all(parameter.grad is not None for parameter in model.parameters())
            calls.append("gradients")

        def finish(self, model: nn.Module) -> Outcome:
            calls.append("finish")
            return Outcome()

    one = worker()
    spy = Spy()
    network = spy.build(Cnn(1, 10, 256), torch.Generator()).to(one.device)
    trainer = LocalTrainer(network, spy, config("batch_size=20"))
    positions = torch.arange(36, device=one.device)
    result = trainer.train(one.initial_weights(), one.images, positions, 4, 1, {}, {})
    step = ["batch", "loss", "gradients"]
    assert calls == ["build", "start 4 1", *step, *step, "finish"]
    assert list(result.losses) == ["ce", "extra"]


def test_a_method_draws_anew_for_each_client_and_round(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    class Spy(Method):
        def start(self, model: nn.Module, this: LocalRound) -> None:
            seeds.append(this.generator.initial_seed())

    one = worker()
    monkeypatch.setattr(one.trainer, "method", Spy())
    for server_round, client in ((1, 0), (2, 0), (1, 1)):
        one.train(one.initial_weights(), server_round, client)
    assert len(set(seeds)) == 3


@pytest.mark.parametrize("images", [0, 1])
def test_too_few_images_are_an_error(images: int) -> None:
    one = worker()
    positions = torch.arange(images)
    with pytest.raises(TrainingError, match=f"{images} training images; at least 2"):
        one.trainer.train(one.initial_weights(), one.images, positions, 1, 0, {}, {})


def test_numbers_that_are_no_longer_finite_are_an_error() -> None:
    wild = Worker(config("method=fedavg", "optim.lr=1e30", "local_epochs=2"))
    with pytest.raises(TrainingError, match=r"ce is (nan|inf) in epoch \d of 2; lower optim"):
        wild.train(wild.initial_weights(), 1, 0)


def test_the_objective_is_the_weighted_sum_of_its_terms() -> None:
    terms = {"ce": Term(torch.tensor(2.0), 1.0), "a": Term(torch.tensor(3.0), 0.5)}
    assert weighted_sum(terms).item() == 3.5


def test_scores_are_those_of_each_set_alone() -> None:
    one = worker()
    weights = one.train(one.initial_weights(), 1, 0).weights
    clients = list(range(10))
    together = one.validate(weights, clients)
    for client in clients:
        (alone,) = one.validate(weights, [client])
        assert (alone.examples, alone.correct) == (
            together[client].examples,
            together[client].correct,
        )
        assert alone.loss == pytest.approx(together[client].loss, rel=1e-5)
    assert evaluate(one.model, one.images, [torch.arange(0)]) == [Score(0, 0, 0.0)]
    assert Score(0, 0, 0.0).means() == {}


def test_a_client_whose_time_is_up_stops_between_batches() -> None:
    one = worker()
    with pytest.raises(TrainingError, match=r"in epoch 1 of \d; raise federation\.round_timeout"):
        one.train(one.initial_weights(), 1, 0, deadline=0.0)


def test_a_failed_client_leaves_no_dropped_blocks_behind() -> None:
    one = Worker(config("method=stochdepth", "model=resnet56"))
    broken = patch("task.training.loop.weighted_sum", side_effect=RuntimeError)
    with pytest.raises(RuntimeError), broken:
        one.train(one.initial_weights(), 1, 0)
    assert isinstance(one.model, ResidualNet)
    assert {block.branch for block in one.model.blocks()} == {1.0}


PYTORCH_ERROR = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.81 GiB of "
    "which 12.25 MiB is free. Process 4711 has 80.00 GiB memory in use.\nSee the documentation."
)


@dataclass
class OutOfMemory(Method):
    """Runs out of memory in one hook for every batch of more than `most` images.

    Attributes:
        hook: ``loss``, before the backward pass, or ``gradients``, after it.
        most: the largest batch that fits.
        text: the error of a library of CUDA; None for that of PyTorch's allocator.
        alive: for each smaller batch that is tried, the number of tensors of failed steps that
            still exist when its step begins: activations, gradients and temporaries.
    """

    hook: str
    most: int
    text: str | None = None
    alive: list[int] = field(default_factory=list)

    def start(self, model: nn.Module, this: LocalRound) -> None:
        self.parameters = list(model.parameters())
        self.of_failed_steps: list[weakref.ref[Tensor]] = []

    def batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self.of_failed_steps:
            self.alive.append(sum(tensor() is not None for tensor in self.of_failed_steps))
        return x, y

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        self.rows = len(x)
        assert out.maps is not None
        temporary = torch.ones(2**20)
        self.made = [weakref.ref(tensor) for tensor in (temporary, out.maps, out.features)]
        self.fail_if_too_large("loss")
        return {"extra": Term(out.maps.square().mean() * temporary[0], 0.1)}

    def gradients(self, model: nn.Module) -> None:
        gradients = [parameter.grad for parameter in self.parameters]
        self.made += [weakref.ref(value) for value in gradients if value is not None]
        self.fail_if_too_large("gradients")

    def fail_if_too_large(self, hook: str) -> None:
        if hook == self.hook and self.rows > self.most:
            self.of_failed_steps += self.made
            if self.text is not None:
                raise RuntimeError(self.text)
            raise torch.cuda.OutOfMemoryError(PYTORCH_ERROR)


@pytest.mark.parametrize(
    ("most", "message"),
    [
        (10, "GPU has too little memory .* batch_size=4 fits: .*GET was unable to find an engine"),
        (1, "^GET was unable to find an engine to execute this computation$"),
    ],
)
def test_a_library_without_memory_is_told_from_a_step_that_it_cannot_compute(
    most: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = worker()
    text = "GET was unable to find an engine to execute this computation"
    monkeypatch.setattr(one.trainer, "method", OutOfMemory("loss", most, text))
    with pytest.raises(TrainingError, match=message):
        one.trainer.train(one.initial_weights(), one.images, torch.arange(32), 1, 0, {}, {})


@pytest.mark.parametrize(
    ("most", "message"),
    [
        (11, r"for a batch of 32 images; batch_size=8 fits: add batch_size=8, or lower federation"),
        (10, r"for a batch of 32 images; batch_size=4 fits: add batch_size=4, or lower federation"),
        (
            1,
            (
                r"even for a batch of 2 images; use a smaller model, a smaller data.image_size or "
                r"a lower federation"
            ),
        ),
    ],
)
def test_a_gpu_whose_memory_is_short_names_the_batch_that_fits(most: int, message: str) -> None:
    """Its largest batch must fit, too: of 11 images for 8. The next client's result is the same."""
    one = worker()
    expected = one.train(one.initial_weights(), 1, 0).weights
    trainer, positions = one.trainer, torch.arange(32)
    method = trainer.method
    try:
        trainer.method = OutOfMemory("loss", most)
        with pytest.raises(TrainingError, match=message) as caught:
            trainer.train(one.initial_weights(), one.images, positions, 1, 0, {}, {})
    finally:
        trainer.method = method
    assert str(caught.value).endswith("(CUDA out of memory. Tried to allocate 2.00 GiB)")
    assert same(one.train(one.initial_weights(), 1, 0).weights, expected)


@pytest.mark.parametrize("hook", ["loss", "gradients"])
def test_a_failed_step_holds_no_memory_while_smaller_batches_are_tried(hook: str) -> None:
    """Otherwise the advised batch would be smaller than the largest that fits."""
    one = worker()
    trainer, positions = one.trainer, torch.arange(32)
    method, greedy = trainer.method, OutOfMemory(hook, 11)
    try:
        trainer.method = greedy
        with pytest.raises(TrainingError, match="add batch_size=8,") as caught:
            trainer.train(one.initial_weights(), one.images, positions, 1, 0, {}, {})
    finally:
        trainer.method = method
    assert len(greedy.of_failed_steps) >= 6  # of the batches of 32 and 16
    assert greedy.alive == [0, 0, 0]  # as the batch of 16 begins, and the two steps of 8
    assert caught.value.__context__ is None
