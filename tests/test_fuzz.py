"""Random input of every kind is either accepted, or refused with a clear error.

Each test tries 100 cases, or 2,000 with ``--hypothesis-profile=thousands``.
"""

import copy
import json
import logging
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from client_app.kinds import HANDLERS
from server_app.aggregation.guards.drop import Drop
from server_app.aggregation.training_replies import add_reply
from server_app.aggregation.weights import Weights
from server_app.config.choices import choices
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.nodes.assignment import WorkUnit
from server_app.runs.checkpoint import (
    Checkpoint,
    ModelState,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from task.errors import ConfigError, ProtocolError, SiteError
from task.fingerprint import fingerprint
from task.plain_text import PlainFormatter, one_line
from task.protocol.base import Message
from task.protocol.packed import DATA, HEADER, JSON, SIGNATURE, Packed
from task.protocol.tensors import PackedTensors
from task.protocol.training import TrainReply
from task.registry import named
from task.site import Site
from tests.server_app.aggregation.updates import EXAMPLES, NODE, accumulator_of, model, row
from tests.server_app.runs.recorded import record
from univarfl.records.reader import read_runs

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


def piece(data: bytes) -> ConfigRecord:
    """Bytes as a message holds them."""
    return ConfigRecord({DATA: data})


def refusal(call: Callable[[], object], error: type[Exception]) -> str | None:
    """Return the message of the error that a call raises, or None if it raises none."""
    try:
        call()
    except error as reason:
        return str(reason)
    return None


def is_one_line(text: str) -> bool:
    """Return whether a text is one line that is not empty."""
    return bool(text.strip()) and "\n" not in text


@given(WORDS)
@example(["model=${oc.env:HOME}"])
@example(["data.root=~nobody"])
@example(["\n"])
@example(["alpha=", "\n"])
@PLACES
def test_any_overrides_compose_or_are_refused_in_one_line(words: list[str]) -> None:
    reason = refusal(lambda: compose_experiment(words), ConfigError)
    if reason is None:
        experiment = compose_experiment(words)
        assert type(experiment).model_validate_json(experiment.model_dump_json()) == experiment
    else:
        assert is_one_line(reason)
        assert re.match(r"[^=]*=.*: .", reason), "an error is key=value: what is allowed"


@given(st.dictionaries(
    st.sampled_from(["site", "data-dir", "device", "memory-dir", "models-dir", "max-norm",
                     "max-epochs", "max-seconds", "keep-free-megabytes", "require-approval",
                     "tell-labels", "tell-statistics", "partition-id"])
    | st.text(max_size=8),
    LEAVES, max_size=6,
))  # fmt: skip
@example({"data-dir": "~nobody"})
@example({"site": "\n"})
@example({"site": "a", "data-dir": "/", "\n": 1})
def test_any_site_settings_are_read_or_refused_in_one_line(node_config: dict[str, Any]) -> None:
    reason = refusal(lambda: Site.from_node_config(node_config), SiteError)
    assert reason is None or is_one_line(reason)


JSONS = st.recursive(
    LEAVES.filter(lambda leaf: not isinstance(leaf, bytes)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
ROWS = st.dictionaries(
    st.sampled_from(["client", "reason", "examples", "device", "seconds", "correct", "loss",
                     "losses"]) | st.text(max_size=5),
    JSONS | st.sampled_from([3, 5, "", "cpu", {"ce": 0.5}]), max_size=9,
)  # fmt: skip
SOUND_ROW = row(3)
HEADERS = st.dictionaries(
    st.sampled_from(["rows", "run", "round", "attempt", "fingerprint", "nonce", "index", "site"])
    | st.text(max_size=5),
    JSONS
    | st.lists(ROWS | st.just(SOUND_ROW), max_size=2)
    | st.sampled_from(["run", 1, fingerprint()]),
    max_size=9,
).map(lambda fields: SOUND_FIELDS | fields)
SOUND_FIELDS: dict[str, Any] = {
    "run": "run", "round": 1, "attempt": 1, "fingerprint": fingerprint(), "nonce": "0" * 32,
    "rows": [SOUND_ROW],
}  # fmt: skip
ARRAYS = st.sampled_from([torch.float32, torch.float64, torch.float16, torch.int64]).flatmap(
    lambda kind: st.lists(st.integers(0, 3), max_size=3).map(
        lambda shape: torch.ones(shape, dtype=kind)
    )
)
MODELS = (
    st.dictionaries(st.sampled_from(["w", "batches", "x"]), ARRAYS, max_size=3).map(
        lambda tensors: PackedTensors.of(tensors).data
    )
    | st.binary(max_size=60)
    | st.just(PackedTensors.of(model(1.5)).data)
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        HEADER: st.builds(
            lambda name, data, signature: ConfigRecord({name: data, SIGNATURE: signature}),
            st.sampled_from([JSON, "other"]),
            HEADERS.map(lambda fields: json.dumps(fields).encode()) | st.binary(max_size=20),
            st.binary(max_size=200) | st.integers(0, 9) | st.text(max_size=5),
        ),
        "weights/3.0": MODELS.map(piece),
        "weights/sum.0": MODELS.map(piece),
        "extra/3.0": MODELS.map(piece),
        "extra/3.1": MODELS.map(piece),
        "more": st.just(MetricRecord({"a": 1.0})),
    },
)


@pytest.mark.usefixtures("flower_identity")
@given(RECORDS, st.booleans())
@PLACES
def test_any_reply_is_handled_and_only_a_valid_one_counts(
    records: dict[str, Any], summed: bool
) -> None:
    content = RecordDict(records)
    guard = Drop(most_images=10, times_median=3.0)
    accumulator = accumulator_of([3], guard=guard, each=not summed)
    try:
        reply = TrainReply.unpack(Packed.of(content))
    except ProtocolError:
        return  # the next test looks at the reasons
    add_reply(WorkUnit(NODE, [3]), reply, accumulator, summed)
    accumulator.apply_filter()
    (found,) = accumulator.updates.values()
    assert found.reason.isprintable()
    if found.accepted:
        assert found.examples == EXAMPLES
        assert all(value.isfinite().all() for value in accumulator.mean().values())


@given(RECORDS)
@PLACES
def test_any_message_is_read_or_refused(records: dict[str, Any]) -> None:
    content = RecordDict(records)
    for kind in (named(each.kind) for each in HANDLERS.values()):
        for form in (kind.request, kind.reply):
            reason = refusal(partial(read, form, content), ProtocolError)
            assert reason is None or is_one_line(reason)


def read(form: type[Message], content: RecordDict) -> None:
    """Read a message of one kind."""
    form.unpack(Packed.of(content))


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


@given(ANY_TEXT)
@example("ok\nround 9/9  test 0.999")
@example("\x1b[2J\u202e\ud800\u2028\x00")
def test_any_text_becomes_one_short_printable_line(text: str) -> None:
    line = one_line(text, 50)
    assert line.isprintable()
    assert len(line) <= 50
    assert one_line(line, 50) == line
    if text.isprintable() and " ".join(text.split()) == text:
        assert line == text[:50]


@given(ANY_TEXT, ANY_TEXT)
def test_no_text_forges_a_line_of_a_log(message: str, reason: str) -> None:
    try:
        raise ValueError(reason)
    except ValueError:
        failed = sys.exc_info()
    entry = logging.LogRecord("univarfl", logging.ERROR, "", 0, "%s", (message,), failed)
    first, *others = PlainFormatter("LOG %(message)s").format(entry).split("\n")
    assert first.startswith("LOG")
    assert first.isprintable()
    assert all(line.startswith("    ") and line.isprintable() for line in others)


SIZES = st.integers(0, 3) | st.integers(-1, 2**66)
TENSOR_INDEXES = st.dictionaries(
    ANY_TEXT,
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "I64", "BF16", "F8_E8M0", "F4", "C64", "BOOL", "?"]),
            "shape": st.lists(SIZES, max_size=4),
            "data_offsets": st.tuples(SIZES, SIZES) | st.just((0, 0)) | st.just((0, 4)),
        }
    )
    | JSONS,
    max_size=2,
)


@given(TENSOR_INDEXES, st.binary(max_size=12) | st.just(bytes(4)))
@example({"x": {"dtype": "F8_E8M0", "shape": [4], "data_offsets": [0, 4]}}, bytes(4))
@example({"x": {"dtype": "F32", "shape": [0, 2**40, 2**40], "data_offsets": [0, 0]}}, b"")
@example({"x": {"dtype": "F32", "shape": [1] * 5000, "data_offsets": [0, 4]}}, bytes(4))
@example({"__metadata__": {"a": "b"}}, b"")
def test_any_file_of_tensors_is_read_or_refused(found: dict[str, Any], data: bytes) -> None:
    written = json.dumps(found).encode()
    packed = PackedTensors(len(written).to_bytes(8, "little") + written + data)
    reason = refusal(packed.unpack, ProtocolError)
    assert reason is None or (is_one_line(reason) and reason.isprintable())
    if reason is None:
        assert sum(value.nbytes for value in packed.unpack().values()) <= len(data)


@given(st.integers(0), st.integers(1, 255), st.booleans())
@PLACES
def test_no_damaged_checkpoint_is_accepted(
    tmp_path: Path, place: int, change: int, cut: bool
) -> None:
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    weights: Weights = {"weights/w": np.arange(6, dtype=np.float32), "strategy/m": np.ones(2)}
    state = ModelState(weights, {0: 1, 2: 2}, {0: 30, 2: 20}, 50.0)
    save_checkpoint(tmp_path, Checkpoint(2, 1.5, state, {"failed": [], "empty_rounds": 0}, {}, {}))
    (path,) = checkpoints(tmp_path)
    content = bytearray(path.read_bytes())
    place %= len(content)
    if cut:
        del content[place:]
    else:
        content[place] ^= change
    path.write_bytes(content)
    reason = refusal(lambda: load_checkpoint(tmp_path), ConfigError)
    if reason is None:  # the changed byte has no meaning, such as a blank in JSON
        found = load_checkpoint(tmp_path)
        assert found is not None
        assert (found.round, found.model.last_accepted) == (2, {0: 1, 2: 2})
        assert all(np.array_equal(found.model.arrays[name], weights[name]) for name in weights)
    else:
        assert "no checkpoint can be used" in reason


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("record"), "run", ["engine=inprocess"], [0.1, 0.5, 0.7])


@given(
    st.sampled_from(["run.json", "rounds.csv", "classes.csv", "clients.csv"]),
    st.integers(0), st.binary(max_size=8), st.integers(0, 200),
)  # fmt: skip
@PLACES
def test_a_damaged_record_is_read_or_reported(
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
    reason = refusal(lambda: whole_words([f"resume={run}"]), ConfigError)
    if reason is None:
        assert f"run_id={run.name}" in whole_words([f"resume={run}"])
    else:
        assert is_one_line(reason)
        assert reason.startswith(f"resume={run}: ")


@given(st.recursive(LEAVES.filter(lambda leaf: not isinstance(leaf, bytes)), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
), max_leaves=6), st.integers(0))  # fmt: skip
@example([], 4)  # data_version
@PLACES
def test_any_value_in_a_record_is_read_or_reported(
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


@pytest.mark.parametrize("value", [[], {}, False, 0, "", None])
def test_each_entry_of_a_record_may_have_any_type(
    sound: Path, tmp_path: Path, value: object
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    summary = json.loads((run / "run.json").read_text())
    for name in summary:
        (run / "run.json").write_text(json.dumps(summary | {name: value}))
        found = read_runs(tmp_path)
        assert len(found.runs) + len(found.problems) == 1, name
