"""The files that a word stands for; training, prediction and the ledger walk in one way."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from task.data.sources.families.tree import walk
from task.data.sources.table import Table
from task.errors import DataError
from task.privacy.images import image_hashes
from tests.task.data import making
from univarfl.inference.images import find_images, images_below


class TestOneWalk:
    """What is trained on and what is predicted are listed by one walk."""

    def test_links_in_circles_end(self, tmp_path: Path) -> None:
        for name in "abc":
            (tmp_path / name).mkdir()
            for other in "abc":
                (tmp_path / name / f"to_{other}").symlink_to(tmp_path / other)
            (tmp_path / name / "up").symlink_to(tmp_path)
            Image.new("L", (8, 8)).save(tmp_path / name / "1.png")
        for word in (str(tmp_path), f"{tmp_path}/**", f"{tmp_path}/**/1.png", f"{tmp_path}/?/**"):
            found = find_images([word])
            assert {path.resolve() for path in found} == {tmp_path / n / "1.png" for n in "abc"}
        assert len(image_hashes(tmp_path)) == 1

    @given(
        st.lists(
            st.lists(st.sampled_from(["a", "B", ".h", "__MACOSX", "._x"]), min_size=1, max_size=3),
            min_size=1, max_size=6,
        ),
        st.lists(
            st.sampled_from(["x.png", "Y.JPG", "._x.png", "z.txt", "w"]), min_size=1, max_size=3
        ),
        st.booleans(),
    )  # fmt: skip
    @settings(max_examples=40, deadline=None)
    def test_predict_and_training_list_the_same_files(
        self, directories: list[list[str]], names: list[str], linked: bool
    ) -> None:
        with tempfile.TemporaryDirectory() as place:
            real, root = Path(place, "real"), Path(place, "root")
            root.mkdir()
            for parts in directories:
                (directory := real.joinpath(*parts)).mkdir(parents=True, exist_ok=True)
                for name in names:
                    (directory / name).touch()
            for top in real.iterdir():
                if linked:
                    (root / top.name).symlink_to(top)
                else:
                    top.rename(root / top.name)
            trained = [root.joinpath(*file.parts) for file in walk(root).files]
            assert sorted(images_below(root)) == sorted(trained)

    def test_training_lists_a_directory_under_each_of_its_names(self, tmp_path: Path) -> None:
        """Such as one class directory that two splits link to."""
        making.tree(tmp_path / "real", ["cat"], 2)
        for split in ("train", "test"):
            (tmp_path / "data" / split).mkdir(parents=True)
            (tmp_path / "data" / split / "cat").symlink_to(tmp_path / "real" / "cat")
        (tmp_path / "data" / "test" / "cat2").symlink_to(tmp_path / "data")
        expected = [(split, "cat", f"pic_00{i}.png") for split in ("test", "train") for i in (0, 1)]
        assert [file.parts for file in walk(tmp_path / "data").files] == expected
        assert len(find_images([str(tmp_path / "data")])) == 4

    def test_a_pipe_as_a_table_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "images.csv")
        with pytest.raises(DataError, match=r"images\.csv: is no regular file"):
            Table(root=str(tmp_path), image_size=8, classes=None, test_share=0.1).fingerprint()
