"""DP-SGD at the client: gradients of single images, Poisson batches, noise, and what is told."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from opacus.accountants import PRVAccountant
from safetensors.numpy import load_file
from torch import Tensor

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.data.batches import DeviceImages
from task.errors import ConfigError
from task.optim.parameters import trained_parameters
from task.privacy.accounting import SampledGaussian, pld_epsilon
from task.privacy.settings import UNTOLD_IMAGES
from task.seeding import repeatable_bytes, secret_bytes
from task.training.private import PrivateTrainer, clipping_scales, poisson_sample
from task.training.worker import Worker
from tests.conftest import SMALL, Train, rows, sha256

SILENT = ("privacy.noise_multiplier=0", "privacy.sampling_rate=1")  # then a step can be computed
EXAMPLE = ("privacy=example", "method=fedavg", "model=linear", "local_epochs=1", "num_clients=4")
LINEAR = ("optim.momentum=0", "optim.weight_decay=0", "optim.lr=0.5")
NETWORKS = (["model=linear"], ["model=cnn", "model.norm=group"])


def worker_of(*words: str) -> Worker:
    return Worker(compose_experiment([*EXAMPLE, *LINEAR, *words]).local())


def moved(worker: Worker, **options: object) -> dict[str, Tensor]:
    """Return how a client's training moves the parameters."""
    start = worker.initial_weights()
    result = worker.train(start, 1, 0, **options)  # type: ignore[arg-type]
    return {name: result.weights[name] - start[name] for name in trained_parameters(worker.model)}


def one_by_one(worker: Worker) -> Iterator[dict[str, Tensor]]:
    """Yield the gradient of each image of client 0, by autograd for one image."""
    worker.model.load_state_dict(worker.initial_weights())
    parameters = trained_parameters(worker.model)
    for position in worker.data.clients[0].train:
        x, y = worker.images[torch.tensor([position])]
        loss = F.cross_entropy(worker.model(x).logits, y)
        found = torch.autograd.grad(loss, list(parameters.values()))
        yield {name: value.cpu() for name, value in zip(parameters, found, strict=True)}


@pytest.mark.parametrize("network", NETWORKS, ids=" ".join)
def test_a_step_adds_up_the_clipped_gradient_of_each_image(network: list[str]) -> None:
    """Half of the images are clipped; batches have more images than fit into one part."""
    words = (*network, *SILENT, "data.image_size=32", "num_clients=10", "batch_size=7")
    gradients = list(one_by_one(worker_of(*words)))
    norms = [math.hypot(*(float(g.norm()) for g in found.values())) for found in gradients]
    most = float(np.median(norms))
    assert len(norms) > 14
    changes = moved(worker_of(*words, f"privacy.clipping_norm={most}"))
    for name, change in changes.items():
        clipped = [
            found[name] * min(1.0, most / n) for found, n in zip(gradients, norms, strict=True)
        ]
        expected = -0.5 / 7 * torch.stack(clipped).sum(dim=0)
        # Rounding moves some units across the kink of ReLU; wrong gradients differ by 100 %.
        assert float((change - expected).norm()) < 0.02 * float(expected.norm())


def test_adamw_takes_the_noisy_mean_as_its_gradient() -> None:
    """Its first step is the rate in the direction of each sign, if eps is small."""
    worker = worker_of(*SILENT, "privacy.clipping_norm=1e6", "batch_size=7")
    adamw = Worker(
        compose_experiment(
            [*EXAMPLE, *SILENT, "optim=adamw", "optim.weight_decay=0", "batch_size=7",
             "privacy.clipping_norm=1e6"]
        ).local()
    )  # fmt: skip
    for name, change in moved(adamw).items():
        gradient = moved(worker)[name] / -0.5
        expected = -0.001 * gradient / (gradient.abs() + 1e-8)
        assert torch.allclose(change, expected, atol=1e-5)


class WithOddImage(DeviceImages):
    """The images, one of which has a brightness that no pixel can have."""

    def __init__(self, worker: Worker, odd: int, brightness: float) -> None:
        super().__init__(worker.data.dataset, worker.device)
        self._odd, self._brightness, self._normalise = odd, brightness, self.normalised
        self.normalised = self._replaced  # type: ignore[assignment]

    def pixels(self, positions: Tensor) -> Tensor:
        self._asked = positions
        return super().pixels(positions)

    def _replaced(self, pixels: Tensor) -> Tensor:
        x: Tensor = self._normalise(pixels)
        x[self._asked == self._odd] = self._brightness
        return x


@pytest.mark.parametrize(
    "method", ["fedavg", "fedprox", "fedntd", "fedexp", "moon", "scaffold", "feddyn"]
)
def test_one_image_moves_a_step_by_the_clipping_norm_at_most(method: str) -> None:
    """Also an image whose gradient is huge, and one whose gradient is not a number."""
    norm, size = 0.3, 8
    words = [f"method={method}", *SILENT, f"privacy.clipping_norm={norm}", f"batch_size={size}"]
    if method == "moon":  # model=linear has no features to train
        words += [*NETWORKS[1], "data.image_size=32"]
    worker = worker_of(*words)
    positions = worker.images.index(worker.data.clients[0].train)
    start = worker.initial_weights()

    def trained(images: DeviceImages, at: Tensor) -> Tensor:
        result = worker.trainer.train(start, images, at, 1, 0, {}, worker.broadcast())
        return torch.cat([value.flatten() for value in result.weights.values()])

    without = trained(worker.images, positions[1:])
    huge, nan = (
        trained(WithOddImage(worker, int(positions[0]), brightness), positions)
        for brightness in (1e6, math.nan)
    )
    assert 0.5 * norm / size * 0.99 < float((huge - without).norm()) < 0.5 * norm / size * 1.001
    assert float((nan - without).norm()) < 1e-6


@pytest.mark.parametrize("augmentation", ["crop_flip", "resized_crop"])
def test_an_image_does_not_change_the_augmentation_of_others(augmentation: str) -> None:
    """Otherwise an image more would change every gradient of its batch, and not one."""
    worker = worker_of(f"augmentation={augmentation}")
    trainer, images = worker.trainer, worker.images
    seeds = repeatable_bytes(0, "augmentation")(8 * 6)
    assert isinstance(trainer, PrivateTrainer)

    def augmented(positions: list[int]) -> dict[int, Tensor]:
        chosen = b"".join(seeds[8 * position : 8 * position + 8] for position in positions)
        parts = trainer._parts(images, torch.tensor(positions), lambda count: chosen[:count])
        return dict(zip(positions, torch.cat([x for x, _ in parts]), strict=True))

    every, some = augmented(list(range(6))), augmented([0, 2, 3, 5])
    assert all(some[position].equal(every[position]) for position in some)
    plain = images[torch.arange(6)][0]
    assert not all(every[position].equal(plain[position]) for position in every)


def test_a_client_without_images_sends_the_noise_alone() -> None:
    """Ten steps with learning rate 0.5: sqrt(10) * 0.5 * 3 * 0.2 / 16 in each parameter."""
    worker = worker_of("privacy.noise_multiplier=3", "privacy.clipping_norm=0.2", "batch_size=16")
    nobody = worker.images.index(np.empty(0, np.int64))
    start = worker.initial_weights()
    result = worker.trainer.train(start, worker.images, nobody, 1, 0, {}, {})
    noise = torch.cat([(result.weights[n] - start[n]).flatten() for n in start])
    assert float(noise.std()) == pytest.approx(math.sqrt(10) * 0.5 * 3 * 0.2 / 16, rel=0.05)


def test_batches_are_poisson_samples() -> None:
    positions = torch.arange(1000, 1500)
    sizes, counts = [], torch.zeros(1500)
    for draw in range(400):
        batch = poisson_sample(positions, 0.1, repeatable_bytes(draw))
        assert len(batch.unique()) == len(batch)
        sizes.append(len(batch))
        counts[batch] += 1
    assert np.mean(sizes) == pytest.approx(50, abs=1.2)
    assert np.var(sizes) == pytest.approx(45, rel=0.3)  # shuffled batches all have one size
    assert counts[:1000].sum() == 0
    assert 15 < counts[1000:].min() < counts[1000:].max() < 75
    assert torch.equal(poisson_sample(positions, 1.0, secret_bytes), positions)
    assert len(poisson_sample(positions[:0], 0.5, secret_bytes)) == 0


def test_norms_are_clipped_and_what_is_not_finite_counts_as_nothing() -> None:
    norms = torch.tensor([0.0, 0.5, 1.0, 4.0, math.inf, math.nan], dtype=torch.float64)
    assert clipping_scales(norms, 1.0).tolist() == [1.0, 1.0, 1.0, 0.25, 0.0, 0.0]


def test_the_steps_of_an_epoch_are_rounded_to_the_nearest() -> None:
    """1.67, 3.33 and 5 batches; epsilon counts as many as are trained."""
    privacy = compose_experiment([*EXAMPLE, "privacy.sampling_rate=0.6"]).privacy
    assert [privacy.steps(epochs) for epochs in (1, 2, 3)] == [2, 3, 5]


CASES = [
    pytest.param(1.0, 0.1, 100, marks=pytest.mark.slow),
    pytest.param(0.8, 0.02, 1000, marks=pytest.mark.slow),
    (2.0, 0.05, 3000),
    (4.0, 1.0, 20),
]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("noise", "rate", "steps"), CASES)
def test_two_accountants_agree_to_one_percent(noise: float, rate: float, steps: int) -> None:
    """dp-accounting composes privacy loss distributions, opacus privacy random variables."""
    prv = PRVAccountant()
    prv.history = [(noise, rate, steps)]
    ours = pld_epsilon((SampledGaussian(noise, rate, steps),), 1e-5)
    assert ours == pytest.approx(prv.get_epsilon(1e-5), rel=0.01)


def test_epsilon_of_several_trainings_is_that_of_all_their_steps() -> None:
    once = SampledGaussian(1.0, 0.1, 50)
    assert pld_epsilon((once, once), 1e-5) == pytest.approx(
        pld_epsilon((SampledGaussian(1.0, 0.1, 100),), 1e-5), rel=1e-3
    )
    assert pld_epsilon((), 1e-5) == 0


def test_epsilon_is_finite_for_a_tiny_delta() -> None:
    """For which the accountant has no bound."""
    found = [pld_epsilon((SampledGaussian(1.0, 0.1, 100),), 10.0**-n) for n in (14, 15, 20, 300)]
    assert found == sorted(found)
    assert math.isfinite(found[-1])


def test_the_record_has_epsilon_and_nothing_else_of_the_images(train: Train) -> None:
    directory = train(*EXAMPLE, "rounds=2", "privacy.sampling_rate=0.25", "privacy.delta=1e-4")
    record = read_entries(directory)
    spent = record["privacy"]
    assert spent["epsilon"] == pytest.approx(pld_epsilon((SampledGaussian(1.0, 0.25, 8),), 1e-4))
    assert (spent["delta"], spent["rounds"]) == (1e-4, 2)
    assert spent["unit"] == "one training image of one client, added or removed"
    assert spent["noise"].startswith("secret")
    assert (
        record["results"]["validation"] == {} or "accuracy" not in record["results"]["validation"]
    )
    assert {row["examples"] for row in rows(directory, "clients.csv")} == {str(UNTOLD_IMAGES)}
    metrics = {(row["split"], row["metric"]) for row in rows(directory, "rounds.csv")}
    assert ("train", "epsilon") in metrics
    assert ("train", "ce") not in metrics
    assert ("validation", "accuracy") not in metrics
    assert ("test", "accuracy") in metrics
    assert set(record["data"]["clients"]) == {UNTOLD_IMAGES}


def test_a_seed_does_not_remove_the_noise_of_the_clients(train: Train, tmp_path: Path) -> None:
    words = (*EXAMPLE, "rounds=1")
    first, second = (load_file(train(*words) / "model.safetensors") for _ in range(2))
    assert not any(np.allclose(first[name], second[name], atol=1e-4) for name in first)
    study = (*words, "privacy.reproducible=true")
    assert sha256(train(*study)) == sha256(train(*study))
    assert sha256(train(*study)) != sha256(train(*study, "seed=1"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["method=univarfl", "model.norm=group"], "does not work with privacy.unit=example"),
        (["method=feduv", "model.norm=group"], "choose method=fedavg, feddyn, fedexp"),
        (["method=mixup", "model.norm=group"], "privacy=client"),
        (["method=fedlc", "model.norm=group"], "an image's loss depends on other images"),
        (["method=fedprox+mixup", "model.norm=group"], "method=mixup"),
        (["method=fedavg"], r"model\.norm=batch.*add model\.norm=group"),
        (["method=fedavg", "model.norm=group", "runtime=compiled"], "add runtime=eager"),
        (["method=fedavg", "model.norm=group", "strategy=dp_fixed"], "choose one: strategy=fedavg"),
        (["method=fedavg", "model.norm=group", "privacy.unit=site"], "example"),
        (["method=fedavg", "model.norm=group", "secure=masked"], "choose secure=none"),
        (
            ["method=fedavg", "model=linear", "runtime.precision=bfloat16"],
            r"runtime\.precision=bfloat16.*choose float32",
        ),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_has_no_gradient_of_one_image_is_refused_with_the_alternative(
    words: list[str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        compose_experiment(["privacy=example", *words])


def test_the_two_files_have_the_same_settings_but_for_the_unit() -> None:
    none, example = (
        compose_experiment([*SMALL, "method=fedavg", "model.norm=group", f"privacy={name}"]).privacy
        for name in ("none", "example")
    )
    assert none.model_copy(update={"unit": "example"}) == example
