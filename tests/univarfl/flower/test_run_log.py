"""The log of a run is read while another process writes it."""

from collections.abc import Callable
from pathlib import Path

from univarfl.flower.run_log import follow


def writer(log: Path, parts: list[bytes]) -> Callable[[], bool]:
    """Return a function that appends the next part, and says whether there was one."""

    def write() -> bool:
        if not parts:
            return False
        with log.open("ab") as file:
            file.write(parts.pop(0))
        return True

    return write


def test_a_character_of_which_a_half_is_written_is_read_later(tmp_path: Path) -> None:
    line = "2026-11-28 02:00:00 INFO univarfl é\n".encode()
    alive = writer(tmp_path / "run.log", [line + line[:-2], line[-2:]])
    assert list(follow(tmp_path, alive, 0)) == ["é", "é"]
