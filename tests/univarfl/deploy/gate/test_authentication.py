"""Each timestamp that a site has signed serves once, for as long as Flower would accept it."""

from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from tests.univarfl.deploy.gate.requests_to import signed
from univarfl.deploy.gate.authentication import Authentication
from univarfl.deploy.gate.callers.memory import Memory
from univarfl.deploy.gate.callers.sites import Sites
from univarfl.deploy.gate.requests import Head, RefusedError
from univarfl.deploy.keys import new_key
from univarfl.deploy.membership.public_keys import ssh_text

CLOCK = "univarfl.deploy.gate.authentication.time"
ORDER_OF_P384 = int(
    "ffffffffffffffffffffffffffffffffffffffffffffffff"
    "c7634d81f4372ddf581a0db248b0a77aecec196accc52973",
    16,
)  # SEC 2


def authentication_of(place: Path) -> Authentication:
    return Authentication(Sites(place), Memory(place / "gate.json"))


def first_request(place: Path, late: float = 0.0) -> tuple[Authentication, Head]:
    """Return a gate's authentication, and a request that a site has signed `late` seconds ago."""
    key = new_key()
    (place / "north.pub").write_text(f"{ssh_text(key.public_key())} north\n")
    pem, timestamp, signature = (value.encode() for value in signed(key, late).values())
    return authentication_of(place), Head("get-run", 0, (pem, timestamp, signature), ())


@pytest.mark.parametrize(
    ("late", "seconds"), [(0.0, 0.0), (0.0, 10.0), (0.0, 304.0), (-4.0, 308.0), (300.0, 4.0)]
)
def test_a_timestamp_is_remembered_while_flower_accepts_it(
    late: float, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower itself accepts it again, with any body."""
    now = 1000.0
    monkeypatch.setattr(CLOCK, SimpleNamespace(monotonic=lambda: now))
    authentication, head = first_request(tmp_path, late)
    caller = authentication.recognise(head)
    authentication.use(head, caller)
    now += seconds
    with pytest.raises(RefusedError, match="this authentication was used before"):
        authentication.use(head, caller)


def test_a_second_signature_of_a_used_timestamp_is_refused(tmp_path: Path) -> None:
    """Whoever sees a signature (r, s) can compute another valid one, (r, -s)."""
    authentication, head = first_request(tmp_path)
    authentication.use(head, authentication.recognise(head))
    pem, timestamp, signature = head.authentication
    r, s = decode_dss_signature(b64decode(signature))
    second = b64encode(encode_dss_signature(r, ORDER_OF_P384 - s))
    again = replace(head, authentication=(pem, timestamp, second))
    caller = authentication.recognise(again)
    with pytest.raises(RefusedError, match="this authentication was used before"):
        authentication.use(again, caller)
