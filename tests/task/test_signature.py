"""Signatures of replies: any change is noticed, and only the site's own key signs."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from task.errors import ProtocolError
from task.protocol.packed import HEADER, JSON, MAX_SIGNATURE_BYTES, SIGNATURE, Packed
from task.protocol.signature import read_private_key, sign, verify
from tests.site_grid import pem
from univarfl.deploy.keys import new_key

KEY, OTHER = new_key(), new_key()
UNSIGNED = Packed(b'{"round": 3}', {"weights/3": b"abc", "extra/3": b"d"})
SIGNED = replace(UNSIGNED, signature=sign(KEY, "train", UNSIGNED))


def test_a_signed_reply_is_accepted_whatever_the_order_of_its_arrays() -> None:
    turned = dict(reversed(SIGNED.arrays.items()))
    verify(pem(KEY), "train", SIGNED)
    verify(pem(KEY), "train", replace(SIGNED, arrays=turned))


@pytest.mark.parametrize(
    "changed",
    [
        replace(SIGNED, header=b'{"round": 4}'),
        replace(SIGNED, arrays={**SIGNED.arrays, "weights/3": b"abd"}),
        replace(SIGNED, arrays={**SIGNED.arrays, "more": b""}),
        replace(SIGNED, arrays={"weights/3": b"abc"}),
        replace(SIGNED, arrays={"weights/4": b"abc", "extra/3": b"d"}),
        replace(SIGNED, arrays={"weights/3": b"d", "extra/3": b"abc"}),
        replace(SIGNED, arrays={"weights/3": b"ab", "extra/3": b"cd"}),
        replace(SIGNED, header=b'{"round": 3}extra/3', arrays={"weights/3": b"abc", "": b"d"}),
        replace(SIGNED, signature=sign(OTHER, "train", UNSIGNED)),
        replace(SIGNED, signature=sign(KEY, "evaluate", UNSIGNED)),
        replace(SIGNED, signature=b"junk"),
        replace(SIGNED, signature=SIGNED.signature + b"x"),
    ],
)
def test_a_changed_reply_is_refused(changed: Packed) -> None:
    with pytest.raises(ProtocolError, match="not signed with the key of its SuperNode"):
        verify(pem(KEY), "train", changed)


def test_a_reply_without_a_signature_or_a_known_key_is_refused() -> None:
    with pytest.raises(ProtocolError, match="it is not signed"):
        verify(pem(KEY), "train", UNSIGNED)
    for unusable in (b"", b"junk"):
        with pytest.raises(ProtocolError, match="has no usable key"):
            verify(unusable, "train", SIGNED)
    other_kind = ed25519.Ed25519PrivateKey.generate().public_key()
    with pytest.raises(ProtocolError, match="not an elliptic-curve key"):
        verify(
            other_kind.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            "train", SIGNED,
        )  # fmt: skip


@pytest.mark.parametrize("signature", ["text", 3, b"x" * (MAX_SIGNATURE_BYTES + 1)])
def test_a_signature_of_another_type_or_length_is_not_read(signature: object) -> None:
    with pytest.raises(ProtocolError, match=r"other than bytes|larger than"):
        Packed.of({HEADER: {JSON: b"{}", SIGNATURE: signature}})


def test_only_an_unencrypted_elliptic_curve_key_is_read() -> None:
    written = KEY.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    assert read_private_key(written).public_key() == KEY.public_key()
    other = ed25519.Ed25519PrivateKey.generate()
    for content in (
        b"", b"junk", other.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            read_private_key(content)
