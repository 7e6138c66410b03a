"""Requests whose numbers are not of the agreed form: a client never acts on them."""

from collections.abc import Callable

import pytest

from client_app.request import RequestError, finite, parts, whole, wholes


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: whole("../../etc", "round"), "the request's round must be a whole number"),
        (lambda: whole(-1, "round"), "the request's round must be a whole number"),
        (lambda: whole(True, "round"), "the request's round must be a whole number"),
        (lambda: wholes(3, "clients"), "the request's clients must be a list"),
        (lambda: wholes([1, 0.5], "clients"), "the request's clients must be a whole number"),
        (lambda: finite(-1.0, "seconds"), "the request's seconds must be a number from 0"),
        (lambda: finite("1", "seconds"), "the request's seconds must be a number from 0"),
        (
            lambda: finite(float("inf"), "most_norm"),
            "the request's most_norm must be a number from 0",
        ),
        (lambda: parts([0.5], [1, 2]), "the request's shares must be a part of 1 for each client"),
        (lambda: parts([1.5], [1]), "the request's shares must be a part of 1 for each client"),
        (lambda: parts(None, [1]), "the request's shares must be a part of 1 for each client"),
    ],
)
def test_it_is_refused(read: Callable[[], object], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read()


def test_what_is_of_the_form_is_as_it_was() -> None:
    assert (whole(3, "round"), wholes([1, 2], "clients"), finite(0.0, "seconds")) == (
        3,
        [1, 2],
        0.0,
    )
    assert (parts([], [1]), parts([0.25, 0.75], [1, 2])) == ([], [0.25, 0.75])
