"""Words that Hydra reads and that set no value of ours."""

import pytest
from hydra.core.override_parser.types import Override

from server_app.config.composition import compose_experiment
from server_app.config.overrides import parse
from task.errors import ConfigError

EXAMPLE = "write key=value, as in alpha=0.05"
NOT_HYDRA = "unknown key; the settings of Hydra itself cannot be changed"


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("hydra.run.dir=/x", f"hydra.run.dir=/x: {NOT_HYDRA}"),
        ("+hydra.x=1", f"hydra.x=1: {NOT_HYDRA}"),
        ("hydra/launcher=basic", f"hydra/launcher=basic: {NOT_HYDRA}"),
        ("hydra=3", f"hydra=3: {NOT_HYDRA}"),
        ("~alpha", f"override=~alpha: a setting cannot be removed; {EXAMPLE}"),
        ("~model", f"override=~model: a setting cannot be removed; {EXAMPLE}"),
        ("~optim.lr", f"override=~optim.lr: a setting cannot be removed; {EXAMPLE}"),
        ("~seed=0", f"override=~seed=0: a setting cannot be removed; {EXAMPLE}"),
        ("alpha", "override=alpha: write alpha=VALUE"),
        ("", f"override=: cannot be read; {EXAMPLE}"),
        ("=1", f"override==1: has no key; {EXAMPLE}"),
        ("+alpha=1", "alpha=1: has a value already; write alpha=1, without '+'"),
        ("+data=pacs", "data=pacs: write data=pacs, without '+'"),
        ("++data=pacs", "data=pacs: write data=pacs, without '+'"),
        (
            "+method@model=cnn",
            f"override=+method@model=cnn: '@' is not allowed in a key; {EXAMPLE}",
        ),
        ("optim=null", "optim=null: choose one of adamw, sgd"),
        ("optim=[]", "optim=[]: choose one of adamw, sgd"),
        ("federation={a:1}", "federation={a:1}: choose one of local, sites"),
        (
            "optim.lr=${x}",
            "optim.lr=${x}: its reference has no value: Interpolation key 'x' not found",
        ),
    ],
)
def test_a_word_that_sets_no_value_is_refused_in_one_line(word: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment([word])
    assert str(caught.value) == line


def test_hydras_parser_reads_words_as_we_use_it() -> None:
    """If this fails, Hydra has changed the parser that `config.overrides` uses."""
    override = parse("+method.clients=[1,2]")
    assert isinstance(override, Override)
    assert (override.key_or_group, override.package) == ("method.clients", None)
    assert (override.is_add(), override.is_force_add(), override.is_delete()) == (1, 0, 0)
    assert override.value() == [1, 2]
    assert parse("seed=0,1").is_sweep_override()
    assert parse("~alpha").is_delete()
    assert parse("++alpha=1").is_force_add()
    assert parse("method@model=cnn").package == "model"
