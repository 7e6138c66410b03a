"""Run seeded schedules of faults: clients that fail, and a server that is killed.

    uv run python -m benchmarks.chaos [SCHEDULES [FIRST]]         (200: half an hour on two cores)
    uv run python -m benchmarks.chaos timed [SCHEDULES [FIRST]]   (the same on simulated devices)

Prints each schedule, how its run ended, and every violation. Exits with 1 if there is one. Full
disks are tried only by root, who may mount a small disk.
"""

import sys
import tempfile
from pathlib import Path

from joblib import Parallel, cpu_count, delayed

from tests.chaos.trial import NEEDED, images_in, small_disks_allowed, tried
from univarfl.engines.local.processes import warm_up


def main() -> int:
    """Try every schedule, and return the exit code."""
    timed = sys.argv[1:2] == ["timed"]
    given = sys.argv[1 + timed :]
    count, first = (*map(int, given), *(200, 0)[len(given) :])
    disk, wrongs, ends = small_disks_allowed(), 0, {"completed": 0, "failed": 0}
    warm_up(*NEEDED)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        images = images_in(place)
        trials = Parallel(cpu_count(), prefer="threads", return_as="generator")(
            delayed(tried)(seed, images, place, disk, timed) for seed in range(first, first + count)
        )
        for text, wrong in trials:
            print(text, flush=True)
            for line in wrong:
                print(f"  WRONG {line}", flush=True)
            wrongs += bool(wrong)
            ends["completed" if ": completed" in text else "failed"] += 1
    disks = "tried" if disk else "not allowed"
    print(f"{count} schedules, {ends}; full disks {disks}; {wrongs} wrong")
    return int(wrongs > 0)


if __name__ == "__main__":
    sys.exit(main())
