"""What a sweep's words mean, before anything is run."""

import re

import pytest

from server_app.runs.identity import Code, code_of, identity_of
from task.errors import ConfigError
from univarfl.sweeps.cells import cells_of
from univarfl.sweeps.combinations import expand


def test_every_combination_is_a_cell_and_has_the_words_that_tell_it_apart() -> None:
    cells = cells_of(["method=fedavg,stochdepth", "seed=range(2)", "rounds=3"])
    assert [cell.label for cell in cells if cell.experiment] == [
        "method=fedavg seed=0", "method=fedavg seed=1"
    ]  # fmt: skip
    experiments = [cell.experiment for cell in cells_of(["method=fedavg,freeze", "alpha=0.05,1.0"])]
    assert [(e.method["name"], e.alpha) for e in experiments if e] == [
        ("fedavg", 0.05), ("fedavg", 1.0), ("freeze", 0.05), ("freeze", 1.0)
    ]  # fmt: skip


def test_runs_are_in_process_unless_the_words_choose() -> None:
    for words, engine in ((["seed=3"], "inprocess"), (["engine=flower"], "flower")):
        (cell,) = cells_of(words)
        assert cell.experiment
        assert cell.experiment.engine == engine


def test_joined_methods_are_values_like_any_other() -> None:
    cells = cells_of(["method=univarfl+fedprox,fedavg"])
    assert [cell.experiment.method["name"] for cell in cells if cell.experiment] == [
        "fedprox+univarfl", "fedavg"
    ]  # fmt: skip


def test_a_cell_that_is_written_twice_is_run_once() -> None:
    assert len(cells_of(["seed=0,0"])) == 1
    assert len(cells_of(["alpha=0.1,0.10", "output_dir=a"])) == 1


@pytest.mark.parametrize(
    "word", ["watch.models_every=1,2", "federation.workers=1,2", "engine=flower,inprocess"]
)
def test_a_setting_that_decides_no_result_is_not_varied(word: str) -> None:
    key = word.partition("=")[0]
    with pytest.raises(ConfigError, match=f"{key}=.*: decides no result, so a sweep cannot vary"):
        cells_of([word, "seed=0,1"])
    assert len(cells_of([word.partition(",")[0], "seed=0,1"])) == 2


def test_the_quorum_decides_the_noise_of_clients() -> None:
    words = ["privacy=client", "secure=masked", "model=linear", "num_clients=12"]
    assert len(cells_of([*words, "federation.quorum=0,1"])) == 2
    with pytest.raises(ConfigError, match="decides no result"):
        cells_of(["federation.quorum=0,1"])


def test_a_cell_that_cannot_be_run_stands_beside_those_that_can() -> None:
    cells = cells_of(["method=fedavg,stochdepth,freeze"])
    assert [bool(cell.experiment) for cell in cells] == [True, False, True]
    assert "needs residual blocks" in cells[1].refusal


def test_a_cell_whose_data_are_not_there_says_so_before_it_is_run() -> None:
    (here,) = cells_of(["data=digits"])
    (fetched,) = cells_of(["data=cifar10", "data.root=/nowhere", "data.download=true"])
    (away,) = cells_of(["data=pacs", "data.root=/nowhere"])
    assert here.reason() == fetched.reason() == ""
    assert away.reason() == "data.root=/nowhere: must be a directory; it does not exist"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["method=foo,bar"], "method=foo: choose one of"),
        (["alpha=0,-1"], "alpha="),
        (["seed=interval(0,1)"], "an interval has no list of values"),
        (["seed=range(3),5"], "sweep=seed=range(3),5: its values cannot be listed"),
        (["seed=range(1,3,0)"], "sweep=seed=range(1,3,0): its values cannot be listed"),
        (["seed=range(0)"], "seed=range(0): has no values; write 'seed=range(1,4)' or seed=1,2,3"),
        (["rounds=1", "seed=range(3,0)"], "seed=range(3,0): has no values"),
        (["sweep=nothing"], "sweep=nothing: choose one of"),
        (["seed=0,1", "run_id=mine"], "run_id=mine: a sweep names its runs itself"),
        (["seed"], "override=seed: write seed=VALUE"),
        (["seed=0,1", "output_dir=a,b"], "a sweep has one output_dir; it cannot vary"),
    ],
)
def test_words_of_which_nothing_can_be_made_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        cells_of(words)


def test_later_words_win() -> None:
    assert expand(["engine=inprocess", "engine=flower"]) == [["engine=flower"]]


def test_the_identity_is_of_what_decides_the_result() -> None:
    (one,) = cells_of(["seed=0"])
    (kept_elsewhere,) = cells_of(["seed=0", "output_dir=/tmp/x", "engine=flower"])
    (other,) = cells_of(["seed=0", "optim.lr=0.02"])
    assert one.identity == kept_elsewhere.identity != other.identity
    assert one.experiment
    config = one.experiment.model_dump()
    code = code_of(config)
    assert identity_of(config, code) != identity_of(config, Code("other", code.components))
