"""Which code and which data make two runs the same."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_app.config.composition import compose_experiment
from server_app.runs import identity
from server_app.runs.identity import code_of, component_modules, shared_modules
from server_app.runs.records.run_record import read_entries
from tests.conftest import SMALL, Train
from tests.server_app.runs.reached import FOLDERS, all_components, reached_modules
from tests.server_app.runs.recorded import record, write_entries
from tests.task.data import making
from univarfl.records.reader import read_runs
from univarfl.report.comparability import comparability
from univarfl.report.summary import Summary
from univarfl.sweeps.cells import cells_of
from univarfl.sweeps.ledger import ExistingRuns

ROOT = Path(__file__).parents[3]
# Modules that a run imports and that cannot change its result, with the reason.
HARMLESS = {
    "server_app.app": "opens and closes the record around a run",
    "server_app.config": "turns words into settings, which are compared themselves",
    "server_app.flower": "holds the private interfaces of Flower that move messages",
    "server_app.runs": "writes and reads records; SHARED has the checkpoint",
    "server_app.tracking": "shows metrics",
    "task.analysis": "reads models after a run",
    "task.approval": "refuses what an owner has not approved",
    "task.error_messages": "words errors",
    "task.plain_text": "words errors",
    "task.errors": "words errors",
    "task.machine.files": "reads and writes whole files, and notices damaged ones",
    "task.fingerprint": "compares the code of server and clients",
    "task.machine": "measures memory, and names directories",
    "task.methods.families.conflicts": "refuses combinations of methods, and changes none",
    "task.progress": "tells the bars on a terminal what has been done",
    "task.rules": "refuses settings that do not fit together, and changes none",
    "task.tensors": "names a type",
    "task.site": "reads a site's own limits, which the site enforces",
}  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the code, which `identity` reads instead."""
    place = tmp_path / "code"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("*.pyc"))

    def source_of(module: str) -> Path | None:
        path = place.joinpath(*module.split("."))
        found = [path / "__init__.py", path.with_suffix(".py")]
        return next((each for each in found if each.exists()), None)

    monkeypatch.setattr(identity, "source_of", source_of)
    forget()
    yield place
    monkeypatch.undo()
    forget()


def forget() -> None:
    identity.shared_hash.cache_clear()
    identity.component_hash.cache_clear()


def versions(*words: str) -> identity.Code:
    forget()
    return code_of(compose_experiment(list(words)).model_dump())


def change(path: Path) -> None:
    path.write_text(f"{path.read_text()}\n# a comment\n")


def test_code_that_a_run_does_not_use_does_not_count(copy: Path) -> None:
    before = versions("method=fedavg")
    change(copy / "univarfl" / "deploy" / "systemd.py")
    change(copy / "univarfl" / "report" / "write.py")
    change(copy / "task" / "methods" / "moon.py")
    (copy / "task" / "methods" / "brand_new.py").write_text("VALUE = 1\n")
    (copy / "server_app" / "aggregation" / "strategies" / "brand_new.py").write_text("VALUE = 1\n")
    assert versions("method=fedavg") == before


@pytest.mark.parametrize(
    "path",
    [
        "task/methods/fedavg.py", "task/methods/base.py", "task/models/resnet56.py",
        "task/models/layers/residual.py", "task/training/loop.py", "task/data/sources/pacs.py",
        "task/data/sources/families/domains.py", "server_app/aggregation/strategies/fedadam.py",
        "server_app/aggregation/strategies/families/weighted.py",
        "server_app/aggregation/guards/none.py", "server_app/runs/checkpoint.py",
        "client_app/work_unit.py",
    ],
)  # fmt: skip
def test_code_that_decides_a_result_counts(copy: Path, path: str) -> None:
    words = ("method=fedavg", "model=resnet56", "data=pacs", "strategy=fedadam", "guard=none")
    before = versions(*words)
    change(copy / path)
    assert versions(*words) != before


@pytest.mark.parametrize("model", ["cnn", "lenet", "resnet56"])
def test_what_a_base_class_imports_by_name_counts(copy: Path, model: str) -> None:
    words = (f"model={model}", "model.pan=add")
    before = versions(*words)
    change(copy / "task" / "models" / "layers" / "position.py")
    after = versions(*words)
    changed = {
        name for name in after.components if after.components[name] != before.components[name]
    }
    assert changed == {f"task.models.{model}"}
    assert after.shared == before.shared


def test_each_of_several_methods_counts(copy: Path) -> None:
    before = versions("method=moon+fedprox")
    assert {"task.methods.moon", "task.methods.fedprox"} < set(before.components)
    change(copy / "task" / "methods" / "moon.py")
    after = versions("method=moon+fedprox")
    assert after.shared == before.shared
    assert [
        name for name in after.components if after.components[name] != before.components[name]
    ] == ["task.methods.moon"]


def test_every_module_that_a_run_imports_counts_or_is_declared_harmless() -> None:
    covered = shared_modules().union(*map(component_modules, all_components()))
    reached = reached_modules()
    assert len(reached) > 100
    declared = tuple(f"{name}." for name in HARMLESS)
    missing = {name for name in reached - covered if not f"{name}.".startswith(declared)}
    packages = {name for name in missing if identity.source_of(name).name == "__init__.py"}  # type: ignore[union-attr]
    assert missing - packages == set(), "add them to identity.SHARED, or to HARMLESS here"


def folder(place: Path) -> list[str]:
    """Words of a small run on images in a directory."""
    root = making.tree(place / "images", ["cat", "dog"], 12)
    words = ["data=folder", f"data.root={root}", "num_clients=2", "partition.min_images=3"]
    return [*words, "data.image_size=8", "model=resnet56", "rounds=1"]


def test_a_run_on_other_images_does_not_complete_a_cell(train: Train, tmp_path: Path) -> None:
    words = folder(tmp_path)
    run = train(*words)
    (cell,) = cells_of([*SMALL, *words])
    assert ExistingRuns(run.parent).completed(cell) == run
    image = tmp_path / "images" / "cat" / "pic_000.png"
    image.touch()  # the same image, written at another time
    assert ExistingRuns(run.parent).completed(cell) == run
    making.save(image, 100)
    existing = ExistingRuns(run.parent)
    assert existing.completed(cell) is None
    assert existing.outdated(cell) == run
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    assert ExistingRuns(run.parent).completed(cell) == run  # nothing shows that they differ


def test_a_run_that_kept_no_models_does_not_complete_a_cell_that_keeps_them(train: Train) -> None:
    words = ["method=fedavg", "rounds=2"]
    run = train(*words)
    (plain,), (keeping,) = (
        cells_of([*SMALL, *words]),
        cells_of([*SMALL, *words, "watch.models_every=1"]),
    )
    assert ExistingRuns(run.parent).completed(plain) == run
    assert ExistingRuns(run.parent).completed(keeping) is None
    kept = train(*words, "watch.models_every=1")
    assert ExistingRuns(run.parent).completed(keeping) == kept


def test_runs_on_different_images_are_not_pooled(tmp_path: Path) -> None:
    for name, version in (("a", "1" * 24), ("b", "2" * 24), ("c", None), ("d", None)):
        run = record(tmp_path, name, [f"seed={'abcd'.index(name)}"], [0.1, 0.5])
        write_entries(run, read_entries(run) | {"data_version": version})
    summary = Summary(read_runs(tmp_path).runs)
    assert [setting for setting, _ in summary.counted] == [
        "images 11111111", "images 22222222", "images unknown"
    ]  # fmt: skip
    assert summary.accuracies()["seeds"].tolist() == [1, 1, 2]
    (warning,) = comparability(summary)
    assert "trained on different images; they are not pooled" in warning


def test_different_code_is_named(tmp_path: Path) -> None:
    for name, version in (("a", "1"), ("b", "2")):
        run = record(tmp_path, name, ["method=moon", f"seed={version}"], [0.1, 0.5])
        components = read_entries(run)["components"] | {"task.methods.moon": version}
        write_entries(run, read_entries(run) | {"components": components})
    assert comparability(Summary(read_runs(tmp_path).runs)) == [
        "The runs were made by different code: task.methods.moon (2 versions)."
    ]
