"""A site's SuperNode, and beside it the worker that answers its messages."""

import json
import math
import re
import signal
import subprocess
import sys
import time
from typing import IO, NoReturn

from task.errors import RunError
from task.machine.files import write_secret
from task.plain_text import MAX_MESSAGE, escaped
from task.site import Site
from univarfl.deploy.exclusive import hold_alone
from univarfl.deploy.joining.admission import wait_until_admitted
from univarfl.deploy.joining.machine import machine_name
from univarfl.deploy.places import SitePlace, refuse_unusable
from univarfl.deploy.site.worker_process import SiteWorker, renew_secret
from univarfl.engines.restarts import STEADY_SECONDS, Restarts
from univarfl.flower import supernode
from univarfl.flower.output import IGNORED_MESSAGE, NODE_ACTIVATED
from univarfl.flower.programs import free_ports, installed_program, start, stop

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WEB_SERVER_LINES = ("INFO:     ",)  # Flower's own processes talk to each other over HTTP


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
        text = "".join(
            f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
            for name, value in settings.items()
        )
        place.node_settings.unlink(missing_ok=True)
        write_secret(place.node_settings, text.encode())
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
    """Run a SuperNode and print its output, and start it again whenever it ends.

    Most ends are those of a connection, which returns by itself. So the number of restarts has no
    bound, and the pauses between them grow to a minute.

    Raises:
        ConfigError: the site's directory cannot be written.
        RunError: the site runs already, the coordinator does not let it in, or its worker ended
            too often.
    """
    runs_already = f"site {site.name} runs already with the directory {place.directory}"
    with hold_alone(place.lock, runs_already):
        keep_supernode(place, site, address)


def keep_supernode(place: SitePlace, site: Site, address: str) -> NoReturn:
    """Run a SuperNode again and again.

    Raises:
        ConfigError: the site's directory cannot be written.
        RunError: the coordinator does not let it in, or its worker ended too often.
    """
    restarts, again = Restarts(math.inf), False
    while True:
        wait_until_admitted(place, site, address, again)
        started, again = time.monotonic(), True
        end = run_to_end(place, site, address)
        if not end:
            print("restarting the SuperNode: the run of its last message has ended", flush=True)
            continue
        restarts.allow(progress=time.monotonic() - started > STEADY_SECONDS)
        when = f" in {restarts.pause:.0f} s" if restarts.pause else ""
        print(f"the SuperNode {end} and is started again{when}", flush=True)
        time.sleep(restarts.pause)


def run_to_end(place: SitePlace, site: Site, address: str) -> str:
    """Run a SuperNode and its worker until the SuperNode ends; return how it ended.

    A SuperNode that has ignored a message is ended here, and the text is empty: from then on, it
    would send each reply only with the next one, because its worker answers that message, too.

    Raises:
        ConfigError: the site's directory cannot be written.
        RunError: the worker ended too often.
    """
    (port,) = free_ports(1)
    program, *words = supernode_command(place, site, address, port)
    command = [
        sys.executable, "-P", supernode.__file__, installed_program(program), *words,
        "--isolation", "process", "--superexec-auth-secret-file", str(place.secret),
    ]  # fmt: skip
    with refuse_unusable(place.directory):
        directory = place.make_flower_directory()
        renew_secret(place.secret)
        named = {supernode.MACHINE_VARIABLE: machine_name(place.directory)}
        process = start(command, place.flower, directory, subprocess.PIPE, named)
    assert process.stdout is not None
    try:
        with SiteWorker(place, process, port) as worker:
            out_of_step = print_output(process.stdout, place)
            if out_of_step:
                stop([process])
            code = process.wait()
    finally:
        stop([process])
    if worker.failed:
        raise RunError(f"the worker of site {site.name} ended too often; its last lines are above")
    if out_of_step:
        return ""
    return how_it_ended(code)


def how_it_ended(code: int) -> str:
    """Return how a SuperNode ended, from its exit code, as a part of a sentence."""
    if code < 0:
        return f"ended with signal {signal.Signals(-code).name}"
    if code in (0, supernode.STOPPED):
        return "has lost its connection to the coordinator"
    return f"ended with code {code}"


def print_output(output: IO[bytes], place: SitePlace) -> bool:
    """Print the lines of Flower without colours; return whether the SuperNode ignored a message.

    Otherwise the output ends once the SuperNode and all processes started by it have ended.
    """
    for line in output:
        # Flower's lines hold text of the coordinator.
        text = escaped(COLOUR.sub("", line[:MAX_MESSAGE].decode(errors="replace")).rstrip())
        if not text.startswith(WEB_SERVER_LINES) and text.removeprefix("INFO :").strip():
            print(text, flush=True)
        if found := NODE_ACTIVATED.search(text):
            place.remember_node(int(found[1]))
            print("joined; training starts when the coordinator starts a run", flush=True)
        if IGNORED_MESSAGE in text:
            return True
    return False
