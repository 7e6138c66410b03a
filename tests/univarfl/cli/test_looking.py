"""Commands that only look: versions, choices, configurations, runs; and the shell's completion."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from server_app.runs.lock import hold
from server_app.runs.recorder import Recorder
from server_app.runs.records.run_record import read_entries
from tests.server_app.runs.recorded import record, write_entries
from tests.univarfl.cli.test_cli import run
from univarfl.cli.listing import kinds
from univarfl.cli.main import application

SMALL = ["engine=inprocess", "num_clients=4"]


def lines_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> list[str]:
    assert run(monkeypatch, *words) == 0
    return capsys.readouterr().out.splitlines()


def test_the_version_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = lines_of(monkeypatch, capsys, "--version")
    assert line.split()[0] == "univarfl"
    assert line.split()[1][0].isdigit()


@pytest.mark.parametrize("words", [(), ("sweep",)])
def test_without_words_the_help_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert lines_of(monkeypatch, capsys, *words)[0].startswith("Usage: univarfl")


def test_the_help_groups_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = lines_of(monkeypatch, capsys, "--help")
    headings = [line for line in shown if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options:", "Train:", "Sweep:", "Look:", "Use:", "Deploy:"]


@pytest.mark.parametrize("kind", kinds())
def test_everything_that_can_be_listed_has_a_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    shown = lines_of(monkeypatch, capsys, "list", kind)
    assert all(len(line.split()) > 1 for line in shown)
    if kind == "methods":
        assert [line.split()[0] for line in shown] == choices()["method"]
    if kind == "keys":
        lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in shown}
        assert lines["method.radius"] == "0.1  with method=fedlesam; 1.0  with method=fedsol"
        assert lines["optim.lr"] == "0.001  with optim=adamw; 0.01  with optim=sgd"


def values_and_sources(shown: Iterable[str]) -> dict[str, list[str]]:
    """Return the value and the source of each key in the lines of ``univarfl config``."""
    return {line.split()[0]: line.split(maxsplit=2)[1:] for line in shown}


def test_each_value_is_shown_with_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["data=digits", "method=moon+fedprox", "alpha=0.1", "model.features=64"]
    found = values_and_sources(lines_of(monkeypatch, capsys, "config", *words))
    assert found["alpha"] == ["0.1", "override"]
    assert found["model.features"] == ["64", "override"]
    assert found["data.name"] == ["digits", "override"]
    assert found["model.name"] == ["cnn", "conf/data/digits.yaml"]
    assert found["rounds"] == ["12", "conf/data/digits.yaml"]
    assert found["method.temperature"] == ["0.5", "conf/method/moon.yaml"]
    assert found["method.proximal_weight"] == ["0.01", "conf/method/fedprox.yaml"]
    assert found["strategy.name"] == ["fedavg", "default"]
    assert found["seed"] == ["0", "default"]
    alpha = ["0.1", "conf/partition/dirichlet.yaml: the value of alpha"]
    assert found["partition.alpha"] == alpha


@pytest.mark.parametrize(
    "word", ["data.classes=[fine scratch,Öffnung]", "data.classes=['fine scratch', 'Öffnung']"]
)
def test_names_of_a_list_may_have_spaces_and_accents(word: str) -> None:
    found = compose_experiment(["data=folder", "data.root=images", word])
    assert found.data["classes"] == ["fine scratch", "Öffnung"]


def test_the_settings_of_a_resumed_run_are_those_of_that_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    Recorder(run, compose_experiment(["rounds=77"])).update(overrides=["rounds=77"])
    found = values_and_sources(lines_of(monkeypatch, capsys, "config", f"resume={run}"))
    assert found["rounds"] == ["77", "override"]


def test_of_files_that_set_the_same_key_the_one_that_counts_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["experiment=fedalign_cifar10", "protocol=fedalign", f"data.root={tmp_path}"]
    found = values_and_sources(lines_of(monkeypatch, capsys, "config", *words))
    assert found["optim.keep_momentum"] == ["true", "conf/protocol/fedalign.yaml"]
    assert found["model.projector"] == ["none", "conf/protocol/fedalign.yaml"]
    assert found["optim.nesterov"] == ["true", "conf/experiment/fedalign_cifar10.yaml"]
    assert found["alpha"] == ["0.5", "conf/experiment/fedalign_cifar10.yaml"]
    assert found["optim.lr"] == ["0.01", "conf/optim/sgd.yaml"]
    assert found["rounds"] == ["25", "conf/data/cifar10.yaml"]


def test_a_dry_run_says_what_would_be_run_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path / "runs"))
    text = "\n".join(lines_of(monkeypatch, capsys, "train", "--dry-run", "rho=0.5", *SMALL))
    assert "12, 2 of 4 clients in each, 5 local epochs" in text
    assert str(tmp_path / "runs") in text
    assert not (tmp_path / "runs").exists()
    assert run(monkeypatch, "train", "--dry-run", "data=pacs", f"data.root={tmp_path}/no") == 2
    private = ["privacy=client", "secure=masked", "model=linear", "optim.schedule=cosine"]
    text = "\n".join(lines_of(monkeypatch, capsys, "train", "--dry-run", *private, *SMALL))
    assert "privacy   noise for each client, updates with masks" in text
    assert "protocol  cosine rate, last batch merge" in text


def test_runs_are_listed_with_status_and_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for seed in (0, 1):
        for method, accuracy in (("fedavg", 0.5), ("moon", 0.75)):
            place = record(tmp_path, f"{method}{seed}", [f"method={method}", f"seed={seed}"],
                           [0.1, accuracy])  # fmt: skip
            content = json.loads((place / "run.json").read_text())
            content |= {"results": {"test": {"accuracy": accuracy}}}
            changes = {
                "moon1": {"status": "failed", "reason": "no clients succeeded"},
                "fedavg1": {"status": "running"},
            }.get(place.name, {})
            (place / "run.json").write_text(json.dumps(content | changes))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    shown = lines_of(monkeypatch, capsys, "runs", str(tmp_path))
    assert shown[0].split() == ["run", "status", "method", "seed", "accuracy,", "%"]
    found = {line.split()[0]: line.split()[1:] for line in shown[2:]}
    assert found["fedavg0"] == ["completed", "FedAvg", "0", "50.0"]
    assert found["moon1"][:2] == ["failed", "1/1:"]
    assert found["fedavg1"][:2] == ["killed", "1/1"]
    assert found["broken"] == ["damaged", "record"]
    lock = hold(tmp_path / "fedavg1")
    shown = lines_of(monkeypatch, capsys, "runs", str(tmp_path), "--last", "4")
    lock.release()
    assert len(shown) == 6
    assert any("running 1/1" in line for line in shown)


def test_a_directory_without_runs_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(monkeypatch, "runs", str(tmp_path)) == 2
    assert run(monkeypatch, "runs", str(tmp_path / "none")) == 2


def test_listing_runs_imports_neither_torch_nor_flower(tmp_path: Path) -> None:
    record(tmp_path, "one", [], [0.1, 0.5])
    code = (
        "import sys\n"
        "from univarfl.cli.main import application\n"
        f"application(['runs', {str(tmp_path)!r}], standalone_mode=False)\n"
        "assert not {'flwr', 'hydra', 'torch', 'pandas'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_latest_resumes_the_run_that_started_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path))
    record(tmp_path, "first", [], [0.1, 0.5])
    second = record(tmp_path, "second", [], [0.1, 0.5])
    changes = {"started": "2999", "overrides": [], "status": "completed"}
    write_entries(second, read_entries(second) | changes)
    assert run(monkeypatch, "train", "resume=latest") == 2
    assert f"resume={tmp_path / 'second'}: that run is completed" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "analyse", "predict", "export"])
def test_a_run_can_be_named_latest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    command: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("UNIVARFL_RUNS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, command, "latest", *(["x"] if command == "predict" else [])) == 2
    assert f"run=latest: {tmp_path} holds no runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["meth"], "method="),
        (["alph"], "alpha="),
        (["optim.l"], "optim.lr="),
        (["method=fedav"], "method=fedavg"),
        (["method", "=", "fedav"], "fedavg"),  # as bash hands it over
        (["method", "="], "fedavg"),
        (["data=digits", "engine=i"], "engine=inprocess"),
    ],
)
def test_the_shell_completes_keys_and_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str],
    offered: str,
) -> None:  # fmt: skip
    words = ["univarfl", "train", *typed]
    monkeypatch.setenv("_UNIVARFL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setattr(sys, "argv", ["univarfl"])
    with pytest.raises(SystemExit):
        application(prog_name="univarfl", standalone_mode=False)
    found = capsys.readouterr().out.split()
    assert any(word == offered or word.startswith(offered) for word in found)


@pytest.mark.parametrize("command", ["train", "sweep", "bench", "deploy run federation"])
@pytest.mark.parametrize(("typed", "offered"), [("method =", "fedavg"), ("method = moo", "moon")])
def test_every_command_with_overrides_completes_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, typed: str,
    offered: str,
) -> None:  # fmt: skip
    """Bash joins the words of COMP_WORDS by line feeds, and "=" is a word of its own."""
    words = ["univarfl", *command.split(), *typed.split()]
    monkeypatch.setenv("_UNIVARFL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit):
        application(prog_name="univarfl", standalone_mode=False)
    assert offered in capsys.readouterr().out.split()


@pytest.mark.parametrize("command", ["runs", "report"])
def test_the_directory_of_runs_may_begin_at_home(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    command: str,
) -> None:  # fmt: skip
    record(tmp_path / "mine", "one", [], [0.1, 0.5])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("UNIVARFL_RUNS", "~/mine")
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, command) == 0
    assert "one" in capsys.readouterr().out or (tmp_path / "mine" / "report").is_dir()


def test_completion_imports_neither_torch_nor_hydra() -> None:
    environment = {
        **os.environ, "_UNIVARFL_COMPLETE": "complete_bash", "COMP_WORDS": "univarfl train opt",
        "COMP_CWORD": "2",
    }  # fmt: skip
    code = (
        "import atexit, os, sys\n"
        "slow = {'flwr', 'hydra', 'torch', 'pydantic'}\n"
        "atexit.register(lambda: slow & sys.modules.keys() and os._exit(9))\n"
        "from univarfl.cli.main import application\n"
        "application(prog_name='univarfl', standalone_mode=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True,
                          capture_output=True, text=True)  # fmt: skip
    assert "optim.lr=" in done.stdout
