"""Measure what machine failures do to a deployed run, and the time that each costs.

    uv run python -m benchmarks.faults DATA_DIRECTORY [FAULT...]   (half an hour on two cores)

DATA_DIRECTORY holds PACS (<domain>/<class>/*). Each domain is a site with TLS and its own key. The
coordinator keeps the 1,120 test images. Where network namespaces are allowed (root, iproute2), each
site is a host of its own. Every fault is one run of `ROUNDS` rounds; a run without a fault and a
simulated run are printed for comparison.
"""

import csv
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from server_app.runs.records.run_record import read_record
from task.data.sources.pacs import Pacs
from tests.machines import COORDINATOR, Machines, until
from tests.processes import UNIVARFL
from univarfl.flower.supervisor import is_alive

ROUNDS = 6
DEADLINE = 60
WORDS = [
    "data=folder", "data.image_size=32", f"rounds={ROUNDS}", "local_epochs=1", "batch_size=128",
    f"evaluate_every={ROUNDS}",
]  # fmt: skip


def partition(pacs: Path, place: Path) -> tuple[list[str], list[str]]:
    """Copy PACS to sites/DOMAIN/CLASS/* and test/CLASS/*.

    Returns:
        The overrides of a run on the sites, and those of the same run in simulation.
    """
    source = Pacs(image_size=32, root=str(pacs))
    dataset_index = source.dataset_index()
    for index in range(len(dataset_index.labels)):
        path = Path(dataset_index.name(index))
        domain, label = path.parent.parent.name, path.parent.name
        tested = bool(dataset_index.test[index])
        target = place / ("test" if tested else f"sites/{domain}") / label
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / (f"{domain}_{path.name}" if tested else path.name))
    words = [*WORDS, f"data.classes=[{','.join(dataset_index.classes)}]"]
    on_sites = [
        *words, "partition=sites", f"partition.names=[{','.join(dataset_index.domains)}]",
        f"data.root={place / 'test'}", "data.test_share=1",
        f"federation.round_timeout={DEADLINE}",
    ]  # fmt: skip
    simulated = [
        *words, "partition=domains", f"num_clients={len(dataset_index.domains)}",
        f"data.root={place / 'sites'}", "data.test_share=0",
    ]  # fmt: skip
    return on_sites, simulated


def simulate(words: list[str], place: Path) -> None:
    """Run the experiment in one process, and print its seconds and the model's hash."""
    started = time.monotonic()
    run = [UNIVARFL, "train", *words, "engine=inprocess", f"output_dir={place}", "run_id=simulated"]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    record = read_record(place / "simulated")
    print("\n## simulation: the domains of one directory, in one process")
    print(f"{seconds:.0f} s\nsha256 {record.model_sha256}", flush=True)


class Scene:
    """A run on the four sites, with the actions that a fault is made of."""

    def __init__(self, machines: Machines, words: list[str]) -> None:
        self.machines, self.words = machines, words

    def table(self, name: str) -> list[dict[str, str]]:
        """Return the rows of one of the record's tables."""
        with (self.machines.record() / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def in_round(self, server_round: int) -> None:
        """Wait until the sites work on a round."""
        place = self.machines.federation / "runs"

        def under_way() -> bool:
            if not any(place.glob("*/rounds.csv")):
                return False
            done = [int(row["round"]) for row in self.table("rounds.csv")]
            return max(done, default=-1) + 1 >= server_round

        until(under_way, f"round {server_round}", 900)
        time.sleep(5)  # until the messages are sent, or training has begun

    def finish(self) -> int:
        """Wait until the run has ended, and return its exit code."""
        return self.machines.processes["run"].wait(1800)


def none(scene: Scene) -> int:
    """Let nothing fail."""
    return scene.finish()


def site_killed(scene: Scene) -> int:
    """Kill a site in round 2, and start it again 20 s later."""
    scene.in_round(2)
    scene.machines.kill("cartoon")
    time.sleep(20)
    scene.machines.join("cartoon")
    return scene.finish()


def site_cut_off(scene: Scene) -> int:
    """Disconnect a site in round 2, and reconnect it in round 4."""
    scene.in_round(2)
    scene.machines.connect("photo", False)
    scene.in_round(4)
    scene.machines.connect("photo", True)
    return scene.finish()


def site_slowed(scene: Scene) -> int:
    """Suspend a site in round 2 until 20 s after the deadline."""
    scene.in_round(2)
    site = psutil.Process(scene.machines.processes["sketch"].pid)
    until(lambda: at_work(site), "the site's work")
    # Suspend all of its processes, as each message is answered in a process of its own.
    whole = [site, *site.children(recursive=True)]
    for member in whole:
        member.send_signal(signal.SIGSTOP)
    time.sleep(DEADLINE + 20)
    for member in whole:
        member.send_signal(signal.SIGCONT)
    return scene.finish()


def at_work(site: psutil.Process) -> list[psutil.Process]:
    """Return the site's processes that train or validate: the children of its fork server."""
    servers = [
        process
        for process in site.children(recursive=True)
        if "site.fork_server" in " ".join(process.cmdline())
    ]
    return [child for server in servers for child in server.children() if is_alive(child)]


def superlink_killed(scene: Scene) -> int:
    """Kill the coordinator's SuperLink in round 3."""
    scene.in_round(3)
    scene.machines.kill_program("flower-superlink")
    return scene.finish()


def coordinator_killed(scene: Scene) -> int:
    """Kill all of the coordinator's processes but the run's command in round 3, and start it."""
    scene.in_round(3)
    scene.machines.kill(COORDINATOR)
    scene.machines.coordinate()
    return scene.finish()


def server_app_killed(scene: Scene) -> int:
    """Kill the ServerApp in round 3."""
    scene.in_round(3)
    scene.machines.kill_program("flwr-serverapp")
    return scene.finish()


FAULTS: dict[str, Callable[[Scene], int]] = {
    fault.__name__: fault
    for fault in (
        none,
        site_killed,
        site_cut_off,
        site_slowed,
        superlink_killed,
        coordinator_killed,
        server_app_killed,
    )
}


def run_with(fault: Callable[[Scene], int], root: Path, sites: Path, words: list[str]) -> None:
    """Run with one fault, and print the seconds and what the record says."""
    names = sorted(path.name for path in sites.iterdir())
    with Machines(root, {name: sites / name for name in names}) as machines:
        machines.coordinate()
        for name in names:
            machines.join(name)
        scene = Scene(machines, words)
        started = time.monotonic()
        machines.run(*words)
        code = fault(scene)
        seconds = time.monotonic() - started
        record = read_record(machines.record())
        accuracy = record.results.test.get("accuracy")
        print(f"\n## {fault.__name__}: {fault.__doc__}")
        print(f"exit {code}, {record.status}, {seconds:.0f} s, test accuracy {accuracy}")
        print(f"sha256 {record.model_sha256 or None}; apart: {machines.apart}")
        for row in scene.table("clients.csv"):
            if row["status"] != "ok":
                print(f"  round {row['round']} {row['site']}: {row['reason']}")
        for row in scene.table("events.csv"):
            print(f"  {row['time'][11:19]} round {row['round']} {row['site']}: {row['event']}")
        sys.stdout.flush()


def main() -> None:
    """Run the named faults, or all of them."""
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    pacs, *wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        on_sites, simulated = partition(Path(pacs), data)
        if not wanted:
            simulate(simulated, Path(place))
        for name in wanted or FAULTS:
            run_with(FAULTS[name], Path(place) / name, data / "sites", on_sites)


if __name__ == "__main__":
    main()
