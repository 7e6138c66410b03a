"""The rows of the stages of a masked sum, and the types of their fields."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from task.protocol.base import Count, Fingerprint, Line, Schema
from task.protocol.envelope import Client

MAX_PARTICIPANTS = 1_000  # of a masked sum

Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Signature = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2}){8,150}$")]
SignerKey = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2}){0,200}$")]
Box = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2}){148}$")]
Share = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2}){66}$")]
Number = Annotated[str, Field(pattern=r"^(?:0|[1-9][0-9]{0,8})$")]  # a client as a key in JSON


class Advert(Schema):
    """What a participant says of itself for one attempt at a round.

    Attributes:
        client: its number.
        examples: its training images.
        sealing_key: the public key for shares that are sealed for it.
        mask_key: the public key for the masks that it has with others.
        commitment: a hash of the seed of its own mask.
        roster: a hash of the participants' names and keys as it knows them.
        signer: the key that it signs with, in DER, if it is simulated; a site's is in the rosters.
        signature: of all of this and the attempt.
    """

    client: Client
    examples: Count
    sealing_key: Key
    mask_key: Key
    commitment: Key
    roster: Fingerprint
    signer: SignerKey = ""
    signature: Signature


class ParticipantRow(Schema):
    """What one participant answers in a stage.

    Attributes:
        client: its number.
        reason: why it takes no part any more; empty if it does.
    """

    client: Client
    reason: Line = ""


class KeysRow(ParticipantRow):
    """A participant's keys.

    Attributes:
        advert: its keys.
        signed: the survivors that it has signed before, for the same model.
    """

    advert: Advert | None = None
    signed: Annotated[list[Client], Field(max_length=MAX_PARTICIPANTS)] = Field(
        default_factory=list
    )


class SharesRow(ParticipantRow):
    """Shares of a participant's secrets, sealed for the others.

    Attributes:
        boxes: by participant, the shares that are sealed for it.
    """

    boxes: Annotated[dict[Number, Box], Field(max_length=MAX_PARTICIPANTS)] = Field(
        default_factory=dict
    )


class ScoreRow(ParticipantRow):
    """Whether a participant's score is in the sum."""


class AgreeRow(ParticipantRow):
    """A participant's signature of the survivors and of all that it was shown.

    Attributes:
        signature: the signature.
    """

    signature: Signature | None = None


class UnmaskRow(ParticipantRow):
    """What a participant reveals.

    Attributes:
        seeds: by survivor, the share of its seed.
        mask_keys: by participant that did not survive, the share of its mask key.
    """

    seeds: Annotated[dict[Number, Share], Field(max_length=MAX_PARTICIPANTS)] = Field(
        default_factory=dict
    )
    mask_keys: Annotated[dict[Number, Share], Field(max_length=MAX_PARTICIPANTS)] = Field(
        default_factory=dict
    )


def to_hex(found: Mapping[int, bytes]) -> dict[str, str]:
    """Return bytes by client as JSON has them."""
    return {str(client): content.hex() for client, content in found.items()}


def from_hex(found: Mapping[str, str]) -> dict[int, bytes]:
    """Return what `to_hex` wrote."""
    return {int(client): bytes.fromhex(content) for client, content in found.items()}
