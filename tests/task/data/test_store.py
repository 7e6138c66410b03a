"""The image store: built once, complete, up to date, and by one process at a time."""

import dataclasses
import logging
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from task.data.image_store.store import IMAGES, INDEX, open_dataset, store_root
from task.data.sources.base import DatasetIndex
from task.data.sources.folder import Folder
from task.errors import DataError
from tests.task.data import making

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def builds(cache: Path, tmp_path: Path) -> Iterator[Path]:
    """Return a file with one line for each store that any process starts to build."""
    log = tmp_path / "builds.log"
    handler = logging.FileHandler(log)
    handler.addFilter(lambda record: "images at" in record.getMessage())  # not those who wait
    logger = logging.getLogger("univarfl")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield log
    logger.removeHandler(handler)
    logger.setLevel(before)
    handler.close()


def images(tmp_path: Path, each: int = 5) -> Path:
    return making.tree(tmp_path / "images", ["cat", "dog"], each)


def folder(root: Path, size: int = 16) -> Folder:
    return Folder(image_size=size, root=str(root), classes=None, test_share=0.2)


def count(log: Path) -> int:
    return len(log.read_text().splitlines())


def only_store(cache: Path) -> Path:
    (found,) = (path for path in cache.glob("*/*") if path.is_dir())
    return found


class Slow(Folder):
    """A folder whose images take 20 ms each to read."""

    def dataset_index(self) -> DatasetIndex:
        plain = super().dataset_index()

        def read(index: int) -> Image.Image:
            time.sleep(0.02)
            return plain.read(index)

        return DatasetIndex(**{**vars(plain), "read": read})


def slow(root: Path) -> Slow:
    return Slow(image_size=64, root=str(root), classes=None, test_share=0.2)


class TestReuse:
    def test_a_store_is_built_once(self, tmp_path: Path, builds: Path) -> None:
        root = images(tmp_path)
        first, second = open_dataset(folder(root)), open_dataset(folder(root))
        assert count(builds) == 1
        assert np.array_equal(first.images, second.images)
        assert first.train.tolist() == second.train.tolist()

    def test_images_are_memory_mapped_and_writes_do_not_reach_the_store(
        self, tmp_path: Path, cache: Path
    ) -> None:
        data = open_dataset(folder(images(tmp_path)))
        assert isinstance(data.images, np.memmap)
        data.images[:] = 7
        assert open_dataset(folder(tmp_path / "images")).images[0, 0, 0].tolist() == [40, 40, 40]

    def test_another_size_is_another_store(self, tmp_path: Path, builds: Path) -> None:
        root = images(tmp_path)
        for size in (16, 24, 16):
            assert open_dataset(folder(root, size)).images.shape[1:] == (size, size, 3)
        assert count(builds) == 2

    @pytest.mark.parametrize("change", ["another image", "one less", "one more", "a new class"])
    def test_changed_files_are_decoded_again(
        self, tmp_path: Path, builds: Path, cache: Path, change: str
    ) -> None:
        root = images(tmp_path)
        open_dataset(folder(root))
        if change == "another image":
            making.save(root / "cat" / "pic_000.png", 99)
        elif change == "one less":
            (root / "cat" / "pic_000.png").unlink()
        elif change == "one more":
            making.save(root / "cat" / "pic_999.png", 99)
        else:
            making.save(root / "fox" / "pic_000.png", 99)
        data = open_dataset(folder(root))
        assert count(builds) == 2
        assert only_store(cache).exists()  # the stale one is gone
        expected = {"one less": 9, "one more": 11, "a new class": 11}.get(change, 10)
        assert len(data.images) == expected
        if change == "another image":
            assert tuple(data.images[0, 0, 0]) == making.colour(99)

    def test_unusable_new_files_leave_the_old_store(self, tmp_path: Path, cache: Path) -> None:
        root = images(tmp_path)
        open_dataset(folder(root))
        (root / "odd" / "deep").mkdir(parents=True)
        making.save(root / "odd" / "deep" / "image.png", 0)
        with pytest.raises(DataError, match="has another depth than"):
            open_dataset(folder(root))
        assert (only_store(cache) / IMAGES).exists()

    def test_an_existing_store_is_opened_without_a_lock(self, tmp_path: Path, cache: Path) -> None:
        root = images(tmp_path)
        open_dataset(folder(root))
        (lock,) = cache.glob("*/lock")
        lock.unlink()
        lock.mkdir()  # so that it cannot be locked
        assert len(open_dataset(folder(root)).images) == 10

    @pytest.mark.parametrize("file", [IMAGES, INDEX, "store.json"])
    @pytest.mark.parametrize("damage", ["cut", "gone", "garbage"])
    def test_a_damaged_store_is_built_again(
        self, tmp_path: Path, builds: Path, cache: Path, file: str, damage: str
    ) -> None:
        root = images(tmp_path)
        expected = np.array(open_dataset(folder(root)).images)
        path = only_store(cache) / file
        if damage == "cut":
            path.write_bytes(path.read_bytes()[:-7])
        elif damage == "gone":
            path.unlink()
        else:
            path.write_bytes(b"garbage")
        assert np.array_equal(open_dataset(folder(root)).images, expected)
        assert count(builds) == 2


class TestSeveralProcesses:
    def test_processes_that_need_the_same_store_build_it_once(
        self, tmp_path: Path, builds: Path
    ) -> None:
        root = images(tmp_path, each=30)
        results = FORK.Queue()
        barrier = FORK.Barrier(4)

        def work() -> None:
            barrier.wait()
            results.put(np.array(open_dataset(slow(root)).images).sum())

        processes = [FORK.Process(target=work) for _ in range(4)]
        for process in processes:
            process.start()
        sums = {results.get(timeout=60) for _ in processes}
        for process in processes:
            process.join()
        assert len(sums) == 1
        assert count(builds) == 1

    def test_a_killed_process_leaves_no_store(
        self, tmp_path: Path, builds: Path, cache: Path
    ) -> None:
        root = images(tmp_path, each=100)
        process = FORK.Process(target=lambda: open_dataset(slow(root)))
        process.start()
        while not (written := list(cache.glob(f"*/building-*/store/{IMAGES}"))):
            time.sleep(0.01)
        while written[0].stat().st_size < 3e5:
            time.sleep(0.01)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert written[0].exists()
        data = open_dataset(slow(root))
        assert count(builds) == 2
        assert tuple(data.images[199, 5, 5]) == making.colour(199)
        assert only_store(cache).exists()


class TestDisk:
    def test_a_full_disk_is_reported_and_leaves_no_store(self, tmp_path: Path, cache: Path) -> None:
        """A limit on the size of files stands for a full disk."""
        root = images(tmp_path, each=50)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        try:
            with pytest.raises(
                DataError, match=r"cannot be written: file too large; set \$UNIVARFL_C"
            ):
                open_dataset(folder(root))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [path for path in cache.glob("*/*") if path.is_dir()] == []
        assert len(open_dataset(folder(root)).images) == 100

    def test_a_cache_that_is_a_file_is_reported(self, tmp_path: Path, cache: Path) -> None:
        cache.write_text("a file")
        with pytest.raises(DataError, match=r"cache/folder-.*: cannot be written: file exists"):
            open_dataset(folder(images(tmp_path)))


def test_the_default_cache_is_the_users_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNIVARFL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert store_root() == Path("/somewhere/univarfl")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store_root() == Path.home() / ".cache" / "univarfl"


def test_too_little_free_space_is_reported_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred million images of 1024x1024 need more space than any disk has."""
    root = images(tmp_path)
    source = folder(root, 1024)
    dataset_index = source.dataset_index()
    many = dataclasses.replace(dataset_index, labels=np.zeros(10**8, np.int64))
    monkeypatch.setattr(type(source), "dataset_index", lambda _: many)
    with pytest.raises(
        DataError, match=r"cannot be written: .* MB are needed, and \d+ MB are free"
    ):
        open_dataset(source)
