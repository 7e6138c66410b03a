"""The memory limit of a control group counts, in both versions and at every level."""

from pathlib import Path

import psutil
import pytest

from task.machine.memory import available_bytes, total_bytes

TOTAL = psutil.virtual_memory().total
NAMES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def group(directory: Path, version: int, limit: str) -> None:
    """Write the files of a control group that uses 900,000 bytes, 50,000 of them unused pages."""
    limit_file, used, inactive = NAMES[version]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / limit_file).write_text(f"{limit}\n")
    (directory / used).write_text("900000\n")
    (directory / "memory.stat").write_text(f"anon 5\n{inactive} 50000\n")


@pytest.mark.parametrize(
    ("version", "line", "limited"),
    [
        (2, "0::/", ""),  # a container with a name space of its own
        (2, "0::/docker/4f", ""),  # one without: the directory that it names is not there
        (2, "0::/system.slice/univarfl-north.service", "system.slice/univarfl-north.service"),
        (2, "0::/slurm/job_7/step_0", "slurm/job_7"),
        (1, "4:memory:/slurm/job_7", "memory/slurm/job_7"),
        (1, "9:cpu,memory:/slurm/job_7", "memory/slurm/job_7"),
    ],
)
def test_a_limit_counts(tmp_path: Path, version: int, line: str, limited: str) -> None:
    own, root = tmp_path / "own", tmp_path / "groups"
    own.write_text(f"3:cpuset:/elsewhere\n{line}\n")
    group(root / limited, version, "1000000")
    assert total_bytes(own, root) == 1_000_000
    assert available_bytes(own, root) == 150_000


def test_the_smallest_limit_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    group(tmp_path / "groups" / "outer", 2, "1000000")
    group(tmp_path / "groups" / "outer" / "inner", 2, "2000000")
    assert total_bytes(own, tmp_path / "groups") == 1_000_000


def test_without_a_limit_the_machines_memory_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/outer\n")
    group(tmp_path / "groups" / "outer", 2, "max")
    assert total_bytes(own, tmp_path / "groups") == TOTAL
    assert total_bytes(tmp_path / "not there", tmp_path) == TOTAL
    assert total_bytes() <= TOTAL
    assert 0 < available_bytes() <= TOTAL
