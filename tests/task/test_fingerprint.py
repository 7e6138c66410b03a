"""The hash of the code that trains, and whether that code has changed since it was hashed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from task import fingerprint as hashing


@pytest.fixture
def code(tmp_path: Path) -> Iterator[Path]:
    """Return a directory that stands for all code that trains, hashed at the start of a site."""
    (tmp_path / "loop.py").write_text("rate = 1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "code_directories", lambda: {"task": tmp_path})
        hashing.fingerprint.cache_clear()
        hashing.fingerprint()
        yield tmp_path
    hashing.fingerprint.cache_clear()


def test_code_that_stays_has_not_changed(code: Path) -> None:
    assert not hashing.changed_since_start()
    (code / "loop.pyc").write_text("compiled")
    (code / "loop.py").touch()
    assert not hashing.changed_since_start()


def test_another_content_of_the_same_size_and_time_is_noticed(code: Path) -> None:
    path = code / "loop.py"
    before = path.stat()
    path.write_text("rate = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hashing.changed_since_start()
    path.write_text("rate = 1\n")
    assert not hashing.changed_since_start()


def test_a_file_that_comes_or_goes_is_noticed(code: Path) -> None:
    (code / "more.py").write_text("")
    assert hashing.changed_since_start()
    (code / "more.py").unlink()
    assert not hashing.changed_since_start()
    (code / "loop.py").unlink()
    assert hashing.changed_since_start()
