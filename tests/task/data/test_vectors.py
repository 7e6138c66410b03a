"""Tables of numbers: the schema, the vectors, the split, and runs on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.data.batches import DeviceImages
from task.data.dataset import ImageDataset
from task.data.federated import federate
from task.data.image_store.store import open_dataset
from task.data.site_data import federate_site
from task.data.sources.vectors import Vectors
from task.errors import ConfigError, DataError
from task.site import Site
from tests.conftest import sha256, with_slow
from tests.task.data import tables
from univarfl import load_run
from univarfl.inference.export import export
from univarfl.inference.predict import predict
from univarfl.report.split.report import report_split

Change = Callable[[dict[str, Any]], object]


def words(root: Path, *more: str) -> list[str]:
    return ["data=vectors", f"data.root={root}", *more]


def opened(root: Path, *more: str) -> ImageDataset:
    return open_dataset(compose_experiment(words(root, *more)).local().source())


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return tables.write(tmp_path / "people", tables.people_schema(), tables.people())


def test_a_row_becomes_one_vector(people: Path) -> None:
    data = opened(people)
    names = [each.name for each in source(people).schema_content.encoded]
    assert names == [
        "Age", "dose", "dose missing", "blood=A", "blood=B", "blood=0", "blood missing", "smokes",
    ]  # fmt: skip
    assert data.images.shape == (tables.PEOPLE, 1, 1, 8)
    assert data.images.dtype == np.float32
    rows = data.images[:, 0, 0]
    assert rows[0].tolist() == [20, -0.5, 0, 1, 0, 0, 0, 0]
    assert np.isnan(rows[3, 0])
    assert rows[3, 1:].tolist() == [np.float32(-0.425), 0, 0, 0, 0, 1, 0]
    assert np.isnan(rows[4, 1])
    assert rows[4, 2] == 1
    assert data.classes == ("no", "yes")
    assert data.labels.tolist() == [index // 4 % 2 for index in range(tables.PEOPLE)]
    assert data.domains == ("north", "south")


def source(root: Path, *more: str) -> Vectors:
    found = compose_experiment(words(root, *more)).local().source()
    assert isinstance(found, Vectors)
    return found


def test_numbers_are_standardised_and_a_missing_one_is_the_mean(people: Path) -> None:
    images = DeviceImages(opened(people, "data.standardise=schema"), torch.device("cpu"))
    x, _ = images[torch.tensor([0, 3, 4])]
    assert x.shape == (3, 8, 1, 1)
    assert x[0].flatten().tolist() == [-3, -1, 0, 1, 0, 0, 0, 0]
    assert x[1, 0].item() == 0
    assert x[2, 1:3].flatten().tolist() == [0, 1]


def test_parquet_gives_the_same_vectors_as_csv(people: Path) -> None:
    before = opened(people)
    frame = pd.read_csv(people / "rows.csv", dtype={"blood": str}, keep_default_na=False)
    frame["Age"] = pd.to_numeric(frame["Age"])
    frame.to_parquet(people / "rows.parquet")
    with pytest.raises(DataError, match=r"has rows\.csv and rows\.parquet; remove one of them"):
        opened(people)
    (people / "rows.csv").unlink()
    assert opened(people).content == before.content


def test_a_schema_in_toml_is_the_same(people: Path) -> None:
    before = opened(people)
    lines = ['client = "hospital"', 'subject = "patient"', "[label]", 'name = "ill"']
    lines += ['classes = ["no", "yes"]']
    for column in tables.people_schema()["columns"]:
        lines += ["[[columns]]", *(f"{key} = {value!r}" for key, value in column.items())]
    (people / "schema.yaml").unlink()
    (people / "schema.toml").write_text("\n".join(lines))
    assert opened(people).content == before.content


def test_a_subject_is_on_one_side(people: Path) -> None:
    data = opened(people, "data.test_share=0.3")
    assert 8 <= len(data.test) <= 14
    assert data.subject_of is not None
    assert not set(data.subject_of[data.test]) & set(data.subject_of[data.train])


def test_each_client_of_the_client_column_is_one_client(people: Path) -> None:
    few = ["partition=natural", "num_clients=2", "partition.min_images=3"]
    data = federate(compose_experiment(words(people, *few)).local())
    for client, split in data.clients.items():
        own = np.concatenate([split.train, split.validation])
        assert set(data.dataset.domain_of[own]) == {client}


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (1, "smokes", "", r"line 3: no smokes; write one, or set missing:"),
        (2, "Age", "121", r"line 4: Age is '121', outside 0 to 120, the schema's low and high"),
        (2, "Age", "1,5", r"line 4: Age is '1,5', not a number; write a point before decimals"),
        (2, "Age", "inf", r"line 4: Age is 'inf', not a finite number"),
        (0, "blood", "C", r"line 2: blood is 'C', not one of the schema's categories: A, B, 0"),
        (0, "smokes", "maybe", r"line 2: smokes is 'maybe', not yes or no"),
        (0, "ill", "perhaps", r"line 2: label 'perhaps', but the schema's classes are no, yes"),
        (0, "patient", "", r"line 2: no subject"),
    ],
)
def test_cells_that_the_schema_does_not_allow_are_named(
    tmp_path: Path, row: int, column: str, value: str, message: str
) -> None:
    rows = tables.people()
    rows[row][column] = value
    tables.write(tmp_path, tables.people_schema(), rows)
    with pytest.raises(DataError, match=message):
        opened(tmp_path)


def column(**changes: object) -> Change:
    return lambda schema: schema["columns"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (column(low=None), r"schema=Age\.low: is needed for a number"),
        (column(low=130), r"schema=Age\.high: must be above low"),
        (column(deviation=0), r"schema=Age\.deviation: must be above 0"),
        (column(type="flag"), r"schema=Age\.low: is for numbers, and this is a flag"),
        (column(type="text"), r"columns\.0\.type=text: "),
        (column(colour="red"), r"columns\.0\.colour=red: unknown key"),
        (column(name="dose"), r"schema=dose: is there twice; give each column one meaning"),
        (column(name="ill"), r"schema=ill: is there twice"),
        (column(categories=["a", "b"]), r"schema=Age\.categories: are for type: category"),
        (lambda s: s["columns"][3].update(missing="mean"), r"smokes\.missing: must be refuse or"),
        (lambda s: s["columns"][2].update(categories=["A"]), r"must be two or more different"),
        (lambda s: s.update(columns=[]), r"columns: must list at least one column"),
        (lambda s: s["label"].update(classes=["no"]), r"label\.classes: must be at least two"),
        (lambda s: s.pop("label"), r"label: is needed"),
        (column(mean=None), r"data\.standardise=schema: needs mean and deviation of Age"),
    ],
)
def test_schemas_that_cannot_be_used_are_refused(
    tmp_path: Path, change: Change, message: str
) -> None:
    schema = tables.people_schema()
    change(schema)
    tables.write(tmp_path, schema, tables.people())
    with pytest.raises(ConfigError, match=message):
        compose_experiment(words(tmp_path, "data.standardise=schema"))


@pytest.mark.parametrize("text", ["columns: [", "7", "columns: 2020-01-01", "\x00", "a: .nan"])
def test_other_texts_are_no_schema(people: Path, text: str) -> None:
    (people / "schema.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"data\.schema=.*schema\.yaml"):
        compose_experiment(words(people))


def test_a_schema_is_needed(people: Path) -> None:
    schema = (people / "schema.yaml").rename(people.parent / "other.yaml")
    with pytest.raises(ConfigError, match=r"no schema\.yaml or schema\.toml in data\.root"):
        compose_experiment(words(people))
    assert len(opened(people, f"data.schema={schema}").labels) == tables.PEOPLE
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: no such file"):
        compose_experiment(words(people, f"data.schema={people / 'none.yaml'}"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["data.image_size=32"], r"data\.image_size"),
        (["data.resize=crop"], r"data\.resize"),
        (["data.normalisation=half"], r"is for images; rows have data\.standardise"),
        (["augmentation=crop_flip"], r"augmentation=crop_flip: changes images"),
        (["model=cnn"], r"model=cnn: needs images; add model=mlp"),
        (["model=linear"], r"model\.features=784: must be 1 with data=vectors"),
        (["method=fedalign"], r"needs residual blocks"),
        (["method=stochdepth"], r"needs residual blocks"),
        (["method=gradaug"], r"needs residual blocks"),
        (["model.hidden=[0]"], r"each width must be from 1 to 65536"),
        (["data.standardise=none"], r"must not be none: Age of the schema has missing: mean"),
    ],
)
def test_settings_of_images_are_refused(people: Path, more: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose_experiment(words(people, *more))


def test_images_are_not_for_the_mlp() -> None:
    with pytest.raises(ConfigError, match=r"needs rows of numbers \(data=vectors\)"):
        compose_experiment(["data=digits", "model=mlp"])


def site(root: Path) -> Site:
    return Site.from_node_config({"site": "north", "data-dir": str(root), "memory-dir": str(root)})


def test_a_site_needs_the_same_schema_as_the_experiment(people: Path, tmp_path: Path) -> None:
    sites = ["partition=sites", "partition.names=[north,south]"]
    schema = tmp_path / "coordinator.yaml"
    schema.write_text((people / "schema.yaml").read_text())
    local = compose_experiment(["data=vectors", f"data.schema={schema}", *sites]).local()
    own = federate_site(local, site(people))
    assert len(own.dataset.train) == tables.PEOPLE
    nothing = federate(local)
    assert nothing.dataset.images.shape == (0, 1, 1, 8)
    assert nothing.dataset.classes == ("no", "yes")
    other = tables.people_schema()
    other["columns"][0]["unit"] = "months"
    (people / "schema.yaml").write_text(yaml.safe_dump(other))
    with pytest.raises(DataError, match=r"column Age is not as in the experiment's schema"):
        federate_site(local, site(people))
    (people / "schema.yaml").unlink()
    with pytest.raises(DataError, match=r"the owner of the rows puts the schema there"):
        federate_site(local, site(people))


FEW = [
    ("method=univarfl",),
    ("method=scaffold", "model=linear", "model.features=1"),
    ("method=fedrcl", "model.activation=tanh", "model.hidden=[]"),
    ("secure=masked", "method=fedavg"),
]
MANY = [
    *((f"method={name}",) for name in ("fedprox", "moon", "feduv", "fednova", "feddyn")),
    *((f"method={name}",) for name in ("fedntd", "mixup", "fedper", "fedetf", "fedlesam")),
    ("strategy=fedadam",),
    ("privacy=example", "method=fedavg", "data.standardise=none"),
    ("runtime=graphed", "method=fedavg"),
]
SMALL = (
    "engine=inprocess", "num_clients=4", "partition=iid", "local_epochs=2", "rounds=3",
    "optim.lr=0.1", "watch.tensorboard=false",
)  # fmt: skip


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables.of_sklearn(tmp_path_factory.mktemp("wine"), "wine")


@pytest.fixture
def trained(train_by: Callable[[list[str]], Path]) -> Callable[..., Path]:
    """Return a function that trains on a directory's table, and returns the run's directory."""
    return lambda root, *more: train_by(words(root, *SMALL, *more))


def test_a_run_learns_and_its_model_predicts_and_is_exported(
    wine: Path, trained: Callable[..., Path], tmp_path: Path
) -> None:
    run = trained(wine, "rounds=5")
    assert read_entries(run)["results"]["test"]["accuracy"] > 0.9
    predict(run, [str(wine / "rows.csv")], tmp_path / "out.csv", "cpu")
    found = pd.read_csv(tmp_path / "out.csv")
    assert found.columns[:2].tolist() == ["row", "class"]
    rows = pd.read_csv(wine / "rows.csv")
    assert (found["class"] == rows["class"]).mean() > 0.9
    frame = load_run(run).predict(rows.drop(columns="class"))
    assert frame["class"].tolist() == found["class"].tolist()
    export(run, tmp_path / "model", ["pt2"])
    values = torch.tensor(rows.drop(columns="class").to_numpy(), dtype=torch.float32)
    exported = torch.export.load(tmp_path / "model" / "model.pt2").module()(values).numpy()
    assert np.abs(exported - found.iloc[:, 2:].to_numpy()).max() < 1e-5
    card = (tmp_path / "model" / "model_card.md").read_text()
    assert "`rows`: float32 [rows, 13]" in card
    assert "proline" in card


@pytest.mark.parametrize(
    "more",
    with_slow(FEW + MANY, MANY),
)
def test_methods_that_need_logits_and_features_alone_train(
    more: tuple[str, ...], wine: Path, trained: Callable[..., Path]
) -> None:
    run = trained(wine, "rounds=1", "local_epochs=1", *more)
    assert read_entries(run)["status"] == "completed"


def test_the_number_of_workers_does_not_change_a_bit(
    people: Path, trained: Callable[..., Path]
) -> None:
    few = ["partition.min_images=3", "num_clients=3", "method=scaffold"]
    first, second = (trained(people, *few, f"federation.workers={n}") for n in (1, 2))
    assert sha256(first) == sha256(second)


def test_a_split_is_shown_without_pictures_of_rows(wine: Path, tmp_path: Path) -> None:
    report_split(compose_experiment(words(wine, "num_clients=3")), tmp_path / "split")
    assert {path.name for path in (tmp_path / "split").iterdir()} == {"split.csv", "split.png"}
