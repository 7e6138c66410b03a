"""Images that are there twice are counted, left out or refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.data.dataset import ImageDataset
from task.data.image_store.duplicates import find_duplicates
from task.data.image_store.store import open_dataset
from task.data.sources.base import DatasetIndex
from task.errors import DataError
from tests.conftest import Train
from tests.task.data import making
from tests.task.data.test_names import hub
from univarfl.records.reader import read_runs
from univarfl.report.comparability import comparability
from univarfl.report.split.report import report_split
from univarfl.report.summary import Summary

COUNTS = {"test_in_training": 2, "two_labels": 2, "repeats": 4}


def scans(root: Path) -> Path:
    """Write two splits of two classes: 17 files of 13 images."""
    making.tree(root, ["train/cat", "train/dog"], 5)  # images 0 to 9
    for name, image in [
        ("test/cat/new", 20), ("test/dog/new", 21), ("test/dog/other", 22),
        ("test/cat/copy", 1), ("test/dog/copy", 5),  # in training, with these labels
        ("train/cat/again", 2),  # twice in training
        ("train/dog/as_cat", 3),  # with two labels
    ]:  # fmt: skip
        making.save(root / f"{name}.png", image)
    return root


def words(root: Path, *more: str) -> list[str]:
    return ["data=folder", f"data.root={root}", "data.image_size=8", *more]


def opened(root: Path, *more: str) -> ImageDataset:
    return open_dataset(compose_experiment(words(root, *more)).local().source())


def test_they_are_counted_and_noted(tmp_path: Path) -> None:
    data = opened(scans(tmp_path))
    assert (len(data.train), len(data.test)) == (12, 5)
    assert data.duplicates is not None
    assert data.duplicates.counts() == COUNTS
    (note,) = data.notes
    assert note == (
        "2 of 5 test images are in training too, 2 images have copies with several labels, 4 of 17 "
        "images repeat another one, such as test/cat/copy.png and train/cat/pic_001.png; "
        "data.duplicates=drop leaves them out"
    )
    assert set(data.duplicates.listed) == {
        ("test/cat/copy.png", "cat", "test", "train/cat/pic_001.png", "cat"),
        ("test/dog/copy.png", "dog", "test", "train/dog/pic_000.png", "dog"),
        ("train/cat/pic_002.png", "cat", "training", "train/cat/again.png", "cat"),
        ("train/dog/as_cat.png", "dog", "training", "train/cat/pic_003.png", "cat"),
    }


def test_one_copy_of_each_is_kept_in_training_and_none_with_two_labels(tmp_path: Path) -> None:
    data = opened(scans(tmp_path), "data.duplicates=drop")
    colours = [
        [tuple(data.images[index, 0, 0].tolist()) for index in part]
        for part in (data.train, data.test)
    ]
    assert sorted(colours[0]) == sorted(making.colour(index) for index in range(10) if index != 3)
    assert sorted(colours[1]) == [making.colour(index) for index in (20, 21, 22)]
    assert data.notes[0].endswith("; 5 are left out (data.duplicates=drop)")
    assert data.content != opened(tmp_path).content


def test_they_can_be_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"2 of 5 test .* or choose data.duplicates=note or data"):
        opened(scans(tmp_path), "data.duplicates=refuse")
    making.tree(tmp_path / "none", ["cat", "dog"], 5)
    data = opened(tmp_path / "none", "data.duplicates=refuse")
    assert data.duplicates is not None
    assert set(data.duplicates.counts().values()) == {0}
    assert data.notes == ()


def test_images_that_cannot_be_read_are_no_copies_of_each_other(tmp_path: Path) -> None:
    making.tree(tmp_path, ["cat", "dog"], 5)
    for place in ("cat/x.png", "dog/x.png"):
        (tmp_path / place).write_text("no image")
    found = opened(tmp_path).duplicates
    assert found is not None
    assert found.note == ""


def test_tables_and_sets_of_the_hub_are_compared_too(tmp_path: Path) -> None:
    making.tree(tmp_path, ["a"], 10)
    making.save(tmp_path / "a/copy.png", 9)
    rows = [f"a/pic_{index:03}.png,{'xy'[index % 2]}" for index in range(10)]
    (tmp_path / "images.csv").write_text("\n".join(["image,label", *rows, "a/copy.png,x"]))
    table = ["data=table", f"data.root={tmp_path}", "data.image_size=8"]
    for source in (
        open_dataset(compose_experiment(table).local().source()),
        hub(tmp_path / "hub", ["x", "y"], image=[making.picture(n % 11) for n in range(12)]),
    ):
        assert source.duplicates is not None
        assert source.duplicates.repeats == 1
        assert "1 of 1" in source.notes[-1]


def test_a_benchmark_is_used_as_it_was_published() -> None:
    data = open_dataset(compose_experiment(["data=digits"]).local().source())
    assert data.duplicates is None


def test_the_split_the_record_and_the_report_count_them(
    tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    root = scans(tmp_path / "scans")
    making.tree(root, ["train/cat", "train/dog"], 30)
    more = ["num_clients=2", "partition=iid"]
    report_split(compose_experiment(words(root, *more)), tmp_path)
    assert "note: 5 of 5 test images are in training too, " in capsys.readouterr().out
    rows = (tmp_path / "duplicates.csv").read_text().splitlines()
    assert rows[0] == "image,label,set,repeats,its label"
    run = train(*words(root, *more, "data.image_size=32"), "rounds=1", "local_epochs=1")
    counts = read_entries(run)["data"]["duplicates"]
    assert counts["test_in_training"] == 5
    assert len(rows) - 1 == counts["repeats"]
    warnings = comparability(Summary(read_runs(run.parent).runs))
    assert any("5 of 5 test images are in training too, so accuracy" in each for each in warnings)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans(), st.booleans()), min_size=1
    )
)
def test_what_is_left_has_no_copies_and_loses_no_image(
    images: list[tuple[int, int, bool, bool]],
) -> None:
    pixels, labels, test, usable = (np.array(column) for column in zip(*images, strict=True))
    index = DatasetIndex(
        ("a", "b", "c"), labels.astype(np.int64), test.astype(np.bool_), making.picture, str,
        ("",), np.zeros(len(labels), np.int64),
    )  # fmt: skip
    found = find_duplicates([bytes([value]) for value in pixels.tolist()], index, usable)
    kept = usable & ~found.dropped
    for value in set(pixels[usable].tolist()):
        copies = usable & (pixels == value)
        agreed = len(set(labels[copies].tolist())) == 1
        assert kept[copies].sum() == agreed
        if agreed and (copies & ~test).any():
            assert (kept & copies & ~test).sum() == 1
        both = (copies & test).any() and (copies & ~test).any()
        assert found.leaked[copies & test].all() == (not (copies & test).any() or both)
    assert not found.dropped[~usable].any()
