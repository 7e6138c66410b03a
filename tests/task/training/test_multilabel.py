"""Examples with any number of labels: data, rules, loss, metrics, and runs on them."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf
from sklearn import metrics as of_sklearn
from torch.nn import functional

from server_app.config.choices import CONF
from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment
from server_app.runs.records.run_record import read_entries
from task import registry
from task.config import Loss, Task
from task.data.federated import federate
from task.data.image_store.store import open_dataset
from task.data.site_data import federate_site
from task.data.sources.families.schema_file import parsed
from task.data.sources.table import Table
from task.data.sources.vectors import Vectors
from task.errors import ConfigError, DataError
from task.rules import of_task
from task.site import Site
from task.training.evaluation import score_logits
from task.training.multilabel import scores
from task.training.multilabel.rules import problems
from task.training.worker import Worker
from tests.conftest import rows, with_slow
from tests.task.data import making, tables
from univarfl import load_run
from univarfl.analysis.analyse import analyse
from univarfl.inference.export import export
from univarfl.inference.predict import predict
from univarfl.records.reader import read_run
from univarfl.records.scores import read_by_class
from univarfl.records.trained import local_config_of
from univarfl.report.split.report import report_split
from univarfl.report.write import report

FITTING = {
    "fedavg", "fedbn", "feddecorr", "feddyn", "fedexp", "fedlesam", "fednova", "fedper", "fedprox",
    "fedrep", "moon", "scaffold", "stochdepth",
}  # fmt: skip
SMALL = (
    "num_clients=3", "partition=iid", "local_epochs=3", "rounds=3", "optim.lr=0.3",
    "watch.tensorboard=false", "federation.workers=1",
)  # fmt: skip
UNIVARFL = {
    "name": "univarfl", "energy_weight": 0.5, "variance_weight": None, "energy_eps": None,
    "hinge": "variance",
}  # fmt: skip
REFERRED: dict[str, dict[str, str]] = {  # settings whose files refer to other settings
    "feduv": {"sigma": "paper"}, "fedalign": {"subblock": "paper"},
}  # fmt: skip
METHODS = registry.names("method")
ALSO = ("method=univarfl", "method.variance_weight=0")
IMAGES = "image,labels\na.png,warm|pale\nb.png,\nc.png, pale \nd.png,warm\n"


def words(root: Path, *more: str) -> list[str]:
    method = () if any(word.startswith("method=") for word in more) else ("method=fedavg",)
    return ["task=multilabel", "data=vectors", f"data.root={root}", *method, *more]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables.of_labels(tmp_path_factory.mktemp("labels") / "rows")


@pytest.fixture(scope="module")
def experiment(table: Path) -> Experiment:
    return compose_experiment(words(table, "alpha=0.5", "num_clients=3"))


@pytest.fixture
def trained(train_by: Callable[[list[str]], Path]) -> Callable[..., Path]:
    """Return a function that trains on a directory's table, and returns the run's directory."""
    return lambda root, *more: train_by(words(root, *SMALL, *more))


def test_rows_have_labels_and_are_split_by_their_combination(
    experiment: Experiment, table: Path
) -> None:
    dataset = federate(experiment.local()).dataset
    written = pd.read_csv(table / "rows.csv")[list(tables.LABELS)]
    assert dataset.classes == tables.LABELS
    assert dataset.targets is not None
    assert np.array_equal(dataset.targets, written)
    combinations = list(map(tuple, written.to_numpy().tolist()))
    assert len(dataset.label_names) == len(set(combinations)) == 8
    names = [dataset.label_names[label] for label in dataset.labels]
    assert names[0] == " + ".join(written.columns[written.iloc[0] == 1])
    assert len(set(zip(names, combinations, strict=True))) == 8
    every = np.arange(len(written))
    assert dataset.images_of_class(every).tolist() == written.sum().tolist()
    assert "8 combinations of 3 labels" in dataset.notes[0]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("", "line 2: no warm; each label of each row must be known"),
        ("-1", "line 2: warm is '-1', not yes or no"),
    ],
)
def test_a_label_is_yes_or_no(
    experiment: Experiment, table: Path, tmp_path: Path, cell: str, message: str
) -> None:
    found = pd.read_csv(table / "rows.csv", dtype=str)
    found.loc[0, "warm"] = cell
    found.to_csv(tmp_path / "rows.csv", index=False)
    source = experiment.source()
    assert isinstance(source, Vectors)
    with pytest.raises(DataError, match=message):
        open_dataset(replace(source, root=str(tmp_path)))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["warm"], r"labels.*two columns or more; for one, use label"),
        (["warm", "x1"], r"x1: is there twice"),
        (None, r"label.*is needed, the column of the class, or else labels"),
    ],
)
def test_schemas_with_wrong_labels_are_refused(
    experiment: Experiment, labels: list[str] | None, message: str
) -> None:
    content = experiment.data["schema_content"] | {"labels": labels}
    with pytest.raises(ConfigError, match=message):
        parsed(content)


def test_images_of_a_table_have_labels(tmp_path: Path) -> None:
    for index, name in enumerate("abcd"):
        making.save(tmp_path / f"{name}.png", index)
    (tmp_path / "images.csv").write_text(IMAGES)
    plain = Table(root=str(tmp_path), image_size=32, classes=None, test_share=0.0)
    dataset = open_dataset(plain.with_labels())
    assert dataset.classes == ("pale", "warm")
    assert dataset.targets is not None
    assert dataset.targets.tolist() == [[1, 1], [0, 0], [1, 0], [0, 1]]
    assert dataset.label_names == ["no label", "warm", "pale", "pale + warm"]
    given = replace(plain, classes=["warm", "cold"]).with_labels()
    with pytest.raises(DataError, match="line 2: label 'pale', but the experiment's labels are"):
        open_dataset(given)
    with pytest.raises(DataError, match="no column label; list"):
        open_dataset(plain)


def test_a_site_and_its_coordinator_have_the_labels_of_the_schema(
    experiment: Experiment, table: Path, tmp_path: Path
) -> None:
    local = experiment.local().model_copy(
        update={"partition": {"name": "sites", "names": ["north", "south"]}, "num_clients": 2,
                "data": experiment.data | {"root": None}},
    )  # fmt: skip
    local.__dict__.pop("_components", None)
    settings = {"site": "north", "data-dir": str(table), "memory-dir": str(tmp_path)}
    own = federate_site(local, Site.from_node_config(settings)).dataset
    coordinator = Worker(local)
    assert own.classes == coordinator.data.dataset.classes == tables.LABELS
    assert coordinator.data.dataset.label_names == []
    assert coordinator.test(coordinator.initial_weights()).means == {}


@pytest.mark.parametrize(
    "name", with_slow(METHODS, set(METHODS) - {"fedavg", "fedntd", "scaffold", "univarfl"})
)
def test_methods_for_one_class_are_refused(name: str, experiment: Experiment) -> None:
    file = OmegaConf.load(CONF / "method" / f"{name}.yaml")
    found = OmegaConf.to_container(file)
    assert isinstance(found, dict)
    settings = {**found.get("method", found), **REFERRED.get(name, {})}
    changed = experiment.local().model_copy(update={"method": settings})
    keys = [error.key for error in problems(changed)]
    assert keys == ([] if name in FITTING else ["method"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"method": UNIVARFL},
            r"add method\.variance_weight=0, .* or choose",
        ),
        ({"train": Loss(class_weights="balanced", label_smoothing=0.0)}, "by its class"),
        ({"train": Loss(class_weights="none", label_smoothing=0.1)}, "spreads a label over all"),
        ({"after": {"name": "ccvr"}}, "one class of each image.*choose after=none or finetune"),
    ],
)
def test_what_is_defined_for_one_class_is_refused(
    experiment: Experiment, changes: dict[str, Any], message: str
) -> None:
    (error,) = problems(experiment.local().model_copy(update=changes))
    assert re.search(message, str(error))


def test_univarfl_fits_without_the_variance(experiment: Experiment) -> None:
    method = UNIVARFL | {"variance_weight": 0.0}
    assert not list(problems(experiment.local().model_copy(update={"method": method})))


def test_the_task_must_be_that_of_the_data(experiment: Experiment, tmp_path: Path) -> None:
    (error,) = of_task(experiment.local().model_copy(update={"task": Task()}))
    assert "data.schema has labels; add task=multilabel" in str(error)
    people = tables.write(tmp_path / "people", tables.people_schema(), tables.people())
    with pytest.raises(ConfigError, match=r"data\.schema has label, one class for each row"):
        compose_experiment(words(people))


def test_the_loss_is_that_of_each_label_and_is_computed_in_float32() -> None:
    logits, y = torch.randn(5, 3), torch.randint(0, 2, (5, 3)).float()
    chances = logits.sigmoid()
    expected = -(y * chances.log() + (1 - y) * (1 - chances).log()).mean()
    assert torch.allclose(scores.entropy(logits, y), expected)
    assert scores.entropy(logits.bfloat16(), y).dtype == torch.float32


def test_a_client_trains_with_it(experiment: Experiment) -> None:
    worker = Worker(experiment.local())
    result = worker.train(worker.initial_weights(), 1, 0)
    assert worker.trainer.entropy is scores.entropy
    positions = worker.images.index(worker.data.clients[0].train)
    x, y = worker.images[positions]
    assert y.shape == (len(positions), 3)
    counts = worker.data.dataset.images_of_class(worker.data.clients[0].train)
    assert worker.images.counts(positions).tolist() == counts.tolist()
    worker.load(worker.initial_weights())
    before = functional.binary_cross_entropy_with_logits(worker.model(x).logits, y).item()
    worker.load(result.weights)
    after = functional.binary_cross_entropy_with_logits(worker.model(x).logits, y).item()
    assert after < result.losses["ce"] < before


def test_metrics_are_those_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 4, generator=generator)
    y = torch.randint(0, 2, (60, 4), generator=generator).float()
    y[:, 3] = 0  # nobody has it
    found, each = scores.metrics(logits, y), scores.by_label(logits, y)
    truth, said = y.numpy(), (logits > 0).numpy()
    assert found.means == pytest.approx(
        {
            "accuracy": of_sklearn.accuracy_score(truth, said),
            "label_accuracy": 1 - of_sklearn.hamming_loss(truth, said),
            "macro_f1": of_sklearn.f1_score(truth, said, average="macro"),
            "balanced_accuracy": np.mean(
                [of_sklearn.balanced_accuracy_score(truth[:, i], said[:, i]) for i in range(3)]
            ),
            "loss": functional.binary_cross_entropy_with_logits(logits, y).item(),
        }
    )
    assert each.means()["auroc"] == pytest.approx(
        of_sklearn.roc_auc_score(truth[:, :3], logits[:, :3].numpy(), average="macro")
    )
    recall = of_sklearn.recall_score(truth[:, :3], said[:, :3], average=None)
    assert [value for _, value in found.recall.values()] == pytest.approx(recall.tolist())
    assert [one.sensitivity for one in each.classes] == pytest.approx([*recall.tolist(), None])
    assert each.classes[3].auroc is None
    assert not each.confusion
    score = score_logits(logits, y)
    assert score.correct == (truth == said).all(axis=1).sum() <= score.examples == 60


def test_metrics_of_logits_that_are_not_finite_are_undefined() -> None:
    logits, y = torch.full((4, 2), torch.nan), torch.tensor([[0.0, 1.0]] * 2 + [[1.0, 0.0]] * 2)
    assert np.isnan(scores.score(logits, y).loss)
    assert scores.by_label(logits, y).means() == {}


def test_a_run_is_scored_and_its_model_predicts(
    table: Path, trained: Callable[..., Path], tmp_path: Path
) -> None:
    run = trained(table)
    results = read_entries(run)["results"]["test"]
    assert results["auroc"] > 0.7
    assert results["label_accuracy"] > results["accuracy"]
    assert not (run / "confusion.csv").exists()
    by_class = read_by_class(run, tables.LABELS, multilabel=True)
    assert by_class is not None
    dataset = open_dataset(local_config_of(read_run(run)).source())
    counts = dataset.images_of_class(dataset.test).tolist()
    assert [each.images for each in by_class.classes] == counts
    assert read_run(run).recall.keys() == {0, 1, 2}
    predict(run, [str(table / "rows.csv")], tmp_path / "out.csv", "cpu")
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    chances = found[[f"p_{name}" for name in tables.LABELS]].to_numpy()
    assert chances.sum(axis=1).max() > 1.1
    said = ["|".join(np.array(tables.LABELS)[row > 0.5]) for row in chances]
    assert found["class"].tolist() == said
    truth = pd.read_csv(table / "rows.csv")[list(tables.LABELS)].to_numpy()
    right = ((chances > 0.5) == truth)[dataset.test]
    assert right.mean() == pytest.approx(results["label_accuracy"])
    assert right.all(axis=1).mean() == pytest.approx(results["accuracy"])


@pytest.mark.slow
def test_a_model_is_exported_and_its_run_is_reported(
    table: Path, trained: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(table)
    frame = pd.read_csv(table / "rows.csv")
    chances = load_run(run).predict(frame)[[f"p_{name}" for name in tables.LABELS]].to_numpy()
    export(run, tmp_path / "model", ["pt2"])
    values = torch.tensor(frame.iloc[:, :6].to_numpy(), dtype=torch.float32)
    exported = torch.export.load(tmp_path / "model" / "model.pt2").module()(values).numpy()
    assert np.abs(exported - chances).max() < 1e-5
    card = (tmp_path / "model" / "model_card.md").read_text()
    assert "3 labels, any number of which an example has" in card
    assert "Each label has a probability of its own" in card
    assert "Confusion" not in card
    report(run, tmp_path / "report")
    assert (
        "share of examples whose labels are all right"
        in (tmp_path / "report" / "index.html").read_text()
    )
    tested_by = pd.read_csv(tmp_path / "report" / "tables" / "metrics_by_class.csv")
    assert tested_by["class"].tolist() == list(tables.LABELS)
    analyse([run], ["cost"], 10)
    assert "its images have several labels" in "".join(capsys.readouterr())


@pytest.mark.slow
def test_the_split_of_labels_is_shown(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_split(compose_experiment(words(table, "num_clients=3")), tmp_path / "split")
    shown = rows(tmp_path / "split", "split.csv")
    assert sum(int(row["images"]) for row in shown) == 120
    assert "tired + warm" in {row["class"] for row in shown}
    assert "8 combinations of 3 labels" in capsys.readouterr().out


MORE = [
    ("secure=masked",),
    ("privacy=example", "data.standardise=none", "privacy.reproducible=true"),
    ("runtime=graphed",),
    ("runtime.precision=bfloat16",),
    ("after=finetune",),
    ("strategy=fedadam",),
    ALSO,
    *((f"method={name}",) for name in sorted(FITTING - {"fedavg", "stochdepth", "fedbn"})),
]


@pytest.mark.parametrize("more", with_slow(MORE, MORE), ids=" ".join)
def test_other_options_train(
    more: tuple[str, ...], table: Path, trained: Callable[..., Path]
) -> None:
    run = trained(table, "rounds=1", "local_epochs=2", *more)
    assert read_entries(run)["status"] == "completed"
