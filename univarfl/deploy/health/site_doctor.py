"""The state of a site for ``univarfl doctor DIRECTORY``: its checks, its rights and its users."""

import os
from collections.abc import Iterator
from pathlib import Path

from task.errors import ConfigError, SiteError, system_reason
from task.site import Site
from univarfl.deploy.health.inspection import Inspection
from univarfl.deploy.places import SitePlace
from univarfl.engines.doctor import (
    FAIL,
    NOTE,
    OK,
    Finding,
    devices,
    directories,
    memory,
    programs,
    versions,
)


def site_findings(directory: Path, address: str | None) -> Iterator[Finding]:
    """Yield the state and the text of each check of a site and of its machine.

    Args:
        directory: the site's.
        address: the coordinator's, HOST:PORT; None to ask no coordinator.
    """
    yield from versions()
    yield from devices()
    yield from memory()
    yield from directories()
    yield from programs()
    place = SitePlace(directory)
    inspection = Inspection(place, address, "", [])
    for passed, text in inspection.lines():
        yield OK if passed else FAIL, text
    try:
        site = inspection.site
    except (ConfigError, SiteError):
        return  # its line has the reason
    yield user()
    yield images(Path(site.directory))
    yield limits(site)


def user() -> Finding:
    """Say which user this is, which should be the one that runs the site."""
    if os.geteuid() == 0:
        return NOTE, "user: this is root; run a site as a user of its own without a login"
    return OK, f"user: number {os.geteuid()}, not root"


def images(directory: Path) -> Finding:
    """Check that the images can be read, and say whether they can be changed."""
    try:
        next(os.scandir(directory), None)
    except OSError as error:
        cure = "give this user the right to read it"
        return FAIL, f"images: {directory}: {system_reason(error)}; {cure}"
    if os.access(directory, os.W_OK):
        return NOTE, f"images: this user can change {directory}; a site only needs to read it"
    return OK, f"images: this user can read {directory} and cannot change it"


def limits(site: Site) -> Finding:
    """Say what the settings allow the coordinator."""
    norm = "not clipped" if site.max_norm is None else f"clipped to norm {site.max_norm:g}"
    labels = "told" if site.tell_labels else "not told"
    statistics = "told" if site.tell_statistics else "not told"
    packages = ", ".join(site.extensions) or "none"
    epsilon = "not counted"
    if site.max_epsilon is not None:
        epsilon = f"at most epsilon {site.max_epsilon:g} at delta {site.delta:g}"
    masks = "possible" if site.roster else "not possible without a roster"
    if site.require_secure:
        masks = "required"
    experiments = "approved by the owner" if site.require_approval else "of any kind"
    return OK, (
        f"limits: experiments {experiments}; updates {norm}; masks {masks}; privacy {epsilon}; at "
        f"most {site.max_epochs} epochs, {site.max_seconds:,} s for a message, batches of "
        f"{site.max_batch_size}, models of {site.max_model_megabytes} MB; "
        f"{site.keep_free_megabytes} MB of the disk stay free; "
        f"images per class {labels}; statistics of features {statistics}; other packages that may "
        f"run: {packages}"
    )
