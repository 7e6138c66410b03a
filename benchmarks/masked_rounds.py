"""Measure rounds of four real sites with masks and without, on PACS at 96x96.

    uv run python -m benchmarks.masked_rounds DATA_DIRECTORY   (20 minutes on two cores)

DATA_DIRECTORY holds PACS (<domain>/<class>/*). Each domain is a site with TLS and its own key, and
trains one epoch in each of `ROUNDS` rounds. All machines share this one, so every message of every
site costs the others time. The seconds of each round and the hash of each model are printed.
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.faults import partition
from benchmarks.rounds import round_seconds
from server_app.runs.records.run_record import read_record
from tests.machines import Machines
from tests.test_masked_deployment import NEAREST, with_rosters

ROUNDS = 3
LONGEST = 1800.0  # seconds of a run


def measure(place: Path, sites: Path, words: list[str], masks: str) -> None:
    """Run once, and print the seconds of each round."""
    names = sorted(path.name for path in sites.iterdir())
    with Machines(place, {name: sites / name for name in names}) as machines:
        if masks == "masked":
            with_rosters(machines, names)
        machines.coordinate()
        for name in names:
            machines.join(name)
        log = machines.run(*words, f"secure={masks}", *NEAREST)
        if machines.processes["run"].wait(LONGEST):
            raise SystemExit(log.read_text())
        directory = machines.record()
        seconds = round_seconds(directory)
        print(f"secure={masks}: {seconds}; sha256 {read_record(directory).model_sha256}")
        sys.stdout.flush()


def main() -> None:
    """Measure both."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        on_sites, _ = partition(Path(sys.argv[1]), place / "data")
        words = [word for word in on_sites if not word.startswith(("data.image_size", "rounds",
                 "evaluate_every", "federation.round_timeout"))]  # fmt: skip
        words += ["data.image_size=96", f"rounds={ROUNDS}", f"evaluate_every={ROUNDS + 1}"]
        for masks in ("rounded", "masked"):
            measure(place / masks, place / "data" / "sites", words, masks)


if __name__ == "__main__":
    main()
