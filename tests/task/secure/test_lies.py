"""A coordinator that lies: each lie is refused by the participants, or gives it noise."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from task.errors import ProtocolError
from task.protocol.masking.rows import Advert
from task.secure import mask_secrets
from task.secure.coordinator import Coordinator
from task.secure.mask_secrets import MaskSecrets, commitment, place_of, remove_masks
from task.secure.participant import Participant, Revealed, Stage
from task.secure.primitives.mask_stream import Vector
from task.secure.primitives.sealing import seal
from task.secure.primitives.shamir import PRIME, SHARE_BYTES, weights_at
from task.secure.primitives.signing import public_bytes, sign_digest
from task.secure.restoration import Restoration
from task.secure.rules.ledger import (
    MOST_REPORTS,
    DiskLedger,
    MemoryLedger,
    SumLedger,
    signed_survivors,
)
from task.secure.rules.roster import SiteRoster
from task.secure.rules.threshold import threshold_of
from task.secure.transcript import (
    Setup,
    View,
    advert_statement,
    agreement_statement,
)
from tests.task.secure.trial import (
    KEYS,
    LENGTH,
    MODEL,
    SCOPE,
    Trial,
    plain_sum,
    roster,
    update_of,
)

NOISE = 2**60  # far above every honest sum


def is_noise(vector: Vector) -> bool:
    return bool(np.abs(vector.astype(float)).max() > NOISE)


# Who takes part.


def changed(setup: Setup, client: int, **fields: Any) -> Setup:
    """Return a setup in which one participant's keys are changed, without its signature."""
    advert = setup.adverts[client].model_copy(update=fields)
    return replace(setup, adverts={**setup.adverts, client: advert})


def test_a_swapped_key_is_refused() -> None:
    for name in ("mask_key", "sealing_key", "commitment"):
        trial = Trial(4)
        mine = MaskSecrets()
        lie = changed(trial.keys(), 1, **{name: mine.masking.public.hex()})
        with pytest.raises(ProtocolError, match="site site-1 is not signed with its own key"):
            trial.sites[0].share(lie)


def test_a_swapped_key_of_the_participant_itself_is_refused() -> None:
    trial = Trial(4)
    lie = changed(trial.keys(), 0, mask_key=MaskSecrets().masking.public.hex())
    with pytest.raises(ProtocolError, match="own keys or count are missing or changed"):
        trial.sites[0].share(lie)


def signed_by(key: Any, client: int, roster_hash: str, signer: str = "") -> Advert:
    """Return the keys that an outsider makes up and signs."""
    new = MaskSecrets()
    advert = Advert(
        client=client, examples=20, sealing_key=new.sealing.public.hex(),
        mask_key=new.masking.public.hex(), commitment=commitment(new.seed).hex(),
        roster=roster_hash, signer=signer, signature="00" * 8,
    )  # fmt: skip
    return advert.model_copy(
        update={"signature": sign_digest(key, advert_statement(SCOPE, advert)).hex()}
    )


def test_an_invented_site_is_refused() -> None:
    trial = Trial(4)
    setup = trial.keys()
    invented = signed_by(KEYS[50], 4, setup.adverts[0].roster)
    lie = replace(setup, adverts={**setup.adverts, 4: invented})
    with pytest.raises(ProtocolError, match="participant 4 is not in the roster"):
        trial.sites[0].share(lie)
    lie = replace(setup, absent=[7])
    with pytest.raises(ProtocolError, match="participant 7 is not in the roster"):
        trial.sites[1].share(lie)


def test_a_site_is_not_replaced_by_an_invented_one() -> None:
    trial = Trial(4)
    setup = trial.keys()
    for place, signer in enumerate(("", public_bytes(KEYS[50]).hex())):
        invented = signed_by(KEYS[50], 3, setup.adverts[0].roster, signer)
        lie = replace(setup, adverts={**setup.adverts, 3: invented})
        with pytest.raises(ProtocolError, match=r"not signed with its own key|key of its own"):
            trial.sites[place].share(lie)


def test_a_site_is_not_two_participants() -> None:
    trial = Trial(4)
    setup = trial.keys()
    lies = [
        replace(setup, adverts={**setup.adverts, 3: setup.adverts[2]}),
        changed(setup, 3, mask_key=setup.adverts[2].mask_key),
        replace(setup, absent=[2]),
    ]
    for place, lie in enumerate(lies):
        with pytest.raises(ProtocolError, match=r"same key|both present and absent"):
            trial.sites[place].share(lie)


def test_keys_under_the_number_of_another_participant_are_refused() -> None:
    trial = Trial(4)
    setup = trial.keys()
    swapped = {**setup.adverts, 1: setup.adverts[2], 2: setup.adverts[1]}
    with pytest.raises(ProtocolError, match="participant 1 has the keys of another one"):
        trial.sites[0].share(replace(setup, adverts=swapped))


def test_sites_with_different_rosters_notice_it() -> None:
    trial = Trial(4)
    keys = {f"site-{client}": public_bytes(KEYS[client]) for client in range(4)}
    other = SiteRoster({}, {**keys, "site-9": public_bytes(KEYS[9])}, None)
    trial.sites[3] = Participant(3, other, 0.75, KEYS[3])
    trial.keys()
    with pytest.raises(ProtocolError, match="site site-3 has another roster"):
        trial.sites[0].share(trial.setup)


@pytest.mark.parametrize("threshold", [1, 2])
def test_a_small_threshold_is_refused(threshold: int) -> None:
    trial = Trial(4)
    lie = replace(trial.keys(), threshold=threshold)
    with pytest.raises(ProtocolError, match=f"threshold of {threshold} is below 3"):
        trial.sites[0].share(lie)


def test_the_threshold_counts_the_roster_and_not_the_participants_of_a_request() -> None:
    """Of ten sites of the roster, three may collude: four sites in a request are too few."""
    trial = Trial(10)
    setup = trial.keys(silent=[7, 8, 9])
    few = {client: setup.adverts[client] for client in range(4)}
    for threshold in (3, 4):
        lie = replace(setup, adverts=few, absent=[], threshold=threshold)
        with pytest.raises(ProtocolError, match=f"threshold of {threshold} is below 7"):
            trial.sites[threshold - 3].share(lie)
    lie = replace(setup, adverts=few, absent=[])
    with pytest.raises(ProtocolError, match="4 participants are fewer than the threshold of 7"):
        trial.sites[2].share(lie)


# Weights.


def test_skewed_weights_are_refused() -> None:
    trial = Trial(4)
    setup = trial.keys()
    lie = changed(setup, 1, examples=10**12)
    with pytest.raises(ProtocolError, match="site site-1 is not signed"):
        trial.sites[0].share(lie)
    lie = changed(setup, 2, examples=10**12)
    with pytest.raises(ProtocolError, match="own keys or count"):
        trial.sites[2].share(lie)


def test_a_weight_above_the_bound_is_refused_even_if_it_is_signed() -> None:
    trial = Trial(4)
    trial.counts[0] = 10**9
    setup = trial.keys()
    for client in (0, 1):
        with pytest.raises(ProtocolError, match="participant 0 has 1 of all weight"):
            trial.sites[client].share(setup)


def test_absent_sites_do_not_dilute_the_largest_weight() -> None:
    """A coordinator could call them absent, with any number of images."""
    trial = Trial(4)
    trial.counts |= {0: 1000, 3: 2000}
    setup = trial.keys(silent=[3])
    assert 1000 / sum(trial.counts.values()) < trial.max_share
    with pytest.raises(ProtocolError, match=r"participant 0 has 0\.978 of all weight"):
        trial.sites[1].share(setup)


def test_a_sum_in_which_one_survivor_has_most_of_the_weight_is_not_signed() -> None:
    trial = Trial(4)
    trial.counts |= {0: 1000, 3: 2000}
    trial.keys()
    trial.share()
    trial.report(silent=[3])
    with pytest.raises(ProtocolError, match=r"participant 0 has 0\.978 of all weight"):
        trial.agree()


def test_a_sum_of_scores_is_weighed_by_images_whatever_the_coordinator_says() -> None:
    """With one large site, the correct predictions of all sites tell those of this one."""
    trial = Trial(4, replace(SCOPE, purpose="validate"), uniform=True)
    trial.counts |= {0: 10_000}
    with pytest.raises(ProtocolError, match=r"participant 0 has .* of all weight"):
        trial.sites[1].share(trial.keys())


# Different views.


def test_different_setups_of_two_halves_give_no_sum() -> None:
    """One half is told that the weights are uniform: its shares cannot be opened by the other."""
    trial = Trial(4)
    setup = trial.keys()
    lie = replace(setup, uniform=True)
    trial.share(shown=lambda client: lie if client < 2 else setup)
    boxes = trial.coordinator.boxes_for(3)
    with pytest.raises(ProtocolError, match="sealed shares were changed"):
        trial.sites[3].open_report(trial.view, boxes, trial.ledgers[3])


def test_a_view_of_another_setup_than_the_shares_were_split_for_is_refused() -> None:
    """Its lower threshold would let one signature unmask."""
    trial = Trial(4)
    trial.keys()
    trial.share()
    lie = replace(trial.view, setup=replace(trial.setup, threshold=1))
    with pytest.raises(ProtocolError, match="the setup was changed"):
        trial.sites[0].open_report(lie, trial.coordinator.boxes_for(0), trial.ledgers[0])


def other_norm(view: View) -> View:
    return replace(view, max_norm=1e-6)


def fewer_members(view: View) -> View:
    return replace(view, members=[0, 1, 2])


@pytest.mark.parametrize("lie", [other_norm, fewer_members])
@pytest.mark.parametrize("deceived", [[0], [0, 1]])
def test_what_is_shown_to_some_only_makes_the_sum_noise(
    lie: Callable[[View], View], deceived: list[int]
) -> None:
    """The coordinator, who knows all seeds by then, removes all own masks; the pairs' stay."""
    trial = Trial(4)
    trial.keys()
    trial.share()
    seeds = {client: site.progress.secrets.seed for client, site in trial.sites.items()}  # type: ignore[union-attr]
    total = np.zeros(LENGTH, np.int64)
    views = {client: lie(trial.view) if client in deceived else trial.view for client in range(4)}
    for client, view in views.items():
        boxes = trial.coordinator.boxes_for(client)
        boxes = {sender: box for sender, box in boxes.items() if sender in view.members}
        trial.sites[client].open_report(view, boxes, trial.ledgers[client])
        vector = update_of(client)
        trial.sites[client].mask(vector)
        remove_masks(vector, view, {client: seeds[client]}, {})
        total += vector
    assert is_noise(total)


def test_participants_who_saw_different_views_do_not_sign_the_same() -> None:
    trial = Trial(4)
    trial.keys()
    trial.share()
    lie = other_norm(trial.view)
    trial.report(shown=lambda client: lie if client == 0 else trial.view)
    with pytest.raises(ProtocolError, match="not signed with its own key"):
        trial.agree()  # the coordinator's own check
    survivors = (0, 1, 2, 3)
    trial = Trial(4)
    trial.keys()
    trial.share()
    again = other_norm(trial.view)
    trial.report(shown=lambda client: again if client == 0 else trial.view)
    signatures = {
        client: trial.sites[client].agree(survivors, trial.ledgers[client]) for client in survivors
    }
    with pytest.raises(ProtocolError, match="site site-0 is not signed"):
        trial.sites[1].unmask(signatures)


def test_boxes_of_others_are_refused() -> None:
    trial = Trial(4)
    trial.keys()
    trial.share()
    boxes = trial.coordinator.boxes_for(0)
    swapped = {**boxes, 1: boxes[2], 2: boxes[1]}
    with pytest.raises(ProtocolError, match="site-1: its sealed shares were changed"):
        trial.sites[0].open_report(trial.view, swapped, trial.ledgers[0])
    with pytest.raises(ProtocolError, match="sealed shares of each other member"):
        trial.sites[1].open_report(trial.view, boxes, trial.ledgers[1])


# Survivors.


def test_two_sets_of_survivors_are_not_signed_in_one_attempt_or_in_two() -> None:
    trial = Trial(10).until_report()
    trial.sites[0].agree(trial.survivors, trial.ledgers[0])
    with pytest.raises(ProtocolError, match="answered once"):
        trial.sites[0].agree(tuple(range(9)), trial.ledgers[0])
    again = Trial(10, replace(SCOPE, attempt=2), ledgers=trial.ledgers).until_report()
    with pytest.raises(ProtocolError, match="summed before, with the participants 0, 1, 2"):
        again.sites[0].agree(tuple(range(9)), trial.ledgers[0])


def test_the_same_set_may_be_asked_for_again() -> None:
    trial = Trial(10).until_report()
    trial.agree()
    again = Trial(10, replace(SCOPE, attempt=2), ledgers=trial.ledgers)
    again.keys()
    again.share()
    total = again.report()
    again.agree()
    assert np.array_equal(again.unmask(total), plain_sum(range(10)))
    assert not np.array_equal(trial.updates[0], again.updates[0])  # with other masks


@pytest.mark.parametrize("change", ["settings", "uniform", "counts", "norm"])
@pytest.mark.parametrize(
    "later", [{"attempt": 2}, {"round": 4}, {"run": "another"}], ids=["attempt", "round", "run"]
)
def test_a_second_sum_of_a_model_with_another_request_is_refused(
    change: str, later: dict[str, Any]
) -> None:
    """The same updates with other weights, settings or norms tell of single ones."""
    trial = Trial(4).until_report()
    trial.agree()
    scope = replace(SCOPE, **later, nonce="11" * 16)
    if change == "settings":
        scope = replace(scope, experiment='{"batch_size": 8}')
    again = Trial(4, scope, ledgers=trial.ledgers)
    if change == "uniform":
        again.coordinator._uniform = True
    if change == "counts":
        again.counts[3] += 1
    again.keys()
    again.share()
    if change == "norm":
        again.view = other_norm(again.view)
    again.report()
    with pytest.raises(ProtocolError, match="summed before, with other settings or weights"):
        again.agree()


@pytest.mark.parametrize(
    "later", [{"attempt": 2}, {"round": 4}, {"run": "another"}], ids=["attempt", "round", "run"]
)
def test_the_difference_of_two_sums_of_a_model_is_refused(later: dict[str, Any]) -> None:
    """It would be the update of the site that the second sum calls a drop-out."""
    trial = Trial(4).until_report()
    trial.agree()
    again = Trial(4, replace(SCOPE, **later, nonce="11" * 16), ledgers=trial.ledgers)
    again.keys()
    again.share()
    again.report(silent=[3])
    with pytest.raises(ProtocolError, match="summed before, with the participants 0, 1, 2, 3"):
        again.agree()


def test_another_model_or_purpose_has_a_sum_of_its_own() -> None:
    trial = Trial(4).until_report()
    trial.agree()
    for other in (replace(SCOPE, model="cd" * 32), replace(SCOPE, purpose="validate")):
        again = Trial(4, other, ledgers=trial.ledgers)
        again.keys()
        again.share()
        again.report(silent=[3])
        assert again.agree().keys() == {0, 1, 2}


def test_a_site_names_what_it_has_signed_and_refuses_another_experiment() -> None:
    trial = Trial(4).until_report()
    assert signed_survivors(trial.ledgers[0], SCOPE) == ()
    trial.agree()
    assert signed_survivors(trial.ledgers[0], replace(SCOPE, run="b", round=9)) == (0, 1, 2, 3)
    with pytest.raises(ProtocolError, match="in another experiment; start from another model"):
        signed_survivors(trial.ledgers[0], replace(SCOPE, experiment="{ }"))


@pytest.mark.parametrize("make", [lambda _: MemoryLedger(), DiskLedger], ids=["memory", "disk"])
def test_reports_of_one_model_are_counted_before_the_training(
    make: Callable[[Path], SumLedger], tmp_path: Path
) -> None:
    """So repeats cannot average the rounding out, and failures cannot be asked for without end."""
    ledgers = {client: make(tmp_path / str(client)) for client in range(4)}
    for _ in range(MOST_REPORTS - 1):
        ledgers[0].count_report(SCOPE.sum_name)
    Trial(4, ledgers=ledgers).until_report()
    with pytest.raises(ProtocolError, match="was trained or scored 64 times"):
        Trial(4, replace(SCOPE, run="another"), ledgers=ledgers).until_report()
    Trial(4, replace(SCOPE, model="cd" * 32), ledgers=ledgers).until_report()


def test_a_survivor_called_a_drop_out_does_not_sign() -> None:
    trial = Trial(4).until_report()
    with pytest.raises(ProtocolError, match="is called a drop-out"):
        trial.sites[0].agree((1, 2, 3), trial.ledgers[0])


def test_a_set_below_the_threshold_is_not_signed() -> None:
    trial = Trial(4).until_report()
    with pytest.raises(ProtocolError, match="2 survivors are fewer than the threshold of 3"):
        trial.sites[0].agree((0, 1), trial.ledgers[0])
    trial = Trial(4).until_report()
    for wrong in ((0, 1, 2, 2), (0, 1, 2, 9)):
        trial.sites[0].progress.stage = trial.sites[1].progress.stage
        with pytest.raises(ProtocolError, match="twice, or one that is no member"):
            trial.sites[0].agree(wrong, trial.ledgers[0])


def test_one_site_is_never_both_alive_and_dropped() -> None:
    """What is asked of a site is who has signed, so that it alone decides whose shares it gives."""
    trial = Trial(4)
    trial.keys()
    trial.share()
    trial.report(silent=[3])
    signatures = trial.agree()
    revealed = trial.sites[0].unmask(signatures)
    assert revealed.seeds.keys() == {0, 1, 2}
    assert revealed.mask_keys.keys() == {3}
    with pytest.raises(ProtocolError, match="answered once"):
        trial.sites[0].unmask(signatures)


def test_colluders_and_split_views_do_not_reach_the_threshold_twice() -> None:
    """10 sites, 3 collude: two halves with different survivors never both have 7 signatures."""
    trial = Trial(10).until_report()
    colluders = {7, 8, 9}
    first, second = tuple(range(10)), tuple(client for client in range(10) if client != 0)
    signed = {0: set(colluders), 1: set(colluders)}
    for client in range(7):  # the honest ones; the best split for the coordinator
        which, survivors = (0, first) if client < 4 else (1, second)
        trial.sites[client].agree(survivors, trial.ledgers[client])
        signed[which].add(client)
    assert [len(signed[which]) for which in (0, 1)] == [7, 6]
    statement = agreement_statement(trial.view, second)
    signatures = {client: sign_digest(KEYS[client], statement) for client in signed[1]}
    with pytest.raises(ProtocolError, match="6 participants have signed"):
        trial.sites[4].unmask(signatures)


def test_forged_or_foreign_signatures_do_not_count() -> None:
    trial = Trial(4)
    trial.keys()
    trial.share()
    trial.report(silent=[3])
    signatures = trial.agree()
    statement = agreement_statement(trial.view, (0, 1, 2))
    lies: list[Mapping[int, bytes]] = [
        {**signatures, 2: signatures[1]},
        {**signatures, 2: sign_digest(KEYS[50], statement)},
        {**signatures, 3: sign_digest(KEYS[3], statement)},
        {client: signatures[client] for client in (0, 1)},
        {},
    ]
    for lie in lies:
        trial.sites[0].progress.stage = trial.sites[1].progress.stage
        trial.sites[0].progress.received = dict(trial.sites[1].progress.received or {})
        with pytest.raises(ProtocolError, match=r"not signed with|no survivor|are needed"):
            trial.sites[0].unmask(lie)


# Replays, repeats and restarts.


def test_a_replayed_setup_of_an_earlier_attempt_is_refused() -> None:
    earlier = Trial(4).keys()
    trial = Trial(4)
    trial.keys()
    with pytest.raises(ProtocolError, match="own keys or count are missing or changed"):
        trial.sites[0].share(earlier)
    mixed = replace(trial.setup, adverts={**earlier.adverts, 0: trial.setup.adverts[0]})
    trial.sites[1].progress.advert = mixed.adverts[1]
    later = replace(mixed, scope=replace(SCOPE, attempt=2))
    with pytest.raises(ProtocolError, match="is not signed with its own key"):
        trial.sites[1].share(later)


def test_the_ledger_is_on_the_disk_before_the_signature_and_outlives_the_site(
    tmp_path: Path,
) -> None:
    ledgers: dict[int, SumLedger] = {
        client: DiskLedger(tmp_path / str(client)) for client in range(4)
    }
    trial = Trial(4, ledgers=ledgers).until_report()
    trial.agree()
    assert (tmp_path / "0" / f"train-{MODEL}.json").is_file()
    restarted: dict[int, SumLedger] = {c: DiskLedger(tmp_path / str(c)) for c in range(4)}
    again = Trial(4, replace(SCOPE, attempt=2), ledgers=restarted)
    again.keys()
    again.share()
    again.report(silent=[3])
    with pytest.raises(ProtocolError, match="with the participants 0, 1, 2, 3"):
        again.agree()


def test_nothing_is_signed_with_a_damaged_ledger_or_without_one(tmp_path: Path) -> None:
    ledgers: dict[int, SumLedger] = {
        0: DiskLedger(tmp_path),
        1: DiskLedger(tmp_path / "file" / "x"),
    }
    (tmp_path / f"train-{MODEL}.json").write_text("{}")
    (tmp_path / "file").write_text("not a directory")
    trial = Trial(4, ledgers={0: ledgers[0]}).until_report()
    trial.ledgers[1] = ledgers[1]
    with pytest.raises(ProtocolError, match="damaged"):
        trial.sites[0].agree(trial.survivors, trial.ledgers[0])
    with pytest.raises(OSError, match="file"):
        trial.sites[1].agree(trial.survivors, trial.ledgers[1])


def difference_of_two_reports(monkeypatch: pytest.MonkeyPatch, reuse: bool) -> Vector:
    """Return what two attempts at a round with different updates of site 0 tell of it."""
    if reuse:
        kept: dict[int, MaskSecrets] = {}
        original = Participant.keys

        def keys(self: Participant, *args: Any) -> Advert:
            advert = original(self, *args)
            old = self.progress.secrets = kept.setdefault(self.client, self.progress.secrets)  # type: ignore[arg-type]
            self.progress.advert = advert.model_copy(
                update={
                    "sealing_key": old.sealing.public.hex(),
                    "mask_key": old.masking.public.hex(),
                }
            )
            return self.progress.advert

        monkeypatch.setattr(Participant, "keys", keys)
        monkeypatch.setattr(Coordinator, "_check", lambda *_: None)
        monkeypatch.setattr("task.secure.rules.roster.check_signature", lambda *_: None)
        monkeypatch.setattr(mask_secrets, "derive", lambda secret, salt, purpose: secret)
        monkeypatch.setattr("task.secure.primitives.key_agreement.derive", lambda s, *_: s)
    first, second = Trial(4).until_report(), Trial(4, replace(SCOPE, attempt=2)).until_report()
    return first.updates[0] - second.updates[0]


def test_no_mask_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that keeps its keys over a resume, and does not bind masks to the attempt, is caught.

    The update is the same in both attempts, so the difference of the two reports is 0 if the masks
    are the same, and noise if they are not.
    """
    assert is_noise(difference_of_two_reports(monkeypatch, reuse=False))
    leaked = difference_of_two_reports(monkeypatch, reuse=True)
    assert not leaked.any()


def test_no_two_boxes_are_sealed_with_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """All have the same nonce, so that a second box of a key would reveal both contents."""
    used: list[bytes] = []

    def noted(key: bytes, content: bytes, context: bytes) -> bytes:
        used.append(key)
        return seal(key, content, context)

    monkeypatch.setattr(mask_secrets, "seal", noted)
    trial = Trial(4)
    trial.keys()
    trial.share()
    assert len(set(used)) == len(used) == 4 * 3


# Participants that lie to the coordinator.


def zeros(_share: bytes) -> bytes:
    return bytes(SHARE_BYTES)


def slightly_wrong(share: bytes) -> bytes:
    """Return participant 1's share, such that 0, 1 and 2 restore a secret of the right length."""
    weight = weights_at(tuple(map(place_of, (0, 1, 2))))[1]
    value = int.from_bytes(share, "big") + 2**100 * pow(weight, -1, PRIME)
    return (value % PRIME).to_bytes(SHARE_BYTES, "big")


@pytest.mark.parametrize("change", [zeros, slightly_wrong])
@pytest.mark.parametrize("owner", [0, 3], ids=["seed", "mask key"])
def test_wrong_shares_are_noticed_and_the_sum_is_not_used(
    owner: int, change: Callable[[bytes], bytes]
) -> None:
    """The commitment or the public key tells, also if the restored secret is a possible one."""
    trial = Trial(4)
    trial.keys()
    trial.share()
    total = trial.report(silent=[3])
    before = total.copy()
    signatures = trial.agree()
    for client in (0, 1, 2):
        revealed = trial.sites[client].unmask(signatures)
        if client == 1:
            seeds, mask_keys = (
                {who: change(share) if who == owner else share for who, share in shares.items()}
                for shares in (revealed.seeds, revealed.mask_keys)
            )
            revealed = Revealed(seeds, mask_keys)
        trial.coordinator.add_revealed(trial.view, (0, 1, 2), client, revealed)
    with pytest.raises(ProtocolError, match=f"shares of participant {owner}'s secret"):
        trial.coordinator.unmask(trial.view, (0, 1, 2), total)
    assert np.array_equal(total, before)


def unmasked(trial: Trial, liars: Collection[int] = ()) -> Vector:
    """Run a whole attempt, in which liars reveal wrong shares of all seeds; return the sum."""
    everyone = tuple(range(trial.count))
    trial.keys()
    trial.share()
    total = trial.report()
    signatures = trial.agree()
    for client in everyone:
        revealed = trial.sites[client].unmask(signatures)
        if client in liars:
            revealed = Revealed(dict.fromkeys(revealed.seeds, bytes(66)), revealed.mask_keys)
        trial.coordinator.add_revealed(trial.view, everyone, client, revealed)
    trial.coordinator.unmask(trial.view, everyone, total)
    return total


@pytest.mark.parametrize(
    ("count", "liars"), [(10, [0]), (10, [9]), (10, [0, 5, 6]), (13, [5, 6, 7]), (13, [1, 2, 7, 8])]
)
def test_wrong_shares_of_a_few_do_not_end_a_round(count: int, liars: list[int]) -> None:
    """Of ten participants three may lie and seven are needed; of thirteen, four and nine."""
    trial = Trial(count)
    total = unmasked(trial, liars)
    assert np.array_equal(total, plain_sum(range(count)))
    assert trial.coordinator.restoration.liars <= set(liars)
    needed = range(trial.view.setup.threshold)
    assert trial.coordinator.restoration.liars == set(liars) or not set(liars) & set(needed)


@pytest.mark.parametrize("victim", [0, 9])
def test_wrong_shares_of_its_own_secret_accuse_nobody_else(
    victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Participant 5 seals a wrong share for an honest one, which hands it on unchanged."""
    original = MaskSecrets.split

    def split(self: MaskSecrets, setup: Setup) -> dict[int, tuple[bytes, bytes]]:
        found = original(self, setup)
        if self is trial.sites[5].progress.secrets:
            found[victim] = (bytes(66), found[victim][1])
        return found

    monkeypatch.setattr(MaskSecrets, "split", split)
    trial = Trial(10)
    total = unmasked(trial)
    assert np.array_equal(total, plain_sum(range(10)))
    assert trial.coordinator.restoration.liars == set()
    needed = victim in range(trial.view.setup.threshold)
    assert trial.coordinator.restoration.wrong == ({victim: {5}} if needed else {})


def test_a_giver_is_not_a_liar_while_as_many_owners_may_lie() -> None:
    restoration = Restoration(threshold=3, colluding=1)
    restoration.wrong[2].add(0)
    assert restoration.liars == set()
    restoration.wrong[2].add(1)
    assert restoration.liars == {2}


@pytest.mark.parametrize("key", ["mask_key", "sealing_key"])
def test_a_key_with_which_nobody_can_agree_is_refused(key: str) -> None:
    """Otherwise every honest participant would fail, and the record would blame them."""
    advert = Trial(4).sites[3].keys(SCOPE, 13)
    for point in ("00" * 32, "01" + "00" * 31):
        with pytest.raises(ProtocolError, match="a public key cannot be used"):
            Trial(4).coordinator.add_advert(advert.model_copy(update={key: point}))


@pytest.mark.parametrize("key", ["mask_key", "sealing_key"])
def test_a_second_form_of_a_key_is_refused(key: str) -> None:
    """X25519 ignores the highest bit of a key, so two texts can be one key."""
    trial = Trial(4)
    setup = trial.keys()
    twin = bytearray.fromhex(setup.adverts[1].mask_key)
    twin[-1] |= 0x80
    above = (2**255 - 19 + 9).to_bytes(32, "little")  # the base point once more
    for other in (bytes(twin), above):
        with pytest.raises(ProtocolError, match="not in its shortest form"):
            Trial(4).coordinator.add_advert(setup.adverts[3].model_copy(update={key: other.hex()}))
        lie = changed(setup, 3, **{key: other.hex()})
        trial.sites[0].progress.stage = Stage.KEYS
        with pytest.raises(ProtocolError, match="not in its shortest form"):
            trial.sites[0].share(lie)


def test_keys_of_two_collections_are_not_mixed() -> None:
    """A coordinator that collects keys twice in an attempt cannot show some of each."""
    first, second = Trial(4), Trial(4, replace(SCOPE, nonce="11" * 16))
    mixed = replace(second.keys(), adverts={**second.setup.adverts, 1: first.keys().adverts[1]})
    with pytest.raises(ProtocolError, match="site site-1 is not signed with its own key"):
        second.sites[0].share(mixed)


def test_a_few_participants_do_not_choose_who_takes_part() -> None:
    """Three of ten may lie about what they have signed; they are left out, not the others."""
    chosen = range(3, 10)
    unusable = {7: (1, 2), 8: range(20)}
    assert Trial(10, claims=unusable).keys().adverts.keys() == set(range(10)) - {7, 8}
    assert Trial(10, claims={9: chosen}).keys().adverts.keys() == set(range(9))
    lying = dict.fromkeys((7, 8, 9), range(10))
    assert Trial(10, claims=lying).keys().adverts.keys() == set(range(7))
    signed = dict.fromkeys((3, 4, 5, 6), chosen)
    assert Trial(10, claims=signed).keys().adverts.keys() == set(chosen)


def test_the_coordinator_refuses_what_cannot_be_used() -> None:
    trial = Trial(4)
    other = Trial(4)
    trial.keys(silent=[0])
    advert = other.sites[0].keys(SCOPE, 10**6)
    with pytest.raises(ProtocolError, match="signs 1000000 training images and has 10"):
        trial.coordinator.add_advert(advert)
    stolen = trial.setup.adverts[1].model_copy(update={"client": 0, "examples": 10})
    with pytest.raises(ProtocolError, match="the key of another participant"):
        trial.coordinator.add_advert(stolen)
    with pytest.raises(ProtocolError, match="seal shares for each other participant"):
        trial.coordinator.add_boxes(1, {2: b""})
    trial.share()
    with pytest.raises(ProtocolError, match="other shares than it was asked for"):
        trial.coordinator.add_revealed(trial.view, (1, 2, 3), 1, Revealed({1: b""}, {}))


def test_the_roster_of_a_site_counts_its_own_colluders() -> None:
    assert roster(10).least_threshold(2) == threshold_of(10, None) == 7
    assert roster(10, colluding=1).least_threshold(10) == 6
    with pytest.raises(ProtocolError, match="too few"):
        roster(4, colluding=3).least_threshold(4)
