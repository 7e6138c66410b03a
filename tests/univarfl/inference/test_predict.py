"""``univarfl predict`` on real images, and on files that are not images."""

import csv
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    recall_score,
    roc_auc_score,
)

from server_app.runs.records.run_record import read_entries
from task.data.image_store.decoding import decode
from task.errors import ConfigError
from tests.server_app.runs.recorded import write_entries
from tests.univarfl.inference.conftest import Command
from univarfl import load_run
from univarfl.cli.main import BAD_INPUT, FAILED
from univarfl.inference.card import write_card
from univarfl.inference.model import trained_model

Rows = list[dict[str, str]]


def predicted(univarfl: Command, run: Path, *words: str | Path, to: Path) -> Rows:
    """Run ``univarfl predict``, check that it succeeds, and return the rows."""
    done = univarfl("predict", run, *words, "--to", to)
    assert done.code == 0, done.said
    with to.open(newline="") as file:
        return list(csv.DictReader(file))


def test_classes_are_those_of_the_evaluation(
    univarfl: Command, run: Path, digits: Path, tmp_path: Path
) -> None:
    rows = predicted(univarfl, run, digits, to=tmp_path / "all.csv")
    record = read_entries(run)
    assert len(rows) == record["data"]["test"] == 360
    right = sum(row["class"] == Path(row["image"]).parent.name for row in rows)
    assert right / len(rows) == pytest.approx(record["results"]["test"]["accuracy"], abs=1e-9)
    for row in rows:
        values = {name: float(row[f"p_{name}"]) for name in record["data"]["classes"]}
        assert sum(values.values()) == pytest.approx(1, abs=1e-5)
        assert row["class"] == max(values, key=lambda name: values[name])


def test_metrics_by_class_are_scikit_learns_on_these_probabilities(
    univarfl: Command, run: Path, digits: Path, tmp_path: Path
) -> None:
    rows = predicted(univarfl, run, digits, to=tmp_path / "all.csv")
    found = load_run(run)
    assert found.record.data
    classes = found.record.data.classes
    truth = np.array([classes.index(Path(row["image"]).parent.name) for row in rows])
    given = np.array([classes.index(row["class"]) for row in rows])
    values = np.array([[float(row[f"p_{name}"]) for name in classes] for row in rows])
    assert found.confusion.to_numpy().tolist() == confusion_matrix(truth, given).tolist()
    metrics = found.class_metrics
    assert metrics["class"].astype(str).tolist() == classes
    one_hot = np.eye(len(classes))[truth]
    # predict writes six digits, so probabilities below 1e-6 are ties in its file
    for name, score in (("auroc", roc_auc_score), ("average_precision", average_precision_score)):
        expected = [score(one_hot[:, label], values[:, label]) for label in range(len(classes))]
        assert metrics[name].to_numpy() == pytest.approx(expected, abs=1e-3)
        means = score(one_hot, values, average="macro")
        assert found.record.results.test[name] == pytest.approx(means, abs=1e-3)
    recalls = recall_score(truth, given, average=None)
    assert metrics["sensitivity"].to_numpy() == pytest.approx(recalls, abs=1e-12)
    against = [recall_score(truth != label, given != label) for label in range(len(classes))]
    assert metrics["specificity"].to_numpy() == pytest.approx(against, abs=1e-12)


def test_files_globs_and_lists_each_image_once(
    univarfl: Command, run: Path, digits: Path, tmp_path: Path
) -> None:
    threes = sorted((digits / "3").glob("*.png"))
    listed = tmp_path / "some.txt"
    listed.write_bytes(f"\ufeff{threes[0]}\r\n\r\n{threes[1]}\r\n".encode())  # as Notepad does
    rows = predicted(
        univarfl,
        run,
        threes[1],
        listed,
        f"{digits}/**/*0.png",
        digits / "3",
        to=tmp_path / "some.csv",
    )
    found = [row["image"] for row in rows]
    tens = sorted(map(str, digits.rglob("*0.png")))
    expected = [*map(str, [threes[1], threes[0]]), *tens, *map(str, threes)]
    assert found == list(dict.fromkeys(expected))


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(
    univarfl: Command, run: Path, digits: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd"
    shutil.copytree(digits / "7", odd)
    some = sorted(odd.glob("*.png"))
    image = Image.open(some[0])
    image.convert("CMYK").save(odd / "cmyk.jpg")
    image.convert("P").save(odd / "palette.png", transparency=0)
    Image.fromarray(np.asarray(image).astype(np.uint16) * 257).save(odd / "sixteen.png")
    image.rotate(90).save(odd / "turned.jpg", exif=exif(orientation=6))
    (odd / "empty.png").write_bytes(b"")
    (odd / "half.png").write_bytes(some[0].read_bytes()[:60])
    (odd / "words.jpg").write_text("no image")
    Image.fromarray(np.zeros((4, 4), np.float32)).save(odd / "floats.tiff")
    (odd / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (odd / "circle").symlink_to(odd)
    (odd / "linked").symlink_to(tmp_path / "elsewhere")
    shutil.copytree(digits / "7", tmp_path / "elsewhere" / "below", ignore=all_but(some[0].name))
    for skipped in ("._shadow.png", "__MACOSX/x.png", ".ipynb_checkpoints/x.png"):
        (odd / skipped).parent.mkdir(exist_ok=True)
        shutil.copy(some[0], odd / skipped)
    os.mkfifo(odd / "pipe.png")
    (odd / "notes.pdf").write_text("no image, and not named as one")
    done = univarfl("predict", run, odd, "--to", tmp_path / "odd.csv")
    assert done.code == 0
    said = done.said
    for name in ("empty.png", "half.png", "words.jpg", "floats.tiff", "gone.png", "pipe.png"):
        assert f"left out: {odd / name}: " in said
    assert "pixels are floats of unknown range" in said
    assert f"{tmp_path / 'odd.csv'}: {len(some) + 5} images" in said
    assert "6 left out" in said
    assert f"{odd}: 1 files without the suffix of an image were skipped" in said
    with (tmp_path / "odd.csv").open(newline="") as file:
        rows = {Path(row["image"]).name: row for row in csv.DictReader(file)}
    assert rows["sixteen.png"]["class"] == rows[some[0].name]["class"]
    assert "empty.png" not in rows


def all_but(name: str) -> Callable[[str, list[str]], list[str]]:
    """Return what copies no file but one of this name."""
    return lambda _, names: [each for each in names if each != name]


def exif(orientation: int) -> Image.Exif:
    """Return the EXIF data of a camera held sideways."""
    found = Image.Exif()
    found[0x0112] = orientation
    return found


def test_a_turned_image_is_turned_upright() -> None:
    upright = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    turned = upright.rotate(90)
    turned.getexif()[0x0112] = 6
    assert np.array_equal(decode(turned, 8, 1, "squash"), decode(upright, 8, 1, "squash"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere/*.png"], "images=nowhere/*.png: contains or matches no images"),
        (["RUN"], "contains or matches no images"),
        (["DIGITS", "--to", "nowhere/x.csv"], "nowhere/x.csv: must be writable: no such file"),
        (["DIGITS", "--to", "none"], "none: is a directory; name a file"),
        (["DIGITS", "--device", "tpu"], "'tpu' is not one of 'auto', 'cpu', 'cuda'"),
    ],
)
def test_bad_arguments_are_refused(
    univarfl: Command,
    run: Path,
    digits: Path,
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "none").mkdir()
    monkeypatch.chdir(tmp_path)
    places = {"RUN": str(tmp_path / "none"), "DIGITS": str(digits)}
    done = univarfl("predict", run, *(places.get(word, word) for word in words))
    assert done.code == BAD_INPUT
    assert said in done.said
    assert not list(tmp_path.glob("*.csv*"))


def test_a_network_that_is_larger_than_its_file_is_not_built(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "theirs")
    record = read_entries(copy)
    record["config"]["model"]["features"] = 10**9  # 4 TB
    write_entries(copy, record)
    with pytest.raises(ConfigError, match="has other layers than the model of this version"):
        trained_model(copy)


def test_what_a_record_says_cannot_control_the_terminal(
    univarfl: Command, run: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(run, tmp_path / "theirs")
    write_entries(copy, read_entries(copy) | {"format": "\x1b]0;owned\x07"})
    done = univarfl("predict", copy, "x.png")
    assert done.code == BAD_INPUT
    assert "run.json has format" in done.said
    assert "\x1b" not in done.said


def test_no_image_at_all_is_a_failure(univarfl: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "words.png").write_text("no image")
    done = univarfl("predict", run, tmp_path, "--to", tmp_path / "x.csv")
    assert done.code == FAILED
    assert "none of 1 images could be read" in done.said
    assert not list(tmp_path.glob("x.csv*"))


def test_a_model_that_was_not_scored_can_be_used_and_not_compared(
    univarfl: Command, run: Path, digits: Path, tmp_path: Path
) -> None:
    """So ends a run with ``privacy=example`` whose coordinator has no test images."""
    unscored = tmp_path / "unscored"
    shutil.copytree(run, unscored)
    write_entries(unscored, read_entries(run) | {"results": {}})
    table = unscored / "rounds.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if ",accuracy," not in line))
    (unscored / "classes.csv").write_text("round,class,examples,recall\n")
    for name in ("class_metrics.csv", "confusion.csv"):
        (unscored / name).unlink()
    image = next(digits.glob("*/*.png"))
    assert len(predicted(univarfl, unscored, image, to=tmp_path / "one.csv")) == 1
    write_card(trained_model(unscored), tmp_path, {})
    assert "The final model was not scored" in (tmp_path / "model_card.md").read_text()
    done = univarfl("compare", run, unscored)
    assert done.code == BAD_INPUT
    assert f"run={unscored}: has no accuracy after its last round" in done.said


def test_a_run_without_a_model_is_refused(
    univarfl: Command, run: Path, digits: Path, tmp_path: Path
) -> None:
    done = univarfl("predict", tmp_path, digits)
    assert done.code == BAD_INPUT
    assert f"run={tmp_path}: is neither the directory of a run nor" in done.said
    half = tmp_path / "half"
    shutil.copytree(run, half)
    write_entries(half, read_entries(run) | {"status": "failed", "reason": "interrupted"})
    done = univarfl("predict", half, digits)
    assert f"run={half}: has no final model: it was interrupted" in done.said
    write_entries(half, read_entries(run))
    (half / "model.safetensors").write_bytes(b"x")
    done = univarfl("predict", half, digits)
    assert f"run={half / 'model.safetensors'}: is not the model that the run wrote" in done.said
    (half / "model.safetensors").unlink()
    done = univarfl("predict", half, digits)
    assert f"run={half / 'model.safetensors'}: cannot be read: no such file" in done.said
