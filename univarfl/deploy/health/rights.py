"""The rights of other users of a site's machine to its keys and settings."""

import shlex
from pathlib import Path

from task.machine.files import OTHERS
from task.site import Site
from univarfl.deploy.places import SitePlace

WRITE = 0o022  # the rights of other users to change a file


def rights_of_others(place: SitePlace, site: Site) -> str:
    """Return what other users can do that they must not, and the remedy; empty if nothing.

    Raises:
        OSError: a file cannot be looked at.
    """
    keys = (place.key(site.name), place.next_key(site.name), place.secret)
    read = [place.settings, place.directory, place.flower, place.node_settings, place.authority]
    read.append(site.state_directory)
    if site.roster:
        read += [Path(site.roster), *Path(site.roster).glob("*.pub")]
    for verb, change, bits, places in (
        ("read", "go-rwx", OTHERS, filter(Path.is_file, keys)),
        ("change", "go-w", WRITE, filter(Path.exists, read)),
    ):
        found = [str(path) for path in places if path.stat().st_mode & bits]
        if found:
            cure = f"chmod {change} {shlex.join(found)}"
            return f"other users can {verb} {', '.join(found)}; run: {cure}"
    return ""
