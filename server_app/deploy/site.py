"""A site's SuperNode, and beside it the worker that answers its messages."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import deque
from typing import IO

from server_app.deploy.places import SitePlace, refuse_unusable
from server_app.deploy.resident.site_worker import SiteWorker, write_secret
from server_app.flower.output import NODE_ACTIVATED, UNKNOWN_KEY
from server_app.flower.programs import free_ports, start, stop
from task.errors import RunError
from task.site import Site

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WEB_SERVER_LINES = ("INFO:     ",)  # Flower's own processes talk to each other over HTTP
RETURN_SECONDS, RETRY_SECONDS = 120.0, 10.0  # Flower notices a lost site after up to a minute
KEPT_LINES = 40


def supernode_command(place: SitePlace, site: Site, address: str, port: int) -> list[str]:
    """Write the SuperNode's settings, and return the command that starts it.

    By itself, Flower's SuperNode runs the code that the coordinator sends.

    Args:
        place: the site's directory.
        site: its settings.
        address: the coordinator's HOST:PORT.
        port: of its local API, through which its messages are answered.

    Raises:
        ConfigError: the site's directory cannot be written.
    """
    settings = site.model_dump(by_alias=True, exclude_unset=True)
    settings["key"] = str(place.key(site.name))  # its replies are signed with the same key
    with refuse_unusable(place.directory):
        place.make_flower_directory()
        place.node_settings.write_text(
            "".join(
                f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
                for name, value in settings.items()
            )
        )
    return [
        "flower-supernode",
        "--superlink", address,
        "--root-certificates", str(place.authority),
        "--auth-supernode-private-key", str(place.key(site.name)),
        "--node-config", str(place.node_settings),
        "--host", "127.0.0.1",
        "--port", str(port),
    ]  # fmt: skip


def run_supernode(place: SitePlace, site: Site, address: str) -> None:
    """Run a SuperNode and print its output until it ends.

    After a power cut the SuperLink refuses a site that it still counts as connected. A site that
    has joined before therefore tries again for `RETURN_SECONDS`.

    Raises:
        ConfigError: the site's directory cannot be written.
        RunError: the coordinator does not know the site's key, or the SuperNode failed.
    """
    deadline = time.monotonic() + RETURN_SECONDS
    while not has_joined(place, site, address):
        if not place.joined.exists() or time.monotonic() >= deadline:
            raise RunError(
                f"the coordinator does not know the key of site {site.name}: send them "
                f"{place.public_key(site.name)}; they put it into sites/; then start again"
            )
        print("the coordinator still counts this site as connected; trying again ...", flush=True)
        time.sleep(RETRY_SECONDS)


def has_joined(place: SitePlace, site: Site, address: str) -> bool:
    """Run a SuperNode and its worker until it ends; return False if its key was refused.

    Raises:
        ConfigError: the site's directory cannot be written.
        RunError: the SuperNode failed after it had joined, or the worker ended too often.
    """
    (port,) = free_ports(1)
    command = [
        *supernode_command(place, site, address, port),
        "--isolation", "process", "--superexec-auth-secret-file", str(place.secret),
    ]  # fmt: skip
    with refuse_unusable(place.directory):
        directory = place.make_flower_directory()
        write_secret(place.secret)
        process = start(command, place.flower, directory, subprocess.PIPE)
    assert process.stdout is not None
    latest: deque[str] = deque(maxlen=KEPT_LINES)
    try:
        with SiteWorker(place, process, port) as worker:
            print_output(process.stdout, latest, place)
            code = process.wait()
    finally:
        stop([process])
    if worker.failed:
        raise RunError(f"the worker of site {site.name} ended too often; its last lines are above")
    if any(UNKNOWN_KEY in line for line in latest):
        return False
    end = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
    print(f"flower-supernode ended with {end}", file=sys.stderr)
    if code:
        raise RunError(f"site {site.name} has left the federation; its last lines are above")
    return True


def print_output(output: IO[bytes], latest: deque[str], place: SitePlace) -> None:
    """Print the lines of Flower and of our ClientApp without colours, and keep the latest ones.

    The output ends once the SuperNode and all processes started by it have ended.
    """
    for line in output:
        text = COLOUR.sub("", line.decode(errors="replace")).rstrip()
        latest.append(text)
        if not text.startswith(WEB_SERVER_LINES) and text.removeprefix("INFO :").strip():
            print(text, flush=True)
        if NODE_ACTIVATED in text:
            place.joined.touch()
            print("joined; training starts when the coordinator starts a run", flush=True)
