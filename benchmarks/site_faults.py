"""Run seeded schedules of faults of real processes, and compare each model with a simulation.

    uv run python -m benchmarks.site_faults FILE.jsonl [SCHEDULES]   (30: forty minutes, two cores)

Three sites train on the digits in folders, through TLS and with a key each. Two to four faults fall
on each run: a site is killed, cut off or suspended, its clock is wrong by up to two days, its disk
is full; one of its processes or of the coordinator's is killed. Nobody touches the run afterwards.
Then the same run is simulated, without the replies that the record of the run does not count. Both
models must have the same bits.

Root, iproute2 and libfaketime are needed for all kinds of fault; without them, some are left out.
A line about each run is added to FILE; runs that it has already are left out. The exit code is 1 if
a run did not complete, or ended with other bits.
"""

import csv
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

from benchmarks.recovery import WORDS, Watched, digits
from server_app.runs.records.run_record import read_record
from tests.chaos.site_faults import (
    KINDS,
    ROUNDS,
    SITES,
    SiteFault,
    Sites,
    disks_allowed,
    draw,
    possible_kinds,
)
from tests.chaos.suffering import child
from tests.machines import Machines
from univarfl.engines.local.processes import CONTEXT

COMMON = [
    *(word for word in WORDS if not word.startswith(("rounds=", "evaluate_every=", "partition"))),
    f"rounds={ROUNDS}", f"evaluate_every={ROUNDS}",
]  # fmt: skip
ON_SITES = [
    *COMMON, "partition=sites", f"partition.names=[{','.join(SITES)}]",
    "federation.round_timeout=20",
]  # fmt: skip


def suffer(sites: Sites, faults: Sequence[SiteFault]) -> tuple[Watched, dict[str, Any]]:
    """Run under faults; return the run and what became of it."""
    run = Watched(sites.machines, ON_SITES)

    def carry_out(mine: Sequence[SiteFault]) -> None:
        for fault in mine:
            run.wait_for_round(fault.round)
            if run.ended():
                return
            time.sleep(fault.after)
            KINDS[fault.kind](sites, fault)

    # The faults of one site follow one another; those of different sites may overlap.
    of_sites = [[fault for fault in faults if fault.site == site] for site in SITES]
    threads = [Thread(target=carry_out, args=(mine,)) for mine in of_sites]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = run.result()
    return run, result


def left_out(directory: Path, rounds: int, clients: int) -> list[tuple[int, int, str]]:
    """Return the round and the client of each reply that does not count, for a simulation."""
    with (directory / "clients.csv").open(newline="") as file:
        status = {
            (int(row["round"]), int(row["client"])): row["status"] for row in csv.DictReader(file)
        }
    expected = ((number, client) for number in range(1, rounds + 1) for client in range(clients))
    return [(*reply, "died") for reply in expected if status.get(reply) != "ok"]


def simulated(
    words: Sequence[str], data: Path, place: Path, clients: int, faults: list[tuple[int, int, str]]
) -> str:
    """Return the hash of the model that a simulation without some replies ends with."""
    words = [
        *words, "engine=inprocess", "partition=domains", f"num_clients={clients}",
        f"data.root={data}", "data.test_share=0", f"federation.workers={clients}",
        f"output_dir={place}", "run_id=run",
    ]  # fmt: skip
    place.mkdir()
    process = CONTEXT.Process(target=child, args=(words, faults, place))
    process.start()
    process.join()
    return read_record(place / "run").model_sha256


def main() -> int:
    """Run what FILE does not have yet; return the exit code."""
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    file, schedules = Path(sys.argv[1]), int((*sys.argv[2:], "30")[0])
    lines = file.read_text().splitlines() if file.exists() else []
    known = {json.loads(line)["seed"] for line in lines}
    wrong = sum(json.loads(line)["wrong"] for line in lines)
    disks = disks_allowed()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        data = place / "data"
        with Machines(place / "machines", digits(data, SITES)) as machines:
            sites = Sites(machines, disks)
            kinds = possible_kinds(machines.apart, disks)
            with sites.mounted():
                machines.coordinate()
                for seed in range(schedules):
                    if seed in known:
                        continue
                    faults = draw(seed, kinds)
                    ended = sites.start_missing()
                    run, result = suffer(sites, faults)
                    directory = run.directory()
                    replies = left_out(directory, ROUNDS, len(SITES)) if directory else []
                    expected = simulated(COMMON, data, place / f"{seed}", len(SITES), replies)
                    result |= {
                        "seed": seed,
                        "faults": [asdict(fault) for fault in faults],
                        "left_out": [reply[:2] for reply in replies],
                        "expected": expected,
                        "ended_before": ended,
                        "wrong": result["exit"] != 0 or result["sha256"] != expected,
                    }
                    with file.open("a") as output:
                        output.write(json.dumps(result) + "\n")
                    print(json.dumps(result), flush=True)
                    wrong += result["wrong"]
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
