"""``univarfl deploy keys`` and ``univarfl deploy revoke``."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from task.errors import ConfigError
from univarfl.cli.arguments import Directory
from univarfl.deploy.places import CoordinatorPlace, SitePlace


def keys(
    directory: Directory,
    host: Annotated[
        list[str] | None, typer.Option(help="At the coordinator: its host name or IP address.")
    ] = None,
    site: Annotated[str | None, typer.Option(help="At a site: its name.")] = None,
    data: Annotated[Path | None, typer.Option(help="At a site: its images.")] = None,
    rotate: Annotated[bool, typer.Option("--rotate", help="At a site: make its next key.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(metavar="NAME.rotation", help="Check that a site's known key signed it."),
    ] = None,
) -> None:
    """Make the coordinator's certificates, or a site's key and settings, or change its key."""
    from univarfl.deploy.keys import make_coordinator  # noqa: PLC0415
    from univarfl.deploy.membership.successor import (  # noqa: PLC0415
        rotate_key,
        verified_rotation,
    )
    from univarfl.deploy.site_keys import make_site  # noqa: PLC0415

    if verify and not (host or site or data or rotate):
        print(verified_rotation(directory, verify))
    elif rotate and site and not (host or data or verify):
        changed = SitePlace(directory)
        rotate_key(changed, site)
        print(
            f"send the coordinator {changed.rotation(site)}\n"
            f"keep secret          {changed.next_key(site).name}\n"
            "a running site goes on with its old key until the new one is accepted"
        )
    elif host and not site and data is None and not (rotate or verify):
        place = CoordinatorPlace(directory)
        make_coordinator(place, host)
        print(
            f"send to every site   {place.authority}\n"
            f"put their keys into  {place.sites}/NAME.pub\n"
            f"keep secret          {place.authority_key.name} and {place.key.name}\n"
            f"then run, or restart univarfl deploy coordinator {shlex.quote(str(directory))}"
        )
    elif site and data is not None and not (host or rotate or verify):
        own = SitePlace(directory)
        make_site(own, site, data)
        print(
            f"send the coordinator {own.public_key(site)}\n"
            f"put their ca.crt at  {own.authority}\n"
            f"keep secret          {own.key(site).name}\n"
            f"edit your settings   {own.settings}\n"
            f"then run             univarfl deploy check {shlex.quote(str(directory))} "
            "--coordinator HOST:PORT"
        )
    else:
        allowed = (
            "give --host NAME at the coordinator, --site NAME --data DIRECTORY at a site, "
            "--site NAME --rotate to change a site's key, or --verify FILE"
        )
        raise ConfigError("keys", directory, allowed)


def revoke(directory: Directory, site: Annotated[str, typer.Argument(show_default=False)]) -> None:
    """At the coordinator: shut a site out for good, at once and without a restart."""
    from univarfl.deploy.membership.revocation import revoke_site  # noqa: PLC0415

    for line in revoke_site(CoordinatorPlace(directory), site):
        print(line)
