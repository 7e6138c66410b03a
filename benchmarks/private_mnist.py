"""Measure the accuracy on MNIST at epsilon 2, 4 and 8, for images and for whole clients.

    uv run python -m benchmarks.private_mnist run DIRECTORY [UNIT ...]   (some hours on two cores)
    uv run python -m benchmarks.private_mnist write                      (into the docs page)

DIRECTORY contains ``MNIST/raw``. The noise is real, and secret: for images each client draws its
own in each step, for whole clients each participant draws its part in each round and masks it.
Each finished run is a line of ``benchmarks/records/private_mnist.jsonl``. A measurement that was
ended goes on where it was. Without UNIT, all are measured.
"""

import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pandas as pd
from safetensors.numpy import load_file
from scipy.optimize import brentq

from server_app.config.composition import compose_experiment
from server_app.rounds.sampling import most_asked
from server_app.runs.records.run_record import read_record
from task.privacy.accounting import SampledGaussian, pld_epsilon
from task.privacy.zcdp import gaussian_rho, zcdp_epsilon
from univarfl.engines.train import train_experiment

RECORDS = Path(__file__).parent / "records" / "private_mnist.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "results" / "private-mnist.md"
BLOCK = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.DOTALL)
EPSILONS = (2, 4, 8, None)
DELTA = 1e-5
WORDS = ("data=mnist", "engine=inprocess", "optim.momentum=0")
RATE = 0.05


@dataclass(frozen=True)
class Study:
    """The runs of one unit of privacy.

    Attributes:
        methods: the local methods.
        rounds: the number of rounds.
        words: the other overrides.
        epsilons: the epsilons; None for no noise.
        seeds: the seeds.
        rho: the share of the clients that a round asks.
    """

    methods: tuple[str, ...]
    rounds: int
    words: tuple[str, ...]
    epsilons: tuple[int | None, ...] = EPSILONS
    seeds: tuple[int, ...] = (0, 1, 2)
    rho: float = 1.0


MASKED = (
    "privacy=client", "secure=masked", "federation.quorum=1", "partition=iid",
    "optim.lr=0.05", "batch_size=20", "privacy.clipping_norm=0.3", "federation.round_timeout=3600",
)  # fmt: skip
BOTH = ("fedavg", "univarfl")
STUDIES = {
    "image-10": Study(
        ("fedavg",), 20,
        (
            "privacy=example", f"privacy.sampling_rate={RATE}", "model=linear", "num_clients=10",
            "partition=dirichlet", "alpha=0.3", "local_epochs=1", "batch_size=300", "optim.lr=0.5",
        ),
    ),
    "client-100": Study(
        BOTH, 8, (*MASKED, "model=linear", "num_clients=100", "local_epochs=1"),
    ),
    "client-1000": Study(
        BOTH, 10, (*MASKED, "model=linear", "num_clients=1000", "local_epochs=5"), rho=0.1,
    ),
    "client-100-large": Study(
        ("fedavg",), 2,
        (
            *MASKED, "model=cnn", "model.norm=group", "model.features=960", "data.image_size=32",
            "num_clients=100", "local_epochs=1", "privacy.clipping_norm=3",
        ),
        epsilons=(8, None), seeds=(0,),
    ),
}  # fmt: skip


def noise_for(unit: str, epsilon: float | None, seed: int) -> float:
    """Return the noise multiplier that spends an epsilon in all rounds; 0 without a limit."""
    if epsilon is None:
        return 0.0
    study = STUDIES[unit]
    clients = 1000 if unit == "client-1000" else 100
    most = most_asked(clients, study.rho, seed, study.rounds)

    def beyond(noise: float) -> float:
        if unit.startswith("image"):
            steps = round(1 / RATE) * study.rounds
            return pld_epsilon((SampledGaussian(noise, RATE, steps),), DELTA) - epsilon
        return zcdp_epsilon(gaussian_rho(noise, most), DELTA) - epsilon

    return round(float(brentq(beyond, 0.3, 50, xtol=1e-3)) + 1e-3, 4)


def measure(
    unit: str, method: str, epsilon: float | None, seed: int, root: Path
) -> dict[str, object]:
    """Run once, and return what the record says."""
    study, started = STUDIES[unit], time.perf_counter()
    words = [
        *WORDS, *study.words, f"data.root={root}", f"method={method}", f"seed={seed}",
        f"rounds={study.rounds}", f"evaluate_every={study.rounds}", f"rho={study.rho}",
        f"privacy.noise_multiplier={noise_for(unit, epsilon, seed)}", f"privacy.delta={DELTA}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        words += [f"output_dir={place}", "run_id=run"]
        directory = train_experiment(compose_experiment(words), words)
        record = read_record(directory)
        assert record.privacy
        weights = load_file(directory / "model.safetensors")
    return {
        "unit": unit, "method": method, "epsilon": epsilon, "seed": seed,
        "accuracy": record.results.test["accuracy"],
        "spent": record.privacy.epsilon, "rounds": study.rounds,
        "parameters": sum(value.size for value in weights.values()),
        "multiplier": noise_for(unit, epsilon, seed), "noise": record.privacy.noise,
        "seconds": round(time.perf_counter() - started), "code": record.code,
    }  # fmt: skip


def read() -> list[dict[str, Any]]:
    """Return what was measured."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [json.loads(line) for line in lines]


def run(root: Path, units: list[str]) -> None:
    """Measure what the records do not have yet."""
    known = {(one["unit"], one["method"], one["epsilon"], one["seed"]) for one in read()}
    for seed in range(3):
        for unit in units or STUDIES:
            study = STUDIES[unit]
            for method in study.methods:
                for epsilon in study.epsilons:
                    if seed in study.seeds and (unit, method, epsilon, seed) not in known:
                        line = json.dumps(measure(unit, method, epsilon, seed, root))
                        with RECORDS.open("a") as file:
                            file.write(line + "\n")


def table(found: list[dict[str, Any]]) -> str:
    """Return the mean and standard deviation of the accuracy, in %, and the number of seeds."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    named = {"image-10": "image, 10 clients", "client-100": "client, 100 clients",
             "client-1000": "client, 100 of 1,000 clients a round",
             "client-100-large": "client, 100 clients"}  # fmt: skip
    order = sorted(found, key=lambda one: (list(STUDIES).index(one["unit"]), one["method"]))
    for one in order:
        key = one["unit"], one["method"]
        cells = rows.setdefault(
            key,
            {
                "protected": named[one["unit"]],
                "method": {"fedavg": "FedAvg", "univarfl": "UniVarFL"}[one["method"]],
                "parameters": f"{one['parameters']:,}",
            },
        )
        cells.setdefault("rounds", str(one["rounds"]))
        for epsilon in EPSILONS:
            same = [
                100 * other["accuracy"]
                for other in found
                if (other["unit"], other["method"], other["epsilon"]) == (*key, epsilon)
            ]
            name = f"epsilon {epsilon}" if epsilon else "no noise"
            spread = f" ± {stdev(same):.1f}" if same[1:] else ""
            cells[name] = f"{mean(same):.1f}{spread}" if same else ""
            cells["seeds"] = str(max(int(cells.pop("seeds", 0)), len(same)))
    return str(pd.DataFrame(rows.values()).to_markdown(index=False, disable_numparse=True))


def write() -> None:
    """Write the table into the page."""
    found = read()
    codes = ", ".join(sorted({one["code"][:12] for one in found}))
    block = f"\n{table(found)}\n\n{len(found)} runs of code {codes}.\n\n"
    PAGE.write_text(BLOCK.sub(lambda _: block, PAGE.read_text()))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(Path(sys.argv[2]).absolute(), sys.argv[3:])
    else:
        write()
