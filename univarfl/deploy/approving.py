"""What a site's owner sees of experiments, and the owner's decisions about them."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from server_app.config.override_text import as_typed, flat
from task.approval.approvals import DIGITS, MOST_RUNS, Approvals, Asked
from task.plain_text import one_line
from task.site import Site
from univarfl.deploy.places import SitePlace, refuse_unusable

SHOWN = (
    "method.name", "model.name", "task.name", "data.name", "data.classes", "data.image_size",
    "data.schema_content.label.name", "data.schema_content.labels", "data.schema_content.columns",
    "data.standardise",
    "data.validation_share", "augmentation.name", "optim.lr", "rounds", "local_epochs",
    "batch_size", "privacy.unit", "privacy.noise_multiplier", "privacy.clipping_norm",
    "privacy.sampling_rate", "privacy.reproducible", "secure.mode", "secure.rounding",
    "secure.start", "update.format", "partition.names", "after.name", "after.epochs",
    "after.batch_size", "after.lr", "after.momentum",
)  # fmt: skip


def decide(place: SitePlace, site: Site, digits: str, withdrawn: bool) -> str:
    """Approve an experiment, or withdraw its approval; return a line about it.

    Args:
        place: the site's directory.
        site: the site.
        digits: the first digits of the experiment's hash.
        withdrawn: whether the approval is withdrawn.

    Raises:
        ConfigError: no experiment has this hash, or a file cannot be written.
    """
    approvals = Approvals.of_site(site)
    with refuse_unusable(place.directory):
        asked = approvals.find(digits)
        if withdrawn:
            approvals.withdraw(asked)
            return f"{asked.name[:DIGITS]} is not approved any more; its next request is refused"
        approvals.approve(asked)
    return f"{asked.name[:DIGITS]} is approved; the coordinator can start the run again"


def lines(place: SitePlace, site: Site) -> Iterator[str]:
    """Yield what the site was asked to train, for its owner.

    Raises:
        ConfigError: a file cannot be read.
    """
    with refuse_unusable(place.directory):
        asked = Approvals.of_site(site).asked()
        for each in asked:
            yield from described(each)
    if not asked:
        yield "no coordinator has asked this site to train yet"
    elif any(not each.approved for each in asked):
        yield f"approve one with: univarfl deploy approve {place.directory} HASH"
    if not site.require_approval:
        yield f"approval is off: every experiment may run; see require-approval in {place.settings}"


def described(asked: Asked) -> Iterator[str]:
    """Yield an experiment's state, its main settings, and where the others are."""
    when = datetime.fromtimestamp(asked.path.stat().st_mtime).astimezone()
    state = "approved" if asked.approved else "waits"
    yield f"{asked.name[:DIGITS]}  {state}, first asked on {when:%Y-%m-%d at %H:%M}"
    for key, value in main_settings(asked).items():
        yield f"    {key:<26}{one_line(as_typed(value))}"
    if asked.approved:
        runs, requests = Approvals(asked.path.parent).answered(asked)
        yield f"    used in {runs} of {MOST_RUNS} runs, {requests} requests about its images"
    yield f"    all settings are in {asked.path}"


def main_settings(asked: Asked) -> Mapping[str, Any]:
    """Return the settings that an owner decides by; the site has checked their form."""
    settings = flat(json.loads(asked.path.read_bytes()))
    if settings.get("privacy.unit") is None:
        settings = {key: settings[key] for key in settings if not key.startswith("privacy.")}
        settings["privacy.unit"] = "none"
    elif settings.get("privacy.reproducible"):
        settings["privacy.unit"] = "none: the coordinator can compute the noise from the seed"
    if settings.get("secure.mode") == "none":
        settings.pop("secure.rounding", None)
    return {key: settings[key] for key in SHOWN if settings.get(key) is not None}
