"""Stored forms are those that are kept in the repository, and equal runs have equal hashes."""

import json
from pathlib import Path

import pytest

from benchmarks import golden
from server_app.config.choices import choices


@pytest.mark.slow
@pytest.mark.usefixtures("all_digits")
def test_no_stored_form_has_changed(tmp_path: Path) -> None:
    """If a change is meant, write them again with `python -m benchmarks.golden forms`."""
    found = json.loads(json.dumps(golden.forms(tmp_path)))
    known = json.loads(golden.FORMS.read_text())
    assert found.keys() == known.keys()
    for name, form in known.items():
        assert found[name] == form, name


@pytest.mark.slow
def test_runs_that_must_be_equal_are(tmp_path: Path) -> None:
    def of(number: int, *words: str) -> str:
        return golden.model_hash(golden.trained(tmp_path, f"run-{number}", words))

    assert of(0, "secure=masked") == of(1, "secure=rounded")
    plain = of(2, "method=scaffold")
    assert plain == of(3, "method=scaffold", "federation.workers=2")
    assert plain == golden.model_hash(golden.resumed(tmp_path))


def test_every_choice_has_a_run() -> None:
    names = {name for name, _ in golden.all_runs()}
    for group in ("method", "strategy", "after"):
        assert {f"{group}={choice}" for choice in choices()[group]} <= names
