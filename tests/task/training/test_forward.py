"""bfloat16 and compiled training: close to float32 training, and repeatable."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from server_app.config.composition import compose_experiment
from task.config import LocalConfig
from task.methods.fednova import FIRST_LENGTH
from task.training.device import set_precision
from task.training.loop import LocalResult
from task.training.worker import Worker
from tests.conftest import Train, model_for, sha256, with_slow
from tests.task.methods.test_contract import METHODS

QUICK = ("fedavg", "fedlesam", "fednova", "moon", "scaffold", "univarfl+fedprox")  # one of a kind

WORDS = ("num_clients=10", "partition=iid", "local_epochs=1", "batch_size=32")


def config(*words: str) -> LocalConfig:
    return compose_experiment([*WORDS, *words]).local()


def trained(*words: str) -> LocalResult:
    worker = Worker(config(*words))
    return worker.train(worker.initial_weights(), 1, 0)


def far(one: LocalResult, other: LocalResult) -> float:
    """Return the relative L2 distance between two trained models."""
    names = [name for name, value in one.weights.items() if value.is_floating_point()]
    ours = torch.cat([one.weights[name].flatten() for name in names])
    theirs = torch.cat([other.weights[name].flatten() for name in names])
    return float((ours - theirs).norm() / ours.norm())


def tf32_allowed() -> tuple[bool, bool]:
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32


@pytest.fixture
def _tf32_as_before() -> Iterator[None]:
    before = tf32_allowed()
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.usefixtures("_tf32_as_before")
def test_tf32_is_used_on_a_gpu_only_if_it_is_asked_for() -> None:
    before = tf32_allowed()
    set_precision("tf32", torch.device("cpu"))
    assert tf32_allowed() == before
    set_precision("tf32", torch.device("cuda"))
    assert tf32_allowed() == (True, True)
    set_precision("float32", torch.device("cuda"))
    assert tf32_allowed() == (False, False)


@pytest.mark.parametrize("method", with_slow(METHODS, {*METHODS} - {*QUICK}))
def test_every_method_trains_in_bfloat16(method: str) -> None:
    words = [f"method={method}", *model_for(method)]
    exact, narrow = trained(*words), trained(*words, "runtime.precision=bfloat16")
    assert {value.dtype for value in narrow.weights.values()} <= {torch.float32, torch.int64}
    assert narrow.losses.keys() == exact.losses.keys()
    assert narrow.losses["ce"] == pytest.approx(exact.losses["ce"], rel=0.1)
    # After one step, what FedNova's client sends is as far from the global weights as 100 steps.
    lengthened = FIRST_LENGTH if "fednova" in method else 1.0
    assert 0 < far(exact, narrow) < 0.1 * lengthened


def test_bfloat16_repeats() -> None:
    one, again = trained("runtime.precision=bfloat16"), trained("runtime.precision=bfloat16")
    assert all(map(torch.equal, one.weights.values(), again.weights.values()))


def test_bfloat16_gives_the_same_bits_with_any_number_of_workers(train: Train) -> None:
    words = ["runtime.precision=bfloat16", "rounds=1"]
    assert sha256(train(*words)) == sha256(train(*words, "federation.workers=2"))
    assert sha256(train(*words)) != sha256(train("rounds=1"))


@pytest.mark.slow
def test_without_a_compiler_training_goes_on_with_one_warning() -> None:
    """With a real compiler that fails, the model has the same bits as with runtime=eager."""
    program = """
import warnings
from tests.task.training.test_forward import trained
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    compiled = trained("runtime=compiled", "seed=5")
said = [str(w.message) for w in caught if "runtime.compiled" in str(w.message)]
assert len(said) == 1 and "continues uncompiled" in said[0], said
plain = trained("seed=5")
assert all((plain.weights[name] == value).all() for name, value in compiled.weights.items())
"""
    environment = {**os.environ, "CXX": "false", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("all_digits")
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_training_is_eager_training_but_for_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Takes about a minute. Client 0 has full batches and a smaller, uncompiled last one.

    The first steps amplify rounding: the eager gradient itself differs from float64 by 2 %.
    """
    # A compiler that was killed may have left half a library in the directory that all share.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    exact = trained()
    compiled, again = trained("runtime=compiled"), trained("runtime=compiled")
    assert exact.losses["ce"] == pytest.approx(compiled.losses["ce"], rel=0.05)
    assert 0 < far(exact, compiled) < 0.1
    assert all(map(torch.equal, compiled.weights.values(), again.weights.values()))
