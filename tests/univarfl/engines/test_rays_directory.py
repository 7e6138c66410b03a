"""Where Ray keeps its files, as `$RAY_TMPDIR` says."""

from pathlib import Path

import pytest

from task.errors import ConfigError
from univarfl.engines.superlink import LONGEST_ROOT, PrivateSuperLink, rays_root


def test_it_is_tmp_unless_another_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    assert rays_root() == "/tmp"
    monkeypatch.setenv("RAY_TMPDIR", "")
    assert rays_root() == "/tmp"
    monkeypatch.setenv("RAY_TMPDIR", "/var/tmp")
    assert rays_root() == "/var/tmp"


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("tmp", "must be an absolute path"),
        ("/" + "a" * LONGEST_ROOT, f"of at most {LONGEST_ROOT} bytes"),
        ("/" + "é" * (LONGEST_ROOT // 2 + 1), f"of at most {LONGEST_ROOT} bytes"),
        ("/no/such", "must be a directory that can be written: no such file"),
        ("/dev/null", "must be a directory that can be written: not a directory"),
        ("/proc", "must be a directory that can be written"),
    ],
)
def test_one_that_ray_cannot_use_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, root: str, reason: str
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", root)
    superlink = PrivateSuperLink()
    with pytest.raises(ConfigError, match=f"RAY_TMPDIR={root}: .*{reason}"):
        superlink.__enter__()
    superlink.end()
    assert not Path(superlink.home).exists()
