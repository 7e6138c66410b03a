"""Every file that a resumed run builds on is checked before it trains; only its holder writes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server_app.config.composition import compose_experiment
from server_app.config.experiment import Experiment
from server_app.config.resuming import whole_words
from server_app.runs.checkpoint import load_checkpoint
from server_app.runs.directory import plan_run_directory
from server_app.runs.lock import COMMAND_LOCK, hold
from server_app.runs.recorder import Recorder
from server_app.runs.resuming.files import usable_checkpoint
from server_app.runs.resuming.record import record_to_resume
from task.errors import ConfigError
from tests.conftest import SMALL, sha256
from tests.interruption import ended_in
from univarfl.engines.claim import claimed
from univarfl.engines.train import attempt, train_experiment
from univarfl.records.status import close_record, mark_interrupted, reopen_record

WORDS = [*SMALL, "model=linear", "num_clients=2", "rounds=4", "watch.models_every=1"]
TABLES = ("rounds.csv", "classes.csv", "clients.csv", "events.csv")
REBUILT = ("run.log", ".lock", ".command.lock", "events.out.tfevents")
OLDER = 1  # the round of the checkpoint before the last
HERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted in round 3."""
    runs = tmp_path_factory.mktemp("ended") / "runs"
    words = [*WORDS, "run_id=run", f"output_dir={runs}"]
    with ended_in(OLDER + 2), pytest.raises(KeyboardInterrupt):
        train_experiment(compose_experiment(words), words)
    return runs / "run"


@pytest.fixture(scope="module")
def experiment(ended: Path) -> Experiment:
    return compose_experiment(whole_words([f"resume={ended}"]))


@pytest.fixture
def copy(ended: Path, tmp_path: Path) -> Path:
    return shutil.copytree(ended, tmp_path / "runs" / "run")


def refusal(run: Path, experiment: Experiment) -> str:
    """Return why a run is not resumed; otherwise the round that it would go on after."""
    try:
        record_to_resume(run)
        checkpoint = usable_checkpoint(run, experiment)
    except ConfigError as error:
        return str(error)
    return f"after {checkpoint.round if checkpoint else 0}"


def test_a_whole_run_goes_on_after_its_last_checkpoint(copy: Path, experiment: Experiment) -> None:
    assert refusal(copy, experiment) == f"after {OLDER + 1}"


@given(st.data(), st.integers(0), st.integers(1, 255), st.booleans())
@HERE
def test_any_file_that_was_changed_is_named(
    ended: Path,
    tmp_path: Path,
    experiment: Experiment,
    data: st.DataObject,
    place: int,
    change: int,
    cut: bool,
) -> None:
    """A run never trains on with a damaged file that it builds on."""
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(ended, run)
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.stat().st_size)
    path = data.draw(st.sampled_from(files))
    before = path.read_bytes()
    content = bytearray(before)
    place %= len(content)
    if cut:
        del content[place:]
    else:
        content[place] ^= change
    path.write_bytes(content)
    name = str(path.relative_to(run))
    reason = refusal(run, experiment)
    if any(each in name for each in REBUILT):
        assert reason == f"after {OLDER + 1}"
    elif name.startswith("checkpoints/"):
        assert reason in (f"after {OLDER}", f"after {OLDER + 1}")
    elif reason.startswith("after"):  # the change has no meaning
        if name == "run.json":
            assert bytes(content).split() == before.split()
        else:  # it is after the part that the checkpoint vouches for, which is removed
            checkpoint = load_checkpoint(run)
            assert checkpoint is not None
            assert place >= checkpoint.files.get(name, (0, ""))[0]
    else:
        assert reason.startswith(f"resume={run}: {name}")
        assert reason.endswith("or delete that directory and start a new run")
        assert "\n" not in reason


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def replaced(before: bytes, after: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes().replace(before, after, 1))


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("rounds.csv", emptied, "rounds.csv, line 1 does not name the columns"),
        ("rounds.csv", Path.unlink, "rounds.csv: no such file"),
        ("rounds.csv", replaced(b"\n1,", b"\nx,"), r"rounds.csv, line \d+: 'x' is not a whole"),
        ("rounds.csv", replaced(b"accuracy,0.", b"accuracy,7."), "line 2: accuracy cannot be 7"),
        ("rounds.csv", replaced(b"accuracy,0.", b"accuracy,1."), "line 2: accuracy cannot be 1"),
        ("rounds.csv", replaced(b"0,test,", b"0,tets,"), "line 2: unknown split 'tets'"),
        ("rounds.csv", replaced(b"seconds,", b"seconds,0"), "rounds.csv was changed: its first"),
        ("classes.csv", replaced(b"\n0,0,", b"\n0,0\xff,"), "classes.csv, line 2 is not CSV"),
        ("classes.csv", replaced(b"\n0,0,", b"\n0,0"), "line 2 is cut short, or has other columns"),
        ("clients.csv", replaced(b",ok,", b",OK,"), "clients.csv, line 2: unknown status 'OK'"),
        ("clients.csv", replaced(b"1,0,", b"1;0,"), "clients.csv, line 2 is cut short, or has"),
        ("events.csv", replaced(b"20", b"x0"), "events.csv, line 2: .* is not a time"),
        ("events.csv", Path.unlink, "events.csv: no such file"),
        ("models/round-000001.safetensors", Path.unlink, "models/round-000001.safetensors: no suc"),
        ("run.json", replaced(b'"seed": 0', b'"seed": 1'), "run.json is damaged: its hash"),
        ("run.json", replaced(b'"sha256"', b'"sha255"'), "run.json has no entry sha256"),
        ("run.json", replaced(b"{", b"["), r"run.json is cut short, or not JSON, in line \d+"),
        ("checkpoints", shutil.rmtree, "checkpoints/ has no checkpoint, although rounds.csv has 2"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_its_line(
    copy: Path, name: str, damage: Callable[[Path], object], reason: str
) -> None:
    damage(copy / name)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=reason):
        plan_run_directory(compose_experiment(whole_words([f"resume={copy}"])))
    after = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert {**after, copy / ".lock": b""} == {**before, copy / ".lock": b""}


def test_a_model_that_was_damaged_after_the_last_round_is_not_taken(tmp_path: Path) -> None:
    words = [*WORDS, "rounds=1", "run_id=done", f"output_dir={tmp_path}"]
    experiment = compose_experiment(words)
    with (
        patch.object(Recorder, "complete", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        train_experiment(experiment, words)
    run = tmp_path / "done"
    model = run / "model.safetensors"
    content = model.read_bytes()
    again = whole_words([f"resume={run}"])
    for name in ("model.safetensors", "class_metrics.csv", "confusion.csv", "client_scores.csv"):
        whole = (run / name).read_bytes()
        (run / name).write_bytes(whole[:-3] + b"123")
        with pytest.raises(ConfigError, match=f"{name} was changed"):
            plan_run_directory(compose_experiment(again))
        (run / name).write_bytes(whole)
    train_experiment(compose_experiment(again), again)
    assert model.read_bytes() == content


class TestOnlyTheHolderWrites:
    def test_two_commands(self, copy: Path) -> None:
        words = whole_words([f"resume={copy}"])
        experiment = compose_experiment(words)
        before = (copy / "run.json").read_bytes()
        lock = hold(copy, COMMAND_LOCK)
        with pytest.raises(ConfigError, match=r"resume=.*: another process is running it"):
            train_experiment(experiment, words)
        lock.release()
        assert (copy / "run.json").read_bytes() == before

    def test_a_run_that_another_process_writes(self, copy: Path) -> None:
        words = whole_words([f"resume={copy}"])
        experiment = compose_experiment(words).placed(copy, resume=True)
        before = (copy / "run.json").read_bytes()
        lock = hold(copy)
        for write in (
            lambda: attempt(experiment, words, copy, 1),
            lambda: reopen_record(copy),
        ):
            with pytest.raises(ConfigError, match="another process is running it"):
                write()
        mark_interrupted(copy)
        close_record(copy, "its process ended")
        lock.release()
        assert (copy / "run.json").read_bytes() == before

    def test_a_new_run_of_the_same_name(self, copy: Path) -> None:
        words = [*WORDS, "run_id=run", f"output_dir={copy.parent}"]
        experiment = compose_experiment(words)
        before = (copy / "run.json").read_bytes()
        with pytest.raises(ConfigError, match=r"run_id=run: .* has a run of this name"):
            Recorder(copy, experiment)
        with (
            pytest.raises(ConfigError, match="has a run of this name"),
            claimed(copy, resume=False),
        ):
            pass
        lock = hold(copy, COMMAND_LOCK)
        with (
            pytest.raises(ConfigError, match=r"run_id=run: another process"),
            claimed(copy, resume=False),
        ):
            pass
        lock.release()
        assert (copy / "run.json").read_bytes() == before


class TestANameWithoutARecord:
    def test_what_a_killed_command_left_is_replaced(self, tmp_path: Path) -> None:
        words = [*WORDS, "rounds=1", "watch.models_every=1", "run_id=r", f"output_dir={tmp_path}"]
        left = tmp_path / "r"
        left.mkdir()
        for name in (*TABLES, "run.log", "flower.log", "run.json.0a1b2c3d.tmp", ".lock"):
            (left / name).write_text("half a li")
        run = train_experiment(compose_experiment(words), words)
        assert run == left
        assert sha256(run)
        assert "half" not in (run / "rounds.csv").read_text() + (run / "run.log").read_text()
        assert not (run / "run.json.0a1b2c3d.tmp").exists()

    def test_other_files_are_left_alone(self, tmp_path: Path) -> None:
        words = [*WORDS, "run_id=r", f"output_dir={tmp_path}"]
        (tmp_path / "r" / "thesis").mkdir(parents=True)
        with pytest.raises(ConfigError, match=r"run_id=r: .*r exists and is no run; choose anoth"):
            plan_run_directory(compose_experiment(words))
        assert (tmp_path / "r" / "thesis").exists()

    def test_a_name_that_was_claimed_in_vain_is_free(self, tmp_path: Path) -> None:
        with claimed(tmp_path / "r", resume=False):
            assert (tmp_path / "r").is_dir()
        assert not (tmp_path / "r").exists()
