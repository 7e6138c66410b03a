"""What a site's own files say about masked rounds: whom it knows, and what it has signed."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from task.errors import DataError, SiteError
from task.protocol.masking.rows import MAX_PARTICIPANTS
from task.protocol.public_keys import PublicKeyError, read_key_file
from task.secure.primitives.hashing import digest
from task.secure.primitives.signing import in_der, public_bytes
from task.secure.rules.ledger import DiskLedger
from task.secure.transcript import roster_hash
from task.site import SITE_NAME, Site

SIGNED = "signed"  # the directory of the ledgers
BLOCK, BLOCKS = 4, 8  # how many digits of a roster's hash people compare


def read_roster(site: Site, own: ec.EllipticCurvePrivateKey) -> dict[str, bytes]:
    """Return the public keys of all sites in DER, by name, from the site's own directory.

    Args:
        site: the site.
        own: its private key.

    Raises:
        SiteError: there is no directory, or the site's own key is not in it. The message contains
            no path.
        DataError: a file is not a key, or the key of another site. The message names it.
    """
    if site.roster is None:
        raise SiteError(
            f"site {site.name} has no roster, and masked rounds need one: its owner collects the "
            "file NAME.pub of each site in a directory, and sets roster in site.toml"
        )
    try:
        files = sorted(Path(site.roster).glob("*.pub"))
    except OSError as error:
        raise SiteError(f"site {site.name}: its roster cannot be read: {error.strerror}") from None
    if len(files) > MAX_PARTICIPANTS:
        raise SiteError(f"site {site.name}: its roster has more than {MAX_PARTICIPANTS} sites")
    keys: dict[str, bytes] = {}
    for file in files:
        if not SITE_NAME.fullmatch(file.stem):
            raise SiteError(f"site {site.name}: a file of its roster is not named after a site")
        try:
            key = in_der(read_key_file(file))
        except PublicKeyError as reason:
            raise DataError(f"site {site.name}: {file.name} of its roster {reason}") from None
        if key in keys.values():
            raise DataError(f"site {site.name}: {file.name} of its roster is a key of two sites")
        keys[file.stem] = key
    if keys.get(site.name) != public_bytes(own):
        raise SiteError(
            f"site {site.name}: its roster must hold its own {site.name}.pub, with its present "
            "key; copy this file into the roster again"
        )
    return keys


def comparable(roster: dict[str, bytes]) -> str:
    """Return the start of a roster's hash, in blocks that people can read to each other."""
    text = roster_hash(roster)
    return "-".join(text[BLOCK * place : BLOCK * (place + 1)] for place in range(BLOCKS))


def site_ledger(site: Site, images: str) -> DiskLedger:
    """Return what a site has signed in all runs.

    Args:
        site: the site.
        images: the version of its images.
    """
    own = digest("own", images, site.max_norm or 0.0).hex()
    return DiskLedger(site.state_directory / SIGNED, own)
