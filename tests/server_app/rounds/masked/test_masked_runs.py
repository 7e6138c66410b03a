"""Masked runs: the model of the same arithmetic without masks, also when clients fail."""

import json
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from flwr.app import Context, Message
from safetensors.torch import load_file

from client_app.app import app as client_app
from client_app.masked.party import STATE
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError, RunError
from task.secure.coordinator import Coordinator
from task.secure.transcript import Setup
from tests.conftest import Train, faulty, rows, sha256
from univarfl.engines import inprocess
from univarfl.engines.train import train_experiment

MASKED, ROUNDED = "secure=masked", "secure=rounded"
NEAREST = ("secure.rounding=nearest", "strategy.weighting=uniform")
BEFORE_REPORT = ("query.keys", "query.shares", "train.report")
STAGES = [
    pytest.param("query.keys", marks=pytest.mark.slow),
    pytest.param("query.shares", marks=pytest.mark.slow),
    "train.report",
    pytest.param("query.agree", marks=pytest.mark.slow),
    pytest.param("query.unmask", marks=pytest.mark.slow),
]


def values(directory: Path, split: str) -> dict[tuple[str, str], float]:
    return {
        (row["round"], row["metric"]): float(row["value"])
        for row in rows(directory, "rounds.csv")
        if row["split"] == split and row["metric"] != "seconds"
    }


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["num_clients=3"], id="3 clients"),
        pytest.param(["method=fedetf", "num_clients=6", "rho=0.5", "rounds=3"], id="half of them"),
        pytest.param([*NEAREST, "num_clients=2"], id="nearest"),
        pytest.param(
            ["strategy.weighting=uniform", "num_clients=2"], id="uniform", marks=pytest.mark.slow
        ),
        pytest.param(["model.norm=group", "rounds=1"], id="no counters"),
        pytest.param(
            ["num_clients=10", "alpha=1", "partition=dirichlet", "strategy=fedadam"],
            id="10 clients", marks=pytest.mark.slow,
        ),
        pytest.param(["method=feduv"], id="feduv", marks=pytest.mark.slow),
        pytest.param(
            ["method=fedprox", "model=resnet56", "data.image_size=8"],
            id="batch norm", marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_the_model_and_the_scores_are_those_of_the_run_without_masks(
    train: Train, words: list[str]
) -> None:
    plain, masked = train(*words, ROUNDED), train(*words, MASKED)
    assert sha256(plain) == sha256(masked)
    for split in ("test", "validation"):
        assert values(masked, split) == pytest.approx(values(plain, split), rel=1e-5)


def test_losses_are_in_the_masked_sum_alone(train: Train) -> None:
    words = ["strategy.weighting=examples", "rounds=1"]
    plain, masked = train(*words), train(*words, MASKED)
    assert values(masked, "train") == pytest.approx(values(plain, "train"), rel=1e-5)
    told = [row["ce"] for row in rows(masked, "clients.csv")]
    assert told == [""] * 4
    assert all(row["ce"] for row in rows(plain, "clients.csv"))


def test_a_masked_reply_counts_with_its_size(train: Train) -> None:
    """Each parameter and mean loss is an integer of 8 bytes; batch norm's counters are not sent."""
    plain, masked = train("rounds=1"), train("rounds=1", MASKED)
    model = list(load_file(plain / "model.safetensors").values())
    sent = sum(value.numel() for value in model if value.is_floating_point())
    terms = {"ce", "l_he", "l_v"}
    assert read_entries(masked)["reply_bytes"] == 8 * (sent + len(terms))
    size = sum(value.nbytes for value in model)
    for run, keys in ((plain, ("request_bytes", "reply_bytes")), (masked, ("request_bytes",))):
        assert [read_entries(run)[key] for key in keys] == [size] * len(keys)


def test_the_record_says_what_is_learnt_and_that_the_keys_share_a_machine(train: Train) -> None:
    masked = train(MASKED, "rounds=1")
    found = read_entries(masked)["secure"]
    assert (found["threshold"], found["colluding"]) == (3, 1)
    assert "all keys are on one machine" in found["keys"]
    assert any("sum of the updates" in line for line in found["coordinator_learns"])


@pytest.mark.usefixtures("parts")
@pytest.mark.slow
def test_a_client_that_fails_in_training_costs_its_own_update(train: Train) -> None:
    words = [*faulty([1], [1], "raise"), "rounds=2"]
    plain, masked = train(*words, ROUNDED), train(*words, MASKED)
    assert sha256(plain) == sha256(masked)
    failed = [row for row in rows(masked, "clients.csv") if row["status"] != "ok"]
    assert [(row["round"], row["client"]) for row in failed] == [("1", "1")]
    assert "scanner offline" in failed[0]["reason"]


@pytest.mark.usefixtures("parts")
def test_below_the_threshold_the_round_is_given_up_and_the_model_stays(train: Train) -> None:
    masked = train(*faulty([1, 2], [1], "raise"), "rounds=2", MASKED)
    reasons = {row["client"]: row["reason"] for row in rows(masked, "clients.csv")[:4]}
    assert reasons["0"] == "2 participants have reported, and 3 are needed"
    assert "scanner offline" in reasons["1"]
    assert values(masked, "train")["1", "clients"] == 0
    assert values(masked, "train")["2", "clients"] == 4
    untrained = values(masked, "test")["0", "loss"]
    assert values(masked, "test")["1", "loss"] == untrained


@pytest.mark.usefixtures("parts")
@pytest.mark.slow
def test_a_run_whose_rounds_are_all_below_the_threshold_ends_with_the_reason(
    train: Train, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="no clients succeeded, 3 rounds in a row"):
        train(*faulty([1, 2], [1, 2, 3], "raise"), "rounds=4", MASKED)
    with pytest.raises(RunError, match="0 of 4 clients, and the quorum is 4"):
        train(*faulty([1], [1], "raise"), "federation.quorum=1", MASKED)


@pytest.mark.usefixtures("parts")
@pytest.mark.slow
def test_an_update_that_is_not_finite_is_left_out_before_it_is_masked(train: Train) -> None:
    words = [*faulty([2], [1], "nan"), "rounds=1"]
    plain, masked = train(*words, ROUNDED), train(*words, MASKED)
    assert sha256(plain) == sha256(masked)
    (failed,) = [row for row in rows(masked, "clients.csv") if row["status"] != "ok"]
    assert "training diverged" in failed["reason"]


@pytest.mark.usefixtures("parts")
def test_a_worker_whose_clients_all_fail_says_why(train: Train) -> None:
    words = [*faulty([1], [1], "raise"), "rounds=1", "federation.workers=4"]
    plain, masked = train(*words, ROUNDED), train(*words, MASKED)
    assert sha256(plain) == sha256(masked)
    (failed,) = [row for row in rows(masked, "clients.csv") if row["status"] != "ok"]
    assert "scanner offline" in failed["reason"]


def failing(kind: str, node: int, rounds: Collection[int]) -> Callable[[Message, Context], Message]:
    """Return a ClientApp that fails on one SuperNode for one kind of message."""

    def app(message: Message, context: Context) -> Message:
        here = context.node_config["partition-id"] == node
        if (
            here
            and message.metadata.message_type == kind
            and int(message.metadata.group_id) in rounds
        ):
            raise RuntimeError("the process was killed")
        return client_app(message, context)

    return app


@pytest.mark.parametrize("kind", STAGES)
def test_a_worker_that_dies_in_any_stage_is_a_drop_out_of_that_stage(
    train: Train, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Before its report it costs its clients' updates, as without masks; later it costs nothing."""
    words = ["federation.workers=4", "rounds=2", "evaluate_every=2"]
    monkeypatch.setattr(inprocess, "client_app", failing(kind, 2, [1]))
    masked = train(*words, MASKED)
    lost = "train" if kind in BEFORE_REPORT else "none"
    monkeypatch.setattr(inprocess, "client_app", failing(lost, 2, [1]))
    assert sha256(masked) == sha256(train(*words, ROUNDED))
    failed = [row["reason"] for row in rows(masked, "clients.csv") if row["status"] != "ok"]
    assert len(failed) == (kind in BEFORE_REPORT)
    assert all("the process was killed" in reason for reason in failed)


@pytest.mark.slow
def test_an_attempt_is_repeated_with_new_keys_and_everyone(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four fail to share in the first attempt, which is then below the threshold."""
    seen: list[Setup] = []
    original = Coordinator.setup
    tried: list[int] = []

    def setup(self: Coordinator) -> Setup:
        seen.append(original(self))
        return seen[-1]

    def app(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "query.shares" and len(tried) < 2:
            tried.append(1)
            raise RuntimeError("killed")
        return client_app(message, context)

    words = ["federation.workers=4", "rounds=1", "federation.attempts=2"]
    plain = train(*words, ROUNDED, *NEAREST)
    monkeypatch.setattr(Coordinator, "setup", setup)
    monkeypatch.setattr(inprocess, "client_app", app)
    masked = train(*words, MASKED, *NEAREST)
    assert sha256(masked) == sha256(plain)
    trained = [each for each in seen if each.scope.purpose == "train"]
    assert [each.scope.attempt for each in trained] == [1, 2]
    first, second = (
        {a.mask_key for a in each.adverts.values()} | {a.commitment for a in each.adverts.values()}
        for each in trained
    )
    assert len(first) == len(second) == 8
    assert not first & second


def test_a_resumed_run_begins_its_round_with_new_keys(
    train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = train(MASKED, "method=feduv")
    keys: list[str] = []
    original = Coordinator.setup

    def setup(self: Coordinator) -> Setup:
        found = original(self)
        keys.extend(advert.mask_key for advert in found.adverts.values())
        return found

    def interrupted(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "query.unmask" and message.metadata.group_id == "2":
            raise KeyboardInterrupt
        return client_app(message, context)

    monkeypatch.setattr(Coordinator, "setup", setup)
    monkeypatch.setattr(inprocess, "client_app", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(MASKED, "method=feduv", "run_id=broken")
    monkeypatch.setattr(inprocess, "client_app", client_app)
    broken = tmp_path / "runs" / "broken"
    words = whole_words([f"resume={broken}"])
    train_experiment(compose_experiment(words), words)
    assert sha256(broken) == sha256(whole)
    assert len(keys) == len(set(keys))


def test_secrets_are_forgotten_after_the_round_and_are_in_no_file(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets: list[str] = []
    left: list[bool] = []

    def app(message: Message, context: Context) -> Message:
        reply = client_app(message, context)
        if STATE in context.state:
            content = context.state.config_records[STATE]["progress"]
            assert isinstance(content, bytes)
            found = json.loads(content)
            members = found["members"].values()
            secrets.extend(part for each in members for part in each["secrets"] or ())
        if message.metadata.message_type == "query.unmask":
            left.append(STATE in context.state)
        return reply

    monkeypatch.setattr(inprocess, "client_app", app)
    masked = train(MASKED, "rounds=1")
    assert len(set(secrets)) == 2 * 4 * 3  # of the updates, and of the scores
    assert left == [False, False]
    content = b"".join(path.read_bytes() for path in masked.rglob("*") if path.is_file())
    assert not any(secret.encode() in content for secret in secrets)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["strategy=fedmedian"], "strategy=fedmedian: reads each client's update"),
        (["strategy=dp_fixed", "model.norm=group"], "strategy=dp_fixed: reads each client's"),
        (["guard=clip"], "guard=clip: reads each client's update"),
        (["method=scaffold"], "method=scaffold: has a server update"),
        (["method=feddyn"], "method=feddyn: has a server update"),
        (["watch.models_every=1"], "watch.models_every=1: keeps each client's model"),
        (["num_clients=1"], "secure=masked: 1 participants of which 0 may collude are too few"),
        (["secure.colluding=3"], "4 participants of which 3 may collude are too few"),
        (["num_clients=2000"], "secure=masked: is for at most 1000 clients"),
        (["secure.rounding=nearest"], "nearest: hides updates only if all weigh the same"),
        (["secure.max_share=0.2"], r"max_share=0.2: must be at least 1 / participants = 0.25"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_reason(
    words: list[str], reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        compose_experiment(["num_clients=4", "partition=iid", MASKED, *words])
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["strategy=fedmedian"], "with secure=rounded the server knows their sum only"),
        (["method=scaffold"], "method=scaffold: has a server update"),
        (["secure.rounding=nearest"], "nearest: hides updates only if all weigh the same"),
        (
            ["partition=sites", "partition.names=[a,b]", "data=folder", "data.classes=[x,y]"],
            "secure=rounded: is for simulations",
        ),
    ],
)
def test_rounding_without_masks_takes_what_masks_take(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose_experiment([ROUNDED, *words])
    assert reason in str(error.value)


def test_settings_of_masked_rounds_need_them() -> None:
    with pytest.raises(ConfigError, match=r"secure\.colluding"):
        compose_experiment(["secure.colluding=1"])


@pytest.mark.slow
def test_max_norm_acts_on_every_update_before_it_is_masked(train: Train) -> None:
    free, bound = train(MASKED, "rounds=1"), train(MASKED, "rounds=1", "secure.max_norm=0.001")
    assert sha256(free) != sha256(bound)
    before = values(bound, "test")["0", "loss"]
    assert values(bound, "test")["1", "loss"] == pytest.approx(before, rel=1e-2)
