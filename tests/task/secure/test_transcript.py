"""Everything that decides a masked sum changes the hash that masks are bound to."""

from dataclasses import fields, replace
from typing import Any

import pytest

from task.secure.transcript import Scope, Setup, View
from tests.task.secure.trial import SCOPE, Trial

OTHER: dict[str, Any] = {
    "run": "another", "round": 4, "attempt": 2, "experiment": "{ }", "model": "cd" * 32,
    "nonce": "11" * 16, "purpose": "validate", "threshold": 4, "uniform": True, "absent": [9],
    "members": [0, 1, 2], "max_norm": 0.5, "layer": "encoder.1", "parameters": "ef" * 32,
}  # fmt: skip


def view() -> View:
    trial = Trial(4)
    trial.keys()
    trial.share()
    return trial.view


def test_each_field_of_an_attempt_changes_its_hash() -> None:
    hashes = {replace(SCOPE, **{field.name: OTHER[field.name]}).hash for field in fields(Scope)}
    assert len(hashes | {SCOPE.hash}) == len(fields(Scope)) + 1


@pytest.mark.parametrize("name", [f.name for f in fields(Setup) if f.name in OTHER])
def test_each_field_of_a_setup_changes_the_hash_of_masks(name: str) -> None:
    shown = view()
    changed = replace(shown, setup=replace(shown.setup, **{name: OTHER[name]}))
    assert changed.hash != shown.hash
    scope = replace(shown.setup.scope, purpose="validate")
    assert replace(shown, setup=replace(shown.setup, scope=scope)).hash != shown.hash


@pytest.mark.parametrize("name", ["members", "max_norm"])
def test_each_field_of_a_view_changes_the_hash_of_masks(name: str) -> None:
    shown = view()
    assert replace(shown, **{name: OTHER[name]}).hash != shown.hash


@pytest.mark.parametrize(
    "field", ["client", "examples", "sealing_key", "mask_key", "commitment", "roster", "signer"]
)
def test_each_field_of_a_participants_keys_changes_the_hash_of_masks(field: str) -> None:
    shown = view()
    advert = shown.setup.adverts[1]
    other = 7 if field in ("client", "examples") else "ef" * 32
    adverts = {**shown.setup.adverts, 1: advert.model_copy(update={field: other})}
    assert replace(shown, setup=replace(shown.setup, adverts=adverts)).hash != shown.hash


def test_the_weighting_of_a_sum_depends_on_what_decides_it_and_not_on_the_attempt() -> None:
    shown, everyone = view(), (0, 1, 2, 3)
    same = view()
    assert same.hash != shown.hash
    assert same.weighting(everyone) == shown.weighting(reversed(everyone))
    more = shown.setup.adverts[3].model_copy(update={"examples": 99})
    setups = [
        replace(shown.setup, uniform=True),
        replace(shown.setup, adverts={**shown.setup.adverts, 3: more}),
    ]
    others = [replace(shown, setup=setup) for setup in setups] + [replace(shown, max_norm=1.0)]
    found = {each.weighting(everyone) for each in (shown, *others)} | {shown.weighting((0, 1, 2))}
    assert len(found) == 5


def test_a_sum_is_named_by_model_and_purpose_alone() -> None:
    for name in ("run", "round", "attempt", "experiment", "nonce"):
        assert replace(SCOPE, **{name: OTHER[name]}).sum_name == SCOPE.sum_name
    for name in ("model", "purpose"):
        assert replace(SCOPE, **{name: OTHER[name]}).sum_name != SCOPE.sum_name
