"""The commands that pages show for one machine, each run by the program, with short training."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.documents import Command
from tests.task.data import making
from tests.test_docs import NEW_PARTS, PRODUCT, parsed
from univarfl.cli.main import application
from univarfl.sweeps.combinations import combinations

# In this process, as a fork server of earlier tests has another cache of images.
SHORT = {
    "rounds": "2", "local_epochs": "1", "evaluate_every": "2", "engine": "inprocess",
    "federation.workers": "1",
}  # fmt: skip
SHORT_IF_SHOWN = {"after.steps": "20"}
# Tests of their own run these: NEW_PARTS `test_examples.py`, a resume `test_resuming.py`, MLflow
# `test_loggers.py`, deployments `test_tutorials.py` and `test_masked_deployment.py`, pages
# `report/`, a site's doctor `deploy/health/`, an analysis `analysis/`, compilation
# `task/training/test_forward.py`, benchmarks `sweep/benchmark/`, tables of numbers
# and several labels `test_tutorials.py`, closed forms `rounds/closed_form/`, forgotten clients
# `univarfl/test_forgetting.py`, sums with noise `task/privacy/test_noisy_sums.py`, networks of
# others `task/test_backbones.py`, a part of them `task/test_tuning.py`, adapters
# `task/test_lora.py`, weights of the network `config/test_pretrained_weights.py`. CUDA needs a GPU.
ELSEWHERE = (
    *NEW_PARTS, "resume=", "watch.mlflow", "deploy ", "dashboard", "doctor ", "analyse ",
    "runtime=compiled", "device=cuda", "univarfl bench", "data=vectors", "runs/wine",
    "runs/extractor", "sums", "without=", "model.features=64", "lite0.safetensors",
    "vit.safetensors", "my_networks", "weights=pretrained", "task=multilabel", "runs/topics",
)  # fmt: skip
LISTS = (
    "runs/compare", "runs/mine", "runs/skew", "runs/digits", "runs/own", "runs/after", "runs/seeds",
    "runs/tuned",
)  # fmt: skip
SHOWN = {
    each.line: each for each in PRODUCT if not any(part in each.line for part in ELSEWHERE)
}.values()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, cache_of_all_digits: Path) -> Iterator[Path]:
    """Yield a directory with what the commands name: a run, directories of runs, images."""
    root = tmp_path_factory.mktemp("shown")
    scans = making.tree(root / "scans", ["zero", "one", "two"], 24)
    lines = [
        f"{image.relative_to(scans)},{image.parent.name},{('north', 'south')[number % 2]}"
        for number, image in enumerate(sorted(scans.rglob("*.png")))
    ]
    (scans / "images.csv").write_text("\n".join(["image,label,domain", *lines, ""]))
    making.tree(root / "more", ["inside"], 2)
    making.pacs(root / "PACS", 60)
    (root / "list.txt").write_text("scans/zero/pic_000.png\n")
    words = ["train", *(f"{key}={value}" for key, value in SHORT.items()), "watch.models_every=1",
             f"output_dir={root / 'runs'}"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))
        making.stl10(root / "STL10", patch, train=200)
        making.mnist(root / "mnist", train=1000)
        succeed([*words, "run_id=RUN"])
        succeed([*words, "run_id=FEDBN", "method=fedbn"])
        for name in LISTS:
            shutil.copytree(root / "runs" / "RUN", root / name / "RUN")
        yield root


def succeed(words: list[str]) -> None:
    """Run a command of the program, which must succeed."""
    result = CliRunner().invoke(application, words, prog_name="univarfl")
    assert result.exit_code == 0, result.output


def shortened(words: list[str]) -> list[str]:
    """Return the words of an experiment with short training."""
    given = {word.partition("=")[0] for word in words}
    short = SHORT | {key: value for key, value in SHORT_IF_SHOWN.items() if key in given}
    kept = [word for word in words if word.partition("=")[0] not in short]
    return [*kept, *(f"{key}={value}" for key, value in short.items())]


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN, ids=lambda each: each.line)
def test_a_shown_command_runs(
    shown: Command, place: Path, cache_of_all_digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a sweep, the last run is trained."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))
    monkeypatch.setenv("UNIVARFL_MEMORY", str(place / "memory"))
    monkeypatch.setenv("DATA", str(place))
    data = "STL10" if "experiment=stl10" in shown.line else "PACS"
    line = shown.line.replace("DIRECTORY", data)
    words = Command(shown.page, line).words[1:]
    name, parameters = parsed(Command(shown.page, line))
    overrides = [str(word) for word in parameters.get("overrides") or ()]  # type: ignore[attr-defined]
    if name == "sweep" and "--dry-run" not in words:
        last = combinations(overrides)[-1]
        name, overrides = "train", [word for word in last if not word.startswith("output_dir=")]
    succeed(["train", *shortened(overrides)] if name == "train" else words)
