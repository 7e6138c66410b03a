"""Train every method with every strategy for two rounds on digits.

    uv run python -m benchmarks.methods_by_strategies       (20 minutes on two cores)

Prints a table of accuracies after the second round, and the reasons why some pairs are refused. The
table shows that every pair runs. It does not show which pair is good: two rounds are few, and the
global model is evaluated with the batch-norm statistics of its first rounds.
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
from server_app.engines.train import train_experiment
from server_app.runs.records.record import read_record
from task.errors import ConfigError
from tests.conftest import SMALL, model_for, needs_of

METHODS = choices()["method"]
STRATEGIES = choices()["strategy"]


def overrides(method: str, strategy: str) -> list[str]:
    """Return the small experiment of the tests, with as many clients as Bulyan needs."""
    words = [*SMALL, "num_clients=7", f"method={method}", f"strategy={strategy}"]
    return [*words, *model_for(method), *needs_of(strategy)]


def result(pair: Sequence[str]) -> str:
    """Return the final test accuracy of a method with a strategy, or why they are refused."""
    words = overrides(*pair)
    try:
        with tempfile.TemporaryDirectory() as place, redirect_stdout(StringIO()):
            words.append(f"output_dir={place}")
            record = read_record(train_experiment(compose_experiment(words), words))
    except ConfigError as error:
        return f"refused: {error}"
    return f"{record['results']['test']['accuracy']:.2f}"


def main() -> None:
    """Run every pair, two at a time, and print the table."""
    pairs = list(product(METHODS, STRATEGIES))
    refusals = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        results = pool.map(result, pairs)
        print(f"| | {' | '.join(STRATEGIES)} |\n|---{'|---' * len(STRATEGIES)}|")
        for method in METHODS:
            cells = [next(results) for _ in STRATEGIES]
            refusals += [cell for cell in cells if cell.startswith("refused")]
            shown = [cell.split(":")[0] for cell in cells]
            print(f"| {method} | {' | '.join(shown)} |", flush=True)
    print("\n".join(["", *refusals]))


if __name__ == "__main__":
    main()
