"""``univarfl deploy approve``."""

from typing import Annotated

import typer

from task.errors import ConfigError
from univarfl.cli.arguments import Directory
from univarfl.deploy.places import SitePlace


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
    from univarfl.deploy.approving import decide, lines  # noqa: PLC0415
    from univarfl.deploy.health.inspection import read_site  # noqa: PLC0415

    place = SitePlace(directory)
    site = read_site(place)
    if digits is not None:
        print(decide(place, site, digits, withdraw))
    elif withdraw:
        raise ConfigError("--withdraw", True, "needs HASH, the experiment")
    else:
        for line in lines(place, site):
            print(line)
