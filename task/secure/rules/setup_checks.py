"""What a participant refuses of a setup and of a view, before it reveals anything."""

from collections.abc import Collection, Mapping

from task.errors import ProtocolError
from task.protocol.masking.rows import Advert
from task.secure.primitives.key_agreement import require_canonical
from task.secure.rules.roster import Roster
from task.secure.rules.threshold import weights_of
from task.secure.transcript import Setup, View, advert_statement


def check_setup(setup: Setup, own: Advert, roster: Roster, max_share: float) -> None:
    """Refuse keys that are not those of the roster, a small threshold, or skewed weights.

    Args:
        setup: what the coordinator shows.
        own: the participant's own keys.
        roster: the participants that it knows.
        max_share: the largest weight of one update that it accepts.

    Raises:
        ProtocolError: something is wrong.
    """
    adverts = setup.adverts
    if adverts.get(own.client) != own:
        raise ProtocolError("this participant's own keys or count are missing or changed")
    least = roster.least_threshold(setup.asked)
    if setup.threshold < least:
        raise ProtocolError(
            f"a threshold of {setup.threshold} is below {least}, which this participant needs"
        )
    if len(adverts) < setup.threshold:
        raise ProtocolError(
            f"{len(adverts)} participants are fewer than the threshold of {setup.threshold}"
        )
    if adverts.keys() & set(setup.absent) or len(set(setup.absent)) < len(setup.absent):
        raise ProtocolError("a client is both present and absent, or absent twice")
    keys = [key for each in adverts.values() for key in (each.mask_key, each.sealing_key)]
    for key in keys:
        require_canonical(bytes.fromhex(key))
    if len(set(keys)) < len(keys):
        raise ProtocolError("two participants have the same key")
    for client in setup.absent:
        roster.require(client)
    for client, advert in adverts.items():
        if client != advert.client:
            raise ProtocolError(f"participant {client} has the keys of another one")
        statement = advert_statement(setup.scope, advert)
        roster.check(advert, statement, bytes.fromhex(advert.signature))
    weights_of(setup.counts, setup.weighs_alike, max_share)


def check_view(view: View, own: int, boxes: Mapping[int, bytes]) -> None:
    """Refuse a view with members that have no keys, or too few of them.

    Args:
        view: what the coordinator shows.
        own: the participant.
        boxes: by sender, the shares that are sealed for it.

    Raises:
        ProtocolError: something is wrong.
    """
    setup, members = view.setup, set(view.members)
    if len(members) < len(view.members) or not members <= setup.adverts.keys():
        raise ProtocolError("it names a member twice, or one without keys")
    if own not in members or len(members) < setup.threshold:
        raise ProtocolError(
            f"{len(members)} members are too few, or this participant is not one of them"
        )
    if boxes.keys() != members - {own}:
        raise ProtocolError("there must be sealed shares of each other member, and no more")


def check_survivors(view: View, own: int, survivors: Collection[int], max_share: float) -> None:
    """Refuse survivors that are too few, or among which one weighs too much.

    Args:
        view: what the participant was shown.
        own: the participant.
        survivors: the participants whose updates are in the sum.
        max_share: the largest weight of one update in the sum that it accepts.

    Raises:
        ProtocolError: something is wrong.
    """
    if len(set(survivors)) < len(survivors) or not set(survivors) <= set(view.members):
        raise ProtocolError("it names a survivor twice, or one that is no member")
    if own not in survivors:
        raise ProtocolError("this participant has reported, and is called a drop-out")
    if len(survivors) < view.setup.threshold:
        raise ProtocolError(
            f"{len(survivors)} survivors are fewer than the threshold of {view.setup.threshold}"
        )
    counts = {client: view.setup.counts[client] for client in survivors}
    weights_of(counts, view.setup.weighs_alike, max_share)
