"""Train every method with every strategy for a round on digits.

    uv run python -m benchmarks.methods_by_strategies       (6 minutes on two cores)

Prints a table of the pairs that run, and the reasons why the others are refused before training.
"""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from multiprocessing import get_context

from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from tests.conftest import SMALL_CNN, model_for, needs_of, training_methods
from univarfl.engines.train import train_experiment

METHODS = training_methods()
STRATEGIES = choices()["strategy"]
RUNS = "runs"


def overrides(method: str, strategy: str) -> list[str]:
    """Return the small experiment of the tests, with as many clients as Bulyan needs."""
    words = [*SMALL_CNN, "rounds=1", "num_clients=7", f"method={method}", f"strategy={strategy}"]
    return [*words, *model_for(method), *needs_of(strategy), "data.validation_share=0.2"]


def result(pair: Sequence[str]) -> str:
    """Return `RUNS`, or why a pair is refused, with METHOD and STRATEGY for its names."""
    method, strategy = pair
    words = overrides(method, strategy)
    try:
        with tempfile.TemporaryDirectory() as place, redirect_stdout(StringIO()):
            words.append(f"output_dir={place}")
            train_experiment(compose_experiment(words), words)
    except ConfigError as error:
        reason = str(error).replace(f"method={method}", "method=METHOD")
        return reason.replace(f"strategy={strategy}:", "strategy=STRATEGY:")
    return RUNS


def main() -> None:
    """Run every pair, two at a time, and print the table."""
    pairs = list(product(METHODS, STRATEGIES))
    reasons: dict[str, int] = {}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        results = pool.map(result, pairs)
        print(f"| | {' | '.join(STRATEGIES)} |\n|---{'|:---:' * len(STRATEGIES)}|")
        for method in METHODS:
            found = [next(results) for _ in STRATEGIES]
            cells = [
                "✓" if each == RUNS else f"({reasons.setdefault(each, len(reasons) + 1)})"
                for each in found
            ]
            print(f"| {method} | {' | '.join(cells)} |", flush=True)
    for reason, number in reasons.items():
        print(f"\n({number}) {reason}")


if __name__ == "__main__":
    main()
