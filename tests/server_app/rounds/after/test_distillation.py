"""Distillation: its loss, its batches, its images, and the student that learns from teachers."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from PIL import Image

from server_app.config.composition import compose_experiment
from server_app.config.recorded_words import recorded_words
from server_app.config.resuming import whole_words
from server_app.rounds.after.distillation.student import (
    Distillation,
    batches,
    distil,
    ensemble_logits,
)
from server_app.rounds.after.distillation.unlabelled import open_unlabelled
from server_app.rounds.ending import final_stage
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from task.training.evaluation import predict
from task.training.losses import divergence
from task.training.worker import Worker
from tests.conftest import SMALL, Train, sha256
from tests.task.data import making

FEDDF = ("after=feddf", "after.steps=3", "after.batch_size=32")
TEACHERS = torch.tensor(
    [[[2, 0.5, -1], [0.1, 1.2, 0.3]], [[0, 1.5, 0.4], [0.5, -0.6, 0.9]]], dtype=torch.float64
)
STUDENT = [[0.2, 0.1, 0], [0.3, 0.6, -0.2]]


class TestGoldenValues:
    """Two teachers and a student, worked out in float64 with the release's own function."""

    def test_the_divergence_from_the_mean_of_the_logits(self) -> None:
        student = torch.tensor(STUDENT, dtype=torch.float64, requires_grad=True)
        value = divergence(student, TEACHERS.mean(dim=0))
        value.backward()
        assert value.item() == pytest.approx(0.100499, abs=1e-6)
        assert student.grad is not None
        assert student.grad[0, 0].item() == pytest.approx(-0.036436, abs=1e-6)

    def test_the_mean_of_probabilities_gives_another_value(self) -> None:
        student = torch.tensor(STUDENT, dtype=torch.float64, requires_grad=True)
        value = divergence(student, TEACHERS.softmax(dim=2).mean(dim=0).log())
        value.backward()
        assert value.item() == pytest.approx(0.083020, abs=1e-6)
        assert student.grad is not None
        assert student.grad[0, 0].item() == pytest.approx(-0.048666, abs=1e-6)


class TestBatches:
    def how(self, steps: int, batch_size: int) -> Distillation:
        return Distillation(steps, batch_size, 1e-3, 5.0)

    def test_each_pass_has_every_image_once_in_full_batches(self) -> None:
        found = batches(10, self.how(steps=7, batch_size=4), seed=0)
        assert found.shape == (7, 4)
        for first in (0, 2, 4):
            assert len(found[first : first + 2].unique()) == 8
        assert not torch.equal(found[:2], found[2:4])
        assert torch.equal(found, batches(10, self.how(steps=7, batch_size=4), seed=0))
        assert not torch.equal(found, batches(10, self.how(steps=7, batch_size=4), seed=1))

    def test_few_images_are_all_in_each_step(self) -> None:
        found = batches(3, self.how(steps=5, batch_size=128), seed=0)
        assert found.sort(dim=1).values.tolist() == [[0, 1, 2]] * 5


@pytest.fixture(scope="module")
def worker() -> Worker:
    return Worker(compose_experiment([*SMALL, "method=fedavg"]).local())


def test_the_ensemble_is_the_mean_of_the_teachers_logits(worker: Worker) -> None:
    first = worker.initial_weights()
    second = {k: v + 0.1 if v.is_floating_point() else v for k, v in first.items()}
    places = worker.images.index(worker.data.dataset.test)
    both = []
    for weights in (first, second):
        worker.load(weights)
        both.append(predict(worker.model, worker.images, places)[0])
    found = ensemble_logits(worker, [first, second], worker.images, places)
    assert torch.allclose(found, (both[0] + both[1]) / 2, atol=1e-6)


def test_a_student_comes_closer_to_its_teacher(worker: Worker) -> None:
    how = Distillation(steps=30, batch_size=32, lr=1e-2, max_gradient_norm=5.0)
    places = worker.images.index(worker.data.dataset.test)
    labels = worker.images.labels(places)
    toward = 4 * torch.nn.functional.one_hot(labels, 10).float()

    def distance() -> float:
        logits, _ = predict(worker.model, worker.images, places)
        return float(divergence(logits, toward.cpu()))

    worker.load(worker.initial_weights())
    before = distance()
    rows = batches(len(places), how, seed=0)
    distil(worker, worker.images, ((places[row], toward[row]) for row in rows), how)
    assert worker.model.training
    assert distance() < 0.7 * before


class TestImages:
    def test_any_layout_is_read_like_the_data_set(self, tmp_path: Path) -> None:
        making.tree(tmp_path / "images", ["a/cat", "dog"], 3)
        making.save(tmp_path / "images" / "flat.png", 5)
        (tmp_path / "images" / "damaged.png").write_bytes(b"x")
        (tmp_path / "images" / "notes.txt").write_text("no image")
        source = compose_experiment(["data.image_size=32"]).source()
        found = open_unlabelled(str(tmp_path / "images"), source)
        assert len(found.train) == 7
        assert found.images.shape[1:] == (32, 32, source.channels)
        assert (found.mean, found.std) == source.mean_and_std
        assert len(found.skipped) == 1

    def test_a_run_is_distilled_on_a_directory(self, train: Train, tmp_path: Path) -> None:
        making.tree(tmp_path / "photos", ["x", "y"], 5)
        words = [*FEDDF, "rounds=1", f"after.images={tmp_path / 'photos'}"]
        run = train(*words)
        found = read_entries(run)["after"]
        assert (found["images"], found["transductive"]) == (10, False)
        (tmp_path / "photos" / "x" / "pic_000.png").unlink()
        assert sha256(train(*words)) != sha256(run)

    def test_a_relative_path_means_the_directory_of_the_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        words = ["after=feddf", "after.images=photos"]
        experiment = compose_experiment(words)
        assert experiment.after["images"] == str(tmp_path / "photos")
        placed = experiment.placed(tmp_path / "runs" / "run")
        assert f"after.images='{tmp_path / 'photos'}'" in recorded_words(words, placed)

    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            (lambda path: None, r"after.images=.*: must be a directory of images"),
            (lambda path: path.write_text(""), r"after.images=.*: must be a directory of images"),
            (lambda path: path.mkdir(), r"after.images=.*: contains no images; name a directory"),
        ],
        ids=["nothing", "a file", "an empty directory"],
    )
    def test_a_directory_without_images_is_refused(
        self, train: Train, tmp_path: Path, make: object, reason: str
    ) -> None:
        assert callable(make)
        make(tmp_path / "photos")
        with pytest.raises(ConfigError, match=reason):
            train(*FEDDF, f"after.images={tmp_path / 'photos'}")

    def test_a_run_goes_on_with_the_images_that_it_began_with(
        self, train: Train, tmp_path: Path
    ) -> None:
        making.tree(tmp_path / "photos", ["any"], 5)
        words = [*FEDDF, f"after.images={tmp_path / 'photos'}", "run_id=ended"]
        with (
            patch.object(final_stage, "stage_line", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            train(*words)
        ended = tmp_path / "runs" / "ended"
        assert read_entries(ended)["stage_data_version"]
        making.save(tmp_path / "photos" / "more.png", 5)
        resume = whole_words([f"resume={ended}"])
        with pytest.raises(ConfigError, match=r"the images of after\.images have changed since"):
            train(*resume)
        (tmp_path / "photos" / "more.png").unlink()
        train(*resume)
        assert read_entries(ended)["status"] == "completed"

    def test_without_test_images_a_directory_is_needed(self, train: Train, tmp_path: Path) -> None:
        making.tree(tmp_path / "images", ["dog", "cat"], 10)
        words = ["data=folder", f"data.root={tmp_path / 'images'}", "data.test_share=0"]
        with pytest.raises(ConfigError, match=r"after.images=None: there are no test images"):
            train(*words, "num_clients=2", *FEDDF)


def test_a_list_of_grey_images_fits_a_data_set_in_colour(tmp_path: Path) -> None:
    pixels = np.full((8, 8), 100, dtype=np.uint8)
    for name in ("a.png", "b.png"):
        Image.fromarray(pixels).save(tmp_path / name)
    source = compose_experiment(["data=cifar10", f"data.root={tmp_path}"]).source()
    found = open_unlabelled(str(tmp_path), source)
    assert found.images.shape == (2, 32, 32, 3)
