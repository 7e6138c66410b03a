"""The files of single rounds: their order, and what is no such file."""

from pathlib import Path

from task.machine.files import round_files


def test_the_order_is_that_of_the_rounds(tmp_path: Path) -> None:
    for name in ("000999", "1000000", "000001", "x", "", "-1", "1000001.safetensors"):
        (tmp_path / f"round-{name}.safetensors").touch()
    assert list(round_files(tmp_path)) == [1, 999, 1_000_000]
    assert round_files(tmp_path)[999].name == "round-000999.safetensors"
