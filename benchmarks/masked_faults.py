"""Kill a site in each stage of a masked round, and compare the model with one without masks.

    uv run python -m benchmarks.masked_faults FILE.json   (10 minutes on two cores)

Four sites train on the digits in folders with ``secure=masked``, through TLS and with a key each.
In one run, a site is killed like by a power cut in each of the five stages: when the stage begins,
and `LATER` seconds after. Then it is started again. Nobody touches the run otherwise. The same run
is then simulated without masks, and without the updates that the record does not count. FILE gets
one entry for each kill. The exit code is 1 if the models differ.
"""

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.recovery import WORDS, Watched, digits
from benchmarks.site_faults import left_out, simulated
from tests.machines import Machines, until
from tests.test_masked_deployment import NEAREST, with_rosters

SITES = ("east", "north", "south", "west")
VICTIM = SITES[-1]
STAGES = ("keys", "shares", "report", "agree", "unmask")
LATER = 0.4
ROUNDS = 20
COMMON = [
    *(word for word in WORDS if not word.startswith(("rounds=", "evaluate_every=", "partition"))),
    f"rounds={ROUNDS}", f"evaluate_every={ROUNDS}", *NEAREST, "model.norm=group",
]  # fmt: skip
ON_SITES = [
    *COMMON, "secure=masked", "partition=sites", f"partition.names=[{','.join(SITES)}]",
    "federation.round_timeout=10",
]  # fmt: skip


def kill_in(machines: Machines, log: Path, run: Watched, stage: str, after: float) -> int | None:
    """Kill the victim some seconds after a stage begins; return the round, or None."""
    seen = len(log.read_text())
    begun = re.compile(rf"round (\d+), attempt \d+: stage {stage}\n")
    until(lambda: begun.search(log.read_text(), seen) or run.ended(), f"stage {stage}", 600)
    found = begun.search(log.read_text(), seen)
    if found is None:
        return None
    time.sleep(after)
    machines.kill(VICTIM)
    return int(found[1])


def main() -> int:
    """Run once; return the exit code."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    kills: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with Machines(place / "machines", digits(place / "data", SITES)) as machines:
            with_rosters(machines, SITES)
            machines.coordinate()
            logs = {site: machines.join(site) for site in SITES}
            run = Watched(machines, ON_SITES)
            for stage in STAGES:
                for after in (0.0, LATER):
                    number = kill_in(machines, logs[VICTIM], run, stage, after)
                    kills.append({"stage": stage, "after": after, "round": number})
                    print(kills[-1], flush=True)
                    if number is not None:
                        machines.join(VICTIM)
            result = run.result()
            directory = run.directory()
        assert directory is not None
        replies = left_out(directory, ROUNDS, len(SITES))
        missing = {reply[:2] for reply in replies}
        for kill in kills:
            kill["counted"] = (kill["round"], SITES.index(VICTIM)) not in missing
        words = [*COMMON, "secure=rounded"]
        expected = simulated(words, place / "data", place / "simulated", len(SITES), replies)
        outcome = {**result, "expected": expected, "left_out": sorted(missing), "kills": kills}
    Path(sys.argv[1]).write_text(json.dumps(outcome, indent=1) + "\n")
    print(json.dumps(outcome))
    return int(result["exit"] != 0 or result["sha256"] != expected)


if __name__ == "__main__":
    sys.exit(main())
