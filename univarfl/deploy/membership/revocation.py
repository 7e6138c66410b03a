"""The removal of a site: its keys are shut out at once and never registered again."""

from task.errors import ConfigError, RunError, system_reason
from task.site import SITE_NAME, SITE_NAME_FORM
from univarfl.deploy.membership.public_keys import text_of_pem
from univarfl.deploy.membership.registry import (
    former_keys,
    keep_former_key,
    unregister,
    usable_keys,
)
from univarfl.deploy.places import CoordinatorPlace, refuse_unusable
from univarfl.deploy.submitting.run import require_coordinator
from univarfl.flower.database import registered_nodes


def revoke_site(place: CoordinatorPlace, site: str) -> list[str]:
    """Take a site's keys out of ``sites/``, and unregister them if the SuperLink runs.

    The gate shuts a site out within a second after its file is gone. A SuperLink that does not run
    now is told by the next ``deploy coordinator``.

    Returns:
        A line for each thing that was done.

    Raises:
        ConfigError: the name is no site's, or a file cannot be written.
    """
    if not SITE_NAME.fullmatch(site):
        raise ConfigError("revoke", site, f"must be {SITE_NAME_FORM}")
    path = place.sites / f"{site}.pub"
    try:
        nodes, unread = registered_nodes(place.database), ""
    except OSError as error:
        nodes, unread = [], f"{place.database} cannot be read: {system_reason(error)}"
    with refuse_unusable(place.directory):
        keys, _ = usable_keys(place)
        own = {text_of_pem(node.key) for node in nodes if node.active and node.name == site}
        others = {text_of_pem(node.key) for node in nodes if node.active and node.name != site}
        others |= {key for other, key in keys.items() if other != path}
        if path in keys and keys[path] not in others:  # else it is a copy of another site's key
            own.add(keys[path])
        if not own and not path.exists():
            known = ", ".join(sorted(other.stem for other in keys)) or "no keys"
            raise ConfigError("revoke", site, f"has no key here; sites/ has {known}")
        for key in sorted(own):
            keep_former_key(place, site, key)
        path.unlink(missing_ok=True)
        former = former_keys(place)
    lines = [f"site {site} may not join any more; its key is kept in {place.revoked}"]
    if unread:
        return [*lines, f"{unread}; the next 'deploy coordinator' unregisters the key, too"]
    try:
        require_coordinator(place)
    except (ConfigError, RunError):
        return [*lines, "no coordinator runs here; the next one unregisters the key, too"]
    return [*lines, *unregister(place, nodes, former).values()]
