"""``univarfl doctor SITE``: what it says about a site that is well, and about one that is not."""

import os
from pathlib import Path

import pytest

from tests.task.data import making
from univarfl.deploy.health.site_doctor import images, site_findings, user
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace, SitePlace
from univarfl.deploy.site_keys import make_site
from univarfl.engines.doctor import FAIL, NOTE, OK


def test_a_site_is_well_until_its_files_are_open_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    coordinator = CoordinatorPlace(tmp_path / "federation")
    make_coordinator(coordinator, ["localhost"])
    place = SitePlace(tmp_path / "clinic")
    data = making.tree(tmp_path / "data", ["cat", "dog"], 3)
    make_site(place, "clinic", data)
    found = list(site_findings(place.directory, None))
    assert [text for state, text in found if state == FAIL] == [
        f"coordinator: there is no {place.authority}; ask the coordinator for their ca.crt"
    ]
    place.authority.write_bytes(coordinator.authority.read_bytes())
    found = list(site_findings(place.directory, None))
    assert FAIL not in [state for state, _ in found]
    texts = [text for _, text in found]
    assert "coordinator: not asked (add --coordinator HOST:PORT); ca.crt is valid" in texts
    assert any(
        text.startswith("limits: experiments of any kind; updates not clipped; masks not possible ")
        for text in texts
    )
    place.settings.chmod(0o666)
    problem = f"files: other users can change {place.settings}; run: chmod go-w {place.settings}"
    assert (FAIL, problem) in site_findings(place.directory, None)
    place.settings.chmod(0o644)
    place.settings.write_text("site = [")
    found = list(site_findings(place.directory, None))
    assert next(text for state, text in found if state == FAIL).startswith("settings: ")


def test_the_rights_of_the_user_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert user()[0] == NOTE
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert user() == (OK, "user: number 1234, not root")
    assert images(tmp_path)[0] == NOTE
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert images(tmp_path)[0] == OK
    assert images(tmp_path / "gone")[0] == FAIL
