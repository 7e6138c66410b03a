"""The local loop: every method keeps its contract, and nothing leaks from client to client."""

import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from server_app.composition import compose_experiment
from task.config import LocalConfig
from task.errors import TrainingError
from task.evaluation import Score, evaluate
from task.methods.base import LocalRound, Method, Outcome, Term
from task.models.base import Output
from task.models.cnn import Cnn
from task.seeding import torch_generator
from task.training import LocalTrainer, objective
from task.worker import Worker


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
from task.device import keep_freed_memory

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives it back")
def test_memory_that_a_step_frees_is_not_paged_in_again() -> None:
    """Left to itself, glibc has 21,000 pages fetched again in these ten steps."""
    done = subprocess.run(
        [sys.executable, "-c", KEEPING], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1000


def test_one_step_is_sgd_on_the_cross_entropy() -> None:
    """One batch of all 36 images of a client, without momentum or decay: w - lr * gradient."""
    one = Worker(
        config(
            "method=fedavg", "batch_size=1024", "optim.momentum=0", "optim.weight_decay=0",
            "optim.lr=0.5",
        )
    )  # fmt: skip
    weights = one.initial_weights()
    trained = one.train(weights, 1, 1)
    model = Cnn(1, 10, 256).to(memory_format=torch.channels_last)
    model.load_state_dict(weights)
    positions = one.images.index(one.data.clients[1].train)
    order = torch.randperm(36, generator=torch_generator(0, "local", 1, 1, "order", 0))
    x, y = one.images[positions[order]]
    loss = F.cross_entropy(model(x).logits, y)
    loss.backward()
    assert trained.losses["ce"] == pytest.approx(loss.item(), rel=1e-6)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        expected = parameter.detach() - 0.5 * parameter.grad
        assert torch.allclose(trained.weights[name], expected, atol=1e-6), name


def test_a_worker_computes_with_one_thread_and_deterministically_whatever_was_set() -> None:
    one, weights = worker(), worker().initial_weights()
    for work in (lambda: one.train(weights, 1, 1), lambda: one.test(weights)):
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(False)
        work()
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()


def test_momentum_does_not_leak_into_the_next_client() -> None:
    """A client after another must start from an empty buffer, as it does in a new process."""
    heavy = config("method=fedavg", "optim.momentum=0.99")
    used, fresh = Worker(heavy), Worker(heavy)
    weights = used.initial_weights()
    used.train(weights, 1, 0)
    assert same(used.train(weights, 1, 1).weights, fresh.train(weights, 1, 1).weights)


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
    trainer = LocalTrainer(
        spy.build(Cnn(1, 10, 256), torch.Generator()), spy, config("batch_size=20")
    )
    positions = one.images.index(one.data.clients[1].train)[:36]
    result = trainer.train(one.initial_weights(), one.images, positions, 4, 1, {}, {})
    step = ["batch", "loss", "gradients"]
    assert calls == ["build", "start 4 1", *step, *step, "finish"]
    assert list(result.losses) == ["ce", "extra"]


@pytest.mark.parametrize("images", [0, 1])
def test_too_few_images_are_an_error(images: int) -> None:
    one = worker()
    positions = torch.arange(images)
    with pytest.raises(TrainingError, match=f"{images} training images; at least 2"):
        one.trainer.train(one.initial_weights(), one.images, positions, 1, 0, {}, {})


def test_numbers_that_are_no_longer_finite_are_an_error() -> None:
    wild = Worker(config("method=fedavg", "optim.lr=1e30", "local_epochs=2"))
    with pytest.raises(TrainingError, match=r"training diverged: ce is (nan|inf) in epoch \d of 2"):
        wild.train(wild.initial_weights(), 1, 0)


def test_the_objective_is_the_weighted_sum() -> None:
    terms = {"ce": Term(torch.tensor(2.0), 1.0), "a": Term(torch.tensor(3.0), 0.5)}
    assert objective(terms).item() == 3.5


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
    with pytest.raises(TrainingError, match=r"not done in time: epoch 1 of \d"):
        one.train(one.initial_weights(), 1, 0, deadline=0.0)


@dataclass
class Greedy(Method):
    """Wants more memory than there is for batches of more than `most` images."""

    most: int

    def loss(self, out: Output, x: Tensor, y: Tensor) -> dict[str, Term]:
        if len(x) > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nGPU 0")
        return {}


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (9, r"for a batch of 32 images, and one of 8 fits; add batch_size=8, or fewer federation"),
        (1, r"even for a batch of 2 images; a smaller model, data.image_size or federation"),
    ],
)
def test_a_gpu_whose_memory_is_short_names_the_batch_that_fits(most: int, said: str) -> None:
    """The next client is not touched by it."""
    one = worker()
    expected = one.train(one.initial_weights(), 1, 0).weights
    trainer = one.trainer
    images, method = one.images.index(one.data.clients[0].train), trainer.method
    try:
        trainer.method = Greedy(most)
        with pytest.raises(TrainingError, match=said) as caught:
            trainer.train(one.initial_weights(), one.images, images, 1, 0, {}, {})
    finally:
        trainer.method = method
    assert "Tried to allocate 2 GiB" in str(caught.value)
    assert same(one.train(one.initial_weights(), 1, 0).weights, expected)
