"""Known answers of every primitive, from their standards, and properties of our own sharing."""

import random
import secrets

import numpy as np
import pytest

from task.errors import ProtocolError
from task.secure.primitives import sealing
from task.secure.primitives.hashing import digest
from task.secure.primitives.key_agreement import KeyPair, derive
from task.secure.primitives.mask_stream import CHUNK, add_stream, subtract_stream
from task.secure.primitives.sealing import seal, unseal
from task.secure.primitives.shamir import PRIME, SHARE_BYTES, combine, share_at, split
from task.secure.primitives.share_decoding import decode
from task.secure.primitives.signing import is_signed, new_signing_key, public_bytes, sign_digest


def test_x25519_gives_the_keys_and_the_secret_of_rfc_7748() -> None:
    alice = KeyPair(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    bob = KeyPair(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    wanted = derive(shared, b"salt", "masks")
    assert alice.agree(bob.public, b"salt", "masks") == wanted
    assert bob.agree(alice.public, b"salt", "masks") == wanted
    assert alice.agree(bob.public, b"salt", "shares") != wanted
    assert alice.agree(bob.public, b"other", "masks") != wanted


def test_a_public_key_of_low_order_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a public key cannot be used"):
        KeyPair().agree(bytes(32), b"salt", "masks")


def test_keys_are_derived_as_in_rfc_5869() -> None:
    known = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"  # case 3
    assert derive(b"\x0b" * 22, b"", "").hex() == known
    keys = {derive(b"\x0b" * 22, salt, purpose) for salt in (b"", b"s") for purpose in ("", "p")}
    assert len(keys) == 4


def test_a_stream_is_aes_256_in_counter_mode() -> None:
    vector = np.zeros(4, np.int64)
    add_stream(vector, bytes(32))
    known = (
        "dc95c078a2408989ad48a21492842087530f8afbc74536b9a963b4f1c4cb738b"  # FIPS 197, SP 800-38D
    )
    assert vector.astype("<i8").tobytes().hex() == known


@pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_a_stream_is_subtracted_again_whatever_the_length(length: int) -> None:
    before = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, length, endpoint=True)
    vector, key = before.copy(), secrets.token_bytes(32)
    add_stream(vector, key)
    assert length == 0 or not np.array_equal(vector, before)
    whole = np.zeros(length, np.int64)
    add_stream(whole, key)
    assert len(set(whole.tolist())) == length  # no block occurs twice
    subtract_stream(vector, key)
    assert np.array_equal(vector, before)


@pytest.mark.parametrize("wrong", [np.zeros(4), np.zeros((4, 4), np.int64)[:, 0]])
def test_a_stream_is_added_to_whole_int64_vectors_only(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="contiguous, int64"):
        add_stream(wrong, bytes(32))


def test_shares_are_sealed_as_in_rfc_8439(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "NONCE", bytes.fromhex("070000004041424344454647"))
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        b"future, sunscreen would be it."
    )
    sealed = seal(bytes(range(0x80, 0xA0)), text, bytes.fromhex("50515253c0c1c2c3c4c5c6c7"))
    assert sealed.hex().startswith(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
    )
    assert sealed[-16:].hex() == "1ae10b594f09e26a7e902ecbd0600691"


def test_a_changed_box_is_refused() -> None:
    key = secrets.token_bytes(32)
    box = seal(key, b"shares", b"setup")
    assert unseal(key, box, b"setup") == b"shares"
    changed = bytes([box[0] ^ 1]) + box[1:]
    for where in ((key, changed, b"setup"), (key, box, b"other"), (bytes(32), box, b"setup")):
        with pytest.raises(ProtocolError, match="were changed"):
            unseal(*where)


def test_the_prime_of_shamirs_sharing_is_a_mersenne_prime() -> None:
    value = 4  # Lucas and Lehmer's test
    for _ in range(521 - 2):
        value = (value * value - 2) % PRIME
    assert value == 0


def test_shares_of_a_known_polynomial() -> None:
    """1234 + 166 x + 94 x^2, a published example of Shamir's sharing."""
    shares = {place: share_at(place, [1234, 166, 94]) for place in range(1, 7)}
    values = [int.from_bytes(share, "big") for share in shares.values()]
    assert values == [1494, 1942, 2578, 3402, 4414, 5614]
    three = {place: shares[place] for place in (2, 4, 5)}
    assert int.from_bytes(combine(three), "big") == 1234


def test_any_threshold_of_shares_gives_the_secret_and_fewer_do_not() -> None:
    secret = secrets.token_bytes(32)
    shares = split(secret, range(1, 101), 51)
    assert {len(share) for share in shares.values()} == {SHARE_BYTES}
    assert combine({place: shares[place] for place in range(50, 101)}) == secret
    assert combine(dict(list(shares.items())[:51])) == secret
    with pytest.raises(ValueError, match="do not belong to one secret"):
        combine({place: shares[place] for place in range(1, 51)})
    assert split(secret, range(1, 101), 51) != shares


@pytest.mark.parametrize(("count", "threshold"), [(5, 5), (7, 5), (13, 9), (13, 1), (40, 27)])
def test_wrong_shares_are_found_and_the_secret_too(count: int, threshold: int) -> None:
    secret, most = secrets.token_bytes(32), (count - threshold) // 2
    shares = split(secret, range(1, count + 1), threshold)
    for wrong in {0, most // 2, most}:
        places = set(random.Random(wrong).sample(range(1, count + 1), wrong))
        given = {p: bytes(66) if p in places else share for p, share in shares.items()}
        assert decode(given, threshold) == (secret, places)
    with pytest.raises(ValueError, match="too few"):
        decode(dict(list(shares.items())[: threshold - 1]), threshold)
    given = {place: b"\0" + secrets.token_bytes(65) for place in range(1, count)}
    if threshold < count - 1:
        with pytest.raises(ValueError, match=r"too many shares|do not belong"):
            decode(given, threshold)


def test_a_share_is_uniform_whatever_the_secret() -> None:
    """One share of two is the secret plus a random number: its highest bit is set half the time."""
    for secret in (bytes(32), b"\xff" * 32):
        high = sum(split(secret, [1, 2], 2)[1][0] for _ in range(400))  # bit 520 alone is in byte 0
        assert 120 < high < 280


def test_splitting_refuses_what_makes_no_sense() -> None:
    for secret, places, threshold in (
        (bytes(31), [1, 2], 2), (bytes(32), [0, 1], 2), (bytes(32), [1, 1], 2),
        (bytes(32), [1, 2], 3), (bytes(32), [1, 2], 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must|fit"):
            split(secret, places, threshold)


def test_a_statement_is_signed_with_one_key() -> None:
    key, other = new_signing_key(), new_signing_key()
    statement = digest("statement")
    signature = sign_digest(key, statement)
    assert is_signed(public_bytes(key), statement, signature)
    assert not is_signed(public_bytes(other), statement, signature)
    assert not is_signed(public_bytes(key), digest("another"), signature)
    assert not is_signed(public_bytes(key), statement, b"junk")
    assert not is_signed(b"junk", statement, signature)


def test_different_parts_have_different_hashes() -> None:
    hashes = [
        digest("a", "b"), digest("ab"), digest("a", b"b"), digest("a", "b", ""), digest("b", "a"),
        digest("a", 1), digest("a", "1"), digest("a", 1.0), digest("a", 11), digest("a", 1, 1),
    ]  # fmt: skip
    assert len(set(hashes)) == len(hashes)
