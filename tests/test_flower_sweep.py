"""A sweep whose runs use Flower and Ray."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from server_app.runs.records.run_record import read_entries
from server_app.runs.records.tables import count_rounds
from tests.conftest import SMALL, Train, sha256
from tests.machines import until
from tests.processes import UNIVARFL, alive, names

SUPERLINK, RAY = "flower-superlink", "gcs_server"


@contextmanager
def sweep(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """Start ``univarfl sweep`` with Flower; kill it at the end if it still runs."""
    command = [UNIVARFL, "sweep", *SMALL[1:], "engine=flower", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def runs_in(place: Path) -> list[Path]:
    """Return the run directories in a directory."""
    return sorted(record.parent for record in place.glob("*/run.json"))


@pytest.mark.slow
def test_an_interrupted_sweep_closes_its_run_and_is_continued(train: Train, tmp_path: Path) -> None:
    words = ["rounds=12", "method=moon", f"output_dir={tmp_path}"]

    with sweep(*words) as process:
        until(lambda: any(map(count_rounds, runs_in(tmp_path))), "the first round", 120)
        family = psutil.Process(process.pid).children(recursive=True)
        assert all(name in names(family) for name in (SUPERLINK, RAY))
        process.send_signal(signal.SIGINT)
        process.wait(120)
    assert process.returncode == 130
    until(lambda: alive(family) == [], f"the end of {names(family)}", 20)
    (directory,) = runs_in(tmp_path)
    record = read_entries(directory)
    assert (record["status"], record["reason"]) == ("failed", "interrupted")
    with sweep(*words) as process:
        process.wait(240)
    assert process.returncode == 0
    assert read_entries(directory)["resumed_from"] >= 1
    assert sha256(directory) == sha256(train("rounds=12", "method=moon"))
