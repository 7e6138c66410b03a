"""Interrupt every method and every strategy in each round of a short run, and resume it.

    uv run python -m benchmarks.resuming   (ten minutes on two cores)

Prints each pair and whether the resumed runs have the same model bits as the uninterrupted run.
Exits with 1 if one has not.
"""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from joblib import Parallel, cpu_count, delayed

from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.records.run_record import read_record
from tests.conftest import SMALL_CNN, model_for, needs_of, training_methods
from tests.interruption import ended_in
from univarfl.engines.train import train_experiment

ROUNDS = 4


def trained(words: list[str]) -> str:
    """Train, and return the model's hash."""
    return read_record(train_experiment(compose_experiment(words), words)).model_sha256


def resumed(words: list[str], place: Path, end: int) -> str:
    """Interrupt a run in round `end`, resume it, and return the model's hash."""
    named = [*words, f"run_id=ended-{end}"]
    with ended_in(end), suppress(KeyboardInterrupt):
        train_experiment(compose_experiment(named), named)
    return trained(whole_words([f"resume={place / f'ended-{end}'}"]))


def pair(method: str, strategy: str) -> tuple[str, bool]:
    """Return the pair as text, and whether it resumes to the same bits after every round."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ["UNIVARFL_MEMORY"] = str(place / "memory")
        words = [
            *SMALL_CNN, f"method={method}", f"strategy={strategy}", f"rounds={ROUNDS}",
            "num_clients=8", "rho=0.9", f"output_dir={place}", *model_for(method),
            *needs_of(strategy),
        ]  # fmt: skip
        whole = trained([*words, "run_id=whole"])
        ends = [resumed(words, place, end) for end in range(1, ROUNDS + 1)]
    return f"method={method} strategy={strategy}", set(ends) == {whole}


def main() -> int:
    """Try every method with FedAvg and every strategy with plain training; return the exit code."""
    pairs = [(method, "fedavg") for method in training_methods()]
    pairs += [("fedavg", strategy) for strategy in choices()["strategy"]]
    results = Parallel(cpu_count(), return_as="generator")(delayed(pair)(*one) for one in pairs)
    wrong = 0
    for text, same in results:
        print(f"{text}: {'same bits' if same else 'OTHER BITS'} after each of {ROUNDS} rounds")
        sys.stdout.flush()
        wrong += not same
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
