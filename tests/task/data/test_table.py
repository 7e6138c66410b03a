"""Images as the rows of a table, with subjects that are never on two sides."""

import re
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import numpy as np
import pytest

from server_app.config.composition import compose_experiment
from task.data.dataset import ImageDataset
from task.data.federated import FederatedData, federate
from task.data.image_store.store import open_dataset
from task.data.site_data import federate_site
from task.errors import DataError
from task.site import Site
from tests.task.data import making

PATIENTS = 24
Form = Literal["NFC", "NFD"]


def patients(root: Path, columns: str = "image,label,domain,subject") -> Path:
    """Write three images of each patient, half of them in each hospital; return `root`."""
    rows = [columns]
    for patient in range(PATIENTS):
        hospital, label = ("north", "south")[patient % 2], ("well", "sick")[patient // 2 % 2]
        for image in range(3):
            name = f"{hospital}/p{patient}/{image}.png"
            making.save(root / name, 3 * patient + image)
            values = {"image": name, "label": label, "domain": hospital, "subject": f"p{patient}"}
            rows.append(",".join(values[column] for column in columns.split(",")))
    (root / "images.csv").write_text("\n".join(rows) + "\n")
    return root


def words(root: Path, *more: str) -> list[str]:
    return ["data=table", f"data.root={root}", "data.image_size=32", *more]


def opened(root: Path, *more: str) -> ImageDataset:
    return open_dataset(compose_experiment(words(root, *more)).local().source())


def federated(root: Path, *more: str) -> FederatedData:
    return federate(compose_experiment(words(root, *more)).local())


def test_rows_have_a_label_a_domain_and_their_image(tmp_path: Path) -> None:
    data = opened(patients(tmp_path))
    assert data.classes == ("sick", "well")
    assert data.domains == ("north", "south")
    for patient in range(PATIENTS):
        index = 3 * patient
        assert tuple(data.images[index, 0, 0].tolist()) == making.colour(index)
        assert data.domain_of[index] == patient % 2
        assert data.labels[index] == 1 - patient // 2 % 2


def test_all_images_of_a_subject_are_for_training_or_for_testing(tmp_path: Path) -> None:
    data = opened(patients(tmp_path), "data.test_share=0.2")
    assert data.subject_of is not None
    train, test = (set(data.subject_of[part].tolist()) for part in (data.train, data.test))
    assert not train & test
    assert len(test) == 4  # of six patients of each class and hospital, one is below a fifth
    assert len(data.test) == 12


def test_a_subject_with_two_classes_is_on_one_side(tmp_path: Path) -> None:
    patients(tmp_path)
    table = tmp_path / "images.csv"
    lines = table.read_text().splitlines()
    lines[1::3] = [line.replace("well", "sick") for line in lines[1::3]]
    table.write_text("\n".join(lines))
    data = opened(tmp_path, "data.test_share=0.3")
    assert data.subject_of is not None
    assert not set(data.subject_of[data.train]) & set(data.subject_of[data.test])
    assert 0 < len(data.test) <= 0.3 * len(data.labels)


def test_a_client_does_not_validate_on_a_subject_that_it_trains_on(tmp_path: Path) -> None:
    words = ["partition=domains", "num_clients=2", "data.test_share=0.2"]
    data = federated(patients(tmp_path), *words)
    subject_of = data.dataset.subject_of
    assert subject_of is not None
    for split in data.clients.values():
        assert len(split.validation) == 3
        assert not set(subject_of[split.train]) & set(subject_of[split.validation])
    assert data.clients.sizes().validation.tolist() == [3, 3]
    assert data.notes == ()


def test_subjects_that_are_divided_among_clients_are_noted(tmp_path: Path) -> None:
    words = ["partition=iid", "num_clients=4", "data.test_share=0.2"]
    (note,) = federated(patients(tmp_path), *words).notes
    assert "subjects have images at more than one client" in note


def test_without_subjects_images_are_drawn_one_by_one(tmp_path: Path) -> None:
    data = opened(patients(tmp_path, "label,image"), "data.test_share=0.5")
    assert data.subject_of is None
    assert data.domains == ("",)
    assert np.bincount(data.labels[data.test]).tolist() == [18, 18]


def test_a_given_split_is_used(tmp_path: Path) -> None:
    patients(tmp_path, "image,label")
    table = tmp_path / "images.csv"
    first, *rows = table.read_text().splitlines()
    splits = ["Train", "val", "test"]
    table.write_text(
        "\n".join([f"{first},split", *(f"{row},{splits[n % 3]}" for n, row in enumerate(rows))])
    )
    data = opened(tmp_path)
    assert data.test.tolist() == list(range(2, 72, 3))
    assert "24 images of the validation split are used for training" in data.notes[0]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_spreadsheets_of_other_countries_are_read(tmp_path: Path, separator: str) -> None:
    patients(tmp_path)
    table = tmp_path / "images.csv"
    text = table.read_text().replace(",", separator).replace("\n", "\r\n")
    table.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert len(opened(tmp_path).labels) == 3 * PATIENTS


@pytest.mark.parametrize(("stored", "typed"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_accents_may_be_composed_in_one_place_and_apart_in_another(
    tmp_path: Path, stored: Form, typed: Form
) -> None:
    """Directories from a Mac, and names that a person types elsewhere."""
    labels = [normalize(stored, label) for label in ("gutartig_ü", "bösartig")]
    making.tree(tmp_path, labels, 12)
    rows = [
        normalize(typed, f"{label}/{path.name},{label}")
        for label in labels
        for path in sorted((tmp_path / label).iterdir())
    ]
    (tmp_path / "images.csv").write_text("\n".join(["image,label", *rows]) + "\n")
    classes = f"data.classes=[{','.join(normalize(typed, label) for label in labels)}]"
    expected = tuple(normalize("NFC", label) for label in labels)
    for kind in ("table", "folder"):
        source = [f"data={kind}", f"data.root={tmp_path}", "data.image_size=32", classes]
        data = open_dataset(compose_experiment(source).local().source())
        assert data.classes == expected
        assert len(data.labels) == 24


def test_images_that_are_not_listed_are_not_used(tmp_path: Path) -> None:
    patients(tmp_path)
    making.save(tmp_path / "other.png", 0)
    data = opened(tmp_path)
    assert len(data.labels) == 3 * PATIENTS
    assert data.notes == ("1 image below data.root, but not in images.csv, so not used",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,kind\na.png,x\n", "no column label; list the images in this table"),
        ("My scans\nimage,label\n", r"label \(the first line has My scans\)"),
        ("Label,LABEL,image\n", "has the column label twice"),
        ("", "no column image, label; list"),
        ("image,label\n", "has no rows"),
        ("image,label,label\na.png,x,y\n", "has the column label twice"),
        ("image,label\na.png,x,y\n", "line 2: 3 fields, but the table has 2 columns"),
        ("image,label\na.png,\n", "line 2: no label; every row needs one"),
        ("image,label\na.png,x\x1b[2J\n", "line 2: the label has characters"),
        ("image,label,split\na.png,x,fold1\n", "line 2: split 'fold1'; must be train, val or test"),
        ("image,label\na.png,x\nb.png,x\n", "only one class, x"),
        ("image,label\na.png,x\n./a.png,y\n", r"line 3: ./a.png is also in line 2"),
        ("image,label\n../a.png,x\n", r"line 2: \.\./a.png is not a file below"),
        ("image,label\n/etc/a.png,x\n", "line 2: /etc/a.png is not a file below"),
        ("image,label\na.nii,x\n", r"line 2: a.nii is not an image file \(.bmp, "),
        ("image,label\na/b/c/d/e.png,x\n", "line 2: a/b/c/d/e.png is in more than 3 directories"),
        ('image,label\na.png,"x\n', "line 2: unexpected end of data"),
        (
            "image,label,split,subject\na.png,x,train,p\nb.png,y,test,p\n",
            "line 3: subject 'p' is in split test, and in line 2 in split train",
        ),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    for index, name in enumerate(("a.png", "b.png")):
        making.save(tmp_path / name, index)
    (tmp_path / "images.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        opened(tmp_path)


def as_windows(text: str) -> bytes:
    """Return a table with a line for Excel, extra columns, empty rows and a byte order mark."""
    head, *rows = text.splitlines()
    lines = ["sep=;", f"{head.title()};;Note", *(f"{row};;" for row in rows), ";;;;;", ";;;"]
    text = "\r\n".join(lines).replace(",", ";").replace("/", "\\")
    return b"\xef\xbb\xbf" + text.encode()


def test_what_excel_and_windows_write_is_read(tmp_path: Path) -> None:
    table = patients(tmp_path) / "images.csv"
    expected = opened(tmp_path)
    table.write_bytes(as_windows(table.read_text()))
    assert b"Image;Label;Domain;Subject;;Note\r\nnorth\\p0\\0.png;" in table.read_bytes()
    assert opened(tmp_path).content == expected.content


def test_rows_may_lack_empty_cells_of_other_columns(tmp_path: Path) -> None:
    table = patients(tmp_path) / "images.csv"
    expected = opened(tmp_path)
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join(["", f"{head},note,by", *rows]))
    assert opened(tmp_path).content == expected.content
    table.write_text("\n".join([f"note,{head}", *(f"x,{row}" for row in rows), "x,a.png,well"]))
    with pytest.raises(DataError, match="line 74: 3 fields, but the table has 5 columns"):
        opened(tmp_path)


@pytest.mark.parametrize("linked", [False, True])
def test_absolute_paths_below_the_directory_are_read(tmp_path: Path, linked: bool) -> None:
    root = patients(tmp_path / "scans")
    expected = opened(root)
    typed = root
    if linked:
        typed = tmp_path / "link"
        typed.symlink_to(root)
    table = root / "images.csv"
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, *(f"{root}/{row}" for row in rows)]))
    assert opened(typed).content == expected.content


def test_a_path_that_is_almost_right_is_corrected(tmp_path: Path) -> None:
    making.save(tmp_path / "scans/North/a.png", 0)
    for typed, cure in [
        ("north/A.png", "and upper and lower case count: write North/a.png"),
        ("scans/North/a.png", "paths are relative to it: write North/a.png"),
        ("scans\\North\\a.png", "paths are relative to it: write North/a.png"),
        ("C:\\me\\North\\a.png", "relative to it; write only the part below data.root"),
        ("/home/me/of/mine/scans/North/a.png", "write only the part below data.root"),
    ]:
        (tmp_path / "scans/images.csv").write_text(f"image,label\n{typed},x\n")
        with pytest.raises(DataError, match=re.escape(cure)):
            opened(tmp_path / "scans")


def test_other_encodings_and_a_missing_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"images\.csv: .*; list the images in this table"):
        opened(tmp_path)
    (tmp_path / "images.csv").write_bytes("image,label\na.png,Müll\n".encode("latin-1"))
    with pytest.raises(DataError, match="is not text in UTF-8"):
        opened(tmp_path)


def site(root: Path) -> Site:
    return Site.from_node_config({"site": "north", "data-dir": str(root), "memory-dir": str(root)})


def test_a_site_trains_on_its_own_table(tmp_path: Path) -> None:
    sites = ["partition=sites", "partition.names=[north,south]"]
    experiment = compose_experiment(
        ["data=table", "data.image_size=32", "data.classes=[well,sick]", *sites]
    ).local()
    data = federate_site(experiment, site(patients(tmp_path)))
    assert data.dataset.classes == ("well", "sick")
    assert len(data.dataset.test) == 0
    assert len(data.clients[0].train) + len(data.clients[0].validation) == 3 * PATIENTS


def test_few_patients_leave_one_for_testing(tmp_path: Path) -> None:
    rows = ["image,label,subject"]
    for patient in range(4):
        for image in range(4 + patient):
            making.save(tmp_path / f"{patient}_{image}.png", 10 * patient + image)
            rows.append(f"{patient}_{image}.png,{('well', 'sick')[image % 2]},p{patient}")
    (tmp_path / "images.csv").write_text("\n".join(rows))
    assert opened(tmp_path).test.tolist() == [0, 1, 2, 3]  # the patient with the fewest images
    assert len(opened(tmp_path, "data.test_share=0").test) == 0


def test_clients_with_one_patient_have_no_validation_images_and_are_counted(tmp_path: Path) -> None:
    patients(tmp_path, "image,label,subject")
    table = tmp_path / "images.csv"
    first, *lines = table.read_text().splitlines()
    lines = [f"{line},{line.split(',')[2]}" for line in lines]
    table.write_text("\n".join([f"{first},domain", *lines]))
    words = ["partition=natural", f"num_clients={PATIENTS}", "partition.min_images=3"]
    data = federated(tmp_path, *words, "data.test_share=0")
    assert not any(len(split.validation) for split in data.clients.values())
    note = f"{PATIENTS} clients have no validation images: they have images of too few subjects"
    assert data.notes == (note,)


def test_labels_that_may_be_missing_or_spelled_in_two_ways_are_noted(tmp_path: Path) -> None:
    patients(tmp_path, "image,label")
    table = (tmp_path / "images.csv").read_text()
    table = table.replace(",well", ",NaN", 20).replace(",sick", ",Sick", 20)
    (tmp_path / "images.csv").write_text(table)
    data = opened(tmp_path)
    assert data.notes[-2:] == (
        "NaN may be a missing label", "Sick and sick are different classes",
    )  # fmt: skip
