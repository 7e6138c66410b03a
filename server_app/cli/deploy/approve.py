"""``univarfl deploy approve``."""

from typing import Annotated

import typer

from server_app.cli.arguments import Directory
from server_app.deploy.places import SitePlace
from task.errors import ConfigError


def approve(
    directory: Directory,
    digits: Annotated[
        str | None,
        typer.Argument(
            metavar="[HASH]", help="The first digits of an experiment's hash.", show_default=False
        ),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Withdraw the approval of HASH.")
    ] = False,
) -> None:
    """At a site: show the experiments that it was asked to train in, or approve one."""
    from server_app.deploy.approving import decide, lines  # noqa: PLC0415
    from server_app.deploy.health.inspection import read_site  # noqa: PLC0415

    place = SitePlace(directory)
    site = read_site(place)
    if digits is not None:
        print(decide(place, site, digits, withdraw))
    elif withdraw:
        raise ConfigError("--withdraw", True, "needs HASH, the experiment")
    else:
        for line in lines(place, site):
            print(line)
