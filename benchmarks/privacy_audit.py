"""Attack privacy of images and of clients with canaries, and compare it with the claimed epsilon.

    uv run python -m benchmarks.privacy_audit   (some minutes)

Two hundred canaries, images of random pixels, are each added to a client's digits with
probability 1/2. The attacker knows all canaries and sees the model after DP-SGD. It guesses which
were there: the canaries whose own direction the weights moved along most, and least. From the
number of right guesses follows a lower bound of epsilon with 95 % confidence (Steinke, Nasr,
Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023, Theorem 5.2, delta 0). The
bound must stay below the claimed epsilon, and must find the leak without noise.

For clients, each canary is a client whose update is a random direction, far longer than the bound.
It takes part with probability 1/2, else its update is zero. The attacker sees the sum of a round,
with the noise of all. Masks change no bit of this sum, so none are added.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from server_app.config.composition import compose_experiment
from task.data.batches import DeviceImages
from task.privacy.accounting import SampledGaussian, pld_epsilon
from task.privacy.participant import protect_update
from task.privacy.zcdp import gaussian_rho, zcdp_epsilon
from task.secure.vectors.rounded_sum import RoundedSum
from task.secure.vectors.rounding import UNIT
from task.secure.vectors.update_vector import UpdateVector
from task.seeding import secret_bytes
from task.training.worker import Worker

CANARIES, SIDE = 200, 64
RATE, STEPS, DELTA, CONFIDENCE = 0.2, 100, 1e-5, 0.95
NOISES = (0.0, 1.5, 2.5, 5.0)
CLIENT_NOISES, NORM = (0.0, 0.5, 1.0, 2.0), 0.3
GUESSES = (20, 50, 100, 200)


class Audit(NamedTuple):
    """One attack.

    Attributes:
        noise: the noise multiplier.
        claimed: epsilon by the accountant; infinity without noise.
        found: the lower bound of epsilon.
        right: the number of right guesses.
        guesses: the number of guesses.
    """

    noise: float
    claimed: float
    found: float
    right: int
    guesses: int


def lower_bound(right: int, guesses: int, confidence: float = CONFIDENCE) -> float:
    """Return the largest epsilon under which so many right guesses are too unlikely."""

    def likelihood(epsilon: float) -> float:
        chance = 1 / (1 + np.exp(-epsilon))
        return float(binom.sf(right - 1, guesses, chance)) - (1 - confidence)

    return float(brentq(likelihood, 0, 30)) if likelihood(0) < 0 else 0.0


def scores(noise: float, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Train with half of the canaries; return each canary's score, and whether it was there."""
    words = [
        "method=fedavg", "model=linear", f"data.image_size={SIDE}",
        f"model.features={SIDE**2}", "num_clients=1",
        "partition=iid", "privacy=example", f"privacy.noise_multiplier={noise}",
        f"privacy.sampling_rate={RATE}", f"local_epochs={round(STEPS * RATE)}", "batch_size=32",
        "optim.momentum=0", "optim.lr=0.1", "optim.weight_decay=0",
    ]  # fmt: skip
    worker = Worker(compose_experiment(words).local())
    generator = np.random.default_rng(seed)
    dataset = worker.data.dataset
    canaries = generator.integers(0, 2, (CANARIES, SIDE, SIDE, 1)).astype(np.uint8) * 255
    labels = generator.integers(0, 10, CANARIES)
    there = generator.random(CANARIES) < 0.5
    first = len(dataset.labels)
    more = dataclasses.replace(
        dataset,
        images=np.concatenate([dataset.images, canaries]),
        labels=np.concatenate([dataset.labels, labels]),
    )
    images = DeviceImages(more, worker.device)
    chosen = np.concatenate([worker.data.clients[0].train, first + np.flatnonzero(there)])
    start = worker.initial_weights()
    result = worker.trainer.train(start, images, images.index(chosen), 1, 0, {}, {})
    moved = (result.weights["classifier.weight"] - start["classifier.weight"]).double()
    x = images[torch.arange(first, first + CANARIES)][0].flatten(1).double()
    own = x - x.mean(dim=0)
    along = own @ (moved - moved.mean(dim=0)).T
    return along[torch.arange(CANARIES), torch.from_numpy(labels)].numpy(), there


def client_scores(noise: float, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Add up the updates of canary clients; return the score of each, and whether it took part."""
    generator = np.random.default_rng(seed)
    directions = generator.standard_normal((CANARIES, 10 * SIDE**2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    there = generator.random(CANARIES) < 0.5
    start = {"weight": torch.zeros(10, SIDE**2)}
    layout, total = UpdateVector(start, (), "stochastic"), RoundedSum(start, "stochastic")
    for direction, present in zip(directions, there, strict=True):
        moved = torch.from_numpy(direction * 10 * NORM * present).reshape(10, SIDE**2)
        update = layout.fixed({"weight": moved}, 1.0, secret_bytes(32))
        total.add(protect_update(update, UNIT, NORM, noise, CANARIES))
    return directions @ total.mean(CANARIES)["weight"].flatten().numpy(), there


def audit_clients(noise: float, seed: int = 0) -> Audit:
    """Attack one round of clients; see `strongest`."""
    claimed = zcdp_epsilon(gaussian_rho(noise), DELTA) if noise else np.inf
    return strongest(noise, claimed, *client_scores(noise, seed))


def audit(noise: float, seed: int = 0) -> Audit:
    """Attack one training of a client on images; see `strongest`."""
    claimed = pld_epsilon((SampledGaussian(noise, RATE, STEPS),), DELTA) if noise else np.inf
    return strongest(noise, claimed, *scores(noise, seed))


def strongest(
    noise: float, claimed: float, found: NDArray[np.float64], there: NDArray[np.bool_]
) -> Audit:
    """Guess from scores; the number of guesses is the one that finds most, of `GUESSES`.

    The confidence is divided among them.
    """
    order = np.argsort(found)
    attacks = []
    for guesses in GUESSES:
        half = guesses // 2
        right = int(there[order[-half:]].sum() + (~there[order[:half]]).sum())
        bound = lower_bound(right, guesses, 1 - (1 - CONFIDENCE) / len(GUESSES))
        attacks.append(Audit(noise, float(claimed), bound, right, guesses))
    return max(attacks, key=lambda attack: attack.found)


def main() -> None:
    """Print one attack for each noise, on images and on clients."""
    attacks = [*map(audit, NOISES), *map(audit_clients, CLIENT_NOISES)]
    print("| canaries | noise multiplier | claimed epsilon | lower bound | right guesses |")
    print("|---|---|---|---|---|")
    for place, attack in enumerate(attacks):
        kind = "images" if place < len(NOISES) else "clients"
        guessed = f"{attack.right} of {attack.guesses}"
        print(
            f"| {kind} | {attack.noise:g} | {attack.claimed:.2f} | {attack.found:.2f} | {guessed} |"
        )


if __name__ == "__main__":
    main()
