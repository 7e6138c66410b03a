"""``univarfl deploy``: training across machines that keep their data."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from task.errors import ConfigError, RunError
from univarfl.cli.arguments import Directory, Words
from univarfl.cli.deploy.approve import approve
from univarfl.cli.deploy.keys import keys, revoke
from univarfl.deploy.places import (
    DEFAULT_PORT,
    CoordinatorPlace,
    SitePlace,
    address_of,
    every_address,
    host_and_port,
    require_port,
)

deploy = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Train across machines: one coordinator, and sites with data.

\b
At the coordinator, which the sites can reach as fl.example.org:
  univarfl deploy keys federation --host fl.example.org
  univarfl deploy coordinator federation
At each site, with the coordinator's ca.crt in clinic_a/:
  univarfl deploy keys clinic_a --site clinic_a --data /data/skin
  univarfl deploy check clinic_a --coordinator fl.example.org:8000
  univarfl deploy site clinic_a --coordinator fl.example.org:8000
At the coordinator again, with each site's NAME.pub in federation/sites/:
  univarfl deploy run federation partition=sites partition.names=[clinic_a,clinic_b] \\
    data=folder data.classes=[benign,malignant]
""",
)

Address = Annotated[
    str, typer.Option("--coordinator", metavar="HOST[:PORT]", help="The coordinator.")
]
Expect = Annotated[
    str,
    typer.Option(
        metavar="HASH", help="The hash of the coordinator's code, as its command prints it."
    ),
]
Printed = Annotated[bool, typer.Option("--print", help="Only print the commands to run.")]
GATE_PATIENCE_SECONDS = 20.0  # a gate whose coordinator was killed ends within them
Listen = Annotated[
    str | None,
    typer.Option(
        help="The address to listen on.", show_default="all of this machine, IPv4 and IPv6"
    ),
]
Port = Annotated[int, typer.Option(help="The port to listen on.")]
InternalPort = Annotated[
    int | None,
    typer.Option(help="The SuperLink's port on 127.0.0.1.", show_default="the next port"),
]
Systemd = Annotated[bool, typer.Option("--systemd", help="Only print a systemd unit.")]


deploy.command()(keys)


@deploy.command()
def coordinator(
    directory: Directory,
    listen: Listen = None,
    port: Port = DEFAULT_PORT,
    internal_port: InternalPort = None,
    printed: Printed = False,
    systemd: Systemd = False,
) -> None:
    """Run the SuperLink and its gate; sites whose public keys are in sites/ may join at any time.

    The SuperLink listens on 127.0.0.1 only. The gate forwards only the requests of these sites.
    """
    from task.fingerprint import fingerprint  # noqa: PLC0415
    from univarfl.deploy.coordinator import CoordinatorServices  # noqa: PLC0415
    from univarfl.deploy.systemd import unit  # noqa: PLC0415

    place = CoordinatorPlace(directory)
    internal = require_ports(port, internal_port)
    place.require_keys()
    address = listen or every_address()
    both = CoordinatorServices(place, address, port, internal)
    if printed:
        for program in both.programs:
            print(shlex.join(program.command))
    elif systemd:
        words = ["coordinator", str(place.directory), "--port", str(port)]
        words += ["--internal-port", str(internal), *(["--listen", listen] if listen else [])]
        print(unit("coordinator", words, [place.directory], []))
    else:
        hash_ = fingerprint()[:12]
        print(f"code {hash_}; sites can compare theirs with: --expect {hash_}")
        with both:
            print(f"SuperLink ready behind the gate at {address_of(address, port)}")
            print(f"logs: {place.superlink_log}; refused requests: {place.gate_log}")
            print(f"warning: every user of this machine can control port {internal} on 127.0.0.1")
            both.serve()


@deploy.command()
def gate(
    directory: Directory,
    listen: Listen = None,
    port: Port = DEFAULT_PORT,
    internal_port: InternalPort = None,
) -> None:
    """Run the gate alone, in front of a SuperLink; the coordinator command runs both."""
    from univarfl.deploy.coordinator import refuse_taken_port  # noqa: PLC0415
    from univarfl.deploy.exclusive import hold_alone  # noqa: PLC0415
    from univarfl.deploy.gate.server import run_gate  # noqa: PLC0415

    place = CoordinatorPlace(directory)
    place.require_keys()
    internal = require_ports(port, internal_port)
    taken = f"a gate runs already with the directory {place.directory}; stop it first"
    address = listen or every_address()
    with hold_alone(place.gate_lock, taken, GATE_PATIENCE_SECONDS):
        refuse_taken_port(address, port)
        run_gate(place, address, port, internal)


def require_ports(port: int, internal_port: int | None) -> int:
    """Return the SuperLink's port: the one after the gate's, unless another is given.

    Raises:
        ConfigError: one is no port, or they are the same.
    """
    internal = port + 1 if internal_port is None else internal_port
    require_port("--port", port)
    require_port("--internal-port", internal)
    if internal == port:
        raise ConfigError("--internal-port", internal, "must not be the gate's port")
    return internal


def require_passed_checks(
    directory: Path, address: str, expect: str, words: list[str], *, patient: bool = False
) -> None:
    """Make a site's checks and print a line about each.

    Args:
        directory: the site's directory.
        address: the coordinator's.
        expect: the first digits of the fingerprint of its code, or empty.
        words: the experiment's overrides.
        patient: whether to wait for a coordinator that does not answer yet.

    Raises:
        RunError: a check failed.
    """
    from univarfl.deploy.health.inspection import CACHE, Inspection  # noqa: PLC0415

    place = SitePlace(directory)
    os.environ.setdefault(CACHE, str(place.cache))  # for this process and those that it starts
    inspection = Inspection(place, address_of(*host_and_port(address)), expect, words, patient)
    results = []
    for passed, line in inspection.lines():
        print(f"{'ok  ' if passed else 'FAIL'}  {line}", flush=True)
        results.append(passed)
    if not all(results):
        raise RunError(f"{results.count(False)} of {len(results)} checks failed")


@deploy.command()
def check(
    directory: Directory, address: Address, overrides: Words = None, expect: Expect = ""
) -> None:
    """Check whether a site can join: settings, key, coordinator, clock, code, state, device, data.

    With the experiment's overrides, the images are read too and their classes are compared.
    """
    require_passed_checks(directory, address, expect, overrides or [])


@deploy.command()
def site(
    directory: Directory,
    address: Address,
    overrides: Words = None,
    expect: Expect = "",
    printed: Printed = False,
    systemd: Systemd = False,
) -> None:
    """Make the checks, then run a site's SuperNode until Ctrl-C or SIGTERM."""
    from univarfl.deploy.health.inspection import read_site  # noqa: PLC0415
    from univarfl.deploy.site.processes import run_supernode, supernode_command  # noqa: PLC0415
    from univarfl.deploy.systemd import unit  # noqa: PLC0415
    from univarfl.flower.programs import free_ports  # noqa: PLC0415

    place = SitePlace(directory)
    own = read_site(place)
    reached = address_of(*host_and_port(address))
    if printed:
        print(shlex.join(supernode_command(place, own, reached, *free_ports(1))))
    elif systemd:
        named = ["site", str(place.directory), "--coordinator", address]
        named += ["--expect", expect] if expect else []
        named += overrides or []
        # systemd refuses a directory that does not exist; those below the first are writable.
        kept = [Path(each) for each in (own.memory, own.models) if each]
        written = [each for each in kept if not each.is_relative_to(place.directory)]
        print(unit(own.name, named, [place.directory, *written], [Path(own.directory)]))
    else:
        require_passed_checks(directory, address, expect, overrides or [], patient=True)
        run_supernode(place, own, reached)


@deploy.command()
def run(directory: Directory, overrides: Words = None) -> None:
    """Train on the sites, print progress and keep a record; resume=RUN continues a run."""
    from univarfl.deploy.submitting.run import run_on_sites  # noqa: PLC0415

    run_on_sites(CoordinatorPlace(directory), overrides or [])


deploy.command()(approve)
deploy.command()(revoke)
