"""Kill the SuperLink or the ServerApp at seeded moments, and see how each run ends.

    uv run python -m benchmarks.recovery FILE.jsonl [SEEDS]   (10 seeds: an hour on two cores)

Two sites train on the digits in folders, through TLS and with a key each; each is a host of its own
where network namespaces are allowed. In each run, one kind of process is killed (SIGKILL) in rounds
`KILLED`, at a moment drawn from the seed. Nobody touches the run afterwards. A line about each run
is added to FILE; runs that it has already are left out. The exit code is 1 if a run did not
complete, or ended with other bits than the run without a fault.
"""

import csv
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from sklearn.datasets import load_digits

from server_app.runs.records.run_record import read_record
from task.seeding import numpy_generator
from tests.machines import COORDINATOR, Machines, until
from tests.processes import end

ROUNDS = 4
KILLED = (1, 3, ROUNDS)
SITES = ("east", "west")
IMAGES = 60  # of each site
WORDS = [
    "data=folder", f"data.classes=[{','.join(map(str, range(10)))}]", "data.image_size=32",
    f"rounds={ROUNDS}", f"evaluate_every={ROUNDS}", "local_epochs=1", "partition=sites",
    f"partition.names=[{','.join(SITES)}]", "watch.tensorboard=false",
]  # fmt: skip
PROGRAMS = {"superlink": "flower-superlink", "serverapp": "flwr-serverapp"}
SECONDS = 900.0
SHARE = 0.9  # of a round's seconds, within which its kill falls


def digits(place: Path, sites: Sequence[str]) -> dict[str, Path]:
    """Write each site's digits to SITE/CLASS/*.png; return the sites' directories."""
    bunch = load_digits()
    for number, (image, label) in enumerate(zip(bunch.images, bunch.target, strict=True)):
        site, rank = sites[number % len(sites)], number // len(sites)
        if rank < IMAGES:
            path = place / site / str(label) / f"{rank:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 15).astype("uint8")).convert("RGB").save(path)
    return {site: place / site for site in sites}


class Watched:
    """A run on the sites, with its record."""

    def __init__(self, machines: Machines, words: Sequence[str]) -> None:
        self.machines = machines
        self.before = set(self._runs())
        self.started = time.monotonic()
        self.log = machines.run(*words)

    def _runs(self) -> list[Path]:
        place = self.machines.federation / "runs"
        return [path for path in place.iterdir() if path.is_dir()] if place.exists() else []

    def directory(self) -> Path | None:
        """Return the run's directory, once there is one."""
        return next(iter(set(self._runs()) - self.before), None)

    def rounds(self) -> int:
        """Return the number of the last full round; -1 before the first scores."""
        directory = self.directory()
        if directory is None or not (directory / "rounds.csv").exists():
            return -1
        with (directory / "rounds.csv").open(newline="") as file:
            found = [int(row["round"]) for row in csv.DictReader(file)]
        return max(found, default=-1)

    def ended(self) -> bool:
        """Whether the command has ended."""
        return self.machines.processes["run"].poll() is not None

    def wait_for_round(self, number: int) -> None:
        """Wait until the run works on a round, or has ended."""
        until(lambda: self.rounds() >= number - 1 or self.ended(), f"round {number}", SECONDS)

    def result(self) -> dict[str, Any]:
        """Wait until the command ends; return its exit code, its seconds and the model's hash."""
        code = self.machines.processes["run"].wait(SECONDS)
        directory = self.directory()
        record = read_record(directory) if directory else None
        return {
            "exit": code, "status": record and record.status, "reason": record and record.reason,
            "sha256": record and record.model_sha256, "restarts": record and len(record.resumed),
            "seconds": round(time.monotonic() - self.started, 1),
        }  # fmt: skip


def kill_program(machines: Machines, kind: str) -> bool:
    """Kill a program of the coordinator; return whether it ran."""
    found = machines.program(PROGRAMS[kind])
    if found is not None:
        found.kill()
    return found is not None


def suffered(machines: Machines, kind: str, seed: int, round_seconds: float) -> dict[str, Any]:
    """Run with three kills; return what became of the run."""
    random = numpy_generator(seed, f"recovery {kind}")
    end([machines.processes.pop(COORDINATOR)])  # it starts its programs again so many times only
    machines.coordinate()
    run = Watched(machines, WORDS)
    moments, killed = [], 0
    for number in KILLED:
        run.wait_for_round(number)
        moment = float(random.uniform(0, SHARE * round_seconds))
        time.sleep(moment)
        done = kill_program(machines, kind)
        killed += done
        moments.append([number, run.rounds(), round(moment, 2), done])
        until(lambda: machines.program(PROGRAMS["superlink"]), "the SuperLink", SECONDS)
    return {"kind": kind, "seed": seed, "kills": killed, "moments": moments, **run.result()}


def main() -> int:
    """Run what FILE does not have yet; return the exit code."""
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    file, seeds = Path(sys.argv[1]), int((*sys.argv[2:], "10")[0])
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(each["kind"], each["seed"]) for each in known}
    wanted = [(kind, seed) for seed in range(seeds) for kind in PROGRAMS]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with Machines(place / "machines", digits(place / "data", SITES)) as machines:
            machines.coordinate()
            for site in SITES:
                machines.join(site)
            whole = Watched(machines, WORDS)
            whole.wait_for_round(1)
            begun = time.monotonic()
            result = {"kind": "none", "seed": -1, **whole.result()}
            round_seconds = (time.monotonic() - begun) / ROUNDS
            wrong = int(show(file, result, result["sha256"]))
            for kind, seed in wanted:
                if (kind, seed) not in done:
                    found = suffered(machines, kind, seed, round_seconds)
                    wrong += show(file, found, result["sha256"])
    wrong += sum(each["sha256"] != result["sha256"] for each in known)
    return int(wrong > 0)


def show(file: Path, result: dict[str, Any], expected: str) -> bool:
    """Print a result and add it to the file; return whether it is wrong."""
    with file.open("a") as output:
        output.write(json.dumps(result) + "\n")
    print(json.dumps(result), flush=True)
    return bool(result["exit"] or result["sha256"] != expected)


if __name__ == "__main__":
    sys.exit(main())
