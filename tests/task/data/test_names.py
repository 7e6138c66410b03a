"""Names of labels, domains and subjects: the same rules for every source of own images."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from server_app.config.composition import compose_experiment
from task.data.dataset import ImageDataset
from task.data.image_store.store import open_dataset
from task.data.sources.base import DatasetIndex, cleaned
from task.data.sources.families.names import Kind, folded, names_of
from task.errors import ConfigError, DataError
from tests.task.data import making

Open = Callable[..., ImageDataset]
EACH = 6
NFD = normalize("NFD", "Jos\u00e9")


def opened(*words: str) -> ImageDataset:
    return open_dataset(compose_experiment([*words, "data.image_size=16"]).local().source())


def folder(root: Path, labels: list[str]) -> ImageDataset:
    making.tree(root, labels, EACH)
    return opened("data=folder", f"data.root={root}")


def table(root: Path, labels: list[str], columns: str = "image,label") -> ImageDataset:
    making.tree(root, [str(number) for number in range(len(labels))], EACH)
    rows = [f"{at}/pic_{i:03}.png,{name}" for at, name in enumerate(labels) for i in range(EACH)]
    (root / "images.csv").write_text("\n".join([columns, *rows]), encoding="utf-8")
    return opened("data=table", f"data.root={root}")


def hub(root: Path, labels: list[Any], **more: list[Any]) -> ImageDataset:
    """Write a Parquet file with `EACH` images of each label, as the library writes it."""
    from datasets import Dataset, Features
    from datasets import Image as Images

    root.mkdir(exist_ok=True)
    count = EACH * len(labels)
    columns = {
        "image": [making.picture(index) for index in range(count)],
        "label": [labels[index // EACH] for index in range(count)],
        **more,
    }
    rows = Dataset.from_dict(columns)
    rows.cast(Features({**rows.features, "image": Images()})).to_parquet(root / "train.parquet")
    words = [f"data.{name}={name}" for name in more if name != "image"]
    return opened("data=hub", f"data.repo={root}", *words)


SOURCES = (folder, table, hub)


class TestEverySource:
    @pytest.mark.parametrize("source", SOURCES)
    def test_labels_that_differ_in_case_or_may_be_missing_are_noted(
        self, source: Open, tmp_path: Path
    ) -> None:
        data = source(tmp_path, ["Cat", "cat", "NaN", "dog"])
        assert data.classes == ("Cat", "NaN", "cat", "dog")
        assert "NaN may be a missing label" in data.notes
        assert "Cat and cat are different classes" in data.notes

    @pytest.mark.parametrize("source", SOURCES)
    def test_forms_of_accents_and_blanks_make_no_other_class(
        self, source: Open, tmp_path: Path
    ) -> None:
        data = source(tmp_path, [NFD, "Jos\u00e9", "Jos\u00e9 ", "dog"])
        assert data.classes == ("Jos\u00e9", "dog")
        assert np.bincount(data.labels).tolist() == [3 * EACH, EACH]
        assert any("label Jos\u00e9 has " in note for note in data.notes)

    @pytest.mark.parametrize("source", SOURCES)
    def test_labels_without_printable_characters_are_refused(
        self, source: Open, tmp_path: Path
    ) -> None:
        with pytest.raises(DataError, match=r"characters that cannot be printed, 'cat\\u200b'"):
            source(tmp_path, ["cat\u200b", "cat"])

    @pytest.mark.parametrize("source", SOURCES)
    def test_blank_labels_are_refused(self, source: Open, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no label; "):
            source(tmp_path, [" ", "cat", "dog"])

    @pytest.mark.parametrize("source", SOURCES)
    def test_one_class_is_refused(self, source: Open, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="only one class, cat"):
            source(tmp_path, ["cat", " cat"])

    def test_domains_are_checked_as_labels_are(self, tmp_path: Path) -> None:
        places = [f"{domain}/{name}" for domain in ("North", "north", NFD) for name in "ab"]
        making.tree(tmp_path / "folder", places, 2)
        data = opened("data=folder", f"data.root={tmp_path / 'folder'}")
        assert data.domains == ("Jos\u00e9", "North", "north")
        assert "North and north are different domains" in data.notes
        domains = [("North", "north", "None")[index % 3] for index in range(2 * EACH)]
        data = hub(tmp_path / "hub", ["a", "b"], domain=domains)
        assert data.notes == (
            "None may be a missing domain", "North and north are different domains",
        )  # fmt: skip
        with pytest.raises(DataError, match=r"train row 1, column 'domain': no domain; .*=null"):
            hub(tmp_path / "none", ["a", "b"], domain=["x", None] * EACH)

    def test_given_classes_are_cleaned_too(self, tmp_path: Path) -> None:
        making.tree(tmp_path, [NFD, "dog"], EACH)
        words = ["data=folder", f"data.root={tmp_path}"]
        assert opened(*words, "data.classes=[dog,'Jos\u00e9 ']").classes == ("dog", "Jos\u00e9")
        for wrong in ("[dog,'dog ']", "[dog,' ']"):
            with pytest.raises(ConfigError, match=r"data\.classes=.*name"):
                opened(*words, f"data.classes={wrong}")

    def test_an_index_with_other_names_is_refused(self) -> None:
        for classes in (("a", "cat "), ("cat", "cat"), ("cat", ""), ("a", NFD)):
            with pytest.raises(DataError, match="class"):
                DatasetIndex(
                    classes, np.zeros(1, np.int64), np.zeros(1, np.bool_),
                    making.picture, str, ("",), np.zeros(1, np.int64),
                )  # fmt: skip


class TestSubjects:
    SPELLINGS = (NFD, "Jos\u00e9", "JOS\u00c9", "\uff2aos\u00e9", "jos\u00e9")

    def test_a_subject_is_on_one_side_in_any_spelling(self, tmp_path: Path) -> None:
        """Patient 7 is in each of a hundred images, written in five ways."""
        making.tree(tmp_path, ["im"], 60)
        rows = [
            f"im/pic_{index:03}.png,{'ab'[index % 2]},{self.SPELLINGS[index % 5]}  {index // 10}"
            for index in range(60)
        ]
        (tmp_path / "images.csv").write_text("\n".join(["image,label,subject", *rows]), "utf-8")
        by_table = opened("data=table", f"data.root={tmp_path}", "data.test_share=0.4")
        subjects = [f"{self.SPELLINGS[index % 5]} {index // 10}" for index in range(60)]
        by_hub = hub(tmp_path / "hub", list("abababababa")[:10], subject=subjects)
        for data in (by_table, by_hub):
            assert data.subject_of is not None
            assert data.subject_of.tolist() == [index // 10 for index in range(60)]
            assert not set(data.subject_of[data.train]) & set(data.subject_of[data.test])
            assert len(data.test) in (10, 20)
            assert sum("spellings, which are taken as one" in note for note in data.notes) == 3

    def test_a_subject_in_two_given_splits_is_refused_in_any_spelling(self, tmp_path: Path) -> None:
        making.tree(tmp_path, ["im"], 4)
        rows = "im/pic_000.png,a,train,p1\nim/pic_001.png,b,train,p2\nim/pic_002.png,a,test,P1\n"
        (tmp_path / "images.csv").write_text(f"image,label,split,subject\n{rows}")
        with pytest.raises(DataError, match="line 4: subject 'P1' is in split test"):
            opened("data=table", f"data.root={tmp_path}")


class TestHubColumns:
    def test_numbers_keep_their_order_and_unused_class_labels_are_noted(
        self, tmp_path: Path
    ) -> None:
        assert hub(tmp_path / "a", [10, 9, 2]).classes == ("2", "9", "10")
        data = hub(tmp_path / "b", [1.0, 0.0])
        assert data.classes == ("0.0", "1.0")
        assert data.labels[0] == 1

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([1.0, float("nan")], "train row 6, column 'label': no label; every row needs one"),
            (["a", None], "train row 6, column 'label': no label; every row needs one"),
            ([[0, 1], [1, 0]], r"the label is \[0, 1\], not one text or number; write the name"),
            ([{"x": 1}, {"x": 2}], "the label is {'x': 1}, not one text or number"),
            ([b"a", b"b"], "the label is b'a', not one text or number"),
        ],
    )
    def test_what_is_no_label_is_refused(
        self, labels: list[Any], message: str, tmp_path: Path
    ) -> None:
        with pytest.raises(DataError, match=message):
            hub(tmp_path, labels)


class TestHubImages:
    """Cells of images, as people publish them."""

    def write(self, root: Path, cells: list[Any], kind: Any = None) -> str:
        from datasets import Dataset, Features, Value

        root.mkdir(exist_ok=True)
        features = {"image": kind or Value("binary"), "label": Value("int64")}
        columns = {"image": cells, "label": [index % 2 for index in range(len(cells))]}
        rows = Dataset.from_dict(columns, features=Features(features))
        rows.to_parquet(root / "train.parquet")
        return f"data.repo={root}"

    def test_bytes_and_dictionaries_of_bytes_are_read(self, tmp_path: Path) -> None:
        from datasets import Value

        content = [png(making.picture(index)) for index in range(8)]
        struct = {"bytes": Value("binary"), "path": Value("string")}
        cells: list[Any] = [{"bytes": each, "path": "x.png"} for each in content]
        plain = opened("data=hub", self.write(tmp_path / "a", content))
        nested = opened("data=hub", self.write(tmp_path / "b", cells, struct))
        for data in (plain, nested):
            assert [tuple(each[0, 0]) for each in data.images] == [*map(making.colour, range(8))]

    def test_only_the_formats_that_are_meant_are_opened(self, tmp_path: Path) -> None:
        """Pillow would start Ghostscript for EPS."""
        from datasets import Image as Images

        eps = io.BytesIO()
        making.picture(0).save(eps, "EPS")
        cells: list[Any] = [png(making.picture(1)), png(making.picture(2)), eps.getvalue(), None]
        data = opened("data=hub", self.write(tmp_path, cells, Images()))
        reasons = [reason for _, reason in data.skipped]
        assert reasons == ["not an image", "the row has no image"]

    @pytest.mark.parametrize(
        ("cell", "message"),
        [
            ("im/0.png", "has texts, such as 'im/0.png', not images; .* use data=table"),
            (7, "has values of type int, not images; write it again with"),
            ([[0, 255], [255, 0]], "has values of type list, not images"),
        ],
    )
    def test_a_column_without_images_is_refused(
        self, cell: object, message: str, tmp_path: Path
    ) -> None:
        from datasets import Dataset

        Dataset.from_dict({"image": [cell] * 4, "label": [0, 1] * 2}).to_parquet(
            tmp_path / "train.parquet"
        )
        with pytest.raises(ConfigError, match=message):
            opened("data=hub", f"data.repo={tmp_path}")


def png(image: Image.Image) -> bytes:
    """Return the file of an image."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


class TestProperties:
    @given(st.text(max_size=8))
    def test_a_name_has_one_form(self, name: str) -> None:
        for form in ("NFC", "NFD"):
            assert cleaned(f" {normalize(form, name)}\t") == cleaned(name)
        assert cleaned(cleaned(name)) == cleaned(name)

    @given(st.text(max_size=8))
    def test_all_forms_of_a_name_are_folded_into_one(self, name: str) -> None:
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            assert folded(normalize(form, name)) == folded(name)
        assert folded(name.casefold()) == folded(folded(name)) == folded(name)

    @given(st.lists(st.sampled_from(["p1", "P1", "p1 ", "p2", "\uff30\uff11"]), min_size=1))
    def test_equal_names_stay_equal_and_others_differ(self, texts: list[str]) -> None:
        kinds: list[tuple[Kind, Callable[[str], str]]] = [
            ("label", cleaned), ("domain", cleaned), ("subject", folded),
        ]  # fmt: skip
        for kind, identity in kinds:
            names = names_of(kind, texts, str, "").each
            for first, one in zip(texts, names, strict=True):
                for second, other in zip(texts, names, strict=True):
                    assert (one == other) == (identity(first) == identity(second))
