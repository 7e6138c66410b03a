"""How much one site may ask of the gate, whatever the others do."""

import contextlib

import pytest

from univarfl.deploy.gate.limits import (
    ALL_BYTES,
    SITE_BURST,
    SITE_BYTES,
    SITE_CONCURRENT,
    Limits,
)
from univarfl.deploy.gate.requests import LARGEST_REQUEST, RefusedError


def test_a_site_that_asks_too_often_is_refused_and_the_others_are_not() -> None:
    limits = Limits()
    with pytest.raises(RefusedError, match="requests a second"):
        list(map(limits.count, ["eager"] * 100 * int(SITE_BURST)))
    limits.count("other")


def test_a_sites_bodies_do_not_take_the_memory_of_all() -> None:
    limits = Limits()
    with contextlib.ExitStack() as held:
        for _ in range(SITE_BYTES // LARGEST_REQUEST):
            held.enter_context(limits.progress("large", LARGEST_REQUEST))
        with pytest.raises(RefusedError, match="bytes at a time") as refused:
            held.enter_context(limits.progress("large", 1))
        assert refused.value.status == 503
        held.enter_context(limits.progress("other", LARGEST_REQUEST))
    with limits.progress("large", LARGEST_REQUEST):
        pass


def test_the_memory_of_all_is_bounded() -> None:
    limits = Limits()
    with contextlib.ExitStack() as held:
        for number in range(ALL_BYTES // LARGEST_REQUEST):
            held.enter_context(limits.progress(f"site{number}", LARGEST_REQUEST))
        with pytest.raises(RefusedError, match="no memory left"):
            held.enter_context(limits.progress("one more", 1))


def test_a_site_has_a_bounded_number_of_requests_in_progress() -> None:
    limits = Limits()
    with contextlib.ExitStack() as held:
        for _ in range(SITE_CONCURRENT):
            held.enter_context(limits.progress("a", 0))
        with pytest.raises(RefusedError, match="requests at a time"):
            held.enter_context(limits.progress("a", 0))
