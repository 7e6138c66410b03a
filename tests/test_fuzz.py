"""What nobody would write, and what nobody should send: it is refused in words, or read.

Each test tries a hundred cases; with ``--hypothesis-profile=thousands``, two thousand.
"""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from server_app.checkpoint import (
    Checkpoint,
    ModelState,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from server_app.choices import choices
from server_app.composition import compose_experiment
from server_app.exchange import belonging
from server_app.guards.drop import Drop
from server_app.handshake import HandshakeError, read_introduction, seat_of
from server_app.intake import Intake
from server_app.participation import Cohort
from server_app.replies import scores, updates
from server_app.report.records import read_runs
from server_app.resuming import whole_words
from server_app.weights import Weights, pack
from task import wire
from task.errors import ConfigError, SiteError
from task.site import Site
from tests.conftest import asked
from tests.server_app.report.recorded import record
from tests.server_app.test_aggregation import SEAT, model

PLACES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12),
    st.binary(max_size=9),
)  # fmt: skip
KEYS = st.sampled_from(
    ["alpha", "rho", "seed", "rounds", "num_clients", "batch_size", "optim.lr", "method", "model",
     "strategy", "data", "data.root", "partition", "partition.names", "guard", "watch", "engine",
     "guard.times_median", "federation.workers", "resume", "run_id", "output_dir", "+new.key",
     "~optim"]
)  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=10),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from([name for names in choices().values() for name in names]),
    st.sampled_from(["null", "[]", "{}", "[a,b]", "${oc.env:HOME}", "a,b", "'", "-0.0", "1e999"]),
)
WORDS = st.lists(st.tuples(KEYS, VALUES).map("=".join) | st.text(max_size=12), max_size=3)


def refusal(call: Callable[[], object], error: type[Exception]) -> str:
    """Why a call was refused; a dash if it was not."""
    try:
        call()
    except error as reason:
        return str(reason)
    return "-"


@given(WORDS)
@example(["model=${oc.env:HOME}"])
@example(["data.root=~nobody"])
@PLACES
def test_any_words_compose_or_are_refused_in_words(words: list[str]) -> None:
    assert refusal(lambda: compose_experiment(words), ConfigError)


@given(st.dictionaries(
    st.sampled_from(["site", "data-dir", "device", "memory-dir", "max-norm", "max-epochs",
                     "tell-labels", "partition-id"]) | st.text(max_size=8),
    LEAVES, max_size=6,
))  # fmt: skip
@example({"data-dir": "~nobody"})
@example({"site": "\n"})
@example({"site": "a", "data-dir": "/", "\n": 1})
def test_any_settings_are_a_sites_or_are_refused_in_a_line(node_config: dict[str, Any]) -> None:
    assert "\n" not in refusal(lambda: Site.of(node_config), SiteError)


COLUMNS = st.lists(st.one_of(st.integers(-(2**60), 2**60), st.just(3), st.just(5)), max_size=3) | (
    st.lists(st.floats(), max_size=3) | st.lists(st.text(max_size=4), max_size=3)
    | st.just([3]) | st.just(["ok"]) | st.integers(0, 9) | st.text(max_size=3)
)  # fmt: skip
TABLES = st.dictionaries(
    st.sampled_from(["client", "status", "examples", "device", "reason", "seconds", "correct",
                     "loss", "loss/ce"]) | st.text(max_size=5),
    COLUMNS, max_size=9,
)  # fmt: skip
ARRAYS = st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.uint8]).flatmap(
    lambda kind: st.lists(st.integers(0, 3), max_size=3).map(lambda shape: np.ones(shape, kind))
)
MODELS = st.dictionaries(st.sampled_from(["w", "batches", "x"]), ARRAYS, max_size=3).map(pack) | (
    st.binary(max_size=60).map(
        lambda junk: ArrayRecord({wire.PACKED: Array(np.frombuffer(junk, np.uint8))})
    )
    | st.just(pack(model(1.5)))
    | st.just(ArrayRecord({"w": Array("float32", (2, 2), "numpy.ndarray", b"x")}))
)
RECORDS = st.dictionaries(
    st.sampled_from([wire.CLIENTS, wire.ABOUT, wire.INTRODUCTION, wire.key(wire.ARRAYS, 3),
                     wire.key(wire.EXTRA, 3), wire.key(wire.ARRAYS, wire.SUM)]),
    TABLES.map(lambda table: ConfigRecord(dict(table)))
    | MODELS
    | st.just(MetricRecord({"a": 1.0})),
    max_size=4,
)  # fmt: skip


@pytest.mark.usefixtures("flower_identity")
@given(RECORDS, st.booleans())
@PLACES
def test_any_reply_is_judged_and_only_a_sound_one_counts(
    records: dict[str, Any], summed: bool
) -> None:
    message = asked([3])
    reply = Message(RecordDict(records), reply_to=message)
    assert belonging(reply, message).has_error()  # nobody knows the fingerprint by chance
    guard = Drop(most_images=10, times_median=3.0)
    intake = Intake(model(0.0), {}, {3: 1.0}, {3: 5}, guard, {"w"}, each=not summed, mean=True)
    (found,) = updates(Cohort(SEAT, [3]), reply, intake, summed)
    intake.settle()
    assert found.accepted == (3 in intake.accepted)
    if intake.accepted:
        assert all(np.isfinite(value).all() for value in intake.mean().values())
    scores([Cohort(SEAT, [3])], [reply], [5] * 4)
    assert refusal(lambda: seat_of(1, read_introduction(reply)), HandshakeError)


@given(st.integers(0), st.integers(1, 255), st.booleans())
@PLACES
def test_no_damaged_checkpoint_is_accepted(
    tmp_path: Path, place: int, change: int, cut: bool
) -> None:
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    weights: Weights = {"weights/w": np.arange(6, dtype=np.float32), "strategy/m": np.ones(2)}
    state = ModelState(weights, [1, 0, 2], [30, 0, 20])
    save_checkpoint(tmp_path, Checkpoint(2, 1.5, state, {"failed": [], "empty_rounds": 0}))
    (path,) = checkpoints(tmp_path)
    content = bytearray(path.read_bytes())
    place %= len(content)
    if cut:
        del content[place:]
    else:
        content[place] ^= change
    path.write_bytes(content)
    said = refusal(lambda: load_checkpoint(tmp_path), ConfigError)
    if said == "-":  # a byte that says nothing, as a blank between two words of JSON
        found = load_checkpoint(tmp_path)
        assert found is not None
        assert (found.round, found.model.last_accepted) == (2, [1, 0, 2])
        assert all(np.array_equal(found.model.arrays[name], weights[name]) for name in weights)
    else:
        assert "no checkpoint can be used" in said


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("record"), "run", ["engine=inprocess"], [0.1, 0.5, 0.7])


@given(
    st.sampled_from(["run.json", "rounds.csv", "classes.csv", "clients.csv"]),
    st.integers(0), st.binary(max_size=8), st.integers(0, 200),
)  # fmt: skip
@PLACES
def test_any_record_is_read_or_named(
    sound: Path, tmp_path: Path, name: str, place: int, junk: bytes, taken: int
) -> None:
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    content = (run / name).read_bytes()
    place %= len(content)
    (run / name).write_bytes(content[:place] + junk + content[place + taken :])
    found = read_runs(tmp_path)
    assert len(found.runs) + len(found.problems) == 1
    assert refusal(lambda: whole_words([f"resume={run}"]), ConfigError)


@given(st.recursive(LEAVES.filter(lambda leaf: not isinstance(leaf, bytes)), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
), max_leaves=6), st.integers(0))  # fmt: skip
@PLACES
def test_any_value_in_a_record_is_read_or_named(
    sound: Path, tmp_path: Path, value: Any, place: int
) -> None:
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    summary = json.loads((run / "run.json").read_text())
    changed = copy.deepcopy(summary)
    changed[sorted(summary)[place % len(summary)]] = value
    (run / "run.json").write_text(json.dumps(changed))
    found = read_runs(tmp_path)
    assert len(found.runs) + len(found.problems) == 1
