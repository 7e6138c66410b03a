"""The generated reference: it is complete, and it agrees with a run."""

import pytest

import univarfl
from docs.generator import api, commands, run_files, settings
from docs.generator.components import GROUPS, Setting
from docs.generator.components import settings as settings_of
from server_app.config.composition import compose_experiment
from server_app.config.override_text import flat
from server_app.runs.records.run_record import read_entries
from task import registry
from tests.conftest import Train

COMPONENTS = [(group, name) for group in GROUPS for name in registry.names(group)]
OF_SOME_RECORDS = {
    "after", "client_parts", "forgotten", "personal", "privacy", "resumed", "resumed_from",
    "restartable", "statistics",
}  # fmt: skip
OF_SOME_RUNS = {
    "analysis/", "checkpoints/", "clients/", "clients.parquet", "flower.log", "models/",
    "running_jobs/", "sums/", "tensorboard/",
}  # fmt: skip


def incomplete(found: list[Setting]) -> list[str]:
    """Return the keys that lack a type, a default or a meaning."""
    return [each.key for each in found if not (each.kind and each.default and each.meaning)]


def test_every_general_setting_has_a_type_a_default_and_a_meaning() -> None:
    for found in settings.sections().values():
        assert found
        assert incomplete(found) == []


@pytest.mark.parametrize(
    ("group", "name"), COMPONENTS, ids=lambda each: getattr(each, "name", each)
)
def test_every_setting_of_a_component_has_a_type_a_default_and_a_meaning(
    group: str, name: str
) -> None:
    assert incomplete(settings_of(group, name)) == []


def test_every_key_of_the_default_experiment_is_in_the_reference() -> None:
    keys = set(flat(compose_experiment([]).model_dump()))
    documented = {each.key for found in settings.sections().values() for each in found}
    documented |= {each.key for group, name in COMPONENTS for each in settings_of(group, name)}
    names = {f"{group}.name" for group in GROUPS}
    assert keys - names - set(settings.HANDLED) - documented == set()


def test_every_command_has_a_section() -> None:
    text = "".join(commands.pages().values())
    for words, command in commands.all_commands().items():
        assert f"# {words}\n" in text
        assert commands.summary(command)


def test_everything_of_the_python_interface_has_a_section() -> None:
    text = api.page() + api.runs_page() + api.parts_page()
    for name in univarfl.__all__:
        assert f"univarfl.{name}" in text
    assert "### Run.predict\n\n```python\npredict(images: " in text
    assert "- `engine`: " in text


@pytest.mark.usefixtures("curves")
def test_a_run_leaves_the_files_columns_and_keys_of_the_reference(train: Train) -> None:
    directory = train("rounds=1")
    found = {f"{path.name}/" if path.is_dir() else path.name for path in directory.iterdir()}
    found = {name for name in found if not name.startswith(".")}
    assert found - OF_SOME_RUNS == run_files.FILES.keys() - OF_SOME_RUNS
    for name, (columns, meanings) in run_files.COLUMNS.items():
        assert (directory / name).read_text().splitlines()[0].split(",") == list(columns)
        assert list(meanings) == list(columns)
    assert read_entries(directory).keys() >= run_files.RECORD.keys() - OF_SOME_RECORDS
    assert run_files.RECORD.keys() >= read_entries(directory).keys()
