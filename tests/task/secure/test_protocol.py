"""A masked round without lies: the sum is exact, and drop-outs cost their own update only."""

import itertools

import numpy as np
import pytest

from task.errors import ProtocolError
from task.secure.coordinator import TooFewError
from task.secure.mask_secrets import MaskSecrets
from task.secure.participant import Participant, Progress
from task.secure.rules.threshold import default_colluding, threshold_of, weights_of
from task.secure.saved_progress import pack_progress, unpack_progress
from tests.conftest import with_slow
from tests.task.secure.trial import KEYS, SCOPE, Trial, plain_sum, roster, update_of


@pytest.mark.parametrize("count", with_slow([2, 3, 10, 100], [100]))
def test_the_masks_cancel_exactly(count: int) -> None:
    trial = Trial(count)
    trial.keys()
    trial.share()
    total = trial.report()
    assert not np.array_equal(total, plain_sum(range(count)))
    trial.agree()
    assert np.array_equal(trial.unmask(total), plain_sum(range(count)))


def test_one_masked_update_looks_random() -> None:
    """Its bits are balanced, and its numbers have nothing to do with the update's."""
    trial = Trial(3).until_report()
    masked = trial.updates[0]
    ones = np.unpackbits(masked.view(np.uint8)).mean()
    assert 0.48 < ones < 0.52
    alike = np.corrcoef(masked.astype(float), update_of(0).astype(float))[0, 1]
    assert abs(alike) < 0.2


@pytest.mark.parametrize("stage", ["keys", "share", "report", "agree", "unmask"])
def test_a_round_survives_participants_that_are_silent_from_a_stage_on(stage: str) -> None:
    silent = [1, 4, 8]
    stages = ["keys", "share", "report", "agree", "unmask"]
    gone = {name: silent if stages.index(name) >= stages.index(stage) else [] for name in stages}
    trial = Trial(10)
    trial.keys(gone["keys"])
    trial.share(gone["share"])
    total = trial.report(gone["report"])
    trial.agree(gone["agree"])
    result = trial.unmask(total, gone["unmask"])
    left = [client for client in range(10) if client not in silent or stage in ("agree", "unmask")]
    assert np.array_equal(result, plain_sum(left))


def test_too_few_participants_end_the_attempt_in_every_stage() -> None:
    silent = [1, 4, 7, 8]
    with pytest.raises(TooFewError, match="6 of 10 participants have sent keys, and the threshold"):
        Trial(10).keys(silent)
    trial = Trial(10)
    trial.keys()
    with pytest.raises(TooFewError, match="sent shares"):
        trial.share(silent)
    trial = Trial(10).until_report()
    with pytest.raises(TooFewError, match="signed the survivors"):
        trial.agree(silent)
    trial = Trial(10).until_report()
    trial.agree()
    with pytest.raises(TooFewError, match="revealed shares"):
        trial.unmask(np.zeros(1000, np.int64), silent)


def test_the_threshold_makes_two_sets_of_signers_share_an_honest_one() -> None:
    assert [threshold_of(n, None) for n in (2, 3, 4, 5, 7, 10, 100)] == [2, 2, 3, 4, 5, 7, 67]
    for count in range(2, 101):
        colluding = default_colluding(count)
        needed = threshold_of(count, None)
        assert 2 * needed - count > colluding  # two sets share more than the colluders
        assert needed <= count - colluding  # and honest participants alone can complete a round
        assert needed - colluding >= 2
    for count, colluders in ((1, None), (3, 2), (4, 3), (2, 1)):
        with pytest.raises(ValueError, match="too few"):
            threshold_of(count, colluders)


def test_weights_are_computed_from_the_counts() -> None:
    assert weights_of({0: 10, 1: 30}, uniform=False, max_share=0.75) == {0: 1 / 3, 1: 1.0}
    assert weights_of({0: 10, 1: 30}, uniform=True, max_share=0.5) == {0: 1.0, 1: 1.0}
    with pytest.raises(ProtocolError, match=r"participant 1 has 0.75 of all weight"):
        weights_of({0: 10, 1: 30}, uniform=False, max_share=0.7)
    with pytest.raises(ProtocolError, match="has 0 of all weight"):
        weights_of({0: 0, 1: 0}, uniform=False, max_share=0.7)


def test_a_participant_goes_on_in_another_process_after_each_stage() -> None:
    trial = Trial(4)

    def move() -> None:
        packed = pack_progress(SCOPE, {c: site.progress for c, site in trial.sites.items()})
        scope, progress = unpack_progress(packed)
        assert scope == SCOPE
        trial.sites = {
            client: Participant(client, roster(4), 0.75, KEYS[client], progress[client])
            for client in trial.sites
        }

    trial.keys()
    move()
    trial.share()
    move()
    total = trial.report(silent=[3])
    move()
    trial.agree()
    move()
    assert np.array_equal(trial.unmask(total), plain_sum(range(3)))


def test_secrets_are_gone_when_they_are_not_needed_and_are_never_shown() -> None:
    trial = Trial(3)
    trial.keys()
    secret = trial.sites[0].progress.secrets
    assert secret is not None
    hidden = [secret.seed.hex(), secret.masking.private_bytes().hex(), repr(secret.seed)]
    shown = repr(secret) + repr(trial.sites[0].progress) + repr(secret.masking)
    assert not any(text in shown for text in hidden)
    trial.share()
    trial.report()
    assert all(site.progress.secrets is None for site in trial.sites.values())
    trial.agree()
    trial.unmask(np.zeros(1000, np.int64))
    assert all(site.progress.received is None for site in trial.sites.values())


def test_secrets_are_new_for_every_participant_and_attempt() -> None:
    every = [MaskSecrets() for _ in range(20)]
    found = {s for e in every for s in (e.seed, e.masking.private_bytes(), e.sealing.public)}
    assert len(found) == 60
    first, second = Trial(3).keys(), Trial(3).keys()
    for one, other in itertools.product(first.adverts.values(), second.adverts.values()):
        assert one.mask_key != other.mask_key
        assert one.commitment != other.commitment


def test_a_stage_is_answered_once_and_in_its_order() -> None:
    trial = Trial(3)
    setup = trial.keys()
    site = trial.sites[0]
    with pytest.raises(ProtocolError, match="stage keys cannot follow keys"):
        site.keys(SCOPE, 10)
    with pytest.raises(ProtocolError, match="stage agree cannot follow keys"):
        site.agree((0, 1, 2), trial.ledgers[0])
    trial.share()
    with pytest.raises(ProtocolError, match="stage shares cannot follow shares"):
        site.share(setup)
    with pytest.raises(ProtocolError, match="no report to mask"):
        site.mask(update_of(0))
    trial.report()
    with pytest.raises(ProtocolError, match="masked before"):
        site.mask(update_of(0))
    boxes = trial.coordinator.boxes_for(0)
    with pytest.raises(ProtocolError, match="stage report cannot follow report"):
        site.open_report(trial.view, boxes, trial.ledgers[0])
    trial.agree()
    with pytest.raises(ProtocolError, match="stage agree cannot follow agree"):
        site.agree((0, 1, 2), trial.ledgers[0])
    trial.unmask(np.zeros(1000, np.int64))
    with pytest.raises(ProtocolError, match="stage unmask cannot follow unmask"):
        site.unmask(trial.coordinator.signatures())


def test_a_participant_whose_training_failed_signs_nothing() -> None:
    trial = Trial(3)
    trial.keys()
    trial.share()
    site = trial.sites[0]
    site.open_report(trial.view, trial.coordinator.boxes_for(0), trial.ledgers[0])
    with pytest.raises(ProtocolError, match="has not reported"):
        site.agree((0, 1, 2), trial.ledgers[0])


def test_progress_without_a_start_is_empty() -> None:
    assert unpack_progress(pack_progress(SCOPE, {0: Progress()}))[1][0].stage == 0
