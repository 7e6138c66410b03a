"""Try to read single updates out of masked sums, as a coordinator could.

    uv run python -m benchmarks.masked_attacks          (a minute)
    uv run python -m benchmarks.masked_attacks sites    (5 minutes)

The second command attacks four sites with TLS, a key each, and rosters.

*Passive*: clients send an honest update. The coordinator knows the weights and that trained weights
are float32. It decodes each number of client 1 from the sum, and guesses the most likely one if
there are several. The same attack gets the exact sum, which masked rounds had until version 0.1.0.

*Lying*: in each of `ROUNDS` runs of one round, the coordinator chooses the start
(``model.weights``). One large number stands in each tensor, and the others are moved a little from
run to run, which singled one site out of exact sums. It then guesses the sign of each number of
each client's update from all sums so far. The table also has a guess from the true sum of the
updates, without masks: nothing that adds updates up can tell less.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tabulate import tabulate
from torch import Tensor

from benchmarks.recovery import digits
from server_app.config.composition import compose_experiment
from task.exact_sum import ExactSum, relative_weights
from task.secure.vectors.rounded_sum import RoundedSum
from task.secure.vectors.rounding import UNIT
from task.training.worker import Worker
from tests.machines import Machines
from tests.test_masked_deployment import with_rosters
from univarfl.engines.train import train_experiment

NUMBERS, ROUNDS = 20_000, 8
COUNTS = (997, 1203, 1409, 811)
DEVIATIONS = (0.0, 1e-5, 1e-4, 1e-3)  # of updates; 0 for -1, 0 or 1 ulp
ULP = 2.0**-24  # of the passive attack's weights, which lie in [0.5, 1)
DECOY, OFFSET = 2.0**18, 1e-5  # the large number; how far a start is moved from run to run
LR = 1e-4
SITES = ("east", "north", "south", "west")
COMMON = [
    "secure=masked", "model=linear", "method=fedavg", "rounds=1", "evaluate_every=1",
    "local_epochs=1", "batch_size=2048", f"optim.lr={LR}", "optim.momentum=0",
    "optim.weight_decay=0", "watch.tensorboard=false",
]  # fmt: skip
SIMULATED = [*COMMON, "engine=inprocess", "num_clients=4", "data=digits", "alpha=0.1"]
FOLDERS = [
    *COMMON, "data=folder", f"data.classes=[{','.join(map(str, range(10)))}]", "data.image_size=32",
    "strategy.weighting=uniform",
]  # fmt: skip
ON_SITES = [*FOLDERS, "partition=sites", f"partition.names=[{','.join(SITES)}]"]

Steps = NDArray[np.float64]
Run = Callable[[Path, str], Path]


def decoded(total: Steps, weights: Mapping[int, float], deviation: float) -> Steps:
    """Return the most likely ulps that client 0's numbers have moved, given the sum's.

    Updates of one ulp are found by trying all of them. Of two clients, the integers that fit the
    sum exactly are tried first, by the inverse of a count. If they are too large to be likely, the
    estimate is the linear one for independent normal updates.
    """
    counts = list(COUNTS[: len(weights)])
    if not deviation:
        every = np.array(list(product((0, -1, 1), repeat=len(weights))))
        sums = every @ np.array(list(weights.values()))
        return np.asarray(every[np.abs(sums[:, None] - total).argmin(axis=0), 0], np.float64)
    linear = np.rint(total * weights[0] / sum(w**2 for w in weights.values()))
    if len(counts) > 2:
        return linear
    whole = np.rint(total * max(counts)).astype(np.int64)
    modulus = counts[1]
    inverse = pow(counts[0], -1, modulus)
    first = (whole % modulus) * inverse % modulus
    first = np.where(first > modulus // 2, first - modulus, first)
    second = (whole - counts[0] * first) / counts[1]
    likely = 5 * deviation / ULP
    fits = (np.abs(first) < likely) & (np.abs(second) < likely)
    return np.where(fits, first, linear)


def passive() -> None:
    """Print the share of client 0's numbers that is decoded."""
    table = []
    for clients in (2, 3, 4):
        weights = relative_weights(dict(enumerate(map(float, COUNTS[:clients]))))
        for deviation in DEVIATIONS:
            rng = np.random.default_rng(0)
            start = {"w": torch.from_numpy(rng.uniform(0.51, 0.99, NUMBERS)).float()}
            moved = [
                torch.from_numpy(
                    rng.normal(0, deviation, NUMBERS)
                    if deviation
                    else rng.integers(-1, 2, NUMBERS) * ULP
                )
                for _ in weights
            ]
            models = [{"w": (start["w"] + each).float()} for each in moved]
            steps = [((m["w"].double() - start["w"].double()) / ULP).numpy() for m in models]
            inside = ((start["w"] > 0.52) & (start["w"] < 0.98)).numpy()
            row: list[object] = [clients, f"{deviation:g}" if deviation else "one ulp"]
            exact, share = ExactSum(start), 1 / sum(weights.values())
            rounded, alike = RoundedSum(start, "stochastic"), RoundedSum(start, "nearest")
            for client, model in enumerate(models):
                exact.add(exact.to_fixed_point(model, weights[client] * share))
                key = rng.bytes(32)
                rounded.add(rounded.to_fixed_point(model, weights[client], key))
                alike.add(alike.to_fixed_point(model, 1.0, rng.bytes(32)))
            total = (exact.mean(1.0)["w"] - start["w"].double()).numpy() / share / ULP
            real = sum(weights[client] * each for client, each in enumerate(steps))
            found = [
                decoded(total, weights, deviation),
                decoded(rounded.totals["w"].numpy() * UNIT / ULP, weights, deviation),
                np.rint(alike.totals["w"].numpy() * UNIT / ULP / clients),
                np.rint(real * weights[0] / sum(w**2 for w in weights.values())),
            ]
            row += [f"{(each == steps[0])[inside].mean():.2%}" for each in found]
            table.append(row)
    columns = ["clients", "deviation", "exact sum", "stochastic", "nearest", "guess from real sum"]
    print(tabulate(table, columns, tablefmt="pipe"), flush=True)


class Guess(NamedTuple):
    """How good a guess of a client's update is: the share of right signs, and the cosine."""

    signs: float
    cosine: float

    @classmethod
    def of(cls, guess: Tensor, truth: Tensor) -> "Guess":
        """Compare a guess with an update."""
        moved = truth.abs() > 1e-7
        right = (guess.sign() == truth.sign())[moved].double().mean()
        return cls(float(right), float(torch.nn.functional.cosine_similarity(guess, truth, 0)))


def flat(weights: Mapping[str, Tensor]) -> Tensor:
    """Return all numbers, float64."""
    return torch.cat([weights[name].double().flatten() for name in sorted(weights)])


def crafted(place: Path, number: int, worker: Worker) -> dict[str, Tensor]:
    """Write the start of a run, and return it."""
    rng = np.random.default_rng(1)
    start = {}
    for name, value in worker.initial_weights().items():
        w = value + torch.from_numpy(rng.normal(0, OFFSET, value.shape)).float() * number
        w[(9, 0) if value.ndim == 2 else 9] = DECOY if value.ndim == 2 else -DECOY
        start[name] = w
    save_file(start, place / f"crafted-{number}.safetensors")
    return start


def lying(place: Path, worker: Worker, run: Run, uniform: bool) -> None:
    """Print how well the sums tell the update of each client.

    Args:
        place: for the starts.
        worker: trains each client, to know its update.
        run: runs one round from a start; takes the run's name, and returns the file of the model.
        uniform: whether all clients weigh the same.
    """
    clients = sorted(worker.data.clients)
    counts = {client: float(len(worker.data.clients[client].train)) for client in clients}
    weights = relative_weights(counts)
    if uniform:
        weights = dict.fromkeys(clients, 1.0)
    sums: list[Tensor] = []
    truths: list[list[Tensor]] = []
    table = []
    for number in range(ROUNDS):
        start = crafted(place, number, worker)
        small = flat(start).abs() < DECOY / 2
        model = load_file(run(place / f"crafted-{number}.safetensors", f"lying-{number}"))
        sums.append((flat(model) - flat(start))[small])
        trained = [worker.train(start, 1, client).weights for client in clients]
        truths.append([(flat(each) - flat(start))[small] for each in trained])
        guess = torch.stack(sums).mean(dim=0)
        own = [torch.stack([truth[c] for truth in truths]).mean(dim=0) for c in clients]
        plain = sum(weights[client] * own[client] for client in clients)
        assert isinstance(plain, Tensor)
        found = [Guess.of(guess, own[client]) for client in clients]
        ideal = [Guess.of(plain, own[client]) for client in clients]
        texts = [f"{of.signs:.1%} {of.cosine:.3f}" for of in (*found, *ideal)]
        table.append([number + 1, *texts])
    kinds = ("sum", "true sum")
    columns = ["rounds", *(f"client {client}, {kind}" for kind in kinds for client in clients)]
    print(tabulate(table, columns, tablefmt="pipe"), flush=True)


def simulated(place: Path) -> None:
    """Attack simulated clients."""

    def run(start: Path, name: str) -> Path:
        words = [*SIMULATED, f"model.weights={start}", f"output_dir={place}", f"run_id={name}"]
        train_experiment(compose_experiment(words), words)
        return place / name / "model.safetensors"

    lying(place, Worker(compose_experiment(SIMULATED).local()), run, uniform=False)


def deployed(place: Path) -> None:
    """Attack four sites, which know each other by their rosters and require masks."""
    data = place / "data"
    with Machines(place / "machines", digits(data, SITES)) as machines:
        with_rosters(machines, SITES)
        machines.coordinate()
        for site in SITES:
            machines.join(site)

        def run(start: Path, name: str) -> Path:
            words = [*ON_SITES, f"model.weights={start}", f"run_id={name}"]
            log = machines.run(*words)
            if machines.ended():
                raise SystemExit(log.read_text())
            return machines.federation / "runs" / name / "model.safetensors"

        words = [
            *FOLDERS, "engine=inprocess", "partition=domains", "num_clients=4",
            f"data.root={data}", "data.test_share=0",
        ]  # fmt: skip
        lying(place, Worker(compose_experiment(words).local()), run, uniform=True)


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as name:
        if sys.argv[1:] == ["sites"]:
            deployed(Path(name))
        elif sys.argv[1:]:
            raise SystemExit(__doc__)
        else:
            passive()
            simulated(Path(name))


if __name__ == "__main__":
    main()
