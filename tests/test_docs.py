"""Every page: its length, its links, its commands."""

import hashlib
import json
import os
import re
import shutil
import tomllib
from pathlib import Path

import click
import pytest
import typer

from server_app.config.composition import compose_experiment
from task.given_weights import weights_directory
from tests.documents import (
    LINK,
    ROOT,
    Command,
    anchors,
    commands,
    every_page,
    without_blocks,
    written,
)
from univarfl.cli.main import application
from univarfl.sweeps.combinations import expand

LONGEST = 205  # lines that a person reads in one sitting
TOPICS = "labels: [a, b]\ncolumns: [{name: word, type: number, low: 0, high: 100}]\n"
LISTS = {"CHANGELOG.md", "docs/reference/networks.md"}
OTHER_PROGRAMS = (
    "cp", "export", "flwr", "git", "mkdocs", "mypy", "pip install uv", "pytest", "ray start",
    "source", "tensorboard", "uv pip install", "uv sync", "uv venv", "uvx pre-commit install",
)  # fmt: skip
SHOWN = [each for page, text in written().items() for each in commands(page, text)]
PRODUCT = [each for each in SHOWN if each.words[0] == "univarfl"]
EXPERIMENTS = ("train", "data", "deploy run")
NEW_PARTS = (
    "logit_decay",
    "half_step",
    "arrays",
    "two_layers",
)  # examples of components that a reader adds


@pytest.mark.parametrize("page", sorted(every_page().keys() - LISTS))
def test_no_page_is_too_long_for_one_sitting(page: str) -> None:
    assert len(every_page()[page].splitlines()) <= LONGEST


@pytest.mark.parametrize("page", sorted(every_page()))
def test_links_lead_to_a_page_a_file_or_a_heading(page: str) -> None:
    texts = every_page()
    for target in LINK.findall(without_blocks(texts[page])):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        place = os.path.normpath(Path(page).parent / file) if file else page
        assert place in texts or (ROOT / place).exists(), target
        assert not anchor or anchor in anchors(texts[place]), target


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text()
    pages = [place.removeprefix("docs/") for place in every_page() if place.startswith("docs/")]
    missing = [page for page in pages if page not in listed and f"{Path(page).parent}/" not in
               re.findall(r"\S+/$", listed, re.M)]  # fmt: skip
    assert missing == []


def test_pages_name_no_place_of_one_machine() -> None:
    for page, text in every_page().items():
        assert not re.search(r"/root/|/home/\w|/Users/|/work/|/tmp/", text), page


def test_every_shown_command_is_of_a_known_program() -> None:
    assert len(PRODUCT) > 10
    for shown in SHOWN:
        known = shown.words[0] in ("univarfl", "python") or shown.line.startswith(OTHER_PROGRAMS)
        assert known, shown


def test_the_benchmarks_that_pages_name_exist() -> None:
    named = {name for text in written().values() for name in
             re.findall(r"-m benchmarks\.([a-z_]+)", text)}  # fmt: skip
    assert len(named) > 5
    for name in named:
        place = ROOT / "benchmarks" / name
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), name


def test_no_version_is_of_one_build_of_pytorch() -> None:
    """So that the page on CPU builds installs the versions of the project."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name in ("torch", "torchvision"):
        pins = settings["tool"]["uv"]["constraint-dependencies"]
        (pin,) = (each for each in pins if each.startswith(f"{name}=="))
        assert re.fullmatch(rf"{name}==[\d.]+", pin)


def parsed(shown: Command) -> tuple[str, dict[str, object]]:
    """Return the command that a line calls, such as ``deploy run``, and its parameters."""
    command: click.Command = typer.main.get_command(application)
    name, words = "", shown.words[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, command = f"{name} {words[0]}".strip(), command.commands[words[0]]
        words = words[1:]
    if "--help" in words or "--version" in words or isinstance(command, click.Group):
        return name, {}
    return name, command.make_context(name, words).params


def kept(directory: Path, name: str) -> None:
    """Make a cache that has published weights, which nobody reads."""
    sha256 = hashlib.sha256().hexdigest()
    directory.mkdir()
    (directory / f"{sha256}.safetensors").touch()
    origin = {"name": name, "source": "hub", "sha256": sha256, "stored": sha256}
    (directory / f"{sha256}.json").write_text(json.dumps(origin))


def quick(shown: Command) -> bool:
    """Return whether the quick selection has the test of a command; composing settings is slow."""
    return shown.page == "README.md" or shown.page.startswith("docs/tutorials/")


@pytest.mark.parametrize(
    "shown",
    [pytest.param(each, marks=() if quick(each) else pytest.mark.slow) for each in PRODUCT],
    ids=lambda each: f"{each.page}: {each.line}",
)
def test_a_shown_command_is_understood(
    shown: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its options exist, and its settings make an experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "schema.yaml").write_text(TOPICS)
    (tmp_path / "wine").mkdir()
    for place in (tmp_path, tmp_path / "wine"):
        shutil.copy(ROOT / "tests" / "parts" / "schema.yaml", place)
    for name in ("lite0", "vit"):
        (tmp_path / f"{name}.safetensors").touch()
    (tmp_path / "my_networks.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("UNIVARFL_CACHE", str(tmp_path))
    kept(weights_directory(), "timm/resnet18.a1_in1k")
    runs = [
        tmp_path / "runs" / run for run in ("RUN", "FEDBN", "extractor", "topics", "wine", "sums")
    ]
    for run in (*runs, tmp_path / "coordinator" / "runs" / "sums"):
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        (run / "model.safetensors").touch()
    name, parameters = parsed(shown)
    words = [str(word) for word in parameters.get("overrides") or ()]  # type: ignore[attr-defined]
    needs_a_run = ("resume=", "sums.add_to=")  # that was made before
    if any(word.startswith(needs_a_run) or new in word for word in words for new in NEW_PARTS):
        return
    if name in EXPERIMENTS:
        compose_experiment(words)
    elif name == "sweep" and not any(word.startswith("sweep=") for word in words):
        cells = expand(words)
        for cell in (cells[0], cells[-1]):
            compose_experiment(cell)
