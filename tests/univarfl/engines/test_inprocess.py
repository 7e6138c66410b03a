"""Runs in one process, one after another."""

from pathlib import Path

from server_app.runs.records.run_record import read_entries
from task.training.worker import shared_worker
from tests.conftest import Train
from tests.task.data import making


def test_a_second_run_trains_on_the_images_that_are_there_now(train: Train, tmp_path: Path) -> None:
    root = making.tree(tmp_path / "images", ["cat", "dog"], 12)
    words = ["data=folder", f"data.root={root}", "num_clients=2", "rounds=1"]
    first = read_entries(train(*words, "partition.min_images=3"))
    for number in range(20):
        making.save(root / "cat" / f"more_{number}.png", 100 + number)
    second = read_entries(train(*words, "partition.min_images=3"))
    images = [sum(record["data"]["clients"]) for record in (first, second)]
    assert images[1] > images[0]
    assert first["data_version"] != second["data_version"]
    assert shared_worker.cache_info().currsize == 0
