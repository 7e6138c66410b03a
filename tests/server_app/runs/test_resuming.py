"""A run that was ended and goes on gives what it would have given."""

import csv
import json
from pathlib import Path

import pytest

from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.checkpoint import checkpoints
from server_app.runs.directory import plan_run_directory
from server_app.runs.lock import hold
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError
from tests.conftest import SMALL, Train, norm_for, rows, sha256
from tests.interruption import ended_in
from tests.task.data import making
from univarfl.sweeps.cells import cells_of
from univarfl.sweeps.ledger import ExistingRuns
from univarfl.sweeps.schedule import Sweep

LONGER = ("rounds=3", "rho=0.5", "partition=dirichlet")
COMBINATIONS = [  # moon and fedavgm are resumed in the quick tests of damaged checkpoints
    pytest.param(["method=fedavg"], marks=pytest.mark.slow),
    pytest.param(["method=moon"], marks=pytest.mark.slow),
    ["method=scaffold"],
    pytest.param(["method=feddyn"], marks=pytest.mark.slow),
    pytest.param(["strategy=fedavgm", "strategy.server_momentum=0.5"], marks=pytest.mark.slow),
    ["strategy=fedadam"],
    pytest.param(
        ["privacy=example", "method=fedavg", "model=linear", "privacy.reproducible=true"],
        marks=pytest.mark.slow,
    ),
    ["strategy=dp_adaptive", *norm_for("dp_adaptive"), "privacy.reproducible=true"],
]


def timeless(directory: Path, name: str) -> list[list[str]]:
    """A table without its seconds, and without epsilon: a repeated round is charged again."""
    with (directory / name).open(newline="") as file:
        found = list(csv.reader(file))
    if name == "clients.csv":
        place = found[0].index("seconds")
        return [[*row[:place], *row[place + 1 :]] for row in found]
    return [row for row in found if not {"seconds", "epsilon"} & set(row)]


@pytest.fixture
def interrupted(train: Train, tmp_path: Path) -> Train:
    """Train, and have a person end it in a given round."""

    def run(*words: str, end_in: int = 2) -> Path:
        with ended_in(end_in), pytest.raises(KeyboardInterrupt):
            train("rounds=3", *words, "run_id=ended")
        return tmp_path / "runs" / "ended"

    return run


@pytest.mark.parametrize("words", COMBINATIONS, ids=" ".join)
def test_it_ends_as_if_nothing_had_been(train: Train, interrupted: Train, words: list[str]) -> None:
    whole = train(*LONGER, *words)
    ended = interrupted(*LONGER, *words)
    assert read_entries(ended)["status"] == "failed"
    assert train(*whole_words([f"resume={ended}"])) == ended
    assert sha256(ended) == sha256(whole)
    for name in ("rounds.csv", "clients.csv", "classes.csv"):
        assert timeless(ended, name) == timeless(whole, name)
    record = read_entries(ended)
    assert record["status"] == "completed"
    assert len(record["resumed"]) == 1
    assert record["resumed_from"] == 1
    told = [row["event"] for row in rows(ended, "events.csv")]
    assert told == ["the run ended: interrupted", "the run was resumed after round 1"]
    assert not (ended / "checkpoints").exists()


def test_what_a_resumed_run_changes_is_recorded_and_stays(train: Train, interrupted: Train) -> None:
    ended = interrupted("federation.quorum=0.9")
    first = read_entries(ended)["overrides"]
    with ended_in(3), pytest.raises(KeyboardInterrupt):
        train(*whole_words([f"resume={ended}", "federation.quorum=0.3", "federation.attempts=2"]))
    assert read_entries(ended)["config"]["federation"]["quorum"] == 0.3
    train(*whole_words([f"resume={ended}"]))
    record = read_entries(ended)
    assert record["config"]["federation"]["quorum"] == 0.3
    assert record["config"]["resume"] is None
    assert len(record["overrides"]) == len(first) + 1
    assert "from here on federation.quorum=0.3, federation.attempts=2" in [
        row["event"] for row in rows(ended, "events.csv")
    ]


def test_which_models_are_kept_cannot_change(train: Train, interrupted: Train) -> None:
    ended = interrupted("watch.models_every=1")
    with pytest.raises(ConfigError, match=r"watch.models_every=null: selects the rounds"):
        train(*whole_words([f"resume={ended}", "watch.models_every=null"]))


def test_a_repeated_round_is_charged_again(train: Train, interrupted: Train) -> None:
    private = ("privacy=example", "method=fedavg", "model=linear", "local_epochs=1")
    ended = interrupted(*private)
    charged = read_entries(ended)["privacy"]
    assert charged["attempts"] == 2  # the second was running
    train(*whole_words([f"resume={ended}"]))
    spent = read_entries(ended)["privacy"]
    assert (spent["rounds"], spent["attempts"]) == (4, 4)
    assert spent == {**read_entries(train("rounds=4", *private))["privacy"], "attempts": 4}
    table = [row for row in rows(ended, "rounds.csv") if row["metric"] == "epsilon"]
    assert float(table[-1]["value"]) == spent["epsilon"] > charged["epsilon"]


def test_one_that_was_ended_before_its_first_round_begins_anew(
    train: Train, interrupted: Train
) -> None:
    ended = interrupted("rounds=2", end_in=1)
    train(*whole_words([f"resume={ended}"]))
    assert sha256(ended) == sha256(train("rounds=2"))


@pytest.mark.slow
@pytest.mark.usefixtures("fork_server")
def test_a_sweep_goes_on_with_it(train: Train, interrupted: Train) -> None:
    ended = interrupted("method=fedavg")
    (cell,) = cells = cells_of([*SMALL, "rounds=3", "method=fedavg"])
    another = ExistingRuns(ended.parent)
    assert another.completed(cell) is None
    Sweep(cells, jobs=1).run()
    assert another.completed(cell) == ended  # though it had seen it fail
    (run,) = (path.parent for path in ended.parent.glob("*/run.json"))
    assert run == ended
    assert read_entries(run)["resumed_from"] == 1
    assert sha256(run) == sha256(train("rounds=3", "method=fedavg"))


def test_the_latest_run_of_the_output_directory(train: Train) -> None:
    run = train("rounds=1")
    words = whole_words(["resume=latest", f"output_dir='{run.parent}'"])
    assert f"run_id={run.name}" in words


class TestRefusals:
    def test_a_run_that_is_completed(self, train: Train) -> None:
        done = train("rounds=1")
        with pytest.raises(ConfigError, match="that run is completed"):
            train(*whole_words([f"resume={done}"]))

    def test_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"resume=.*: is neither the directory of a run nor"):
            whole_words([f"resume={tmp_path}"])

    def test_no_run_in_the_output_directory(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=f"resume=latest: {tmp_path} holds no runs"):
            whole_words(["resume=latest", f"output_dir={tmp_path}"])

    def test_another_run(self, train: Train, interrupted: Train) -> None:
        words = whole_words([f"resume={interrupted()}", "optim.lr=0.5"])
        reason = r"only federation, watch and engine can be changed .* optim\.lr differs"
        with pytest.raises(ConfigError, match=reason):
            train(*words)

    def test_other_code(
        self, train: Train, interrupted: Train, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = whole_words([f"resume={interrupted()}"])
        monkeypatch.setattr("server_app.runs.identity.shared_hash", lambda: "other")
        with pytest.raises(ConfigError, match="made by another version of the code"):
            train(*words)

    def test_other_images(self, train: Train, interrupted: Train, tmp_path: Path) -> None:
        root = making.tree(tmp_path / "images", ["cat", "dog"], 12)
        words = ("data=folder", f"data.root={root}", "data.image_size=8", "model=resnet56")
        ended = interrupted(*words, "num_clients=2", "partition.min_images=3")
        again = whole_words([f"resume={ended}"])
        (root / "cat" / "pic_000.png").touch()  # another time of change, and the same image
        plan_run_directory(compose_experiment([*SMALL, *again]))
        making.save(root / "cat" / "pic_000.png", 100)
        with pytest.raises(ConfigError, match="the images have changed since that run began"):
            train(*again)

    def test_one_that_goes_on_elsewhere(self, train: Train, interrupted: Train) -> None:
        ended = interrupted()
        lock = hold(ended)
        with pytest.raises(ConfigError, match="another process is running it"):
            train(*whole_words([f"resume={ended}"]))
        lock.release()
        assert read_entries(ended)["status"] == "failed"

    def test_a_checkpoint_that_was_cut_short(self, train: Train, interrupted: Train) -> None:
        ended = interrupted()
        (path,) = checkpoints(ended)
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(ConfigError, match=r"no checkpoint can be used; round-000001.*damaged"):
            train(*whole_words([f"resume={ended}"]))


@pytest.mark.parametrize(
    "words",
    [
        ["method=moon"],
        pytest.param(["method=scaffold", "strategy=fedavgm"], marks=pytest.mark.slow),
    ],
)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    train: Train, interrupted: Train, words: list[str]
) -> None:
    ended = interrupted(*words, "rounds=4", end_in=4)
    last, before = checkpoints(ended)
    assert (last.stem, before.stem) == ("round-000003", "round-000002")
    content = bytearray(last.read_bytes())
    content[-5] ^= 1
    last.write_bytes(content)
    train(*whole_words([f"resume={ended}"]))
    assert read_entries(ended)["resumed_from"] == 2
    assert sha256(ended) == sha256(train(*words, "rounds=4"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[]", "run.json is not a JSON object"),
        ('{\n"format": 2,\n', "run.json is cut short, or not JSON, in line 3"),
        ('{"overrides": 1, "status": "failed"}', "made by another version"),
        ('{"format": 2, "overrides": 1}', "run.json: status: it is missing"),
        ('{"overrides": [], "sha256": "0"}', "run.json is damaged: its hash is not that"),
    ],
)
def test_a_record_of_another_form_is_refused_in_one_line(
    tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ConfigError, match=problem):
        whole_words([f"resume={tmp_path}"])


def test_a_record_of_an_older_version_is_refused_as_such(train: Train) -> None:
    directory = train("rounds=1", "run_id=older")
    record = read_entries(directory)
    del record["format"], record["config"]["watch"]["models_every"], record["status"]
    del record["sha256"]
    (directory / "run.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="another version of the code"):
        whole_words([f"resume={directory}"])


def test_a_directory_whose_name_is_no_run_id_has_to_be_renamed(train: Train) -> None:
    directory = train("rounds=1", "run_id=first")
    other = directory.rename(directory.with_name("my run"))
    with pytest.raises(ConfigError, match="my run: rename the directory"):
        whole_words([f"resume={other}"])
