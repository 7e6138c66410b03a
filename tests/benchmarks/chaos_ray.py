"""Runs through Flower and Ray whose worker or server is killed, or that are told to end.

    uv run python -m tests.benchmarks.chaos_ray [RUNS]   (10: a quarter of an hour on two cores)

Each is gone on with where it has to be, and must end with the bits of the same run in one process,
but where client memories hang: there a round goes on without the clients of the worker that hangs,
until that is ended, and the run must be completed. Exits with 1 if one was not so.
"""

import sys
import tempfile
from pathlib import Path

from server_app.composition import compose_experiment
from server_app.run_record import read_record
from server_app.train import train_experiment
from task.seeding import numpy_generator
from tests.chaos.through_ray import KINDS, suffered

ROUNDS = 4


def tried(seed: int, place: Path) -> bool:
    """Whether a run that suffers ends as one that does not; prints what it was."""
    random = numpy_generator(seed, "chaos through Ray")
    kind, after = KINDS[seed % len(KINDS)], int(random.integers(1, ROUNDS))
    method = ("moon", "scaffold", "univarfl")[random.integers(2 if kind == "hang" else 3)]
    words = [f"method={method}", f"rounds={ROUNDS}", "local_epochs=2", f"seed={seed}", "rho=0.6"]
    words += [f"output_dir={place}", "watch.tensorboard=false", "federation.round_timeout=20"]
    directory = place / f"suffered-{seed}"
    said = suffered([*words, f"run_id={directory.name}"], directory, kind, after)
    whole = [*words, "engine=inprocess", f"run_id=whole-{seed}"]
    same = read_record(train_experiment(compose_experiment(whole), whole)).get("model_sha256")
    found = read_record(directory)
    well = found["status"] == "completed" and (kind == "hang" or found["model_sha256"] == same)
    print(
        f"{seed}: {method}, {kind} after round {after}, resumed from {found.get('resumed_from')}:"
    )
    bits = "same bits" if found.get("model_sha256") == same else "OTHER BITS"
    print(f"  {found['status']}, {bits}", flush=True)
    if not well:
        print("\n".join(said)[-3000:], flush=True)
    return well


def main() -> int:
    """Try them one after another: each takes all cores."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as place:
        wrong = [seed for seed in range(count) if not tried(seed, Path(place))]
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
