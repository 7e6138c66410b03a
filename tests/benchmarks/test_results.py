"""The command that runs the studies of ``docs/results/`` again."""

import pytest

from benchmarks.results import main


def test_a_study_without_the_directory_of_its_images_names_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["results", "complete", "tin10"])
    monkeypatch.delenv("TIN10", raising=False)
    with pytest.raises(SystemExit, match=r"^tin10 needs TIN10=DIRECTORY$"):
        main()
