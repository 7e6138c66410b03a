"""Settings as Python values: the words that they become, and what is refused."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import univarfl
from server_app.config.composition import compose_experiment, compose_settings
from univarfl.words import words_of


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "univarfl+fedprox", "alpha": 0.05}, ["method=univarfl+fedprox", "alpha=0.05"]),
        ({"optim": {"lr": 1, "nesterov": False}}, ["optim.lr=1", "optim.nesterov=false"]),
        ({"optim.lr": 0.1}, ["optim.lr=0.1"]),
        ({"data": {"image_size": 8, "name": "digits"}}, ["data=digits", "data.image_size=8"]),
        ({"rho": np.float32(0.1), "seed": np.int64(3)}, ["rho=0.1", "seed=3"]),
        ({"alpha": np.float64(0.1)}, ["alpha=0.1"]),
        ({"seed": torch.tensor(3), "alpha": torch.tensor(0.1)}, ["seed=3", "alpha=0.1"]),
        ({"alpha": np.array(0.1, np.float32)}, ["alpha=0.1"]),
        ({"output_dir": None, "data.classes": ["a b", "1"]}, ["output_dir=null",
         "data.classes=['a b','1']"]),
    ],
)  # fmt: skip
def test_values_become_the_words_of_the_command(settings: dict[str, Any], words: list[str]) -> None:
    assert words_of(settings) == words


def test_text_stays_text() -> None:
    texts = ["1", "null", "True", "a b", "/home/a", "it's", "${alpha}", "[a]", "", "nan", "\\"]
    values = {"output_dir": Path("/some where/it's"), "resume": texts[2]}
    found = compose_settings([*words_of(values), *words_of({"published": texts})])
    assert found["published"] == texts
    assert (found["output_dir"], found["resume"]) == ("/some where/it's", "True")


def test_nested_settings_reach_the_experiment() -> None:
    found = compose_experiment(words_of({"optim": {"lr": 0.1}, "strategy": {"name": "fedmedian"}}))
    assert found.optim.lr == 0.1
    assert found.strategy["name"] == "fedmedian"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "fedavgg"}, "method=fedavgg: "),
        ({"alpha": -1}, "alpha=-1"),
        ({"alpha": math.inf}, "alpha=inf"),
        ({"optim": {"lr": object}}, "optim.lr=<class 'object'>: must be a number, text, path"),
        ({"alpha": Fraction(1, 2)}, "alpha=Fraction(1, 2): must be a number"),
        ({"engine": "ray"}, "engine=ray: write engine=flower"),
        ({"partition": "sites"}, "partition.names="),
        ({"resume": "nowhere"}, "is neither the directory of a run nor the name of one"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(univarfl.ConfigError) as raised:
        univarfl.train(**settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("settings", [{"seed": []}, {"jobs": 0}, {"method": ["x", "y"]}])
def test_a_sweep_refuses_wrong_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(univarfl.ConfigError):
        univarfl.sweep(**settings)
