"""Which sites have a message, read from the tables that Flower's own SuperLink writes."""

from pathlib import Path

import pytest

from tests.machines import until
from tests.univarfl.deploy.gate.tables import SuperLink
from univarfl.deploy.gate.mailboxes import Mailboxes

NORTH, SOUTH = b"the key of north", b"the key of south"


@pytest.fixture
def superlink(tmp_path: Path) -> SuperLink:
    superlink = SuperLink(tmp_path / "state.db")
    for key in (NORTH, SOUTH):
        superlink.add(key)
    return superlink


@pytest.fixture
def mailboxes(superlink: SuperLink, tmp_path: Path) -> Mailboxes:
    return Mailboxes(tmp_path / "state.db")


def test_a_message_counts_once_all_its_parts_are_there_and_until_it_is_delivered(
    superlink: SuperLink, mailboxes: Mailboxes
) -> None:
    assert not mailboxes.has_message(NORTH)
    first, *others = superlink.push(NORTH)
    for object_id in others:
        superlink.send(object_id)
    assert others
    assert not mailboxes.has_message(NORTH)
    superlink.send(first)
    assert mailboxes.has_message(NORTH)
    assert not mailboxes.has_message(SOUTH)
    assert len(superlink.state.get_message_ins(superlink.nodes[NORTH], 1)) == 1
    assert not mailboxes.has_message(NORTH)


def test_a_message_that_has_expired_does_not_count(superlink: SuperLink, tmp_path: Path) -> None:
    for object_id in superlink.push(NORTH, ttl=0.5):
        superlink.send(object_id)
    until(lambda: not Mailboxes(tmp_path / "state.db").has_message(NORTH), "the end of its time")


def test_without_a_database_the_superlink_is_worth_asking(tmp_path: Path) -> None:
    mailboxes = Mailboxes(tmp_path / "state.db")
    assert mailboxes.has_message(NORTH)
    SuperLink(tmp_path / "state.db")
    assert not mailboxes.has_message(NORTH)
