"""A coordinator and sites as separate machines: network namespaces, or this machine alone."""

import contextlib
import csv
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from tests.processes import UNIVARFL, end, family_of, kill
from univarfl.flower.programs import free_ports

OWN = os.getpid() % 100_000  # separates the networks of tests that run at the same time
BRIDGE = f"uvb{OWN}"
NETWORK = f"10.213.{OWN % 256}"
COORDINATOR = "coordinator"
TRY = f"uvtry{OWN}"
SECONDS = 240.0


def namespaces_allowed() -> bool:
    """Return whether this process may create network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    made = ip("netns", "add", TRY, check=False).returncode == 0
    if made:
        ip("netns", "del", TRY)
    return made


def ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    """Run one of iproute2's commands."""
    return subprocess.run(["ip", *words], check=check, capture_output=True)


def host_of(name: str) -> str:
    """Return the name of a machine's network namespace."""
    return f"uv{OWN}-{name}"


def link_of(number: int) -> str:
    """Return the name of the bridge's end of a machine's cable."""
    return f"uv{OWN}n{number}"


def until(condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)


class Machines:
    """A coordinator and sites, each with a directory under `root` and, if possible, a network.

    Args:
        root: the directory above theirs.
        data: the directory of images of each site, by the site's name.
        settings: lines appended to a site's ``site.toml``, by the site's name.
    """

    def __init__(
        self, root: Path, data: Mapping[str, Path], settings: Mapping[str, str] | None = None
    ) -> None:
        self.root, self.data, self.settings = root, data, settings or {}
        self.apart = namespaces_allowed()
        self.names = [COORDINATOR, *data]
        self.federation = root / "federation"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port, self.internal_port = free_ports(2)

    @property
    def host(self) -> str:
        """Return the coordinator's address."""
        return f"{NETWORK}.1" if self.apart else "127.0.0.1"

    def __enter__(self) -> Self:
        if self.apart:
            self._take_down()
            ip("link", "add", BRIDGE, "type", "bridge")
            ip("link", "set", BRIDGE, "up")
            for number, name in enumerate(self.names, start=1):
                self._plug_in(link_of(number), name, f"{NETWORK}.{number}/24")
        self.root.mkdir(exist_ok=True)
        self.deploy(COORDINATOR, "keys", "federation", "--host", self.host)
        for site, images in self.data.items():
            self.deploy(site, "keys", site, "--site", site, "--data", str(images))
            with (self.root / site / "site.toml").open("a") as file:
                file.write(self.settings.get(site, ""))
            shutil.copy(self.federation / "ca.crt", self.root / site)
            shutil.copy(self.root / site / f"{site}.pub", self.federation / "sites")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            end(list(self.processes.values()))
        finally:
            if self.apart:
                self._take_down()

    def _plug_in(self, link: str, name: str, address: str) -> None:
        ip("netns", "add", host_of(name))
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", host_of(name))
        ip("link", "set", link, "master", BRIDGE, "up")
        for words in (["addr", "add", address, "dev", "eth0"], ["link", "set", "eth0", "up"],
                      ["link", "set", "lo", "up"]):  # fmt: skip
            ip("-n", host_of(name), *words)

    def _take_down(self) -> None:
        for name in self.names:
            ip("netns", "del", host_of(name), check=False)
        ip("link", "del", BRIDGE, check=False)

    def connect(self, name: str, connected: bool) -> None:
        """Connect or disconnect a machine's cable; needs network namespaces."""
        link = link_of(self.names.index(name) + 1)
        ip("link", "set", link, "up" if connected else "down")

    def on(self, name: str, command: Sequence[str]) -> list[str]:
        """Return a command line that runs a command on a machine."""
        return ["ip", "netns", "exec", host_of(name), *command] if self.apart else list(command)

    def deploy(
        self, name: str, *words: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``univarfl deploy`` on a machine, and wait until it ends."""
        return subprocess.run(
            self.on(name, [UNIVARFL, "deploy", *words]), cwd=self.root, check=check,
            capture_output=True, text=True, env={**os.environ, **environment},
        )  # fmt: skip

    def start(self, name: str, *words: str, log: str = "", **environment: str) -> Path:
        """Start ``univarfl deploy`` on a machine in the background; return its log."""
        path = self.root / f"{log or name}.log"
        command = self.on(name, [UNIVARFL, "deploy", *words])
        with path.open("a") as output:
            self.processes[log or name] = subprocess.Popen(
                command, cwd=self.root, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )  # fmt: skip
        return path

    def coordinate(self) -> Path:
        """Start the coordinator, wait until it is ready, and return its log."""
        log = self.start(
            COORDINATOR, "coordinator", "federation", "--port", str(self.port),
            "--internal-port", str(self.internal_port),
        )  # fmt: skip
        ready = log.read_text().count("SuperLink ready")
        until(lambda: log.read_text().count("SuperLink ready") > ready, "the SuperLink")
        until(lambda: log.read_text().count("may join") >= len(self.data), "registration")
        return log

    def join(self, site: str, *words: str, **environment: str) -> Path:
        """Start a site; return its log."""
        address = f"{self.host}:{self.port}"
        return self.start(site, "site", site, "--coordinator", address, *words, **environment)

    def run(self, *words: str) -> Path:
        """Start a run at the coordinator; return its log."""
        return self.start(COORDINATOR, "run", "federation", *words, log="run")

    def ended(self, name: str = "run") -> int:
        """Wait until a background command ends; return its exit code."""
        return self.processes[name].wait(SECONDS)

    def record(self) -> Path:
        """Return the directory of the latest run."""
        return max((self.federation / "runs").iterdir(), key=lambda path: path.stat().st_mtime)

    def program(self, name: str) -> psutil.Process | None:
        """Return the coordinator's process that runs one of its programs, if there is one.

        Args:
            name: a part of its command line; supervisors have it in theirs, too, and are left out.
        """
        for child in family_of(self.processes[COORDINATOR].pid):
            with contextlib.suppress(psutil.Error):
                command = " ".join(child.cmdline())
                if name in command and "supervisor.py" not in command:
                    return child
        return None

    def kill_program(self, name: str) -> None:
        """Kill one of the coordinator's programs, once it runs."""
        until(lambda: self.program(name), name)
        found = self.program(name)
        assert found
        found.kill()

    def rounds(self) -> int:
        """Return the last full round of the latest run; -1 before the first scores."""
        runs = self.federation / "runs"
        if not runs.exists() or not any(runs.iterdir()):
            return -1
        with contextlib.suppress(OSError), (self.record() / "rounds.csv").open(newline="") as file:
            return max((int(row["round"]) for row in csv.DictReader(file)), default=-1)
        return -1

    def kill(self, name: str) -> None:
        """Kill a machine's processes at once, as a power cut does."""
        for process in family_of(self.processes.pop(name).pid):
            kill(process)
