"""``univarfl export``: files with PyTorch's probabilities, and the model card."""

import csv
import hashlib
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.errors import RunError
from task.inference.classifier import Classifier
from task.seeding import torch_generator
from task.training.worker import Worker, build_model
from tests.conftest import Train
from tests.server_app.runs.recorded import write_entries
from tests.univarfl.inference.conftest import Command
from univarfl.cli.main import BAD_INPUT, FAILED
from univarfl.inference import export as exporting
from univarfl.inference.card import card_of, write_card
from univarfl.inference.export import as_onnx, as_program, exported, largest_difference
from univarfl.inference.model import TrainedModel, trained_model
from univarfl.inference.predict import classify
from univarfl.records.trained import completed_run

TOLERANCE = 1e-4
SLOW = pytest.mark.slow  # a CNN and a residual network are exported in the quick tests
CHANGED_NETWORKS = [
    ["model=cnn", "data.image_size=32", "method=freeze"],
    ["model=cnn", "data.image_size=32", "model.norm=group"],
    pytest.param(["model=resnet18", "data.image_size=16", "method=fedalign"], marks=SLOW),
    pytest.param(["model=resnet50", "data.image_size=16"], marks=SLOW),
    pytest.param(["model=resnet56", "data.image_size=8", "method=stochdepth"], marks=SLOW),
    pytest.param(["model=resnet56", "data.image_size=8", "method=gradaug"], marks=SLOW),
]


@pytest.fixture(scope="module")
def files(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the exported files of a run."""
    place = tmp_path_factory.mktemp("export")
    exporting.export(run, place, [])
    return place


@pytest.fixture(scope="module")
def images(digits: Path) -> list[NDArray[np.uint8]]:
    """Real images of several sizes, [1, h, w, 1]."""
    found = []
    for place, path in enumerate(sorted(digits.rglob("*.png"))[::9]):
        image = Image.open(path)
        larger = image.resize(
            (8 + 13 * (place % 5), 8 + 40 * (place % 3)), Image.Resampling.BICUBIC
        )
        found.append(np.array(larger)[None, ..., None])
    return found


def test_they_answer_as_pytorch_does(
    run: Path, files: Path, images: list[NDArray[np.uint8]]
) -> None:
    classifier = trained_model(run, "cpu").classifier
    program = torch.export.load(files / "model.pt2").module()
    session = onnxruntime.InferenceSession(files / "model.onnx")
    assert len(images) == 40
    for pixels in images:
        expected = classifier(torch.from_numpy(pixels)).numpy()
        assert program(torch.from_numpy(pixels)).numpy() == pytest.approx(expected, abs=TOLERANCE)
        (found,) = session.run(None, {"pixels": pixels})
        assert found == pytest.approx(expected, abs=TOLERANCE)


def test_a_file_that_answers_no_number_is_refused(run: Path) -> None:
    classifier = trained_model(run, "cpu").classifier
    with pytest.raises(RunError, match="differ from PyTorch's by nan"):
        largest_difference(lambda pixels: classifier(pixels) * math.nan, classifier)


def test_resizing_inside_gives_the_classes_of_predict(
    univarfl: Command, run: Path, files: Path, digits: Path, tmp_path: Path
) -> None:
    assert univarfl("predict", run, digits, "--to", tmp_path / "all.csv").code == 0
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    session = onnxruntime.InferenceSession(files / "model.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    classes = json.loads(metadata["classes"])
    pixels = np.stack([np.array(Image.open(row["image"]))[..., None] for row in rows])
    (found,) = session.run(None, {"pixels": pixels})
    same = [classes[at] == row["class"] for at, row in zip(found.argmax(1), rows, strict=True)]
    assert np.mean(same) >= 0.99


def test_the_files_say_what_they_take(run: Path, files: Path) -> None:
    classes = read_entries(run)["data"]["classes"]
    extra = {"classes.json": ""}
    torch.export.load(files / "model.pt2", extra_files=extra)
    assert json.loads(extra["classes.json"]) == classes
    graph = onnx.load(files / "model.onnx").graph
    axes = [axis.dim_param or axis.dim_value for axis in graph.input[0].type.tensor_type.shape.dim]
    assert axes == ["images", "height", "width", 1]


@pytest.mark.parametrize("words", CHANGED_NETWORKS, ids=" ".join)
def test_every_network_can_be_exported(words: list[str]) -> None:
    config = compose_experiment(words).local()
    worker = Worker(config)
    classifier = Classifier(config, 10, worker.initial_weights())
    pixels = torch.randint(256, (3, 30, 41, 1), dtype=torch.uint8)
    expected = classifier(pixels)
    assert exported(classifier).module()(pixels).numpy() == pytest.approx(
        expected.numpy(), abs=1e-6
    )


def test_the_card_has_the_facts_and_no_paths(run: Path, files: Path) -> None:
    card = json.loads((files / "model_card.json").read_text())
    record = read_entries(run)
    assert card["classes"] == record["data"]["classes"]
    assert card["metrics"] == record["results"]
    assert card["data"]["clients"] == record["data"]["clients"]
    assert card["provenance"]["fingerprint"] == record["fingerprint"]
    assert card["provenance"]["model_sha256"] == record["model_sha256"]
    assert card["settings"]["method.name"] == "univarfl"
    assert card["privacy"] is None
    for name, file in card["files"].items():
        assert file["sha256"] == hashlib.sha256((files / name).read_bytes()).hexdigest()
        assert file["largest_difference"] <= TOLERANCE
    text = (files / "model_card.md").read_text()
    for part in (text, json.dumps(card)):
        assert str(run.parent) not in part
    assert f"| test, held out | {record['results']['test']['accuracy']:.3f} |" in text
    for label, name in enumerate(card["classes"]):
        found = card["recall"][name]
        assert f"| {label} | {name} | {found['images']} | {found['recall']:.3f} |" in text
        found = card["class_metrics"][name]
        assert found["sensitivity"] == card["recall"][name]["recall"]
        shown = f"{found['sensitivity']:.3f} | {found['specificity']:.3f} | {found['auroc']:.3f} |"
        assert f"| {name} | {found['images']} | {shown}" in text
        counts = " | ".join(map(str, card["confusion"][label]))
        assert f"| {name} | {counts} |" in text


def test_a_record_cannot_change_what_the_card_says(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "theirs")
    hostile = "x | y\n```python\nimport os\n```\n<script>alert(1)</script> [a](b)"
    write_entries(copy, read_entries(copy) | {"run_id": hostile, "started": hostile})
    write_card(trained_model(copy), tmp_path, {})
    card = (tmp_path / "model_card.md").read_text()
    assert "<script>" not in card.replace("\\<script>", "")
    assert card.count("```") == 2, "there is one block of code, the card's own"
    assert r"x \| y \`\`\`python import os" in card


def stored(image: Image.Image, how: str) -> tuple[Image.Image, Image.Exif]:
    """Return an image as a scanner or camera stores it, with the same content."""
    exif = Image.Exif()
    if how == "sixteen bits":
        return Image.fromarray(np.asarray(image).astype(np.uint16) * 257), exif
    if how == "turned":
        exif[0x0112] = 6
        return image.rotate(90), exif
    return image, exif


@pytest.mark.parametrize("how", ["plain", "turned", "sixteen bits"])
def test_the_cards_own_example_gives_the_probabilities_of_predict(
    univarfl: Command, run: Path, files: Path, digits: Path, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, how: str,
) -> None:  # fmt: skip
    """The example runs unchanged, in a directory with the files and an image.jpg."""
    for name in ("model.pt2", "model.onnx"):
        (tmp_path / name).symlink_to(files / name)
    code = (files / "model_card.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert "image.jpg" in code
    monkeypatch.chdir(tmp_path)
    for number, path in enumerate(sorted(digits.rglob("*.png"))[::60]):
        image, exif = stored(Image.open(path), how)
        image.save(f"{number}.png", exif=exif)
        known: dict[str, NDArray[np.float32]] = {}
        exec(code.replace("image.jpg", f"{number}.png"), known)
        assert univarfl("predict", run, f"{number}.png").code == 0
        (row,) = csv.DictReader(Path("predictions.csv").read_text().splitlines())
        expected = [float(row[f"p_{name}"]) for name in range(10)]
        assert known["probabilities"][0] == pytest.approx(expected, abs=0.05)


def test_a_private_runs_card_says_so_and_keeps_the_seed(train: Train, tmp_path: Path) -> None:
    words = (
        "rounds=1",
        "strategy=dp_fixed",
        "model.norm=group",
        "seed=77123",
        "privacy.reproducible=true",
    )
    directory = train(*words)
    exporting.export(directory, tmp_path / "x", ["pt2"])
    card = json.loads((tmp_path / "x" / "model_card.json").read_text())
    text = (tmp_path / "x" / "model_card.md").read_text()
    assert card["privacy"] == read_entries(directory)["privacy"]
    assert "77123" not in text.replace(directory.name, "") + json.dumps(card["settings"])
    assert f"after 1 rounds, epsilon {card['privacy']['epsilon']:.3f} at delta 1e-05" in text
    assert "- the seed, which clients and the record contain" in text


def test_a_file_of_another_model_does_not_stay(run: Path, tmp_path: Path) -> None:
    """A card describes one model."""
    (tmp_path / "model.onnx").write_bytes(b"another run's")
    files = {"model.onnx": {"sha256": hashlib.sha256(b"another run's").hexdigest()}}
    (tmp_path / "model_card.json").write_text(json.dumps({"files": files}))
    exporting.export(run, tmp_path, ["pt2"])
    assert not (tmp_path / "model.onnx").exists()


def test_a_file_of_someone_else_stays(run: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"mine")
    exporting.export(run, tmp_path, ["pt2"])
    exporting.export(run, tmp_path, ["pt2"])
    assert (tmp_path / "model.onnx").read_bytes() == b"mine"


def test_the_card_names_no_place_on_this_machine(run: Path) -> None:
    model = trained_model(run, "cpu")
    paths = {
        "after": {"name": "feddf", "images": "/data/patients"},
        "clock": {"trace": "/data/trace.csv"},
    }
    data = {**model.run.config["data"], "repo": "/data/images"}
    config = {**model.run.config, **paths, "data": data}
    record = model.run.record.changed(config=config)
    card = card_of(replace(model, run=replace(model.run, record=record)))
    assert "/data" not in json.dumps(card)


def test_a_file_that_answers_otherwise_is_a_failure(
    univarfl: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "TOLERANCE", -1.0)
    done = univarfl("export", run, "--to", tmp_path / "x", "--only", "pt2")
    assert done.code == FAILED
    assert "the exported model's probabilities differ from PyTorch's by" in done.said
    assert list((tmp_path / "x").iterdir()) == []


def test_without_the_onnx_packages_the_other_file_is_written(
    univarfl: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "ONNX_NEEDS", ("no_such_package",))
    done = univarfl("export", run, "--to", tmp_path / "x")
    assert done.code == 0
    assert "left out: model.onnx needs more packages: uv sync --extra onnx" in done.said
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [
        "model.pt2",
        "model_card.json",
        "model_card.md",
    ]
    done = univarfl("export", run, "--to", tmp_path / "y", "--only", "onnx")
    assert done.code == BAD_INPUT
    assert "--only=onnx: needs more packages" in done.said


def test_a_format_that_is_not_known(univarfl: Command, run: Path) -> None:
    done = univarfl("export", run, "--only", "tflite")
    assert (done.code, "--only=tflite: choose from pt2, onnx" in done.said) == (BAD_INPUT, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["data.resize=crop"],
        ["data.resize=pad"],
        ["data.interpolation=bicubic"],
        ["data.resize=pad", "data.interpolation=bicubic"],
    ],
)
def test_scans_are_resized_as_for_training(tmp_path: Path, words: list[str], run: Path) -> None:
    (tmp_path / "scans" / "cat").mkdir(parents=True)
    (tmp_path / "scans" / "dog").mkdir()
    folder = ["data=folder", f"data.root={tmp_path / 'scans'}", "data.classes=[cat,dog]"]
    config = compose_experiment([*folder, "data.image_size=32", *words]).local()
    classifier = Classifier(config, 2, build_model(config, 32, 3, 2).state_dict())
    coarse = torch.rand(6, 3, 4, 6, generator=torch_generator(0, "scans")) * 255
    smooth = torch.nn.functional.interpolate(coarse, (30, 50), mode="bilinear").to(torch.uint8)
    pixels = smooth.permute(0, 2, 3, 1).contiguous()
    decoded = [classifier.decoded(Image.fromarray(image.numpy())) for image in pixels]
    expected = classify(classifier, decoded)  # as predict does
    model = TrainedModel(completed_run(run), ["cat", "dog"], classifier)
    program = exported(classifier)
    made = [make(program, model)[1](pixels).numpy() for make in (as_onnx, as_program)]
    classifier.resize = "squash" if classifier.resize != "squash" else "crop"
    squashed = np.abs(classifier(pixels).numpy() - expected).max()
    for found in made:  # Pillow rounds to whole numbers, and the exported graph does not
        assert np.abs(found - expected).max() < squashed / 5
