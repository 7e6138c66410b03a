"""Plans of benchmarks: what they run, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest

from server_app.config.composition import compose_experiment
from task.errors import ConfigError
from tests.conftest import training_methods
from univarfl.cli.bench import bench
from univarfl.records.differences import settings_hash
from univarfl.sweeps.benchmark.outcome import hash_of
from univarfl.sweeps.benchmark.plan import (
    PLAN,
    Plan,
    read_plan,
    read_words,
    rows,
    trials,
    values_of,
)
from univarfl.sweeps.benchmark.ranks import critical_difference, significant

TEXT = """
seeds: [0, 1]
tuning: {cell: a, seeds: [9]}
cells: {a: rounds=1, b: rounds=2 alpha=0.1}
methods: {fedavg: "optim.lr=0.01,0.1"}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "plan.yaml").write_text(TEXT)
    return read_plan(tmp_path / "plan.yaml")


def test_trials_and_rows(plan: Plan) -> None:
    tried = [(each.cell, each.value, each.seed) for each in trials(plan, "fedavg")]
    assert tried == [("a", "optim.lr=0.01", 9), ("a", "optim.lr=0.1", 9)]
    found = [(each.cell, each.value, each.seed) for each in rows(plan, "fedavg", "optim.lr=0.1")]
    assert len(found) == len(set(found)) == 2 * 2 * 2
    assert ("b", "", 1) in found
    assert ("b", "optim.lr=0.1", 0) in found


def test_the_hash_of_an_entry_is_that_of_its_settings(plan: Plan) -> None:
    for entry in rows(plan, "fedavg", "optim.lr=0.1"):
        config = compose_experiment(entry.words).model_dump()
        assert hash_of(entry) == settings_hash(config)
        moved = {**config, "data": {**config["data"], "root": "elsewhere"}}
        assert settings_hash(moved) == settings_hash(config)


@pytest.mark.slow
def test_our_plan_tries_three_values_of_each_method_with_a_global_model() -> None:
    """Those that need a residual network or train nothing are left out, too."""
    ours = read_plan(PLAN)
    residual, personal = {"fedalign", "gradaug", "stochdepth"}, {"fedbn", "fedper", "fedrep"}
    assert set(ours.methods) == set(training_methods()) - residual - personal
    for method, word in ours.methods.items():
        values = values_of(method, word)
        assert len(set(values)) == 3
        compose_experiment([f"method={method}", values[-1]])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cell: a", "cell: c", r"tuning\.cell=c: name one of the cells: a, b"),
        ("seeds: [9]", "seeds: [1]", r"tuning\.seeds=\[1\]: must not be seeds of the tables"),
        ("seeds: [0, 1]", "seeds: []", "seeds"),
        ("{cell: a, seeds: [9]}", "5", r"plan\.yaml\.tuning=5: must be several settings"),
        ("seeds: [0, 1]", "seed: [0]", "seed"),
        ('"optim.lr=0.01,0.1"', '"optim.lr=0.1 alpha=1"', "must be one setting of"),
        ("cells:", "cells: [", "is not YAML"),
        ("seeds: [0, 1]", "seeds: [0, 0]", "names a seed twice"),
        ("a: rounds=1", "a: 'rounds=1,2'", "must have one value for each setting"),
        ("a: rounds=1", "a: seed=1", "must not set method, seed, output_dir"),
        ("a: rounds=1", """a: 'x="1'""", "cannot be read"),
        ("optim.lr=0.01,0.1", "seed=1,2", "must be one setting of"),
        ("fedavg:", "fedavgg:", "choose one of"),
        ("fedavg:", "fedbn:", "method=fedbn: has no accuracy of one model"),
        ('0.1"}', '0.1", moon: method.temperature=1}', "must have the same number of values"),
    ],
)
def test_a_bad_plan_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(ConfigError, match=said):
        read_plan(path)


def test_a_missing_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--plan.*cannot be read"):
        bench(plan=tmp_path / "none.yaml", write=True, to=tmp_path)


def test_words_name_methods_and_what_a_new_one_tunes(plan: Plan) -> None:
    assert read_words(plan, []) == (["fedavg"], {})
    new = read_words(plan, ["method=moon", "method.temperature=0.2,1"])
    assert new == (["moon"], {"moon": "method.temperature=0.2,1"})
    with pytest.raises(ConfigError, match=r"say which setting is tuned, as in method=moon"):
        read_words(plan, ["method=fedavg,moon"])
    three = "method.temperature=0.2,0.5,1"
    with pytest.raises(ConfigError, match=f"^{three}: give 2 values, as many as every method has"):
        read_words(plan, ["method=moon", three])
    with pytest.raises(ConfigError, match="has no accuracy of one model"):
        read_words(plan, ["method=fedbn+moon", "method.temperature=0.2,1"])
    with pytest.raises(ConfigError, match="give one setting with its values"):
        read_words(plan, ["alpha=1"])


def test_the_example_for_a_new_method_is_accepted(plan: Plan) -> None:
    with pytest.raises(ConfigError, match="say which setting is tuned, as in ") as caught:
        read_words(plan, ["method=fedavg,moon+fedprox"])
    cure = str(caught.value).rpartition("as in ")[2].split()
    assert read_words(plan, cure) == (["moon+fedprox"], {"moon+fedprox": "optim.lr=0.1,0.05"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("method=fedavg,Moon", "method=Moon: write method=moon"),
        ("method=foo", "method=foo: choose one of "),
        ("method=moom optim.lr=0.1,1", r"method=moom: did you mean method=moon\? choose one of "),
        ("method=moon alpha=1,2", r"alpha=1,2: must be a setting of method\. or optim\.$"),
        ("fedavg", "override=fedavg: write method=fedavg or strategy=fedavg"),
    ],
)
def test_a_wrong_word_has_its_answer(plan: Plan, words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}"):
        read_words(plan, words.split())


@pytest.mark.parametrize("text", ["a.png", "- a\n- b", ""])
def test_a_file_that_is_no_plan_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_plan(path)
    assert str(caught.value) == (
        f"--plan={path}: is no plan; it must have seeds, tuning, cells, methods, as in {PLAN}"
    )


def test_the_critical_difference_is_that_of_the_publication() -> None:
    """Demsar, JMLR 2006, section 3.2.2: 1.25 for four classifiers on 14 data sets."""
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_methods_that_differ_significantly_are_named() -> None:
    ranks = pd.Series({"slow": 4.5, "fast": 1.0, "middle": 3.0, "other": 3.0})
    assert significant(ranks, 2.0) == (
        "fast is significantly ahead of middle, other, slow. No other two methods differ "
        "significantly."
    )
    assert significant(ranks, 4.0) == "No two methods differ significantly."
