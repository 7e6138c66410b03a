"""``univarfl doctor``: what this machine or a site has for training, and what is missing."""

from pathlib import Path
from typing import Annotated

import typer

from task.errors import ConfigError

DOCTOR_HELP = """Check this machine, or a site.

\b
  univarfl doctor
  univarfl doctor clinic_a
  univarfl doctor clinic_a --coordinator fl.example.org:8000
With the directory of a site, the command also checks the site's settings, key, certificate, images,
file permissions and limits. With --coordinator it also checks whether the coordinator answers and
whether the clocks of both machines agree.
It prints one line for each check. "ok": correct. "note": something optional is missing, or worth
knowing. "FAIL": training will not work; the line says what to do.
Exit codes: 0 no check failed, 1 a check failed, 2 the directory or the address cannot be used.
"""

SiteDirectory = Annotated[
    Path | None,
    typer.Argument(metavar="[SITE]", help="The directory of a site.", show_default=False),
]
Coordinator = Annotated[
    str | None, typer.Option("--coordinator", metavar="HOST[:PORT]", help="The site's coordinator.")
]


def doctor(site: SiteDirectory = None, coordinator: Coordinator = None) -> None:
    """Check this machine, or a site."""
    from univarfl.deploy.health.site_doctor import site_findings  # noqa: PLC0415
    from univarfl.deploy.places import address_of, host_and_port  # noqa: PLC0415
    from univarfl.engines.doctor import FAIL, findings  # noqa: PLC0415

    if site is None and coordinator:
        allowed = f"needs a site: univarfl doctor SITE --coordinator {coordinator}"
        raise ConfigError("--coordinator", coordinator, allowed)
    if site is not None and not site.is_dir():
        raise ConfigError("site", site, "must be the directory of a site, with its site.toml")
    address = address_of(*host_and_port(coordinator)) if coordinator else None
    failed = False
    for state, text in findings() if site is None else site_findings(site, address):
        print(f"{state:<4}  {text}", flush=True)
        failed = failed or state == FAIL
    if failed:
        raise typer.Exit(1)
