"""A site's SuperNode."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO

from server_app.deploy.places import SitePlace
from server_app.engines.processes import free_ports, start, stop
from task.errors import RunError
from task.site import Site

UNKNOWN_KEY = "code: 2004"
JOINED = "SuperNode ID:"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
NOISE = ("INFO:     ",)  # of the web server that Flower's own processes talk through
RETURN_SECONDS, RETRY_SECONDS = 120.0, 10.0  # Flower takes a minute to notice who is gone
LINES = 40
ECHO_SECONDS = 5.0


def supernode_command(place: SitePlace, site: Site, address: str) -> list[str]:
    """How Flower's SuperNode is started."""
    (port,) = free_ports(1)  # for its own ClientApp processes, on this machine alone
    return [
        "flower-supernode",
        "--superlink", address,
        "--root-certificates", str(place.authority),
        "--auth-supernode-private-key", str(place.key(site.name)),
        "--node-config", str(place.settings),
        "--port", str(port),
    ]  # fmt: skip


def run_supernode(place: SitePlace, site: Site, address: str) -> None:
    """Run a SuperNode, and print what it says, until it ends or is told to.

    A SuperLink that has not noticed yet that this site was gone, as after a power cut, does not
    take it in: a site that was known before tries again.

    Raises:
        RunError: it ended by itself.
    """
    deadline = time.monotonic() + RETURN_SECONDS
    while not has_served(place, site, address):
        if not place.joined.exists() or time.monotonic() >= deadline:
            raise RunError(
                f"the coordinator does not know the key of site {site.name}: send them "
                f"{place.public_key(site.name)}, to be put into sites/ there, and start again"
            )
        print("the coordinator takes this site to be connected still; trying again ...", flush=True)
        time.sleep(RETRY_SECONDS)


def has_served(place: SitePlace, site: Site, address: str) -> bool:
    """Run a SuperNode until it ends; False if the SuperLink did not take it in.

    Raises:
        RunError: it ended by itself, later.
    """
    empty = place.flower / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    process = start(supernode_command(place, site, address), place.flower, empty, subprocess.PIPE)
    assert process.stdout is not None
    last: deque[str] = deque(maxlen=LINES)
    # Its children hold the pipe too, and end only when it has been waited for.
    echo = threading.Thread(target=repeat, args=(process.stdout, last, place), daemon=True)
    echo.start()
    try:
        code = process.wait()
        echo.join(ECHO_SECONDS)
    finally:
        stop([process])
    if any(UNKNOWN_KEY in line for line in last):
        return False
    how = signal.Signals(-code).name if code < 0 else f"code {code}"
    print(f"flower-supernode ended with {how}", file=sys.stderr)
    if code:
        raise RunError(f"site {site.name} has left the federation; what it said last is above")
    return True


def repeat(said: IO[bytes], last: deque[str], place: SitePlace) -> None:
    """Print what Flower and our ClientApp say, without its colours, and keep the last of it."""
    for line in said:
        text = COLOUR.sub("", line.decode(errors="replace")).rstrip()
        last.append(text)
        if not text.startswith(NOISE) and text.removeprefix("INFO :").strip():
            print(text, flush=True)
        if JOINED in text:
            place.joined.touch()
            print("joined; it trains when the coordinator starts a run", flush=True)
