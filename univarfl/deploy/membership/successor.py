"""A site's change of its key: the next key waits beside the old one until it is accepted."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import PrivateFormat

from task.errors import ConfigError, system_reason
from task.machine.files import write_whole
from task.protocol.public_keys import PublicKeyError
from task.protocol.signature import read_private_key
from task.site import SITE_NAME, SITE_NAME_FORM
from univarfl.deploy.keys import new_key, write_key
from univarfl.deploy.membership.public_keys import key_hash, read_public_key, ssh_text
from univarfl.deploy.membership.rotation import RotationError, read_rotation, write_rotation
from univarfl.deploy.places import SitePlace, refuse_unusable


def rotate_key(place: SitePlace, site: str) -> None:
    """Make a site's next key, and the text in which its present key names it.

    The site uses its present key until the coordinator has accepted the next one. A second call
    keeps the next key.

    Raises:
        ConfigError: there is no usable key, or a file cannot be written.
    """
    if not SITE_NAME.fullmatch(site):
        raise ConfigError("--site", site, f"must be {SITE_NAME_FORM}")
    old = private_key(place.key(site))
    with refuse_unusable(place.directory):
        if not place.next_key(site).exists():
            write_key(place.next_key(site), new_key(), PrivateFormat.OpenSSH)
        new = private_key(place.next_key(site))
        write_whole(place.rotation(site), write_rotation(site, old, new.public_key()).encode())


def adopt_next_key(place: SitePlace, site: str) -> bool:
    """Replace a site's key, which the coordinator refuses, by the next one.

    Returns:
        Whether there was a next key.

    Raises:
        ConfigError: the next key is unusable, or a file cannot be written.
    """
    if not place.next_key(site).exists():
        return False
    key = private_key(place.next_key(site))
    with refuse_unusable(place.directory):
        place.next_key(site).replace(place.key(site))
        text = ssh_text(key.public_key())
        write_whole(place.public_key(site), f"{text} {site}\n".encode())
        place.rotation(site).unlink(missing_ok=True)
        place.joined.unlink(missing_ok=True)  # Flower gives the new key another id
    return True


def private_key(path: Path) -> EllipticCurvePrivateKey:
    """Return the private key in a file.

    Raises:
        ConfigError: it cannot be read, or is not a site's key.
    """
    try:
        return read_private_key(path.read_bytes())
    except OSError as error:
        raise ConfigError("keys", path, f"cannot be read: {system_reason(error)}") from None
    except ValueError:
        raise ConfigError("keys", path, "is not a site's key") from None


def verified_rotation(directory: Path, path: Path) -> str:
    """Verify that a known key of a site has signed its successor; return a line about it.

    Args:
        directory: holds the known key NAME.pub, or has it in ``sites/``.
        path: the rotation.

    Raises:
        ConfigError: the file is no rotation, or another key signed it.
    """
    try:
        rotation = read_rotation(path)
    except RotationError as reason:
        raise ConfigError("--verify", path, f"is refused: {reason}") from None
    name = f"{rotation.site}.pub"
    known = [one for one in (directory / "sites" / name, directory / name) if one.exists()]
    if not known:
        raise ConfigError("--verify", path, f"there is no {directory / name} to compare with")
    try:
        key = read_public_key(known[0])
    except PublicKeyError as reason:
        raise ConfigError("--verify", known[0], str(reason)) from None
    if key != rotation.old:
        raise ConfigError("--verify", path, f"is refused: {known[0]} did not sign it")
    return (
        f"site {rotation.site} changes its key from {key_hash(rotation.old)} to "
        f"{key_hash(rotation.new)}; its old key signed this at {rotation.time}"
    )
