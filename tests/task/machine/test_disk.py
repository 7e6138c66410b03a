"""The free space of a disk."""

import shutil
from pathlib import Path

import pytest

from task.machine.files import SpaceError, require_space


def test_a_directory_that_does_not_exist_yet_has_its_parents_disk(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    place = tmp_path / "not" / "yet"
    require_space(place, 1)
    with pytest.raises(
        SpaceError, match=r"too little free space: \d+ MB are needed, and \d+ MB are"
    ):
        require_space(place, 2 * free)


def test_what_must_stay_free_counts_as_used(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    rule = r"1 MB are needed, \d+ MB must stay free \(keep-free-megabytes\), and \d+ MB are free"
    with pytest.raises(SpaceError, match=rule):
        require_space(tmp_path, 1_000_000, 2 * free // 1_000_000)
