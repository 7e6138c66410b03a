"""What becomes of a deployed run when machines fail, and the time that each fault costs.

    uv run python -m tests.benchmarks.faults DATA_DIRECTORY [FAULT...]   (half an hour on two cores)

DATA_DIRECTORY holds PACS (<domain>/<class>/*). Each domain is a site with TLS and a key of its own,
without the 280 test images, which the coordinator keeps; where network namespaces are allowed
(root, iproute2) each is a host of its own. Every fault is one run of `ROUNDS` rounds, beside one
without a fault and one in simulation; what the record tells of it is printed. Measures; asserts
nothing.
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

from server_app.run_record import read_record
from task.data.sources.pacs import Pacs
from tests.machines import COORDINATOR, UNIVARFL, Machines, until

ROUNDS = 6
DEADLINE = 60
WORDS = [
    "data=folder", "data.image_size=32", f"rounds={ROUNDS}", "local_epochs=1", "batch_size=128",
    f"evaluate_every={ROUNDS}",
]  # fmt: skip


def divide(pacs: Path, place: Path) -> tuple[list[str], list[str]]:
    """PACS as it is held: sites/DOMAIN/CLASS/* and test/CLASS/*.

    Returns:
        The words of a run on the sites, and those of the same run in simulation.
    """
    source = Pacs(image_size=32, root=str(pacs))
    catalogue = source.catalogue()
    for index in range(len(catalogue.labels)):
        path = Path(catalogue.name(index))
        domain, label = path.parent.parent.name, path.parent.name
        tested = bool(catalogue.test[index])
        target = place / ("test" if tested else f"sites/{domain}") / label
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / (f"{domain}_{path.name}" if tested else path.name))
    words = [*WORDS, f"data.classes=[{','.join(catalogue.classes)}]"]
    on_sites = [
        *words, "partition=sites", f"partition.names=[{','.join(catalogue.domains)}]",
        f"data.root={place / 'test'}", "data.test_share=1",
        f"federation.round_timeout={DEADLINE}",
    ]  # fmt: skip
    simulated = [
        *words, "partition=domains", f"num_clients={len(catalogue.domains)}",
        f"data.root={place / 'sites'}", "data.test_share=0",
    ]  # fmt: skip
    return on_sites, simulated


def simulate(words: list[str], place: Path) -> None:
    """The same run in one process; print what it took and the model's hash."""
    started = time.monotonic()
    run = [UNIVARFL, "train", *words, "engine=inprocess", f"output_dir={place}", "run_id=simulated"]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    record = read_record(place / "simulated")
    print("\n## simulation: the domains of one directory, in one process")
    print(f"{seconds:.0f} s\nsha256 {record['model_sha256']}", flush=True)


class Scene:
    """A run on the four sites, and what is done to it."""

    def __init__(self, machines: Machines, words: list[str]) -> None:
        self.machines, self.words = machines, words

    def table(self, name: str) -> list[dict[str, str]]:
        """One of the record's tables."""
        with (self.machines.record() / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def in_round(self, server_round: int) -> None:
        """Wait until a round is under way at the sites."""
        place = self.machines.federation / "runs"

        def under_way() -> bool:
            if not any(place.glob("*/rounds.csv")):
                return False
            done = [int(row["round"]) for row in self.table("rounds.csv")]
            return max(done, default=-1) + 1 >= server_round

        until(under_way, f"round {server_round}", 900)
        time.sleep(5)  # the messages are on their way, or work has begun

    def resume(self) -> int:
        """Wait for the run to fail, and go on with it by one command."""
        self.machines.processes["run"].wait(900)
        self.machines.run(f"resume={self.machines.record()}")
        return self.machines.processes["run"].wait(900)

    def finish(self) -> int:
        """Wait for the run's end."""
        return self.machines.processes["run"].wait(1800)


def none(scene: Scene) -> int:
    """Nothing fails."""
    return scene.finish()


def site_killed(scene: Scene) -> int:
    """A site is killed in round 2, and started again 20 s later."""
    scene.in_round(2)
    scene.machines.kill("cartoon")
    time.sleep(20)
    scene.machines.join("cartoon")
    return scene.finish()


def site_cut_off(scene: Scene) -> int:
    """A site loses its network in round 2 and has it back in round 4."""
    scene.in_round(2)
    scene.machines.connect("photo", False)
    scene.in_round(4)
    scene.machines.connect("photo", True)
    return scene.finish()


def site_slowed(scene: Scene) -> int:
    """A site stands still in round 2 until 20 s after the deadline."""
    scene.in_round(2)
    site = psutil.Process(scene.machines.processes["sketch"].pid)
    until(lambda: at_work(site), "the site's work")
    # All of it, as a machine stands still: Flower gives a ClientApp's work to another process.
    whole = [site, *site.children(recursive=True)]
    for member in whole:
        member.send_signal(signal.SIGSTOP)
    time.sleep(DEADLINE + 20)
    for member in whole:
        member.send_signal(signal.SIGCONT)
    return scene.finish()


def at_work(site: psutil.Process) -> list[psutil.Process]:
    """The site's processes that train or validate."""
    return [
        child
        for child in site.children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE and "flwr-clientapp" in " ".join(child.cmdline())
    ]


def superlink_killed(scene: Scene) -> int:
    """The coordinator's SuperLink is killed in round 3 and started again; the run is resumed."""
    scene.in_round(3)
    scene.machines.kill(COORDINATOR)
    scene.machines.coordinate()
    return scene.resume()


def server_app_killed(scene: Scene) -> int:
    """The ServerApp is killed in round 3; the run is resumed."""
    scene.in_round(3)
    coordinator = psutil.Process(scene.machines.processes[COORDINATOR].pid)
    for child in coordinator.children(recursive=True):
        if "flwr-serverapp" in " ".join(child.cmdline()):
            child.kill()
    return scene.resume()


FAULTS: dict[str, Callable[[Scene], int]] = {
    fault.__name__: fault
    for fault in (none, site_killed, site_cut_off, site_slowed, superlink_killed, server_app_killed)
}


def suffer(fault: Callable[[Scene], int], root: Path, sites: Path, words: list[str]) -> None:
    """One run with a fault; print what it took and what its record says."""
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
        accuracy = record.get("results", {}).get("test", {}).get("accuracy")
        print(f"\n## {fault.__name__}: {fault.__doc__}")
        print(f"exit {code}, {record['status']}, {seconds:.0f} s, test accuracy {accuracy}")
        print(f"sha256 {record.get('model_sha256')}; apart: {machines.apart}")
        for row in scene.table("clients.csv"):
            if row["status"] != "ok":
                print(f"  round {row['round']} {row['site']}: {row['reason']}")
        for row in scene.table("events.csv"):
            print(f"  {row['time'][11:19]} round {row['round']} {row['site']}: {row['event']}")
        sys.stdout.flush()


def main() -> None:
    """Suffer the faults that are asked for, or all of them."""
    pacs, *wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        on_sites, simulated = divide(Path(pacs), data)
        if not wanted:
            simulate(simulated, Path(place))
        for name in wanted or FAULTS:
            suffer(FAULTS[name], Path(place) / name, data / "sites", on_sites)


if __name__ == "__main__":
    main()
