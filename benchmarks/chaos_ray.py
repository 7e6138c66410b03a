"""Kill the worker or the server of runs through Flower and Ray, or stop the run.

    uv run python -m benchmarks.chaos_ray [RUNS]   (10: a quarter of an hour on two cores)

Each run is resumed if it stopped, and must end with the bits of the same run in one process. Where
a worker hangs on its clients' state, the round continues without these clients until the worker is
ended; such a run must be completed, with any bits. Exits with 1 if a run ends otherwise.
"""

import sys
import tempfile
from pathlib import Path

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_record
from task.seeding import numpy_generator
from tests.chaos.through_ray import KINDS, suffered
from univarfl.engines.train import train_experiment

ROUNDS = 4


def tried(seed: int, place: Path) -> bool:
    """Run one case, print its outcome, and return whether it ended as it must."""
    random = numpy_generator(seed, "chaos through Ray")
    kind, after = KINDS[seed % len(KINDS)], int(random.integers(1, ROUNDS))
    method = ("moon", "scaffold", "univarfl")[random.integers(2 if kind == "hang" else 3)]
    words = [f"method={method}", f"rounds={ROUNDS}", "local_epochs=2", f"seed={seed}", "rho=0.6"]
    words += [f"output_dir={place}", "watch.tensorboard=false", "federation.round_timeout=20"]
    directory = place / f"suffered-{seed}"
    lines = suffered([*words, f"run_id={directory.name}"], directory, kind, after)
    whole = [*words, "engine=inprocess", f"run_id=whole-{seed}"]
    same = read_record(train_experiment(compose_experiment(whole), whole)).model_sha256
    found = read_record(directory)
    passed = found.completed and (kind == "hang" or found.model_sha256 == same)
    print(f"{seed}: {method}, {kind} after round {after}, resumed from {found.resumed_from}:")
    bits = "same bits" if found.model_sha256 == same else "OTHER BITS"
    print(f"  {found.status}, {bits}", flush=True)
    if not passed:
        print("\n".join(lines)[-3000:], flush=True)
    return passed


def main() -> int:
    """Try the runs one after another, as each takes all cores, and return the exit code."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as place:
        wrong = [seed for seed in range(count) if not tried(seed, Path(place))]
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
