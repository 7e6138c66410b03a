"""Faults of a deployment's real processes, networks, clocks and disks, drawn from a seed."""

import contextlib
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from task.seeding import numpy_generator
from tests.machines import Machines
from tests.processes import end, family_of

ROUNDS = 6
SITES = ("east", "north", "west")
LARGEST_DISK = "96m"
CACHE, FILLER = "cache", "filler"
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
HOUR = 3600
OFFSETS = (-48 * HOUR, -2 * HOUR, -100, 30, 2 * HOUR, 48 * HOUR)  # seconds; Flower allows -300 to 5


class Sites:
    """The sites of a coordinator, each with a small disk of its own if root may mount one.

    Args:
        machines: the coordinator and the sites.
        disks: whether each site's directory is a small disk.
    """

    def __init__(self, machines: Machines, disks: bool) -> None:
        self.machines, self.disks = machines, disks

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Put each site's directory on its disk, until the end."""
        places = [self.place(site) for site in SITES] if self.disks else []
        for place in places:
            before = place.rename(place.with_name(f"{place.name}-before"))
            place.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={LARGEST_DISK}", "x", str(place)]
            subprocess.run(mount, check=True)
            shutil.copytree(before, place, dirs_exist_ok=True)
        try:
            yield
        finally:
            end(list(self.machines.processes.values()))
            for place in places:
                subprocess.run(["umount", "--lazy", str(place)], check=True)

    def place(self, site: str) -> Path:
        """Return a site's directory."""
        return self.machines.root / site

    def join(self, site: str, **environment: str) -> None:
        """Start a site's command."""
        cache = str(self.place(site) / CACHE)
        self.machines.join(site, UNIVARFL_CACHE=cache, **environment)

    def leave(self, site: str) -> None:
        """End a site's command as a person does."""
        if process := self.machines.processes.pop(site, None):
            end([process])

    def start_missing(self) -> list[str]:
        """Start the sites whose command has ended; return their names."""
        missing = [
            site
            for site in SITES
            if site not in self.machines.processes
            or self.machines.processes[site].poll() is not None
        ]
        for site in missing:
            self.join(site)
        return missing

    def family(self, site: str) -> list[psutil.Process]:
        """Return a site's processes; none if its command has ended."""
        with contextlib.suppress(psutil.Error, KeyError):
            return family_of(self.machines.processes[site].pid)
        return []


@dataclass(frozen=True)
class SiteFault:
    """A fault that begins in a round.

    Attributes:
        round: the round.
        after: the seconds since that round began.
        kind: a key of `KINDS`.
        site: whose fault it is; for the coordinator's programs it has no meaning.
        lasts: how many seconds it lasts.
        offset: the seconds by which a wrong clock differs.
    """

    round: int
    after: float
    kind: str
    site: str
    lasts: float
    offset: int


def killed(sites: Sites, fault: SiteFault) -> None:
    """Kill all of a site's processes; start it again later."""
    for process in sites.family(fault.site):
        with contextlib.suppress(psutil.Error):
            process.kill()
    sites.machines.processes.pop(fault.site, None)
    time.sleep(fault.lasts)
    sites.join(fault.site)


def cut(sites: Sites, fault: SiteFault) -> None:
    """Disconnect a site's network cable, and connect it again."""
    sites.machines.connect(fault.site, False)
    time.sleep(fault.lasts)
    sites.machines.connect(fault.site, True)


def stopped(sites: Sites, fault: SiteFault) -> None:
    """Suspend all of a site's processes, and let them continue."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in sites.family(fault.site):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        if number == signal.SIGSTOP:
            time.sleep(fault.lasts)


def clock(sites: Sites, fault: SiteFault) -> None:
    """Run a site's processes with a wrong clock for a while."""
    sites.leave(fault.site)
    sites.join(
        fault.site,
        LD_PRELOAD=str(LIBRARY),
        FAKETIME=f"{fault.offset:+d}",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )
    time.sleep(fault.lasts + 5)
    sites.leave(fault.site)
    sites.join(fault.site)


def disk(sites: Sites, fault: SiteFault) -> None:
    """Fill a site's disk, and free it later."""
    path = sites.place(fault.site) / FILLER
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    time.sleep(fault.lasts)
    path.unlink()


def process_killed(name: str) -> Callable[[Sites, SiteFault], None]:
    """Return a fault that kills those of a site's processes whose command line has a name."""

    def kill(sites: Sites, fault: SiteFault) -> None:
        for process in sites.family(fault.site):
            with contextlib.suppress(psutil.Error):
                if name in " ".join(process.cmdline()):
                    process.kill()

    return kill


def program_killed(name: str) -> Callable[[Sites, SiteFault], None]:
    """Return a fault that kills one of the coordinator's programs, if it runs."""

    def kill(sites: Sites, fault: SiteFault) -> None:
        if found := sites.machines.program(name):
            with contextlib.suppress(psutil.Error):
                found.kill()

    return kill


KINDS: dict[str, Callable[[Sites, SiteFault], None]] = {
    "site killed": killed,
    "network cut": cut,
    "site suspended": stopped,
    "clock wrong": clock,
    "disk full": disk,
    "SuperNode killed": process_killed("bin/flower-supernode"),
    "worker killed": process_killed("univarfl.site_worker"),
    "training killed": process_killed("site.fork_server"),
    "SuperLink killed": program_killed("flower-superlink"),
    "ServerApp killed": program_killed("flwr-serverapp"),
    "gate killed": program_killed("deploy gate"),
}


def possible_kinds(apart: bool, disks: bool) -> list[str]:
    """Return the kinds of fault that can be made here.

    Args:
        apart: whether each site has a network of its own.
        disks: whether each site has a disk of its own.
    """
    impossible = {
        "network cut": not apart,
        "disk full": not disks,
        "clock wrong": LIBRARY is None,
    }
    return [kind for kind in KINDS if not impossible.get(kind)]


def draw(seed: int, kinds: list[str]) -> list[SiteFault]:
    """Draw a run's two to four faults, ordered by their round."""
    random = numpy_generator(seed, "site faults")
    faults = [
        SiteFault(
            int(random.integers(1, ROUNDS + 1)),
            round(float(random.uniform(0, 2)), 2),
            kinds[random.integers(len(kinds))],
            SITES[random.integers(len(SITES))],
            round(math.exp(random.uniform(0, math.log(15))), 1),
            OFFSETS[random.integers(len(OFFSETS))],
        )
        for _ in range(random.integers(2, 5))
    ]
    return sorted(faults, key=lambda fault: (fault.round, fault.after))


def disks_allowed() -> bool:
    """Return whether this process may mount a disk for each site."""
    from tests.chaos.trial import small_disks_allowed

    return os.geteuid() == 0 and small_disks_allowed()
