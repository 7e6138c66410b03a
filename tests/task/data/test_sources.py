"""Small copies of every data set's files: images, labels, domains and test sets."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from server_app.config.composition import compose_experiment
from task.data.batches import DeviceImages
from task.data.dataset import ImageDataset
from task.data.image_store.store import open_dataset
from task.data.sources.families.tree import readable
from task.errors import ConfigError, DataError
from tests.task.data import making


def opened(*words: str) -> ImageDataset:
    return open_dataset(compose_experiment(list(words)).local().source())


def assert_split(data: ImageDataset, images: int, test: int) -> None:
    everything = np.sort(np.concatenate([data.train, data.test]))
    assert np.array_equal(everything, np.arange(images))
    assert len(data.test) == test
    assert len(data.images) == len(data.labels) == len(data.domain_of) == images


def per_domain(data: ImageDataset) -> dict[str, int]:
    counts = np.bincount(data.domain_of, minlength=len(data.domains))
    return dict(zip(data.domains, counts.tolist(), strict=True))


def colours(data: ImageDataset) -> list[tuple[int, ...]]:
    """Return the colour in the corner of each image."""
    return [tuple(image[-1, -1].tolist()) for image in data.images]


@pytest.mark.usefixtures("all_digits")
def test_digits_are_the_real_ones_with_all_classes_in_the_test_set() -> None:
    data = opened("data=digits")
    assert data.images.shape == (1797, 32, 32, 1)
    assert data.images.dtype == np.uint8
    assert (data.images.min(), data.images.max()) == (0, 255)
    assert_split(data, 1797, 360)
    assert np.bincount(data.labels[data.test]).min() >= 34


class TestTorchvision:
    def test_cifar10(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        labels = making.cifar10(tmp_path, monkeypatch)
        data = opened("data=cifar10", f"data.root={tmp_path}")
        assert_split(data, 26, 6)
        assert data.test.tolist() == list(range(20, 26))
        assert data.labels.tolist() == labels
        assert data.classes[:3] == ("airplane", "automobile", "bird")
        assert np.array_equal(data.images, making.pixels(26, 32, 0))

    def test_cifar100_has_its_fine_labels(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        labels = making.cifar100(tmp_path, monkeypatch)
        data = opened("data=cifar100", f"data.root={tmp_path}")
        assert_split(data, 17, 5)
        assert data.labels.tolist() == labels
        assert (len(data.classes), data.classes[37]) == (100, "fine_37")
        assert np.array_equal(data.images, making.pixels(17, 32, 0))

    def test_mnist_is_read_from_its_four_files(self, tmp_path: Path) -> None:
        labels = making.mnist(tmp_path)
        data = opened("data=mnist", f"data.root={tmp_path}")
        assert_split(data, 16, 4)
        assert data.labels.tolist() == labels
        assert np.array_equal(data.images[..., 0], making.pixels(16, 28, 0)[..., 0])

    def test_fashion_mnist_has_its_names(self, tmp_path: Path) -> None:
        labels = making.mnist(tmp_path, "FashionMNIST")
        data = opened("data=fashion_mnist", f"data.root={tmp_path}")
        assert_split(data, 16, 4)
        assert data.labels.tolist() == labels
        assert data.classes[:2] == ("T-shirt/top", "Trouser")

    @pytest.mark.parametrize("split", ["digits", "letters"])
    def test_emnist_stands_upright_with_labels_from_0(self, split: str, tmp_path: Path) -> None:
        names = f"emnist-{split}-train", f"emnist-{split}-test"
        labels = making.mnist(tmp_path, "EMNIST", names)
        if split == "letters":  # its files count from 1
            for path in (tmp_path / "EMNIST" / "raw").glob("*labels*"):
                content = path.read_bytes()
                path.write_bytes(content[:8] + bytes(label + 1 for label in content[8:]))
        data = opened("data=emnist", f"data.root={tmp_path}", f"data.split={split}")
        assert_split(data, 16, 4)
        assert data.labels.tolist() == labels
        assert (len(data.classes), data.classes[0]) == (
            (26, "a") if split == "letters" else (10, "0")
        )
        written = making.pixels(16, 28, 0)[..., 0]
        assert np.array_equal(data.images[..., 0], written.transpose(0, 2, 1))

    def test_svhn_has_the_class_0_for_the_digit_0(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        labels = making.svhn(tmp_path, monkeypatch)
        data = opened("data=svhn", f"data.root={tmp_path}")
        assert_split(data, 16, 4)
        assert data.labels.tolist() == labels
        assert np.array_equal(data.images, making.pixels(16, 32, 0))

    @pytest.mark.parametrize(
        ("normalisation", "mean", "std"),
        [("own", 0.1307, 0.3081), ("half", 0.5, 0.5), ("none", 0.0, 1.0)],
    )
    def test_pixels_are_normalised_as_asked(
        self, normalisation: str, mean: float, std: float, tmp_path: Path
    ) -> None:
        making.mnist(tmp_path)
        words = "data=mnist", f"data.root={tmp_path}", f"data.normalisation={normalisation}"
        data = opened(*words)
        images = DeviceImages(data, torch.device("cpu"))
        x, _ = images[torch.tensor([3])]
        pixels = torch.from_numpy(np.array(data.images[3:4])).permute(0, 3, 1, 2)
        assert torch.allclose(x, (pixels / 255 - mean) / std, atol=1e-6)

    def test_a_prepared_data_set_does_not_import_torchvision(self, tmp_path: Path) -> None:
        """The import takes seconds, and the images are in the image store."""
        making.mnist(tmp_path)
        words = ("data=mnist", f"data.root={tmp_path}")
        opened(*words)
        program = """
import sys
from server_app.config.composition import compose_experiment
from server_app.runs.identity import code_of
from task.data.image_store.store import open_dataset
experiment = compose_experiment(sys.argv[1:])
open_dataset(experiment.local().source())
code_of(experiment.model_dump())
sys.exit("torchvision" in sys.modules)
"""
        assert subprocess.run([sys.executable, "-c", program, *words], check=False).returncode == 0

    def test_stl10_is_read_column_by_column(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        labels = making.stl10(tmp_path, monkeypatch)
        data = opened("data=stl10", f"data.root={tmp_path}")
        assert_split(data, 14, 4)
        assert data.labels.tolist() == labels
        assert data.classes[2] == "car"
        assert np.array_equal(data.images, making.pixels(14, 96, 0))

    def test_images_are_resized(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        making.stl10(tmp_path, monkeypatch)
        data = opened("data=stl10", f"data.root={tmp_path}", "data.image_size=32")
        assert data.images.shape == (14, 32, 32, 3)
        assert colours(data) == [making.colour(index) for index in range(14)]

    def test_missing_files_are_reported_with_a_cure(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigError, match=r"must contain cifar-10-batches-py; data\.download=true"
        ):
            opened("data=cifar10", f"data.root={tmp_path}")

    def test_a_damaged_file_is_refused_and_never_unpickled(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        making.cifar10(tmp_path, monkeypatch)
        (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(b"cos\nsystem\n(S'x'\ntR.")
        with pytest.raises(DataError, match=r"cifar-10-batches-py: .*corrupted; remove the direc"):
            opened("data=cifar10", f"data.root={tmp_path}")

    def test_a_missing_list_of_classes_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        making.stl10(tmp_path, monkeypatch)
        (tmp_path / "stl10_binary" / "class_names.txt").unlink()
        with pytest.raises(DataError, match=r"stl10_binary: .* remove the directory and add"):
            opened("data=stl10", f"data.root={tmp_path}")

    def test_a_failed_download_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from torchvision.datasets import CIFAR10

        monkeypatch.setattr(CIFAR10, "url", "http://127.0.0.1:9/cifar-10-python.tar.gz")
        with pytest.raises(DataError, match="the download failed"):
            opened("data=cifar10", f"data.root={tmp_path}", "data.download=true")


class TestTinyImagenet:
    def test_labels_follow_wnids_and_the_validation_images_are_the_test_set(
        self, tmp_path: Path
    ) -> None:
        names = making.tiny_imagenet(tmp_path)
        data = opened("data=tiny_imagenet", f"data.root={tmp_path}")
        assert_split(data, 21, 6)
        assert data.classes == tuple(names)
        assert data.labels[data.test].tolist() == [0, 1, 2, 0, 1, 2]
        assert sorted(np.bincount(data.labels[data.train]).tolist()) == [5, 5, 5]
        first = data.train[data.labels[data.train] == 0]
        assert np.allclose(data.images[first[0], 5, 5], making.colour(0), atol=3)

    def test_an_annotation_without_its_image_is_reported(self, tmp_path: Path) -> None:
        making.tiny_imagenet(tmp_path)
        (tmp_path / "tiny-imagenet-200/val/images/val_3.JPEG").unlink()
        with pytest.raises(DataError, match=r"val_3\.JPEG: no such file"):
            opened("data=tiny_imagenet", f"data.root={tmp_path}")

    def test_an_unlisted_class_is_reported(self, tmp_path: Path) -> None:
        making.tiny_imagenet(tmp_path)
        (tmp_path / "tiny-imagenet-200/wnids.txt").write_text("n02124075\nn04067472\n")
        with pytest.raises(DataError, match=r"class 'n01443537' is not in .*wnids.txt"):
            opened("data=tiny_imagenet", f"data.root={tmp_path}")

    def test_another_directory_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"data\.root=.*must contain tiny-imagenet-200"):
            opened("data=tiny_imagenet", f"data.root={tmp_path}")


class TestImagenet200:
    def test_200_classes_are_drawn_the_same_each_time(self, tmp_path: Path) -> None:
        making.imagenet(tmp_path)
        data = opened("data=imagenet200", f"data.root={tmp_path}", "data.image_size=8")
        assert_split(data, 400, 200)
        assert len(data.classes) == 200
        assert list(data.classes) == sorted(data.classes)
        assert np.bincount(data.labels[data.test]).tolist() == [1] * 200
        assert data.classes == opened("data=imagenet200", f"data.root={tmp_path}", "seed=1").classes

    def test_the_releases_classes_are_those_that_it_lists(self, tmp_path: Path) -> None:
        """It lists n01729322, n01514668, ... , whose places among the 1000 names are these."""
        making.imagenet(tmp_path)
        listed = [54, 7, 894, 512, 126, 337, 988, 11, 284, 493]
        whole = tmp_path / "train" / "n00000054"
        (only,) = whole.iterdir()
        for number in range(510):
            (whole / f"more{number}.JPEG").write_bytes(only.read_bytes())
        words = ("data=imagenet200", f"data.root={tmp_path}", "data.subset=release")
        index = compose_experiment(words).source().dataset_index()
        assert {f"n{place:08}" for place in listed} <= set(index.classes)
        counts = np.bincount(index.labels[~index.test])
        assert counts[index.classes.index("n00000054")] == 500
        assert sorted(set(counts.tolist())) == [1, 500]
        own = compose_experiment(words[:2]).source().dataset_index()
        assert own.classes != index.classes

    def test_fewer_classes_are_refused(self, tmp_path: Path) -> None:
        making.imagenet(tmp_path, classes=3)
        with pytest.raises(
            DataError, match="3 classes; all 1000 of ImageNet-1k are needed to draw 200"
        ):
            opened("data=imagenet200", f"data.root={tmp_path}")


class TestDomainBenchmarks:
    def test_pacs_tests_on_forty_images_of_each_class_and_domain(self, tmp_path: Path) -> None:
        making.pacs(tmp_path)
        data = opened("data=pacs", f"data.root={tmp_path}", "data.image_size=8")
        assert_split(data, 28 * 42, 1120)
        assert data.classes == making.PACS_CLASSES
        assert per_domain(data) == dict.fromkeys(making.PACS_DOMAINS, 7 * 42)
        cells = data.labels[data.test] * 4 + data.domain_of[data.test]
        assert np.bincount(cells).tolist() == [40] * 28

    def test_the_root_may_be_the_parent_of_the_archives_directory(self, tmp_path: Path) -> None:
        making.pacs(tmp_path / "PACS", each=41)
        data = opened("data=pacs", f"data.root={tmp_path}", "data.image_size=8")
        assert len(data.train) == 28

    def test_office_home_tests_on_seven(self, tmp_path: Path) -> None:
        making.office_home(tmp_path)
        data = opened("data=office_home", f"data.root={tmp_path}", "data.image_size=8")
        assert_split(data, 4 * 65 * 8, 1820)
        assert per_domain(data) == dict.fromkeys(("Art", "Clipart", "Product", "Real World"), 520)

    def test_missing_images_are_noted(self, tmp_path: Path) -> None:
        making.pacs(tmp_path, each=41)
        data = opened("data=pacs", f"data.root={tmp_path}", "data.image_size=8")
        assert data.notes == ("1148 images, but the data set has 9991",)

    def test_a_missing_domain_is_refused(self, tmp_path: Path) -> None:
        making.pacs(tmp_path, each=1)
        shutil.rmtree(tmp_path / "sketch")
        with pytest.raises(ConfigError, match="must contain the directories art_painting, cartoon"):
            opened("data=pacs", f"data.root={tmp_path}")

    def test_too_few_images_of_a_class_are_reported(self, tmp_path: Path) -> None:
        making.pacs(tmp_path, each=40)
        with pytest.raises(
            DataError, match=r"art_painting/dog: 40 images; more than 40 are needed"
        ):
            opened("data=pacs", f"data.root={tmp_path}")


class TestHam10000:
    def test_domains_are_the_dataset_column_and_a_fifth_of_each_is_held_out(
        self, tmp_path: Path
    ) -> None:
        rows = making.ham10000(tmp_path)
        data = opened("data=ham10000", f"data.root={tmp_path}", "data.image_size=8")
        assert data.classes == ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
        assert_split(data, len(rows), len(data.test))
        assert 0.1 * len(rows) < len(data.test) <= 0.25 * len(rows)
        assert set(data.domains) == set(making.HAM_DOMAINS)
        for row, label, domain in zip(rows, data.labels, data.domain_of, strict=True):
            assert data.classes[label] == row["dx"]
            assert data.domains[domain] == row["dataset"]

    def test_no_lesion_is_in_both_training_and_test_set(self, tmp_path: Path) -> None:
        rows = making.ham10000(tmp_path)
        data = opened("data=ham10000", f"data.root={tmp_path}", "data.image_size=8")
        sides = [{rows[index]["lesion_id"] for index in part} for part in (data.train, data.test)]
        assert not sides[0] & sides[1]
        assert len(data.test) > len(sides[1])

    def test_the_tab_separated_metadata_are_read(self, tmp_path: Path) -> None:
        rows = making.ham10000(tmp_path, tabs=True)
        data = opened("data=ham10000", f"data.root={tmp_path}", "data.image_size=8")
        assert len(data.images) == len(rows)

    def test_a_row_without_its_image_is_reported(self, tmp_path: Path) -> None:
        making.ham10000(tmp_path)
        (tmp_path / "HAM10000_images_part_2" / "ISIC_0024307.jpg").unlink()
        with pytest.raises(DataError, match=r"line 3: no image ISIC_0024307.jpg in any directory"):
            opened("data=ham10000", f"data.root={tmp_path}")

    def test_metadata_without_domains_are_reported_with_a_cure(self, tmp_path: Path) -> None:
        making.ham10000(tmp_path, columns=())
        with pytest.raises(
            DataError, match="no column dataset; download HAM10000 from the Harvard"
        ):
            opened("data=ham10000", f"data.root={tmp_path}")


class TestFolder:
    def test_classes_alone(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["dog", "cat"], 20)
        data = opened("data=folder", f"data.root={tmp_path}")
        assert data.classes == ("cat", "dog")
        assert_split(data, 40, 4)
        assert np.bincount(data.labels[data.test]).tolist() == [2, 2]
        assert data.domains == ("",)
        assert data.images.shape == (40, 64, 64, 3)
        assert colours(data)[:20] == [making.colour(index) for index in range(20, 40)]

    def test_domains(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["north/cat", "north/dog", "south/dog"], 10)
        data = opened("data=folder", f"data.root={tmp_path}")
        assert data.classes == ("cat", "dog")
        assert per_domain(data) == {"north": 20, "south": 10}
        assert len(data.test) == 3

    @pytest.mark.parametrize(
        ("splits", "test"),
        [
            (["train", "test"], 10),
            (["train", "val"], 10),
            (["train", "valid", "test"], 10),
            (["Training", "Testing"], 10),
            (["train"], 2),  # a share, as no directory says which
        ],
    )
    def test_splits(self, tmp_path: Path, splits: list[str], test: int) -> None:
        making.tree(tmp_path, [f"{split}/{name}" for split in splits for name in ("a", "b")], 5)
        data = opened("data=folder", f"data.root={tmp_path}")
        assert_split(data, 10 * len(splits), test)
        assert data.domains == ("",)

    def test_with_a_test_split_the_validation_split_is_used_for_training(
        self, tmp_path: Path
    ) -> None:
        making.tree(tmp_path, [f"{s}/{n}" for s in ("train", "val", "test") for n in "ab"], 5)
        data = opened("data=folder", f"data.root={tmp_path}")
        assert len(data.train) == 20
        assert data.notes[0].startswith("10 images of the validation split are used for training")

    def test_classes_can_be_given_and_one_can_have_no_images(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["dog", "cat"], 10)
        data = opened("data=folder", f"data.root={tmp_path}", "data.classes=[dog,ant,cat]")
        assert data.classes == ("dog", "ant", "cat")
        assert np.bincount(data.labels, minlength=3).tolist() == [10, 0, 10]
        assert data.notes == ("no images of class ant",)

    def test_other_files_are_ignored_and_noted(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["dog", "cat"], 10)
        (tmp_path / "cat" / "Thumbs.db").write_bytes(b"x")
        (tmp_path / ".DS_Store").write_bytes(b"x")
        data = opened("data=folder", f"data.root={tmp_path}")
        assert len(data.images) == 20
        (note,) = data.notes
        assert note.startswith("1 file is not read: cat/Thumbs.db; images are .bmp, .dcm, .gif,")

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            (
                ["cat/1.png", "dog/deep/2.png"],
                r"dog/deep/2\.png: has another depth than .*cat/1",
            ),
            (["1.png"], r"/1\.png: is directly in data.root; move it to a directory named after"),
            (["a/b/c/1.png"], r"a/b/c/1\.png: is too deep; expected <class>"),
            (["cat/1.png", "dog/a/b/c/2.png"], r"dog/a/b/c: is too deep; expected <class>"),
            (["train/cat/1.png", "extra/cat/2.png"], "extra: is beside directories of splits"),
        ],
    )
    def test_an_unknown_layout_is_refused(
        self, tmp_path: Path, files: list[str], message: str
    ) -> None:
        for index, file in enumerate(files):
            making.save(tmp_path / file, index)
        with pytest.raises(DataError, match=message):
            opened("data=folder", f"data.root={tmp_path}")

    @pytest.mark.parametrize(
        ("places", "message"),
        [
            (
                ["sick/patient1", "sick/patient2", "well/patient3"],
                "the domains have no class in common; if sick and well are",
            ),
            (["pictures"], "only one class, pictures"),
        ],
    )
    def test_directories_that_cannot_be_classes_are_refused(
        self, tmp_path: Path, places: list[str], message: str
    ) -> None:
        making.tree(tmp_path, places, 5)
        with pytest.raises(DataError, match=message):
            opened("data=folder", f"data.root={tmp_path}")

    def test_class_names_can_be_numbers_or_any_text(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["0", "1", "Müll ß, =1"], 5)
        words = ["data=folder", f"data.root={tmp_path}"]
        assert opened(*words).classes == ("0", "1", "Müll ß, =1")
        data = opened(*words, "data.classes=[1,0,'Müll ß, =1']")
        assert data.classes == ("1", "0", "Müll ß, =1")
        assert np.bincount(data.labels).tolist() == [5, 5, 5]

    def test_directory_names_need_not_be_utf8_and_stay_different(self, tmp_path: Path) -> None:
        """An archive from Windows may have names in GBK; they must not become one class."""
        names = [os.fsdecode(name.encode("gbk")) for name in ("狗", "鸡")]
        making.tree(tmp_path, ["cat", *names, os.fsdecode(b"h\xfcte")], 5)
        data = opened("data=folder", f"data.root={tmp_path}")
        assert data.classes == ("\\xb9\\xb7", "\\xbc\\xa6", "cat", "h\\xfcte")
        assert np.bincount(data.labels).tolist() == [5] * 4

    @given(st.lists(st.binary(min_size=1, max_size=6), min_size=2, max_size=2, unique=True))
    @example([b"\xfc", b"\\xfc"])
    @example([b"\\\xfc", b"\\\\xfc"])
    @example([b"\\xfc\xfc", b"\\\\xfc\xfc"])
    def test_different_names_have_different_texts(self, names: list[bytes]) -> None:
        first, second = (readable(os.fsdecode(name)) for name in names)
        assert first != second

    def test_a_pipe_is_no_image(self, tmp_path: Path) -> None:
        """Opening it would wait for a writer."""
        making.tree(tmp_path, ["cat", "dog"], 5)
        os.mkfifo(tmp_path / "cat" / "pipe.png")
        data = opened("data=folder", f"data.root={tmp_path}")
        assert len(data.images) == 10
        assert any("1 file is not read: cat/pipe.png" in note for note in data.notes)

    def test_a_directory_without_images_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "cat").mkdir()
        with pytest.raises(
            ConfigError, match=r"data\.root=.*: contains no images; expected <class>/\*"
        ):
            opened("data=folder", f"data.root={tmp_path}")

    @pytest.mark.parametrize(
        ("root", "message"),
        [
            ("null", "data.root=None: name the data set's directory"),
            ("/no/such", "must be a directory; it does not exist"),
        ],
    )
    def test_a_missing_root_is_refused(self, root: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            opened("data=folder", f"data.root={root}")

    def test_a_relative_root_starts_at_the_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        making.tree(tmp_path / "images", ["dog", "cat"], 3)
        monkeypatch.chdir(tmp_path)
        experiment = compose_experiment(["data=folder", "data.root=images"])
        assert experiment.data["root"] == str(tmp_path / "images")


class TestHub:
    def test_columns_splits_and_domains(self, tmp_path: Path) -> None:
        making.parquet(tmp_path)
        data = opened(
            "data=hub", f"data.repo={tmp_path}", "data.test_split=test", "data.domain=site"
        )
        assert_split(data, 16, 4)
        assert data.classes == ("zebra", "ape")
        assert data.labels.tolist() == [0, 1] * 8
        assert per_domain(data) == {"north": 10, "south": 6}
        assert colours(data) == [making.colour(index) for index in range(16)]

    def test_labels_can_come_from_any_column(self, tmp_path: Path) -> None:
        making.parquet(tmp_path)
        data = opened("data=hub", f"data.repo={tmp_path}", "data.label=site", "data.test_share=0.5")
        assert data.classes == ("north", "south")
        assert_split(data, 12, 6)

    def test_subjects_are_on_one_side(self, tmp_path: Path) -> None:
        making.parquet(tmp_path)
        words = ["data=hub", f"data.repo={tmp_path}", "data.subject=patient", "data.test_share=0.5"]
        data = opened(*words)
        assert data.subject_of is not None
        assert data.subject_of.tolist() == [index // 3 for index in range(12)]
        assert not set(data.subject_of[data.train]) & set(data.subject_of[data.test])
        assert len(data.test) in (3, 6)
        with pytest.raises(DataError, match="subjects of column 'site' are in both splits"):
            opened(*words[:2], "data.subject=site", "data.test_split=test")

    def test_a_local_directory_becomes_absolute(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        making.parquet(tmp_path / "mine")
        monkeypatch.chdir(tmp_path)
        experiment = compose_experiment(["data=hub", "data.repo=mine"])
        assert experiment.data["repo"] == str(tmp_path / "mine")
        assert compose_experiment(["data=hub", "data.repo=a/b"]).data["repo"] == "a/b"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (
                ["data.image=picture"],
                "data.image=picture: no such column; there are image, label, site, patient",
            ),
            (["data.test_split=dev"], "split 'dev': "),
            (["data.test_split=train"], r"data\.test_split=train: must differ from train_split"),
            (["data.repo=null"], "data.repo=None: name the data set"),
            (["data.repo=/no/such"], "data.repo=/no/such: split 'train': "),
        ],
    )
    def test_missing_columns_and_splits_are_reported(
        self, tmp_path: Path, words: list[str], message: str
    ) -> None:
        making.parquet(tmp_path)
        with pytest.raises(ConfigError, match=message):
            opened("data=hub", f"data.repo={tmp_path}", *words)
