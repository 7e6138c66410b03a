"""A change of a site's key: the old key signs a text that names the new one.

Whoever has the old public key can verify it without a network.
"""

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from task.machine.regular import read_start
from task.protocol.public_keys import LONGEST_FILE, PublicKeyError, loaded
from task.site import SITE_NAME
from univarfl.deploy.membership.public_keys import ssh_text

ALGORITHM = ec.ECDSA(hashes.SHA384())
TEXT = "univarfl key rotation 1\nsite {site}\ntime {time}\nold {old}\nnew {new}\n"
KEY = "ecdsa-sha2-nistp384 [A-Za-z0-9+/]+=*"
FORM = re.compile(
    r"(?P<signed>univarfl key rotation 1\n"
    rf"site (?P<site>{SITE_NAME.pattern})\n"
    r"time (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)\n"
    rf"old (?P<old>{KEY})\n"
    rf"new (?P<new>{KEY})\n)"
    r"signature (?P<signature>[A-Za-z0-9+/]+=*)\n?"
)


class RotationError(ValueError):
    """A file does not change a site's key; the message says why."""


@dataclass(frozen=True)
class Rotation:
    """A change of a site's key that its old key has signed.

    Attributes:
        site: the site's name.
        time: when it was made, in ISO 8601.
        old: the public key that signed it.
        new: the public key that follows.
    """

    site: str
    time: str
    old: str
    new: str


def write_rotation(
    site: str, old: ec.EllipticCurvePrivateKey, new: ec.EllipticCurvePublicKey
) -> str:
    """Return the text that makes a key the successor of another, signed by the old one."""
    text = TEXT.format(
        site=site, time=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        old=ssh_text(old.public_key()), new=ssh_text(new),
    )  # fmt: skip
    signature = b64encode(old.sign(text.encode(), ALGORITHM)).decode()
    return f"{text}signature {signature}\n"


def read_rotation(path: Path) -> Rotation:
    """Read a rotation and verify its signature.

    Raises:
        RotationError: the file cannot be read, has another form, or its old key did not sign it.
    """
    try:
        content = read_start(path, LONGEST_FILE + 1)
        found = FORM.fullmatch(content.decode("ascii"))
    except OSError as error:
        raise RotationError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        found = None
    if found is None or len(content) > LONGEST_FILE:
        raise RotationError("it does not have the form of a key rotation")
    try:
        old, new = loaded(found["old"].encode()), loaded(found["new"].encode())
        old.verify(b64decode(found["signature"]), found["signed"].encode(), ALGORITHM)
    except (PublicKeyError, ValueError):
        raise RotationError("it holds something that is not a key or a signature") from None
    except InvalidSignature:
        raise RotationError("its old key did not sign it") from None
    if old == new:
        raise RotationError("its two keys are the same")
    return Rotation(found["site"], found["time"], ssh_text(old), ssh_text(new))
