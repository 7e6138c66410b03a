"""What travels from the command to the ServerApp, and from the ServerApp to a client."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from server_app.aggregation.strategies.base import strategy_of
from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from server_app.config.recorded_words import recorded_words
from server_app.config.resuming import whole_words
from server_app.config.rules import read_experiment
from server_app.config.run_config import Submitted, from_run_config
from server_app.runs.recorder import Recorder
from task.errors import ConfigError
from task.rules import read_local_config
from univarfl.engines.run_config import to_run_config, to_settings_file, to_toml


def test_the_server_reads_the_experiment_and_composes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["data=folder", 'data.root=/a/Pr\u00fcfung \U0001f600 "it\'s"', "alpha=2"]
    experiment = compose_experiment(words).placed(tmp_path / "run")
    submitted = Submitted(experiment, words, "a lease")
    path = tmp_path / "it's" / "settings.json"
    path.parent.mkdir()
    for _ in range(2):
        document = to_toml(to_settings_file(submitted, tmp_path, path))
    assert path.stat().st_mode & 0o077 == 0
    monkeypatch.setattr("server_app.config.composition.compose_settings", None)
    monkeypatch.setattr("server_app.config.chosen_files.compose", None)  # Hydra's
    assert from_run_config(to_run_config(submitted)) == submitted
    monkeypatch.delenv("FLWR_HOME", raising=False)
    with pytest.raises(ConfigError, match="cannot be read: FLWR_HOME is not set"):
        from_run_config(tomllib.loads(document))
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    assert from_run_config(tomllib.loads(document)) == submitted
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        from_run_config(tomllib.loads(document))


def test_the_run_config_which_sites_read_has_no_settings(tmp_path: Path) -> None:
    words = ["watch.mlflow=https://tracker.example", "data=folder", "data.root=/private"]
    submitted = Submitted(compose_experiment(words).placed(tmp_path / "run"), words, "a lease")
    document = to_toml(to_settings_file(submitted, tmp_path, tmp_path / "settings.json"))
    assert document == 'settings-file = "settings.json"\n'


@pytest.mark.parametrize("name", choices()["experiment"])
def test_json_keeps_every_value_and_type(name: str) -> None:
    experiment = compose_experiment([f"experiment={name}", "data.root=/images"])
    again = read_experiment(experiment.model_dump_json())
    assert repr(again.model_dump()) == repr(experiment.model_dump())


def test_words_typed_for_flwr_run_are_composed_by_the_server() -> None:
    found = from_run_config({"settings-file": "", "overrides": "alpha=2 seed=1"})
    assert (found.experiment.alpha, found.experiment.seed) == (2, 1)
    assert found.words == ["alpha=2", "seed=1"]
    assert found.lease == ""
    with pytest.raises(ConfigError, match="overrides='alpha: cannot be split into words"):
        from_run_config({"overrides": "'alpha"})


def test_the_recorded_words_compose_the_same_experiment_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["data=folder", "data.root=images"]
    experiment = compose_experiment(words).placed(tmp_path / "it's" / "run")
    monkeypatch.chdir("/")
    assert compose_experiment(recorded_words(words, experiment)) == experiment


def test_an_experiment_is_placed_without_composing_it_again(tmp_path: Path) -> None:
    experiment = compose_experiment([])
    placed = experiment.placed(tmp_path / "run", resume=True)
    assert (placed.output_dir, placed.run_id) == (str(tmp_path), "run")
    assert placed.resume == str(tmp_path / "run")
    assert placed.source() is experiment.source()
    assert whole_words(["alpha=1"]) == ["alpha=1"]


@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_a_run_is_resumed_however_the_key_is_typed(sign: str, tmp_path: Path) -> None:
    place = tmp_path / "20250101"
    Recorder(place, compose_experiment(["rounds=77"])).update(overrides=["rounds=77"])
    words = whole_words([f"{sign}resume={place}", "alpha=1"])
    experiment = compose_experiment(words)
    assert (experiment.rounds, experiment.alpha) == (77, 1)
    assert (experiment.resume, experiment.run_id) == (str(place), "20250101")
    assert recorded_words(words, experiment.placed(place)) == [
        word for word in words if not word.startswith("resume=")
    ]
    with pytest.raises(ConfigError, match=r"^resume=nope: is neither the directory of a run"):
        whole_words([f"{sign}resume=nope"])


def test_no_run_is_resumed_with_the_default() -> None:
    assert whole_words(["resume=null", "alpha=1"]) == ["alpha=1"]
    assert whole_words(["resume=nope", "++resume=null"]) == []


def test_components_are_built_once_and_the_method_each_time() -> None:
    experiment = compose_experiment([])
    assert strategy_of(experiment) is strategy_of(experiment)
    assert experiment.local().partitioner() is experiment.local().partitioner()
    assert experiment.local_method() is not experiment.local_method()


def test_a_process_parses_the_settings_of_local_training_once() -> None:
    text = compose_experiment([]).local().model_dump_json()
    assert read_local_config(text) is read_local_config(text)
    with pytest.raises(ConfigError, match="alpha=1: unknown key"):
        read_local_config('{"alpha": 1, ' + text[1:])


@pytest.mark.parametrize("words", [["alpha=-1"], ["hydra.run.dir=/x"], ["method=nosuch"]])
def test_a_wrong_word_is_refused_before_torch_and_flower_are_imported(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from univarfl.cli.main import main\n"
        f"sys.argv = ['univarfl', 'train', *{words}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert end.code == 2\n"
        "assert not {'torch', 'flwr', 'ray'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("text", ["{}", '{"rounds": 0}', "[", '"text"'])
def test_an_experiment_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_experiment(text)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)
