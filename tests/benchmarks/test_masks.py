"""The benchmark of masks runs a round of the protocol."""

from benchmarks.masks import protocol_seconds


def test_a_round_with_a_participant_that_drops_out_is_timed() -> None:
    site, server = protocol_seconds(4, 1)
    assert site > 0
    assert server > 0
