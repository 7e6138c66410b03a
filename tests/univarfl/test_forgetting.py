"""`univarfl forget` and clients that join later: the same bits as a run that never knew better."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from client_app.after import sums
from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from server_app.runs.kept_sums import kept_clients, path_of
from server_app.runs.records.run_record import read_entries, read_record
from task.errors import ConfigError, RunError
from tests.conftest import SMALL, Train, only_run, rows, sha256
from tests.server_app.nodes.test_lies import trained
from tests.server_app.rounds.closed_form.test_runs import NCM, RIDGE
from tests.server_app.rounds.masked.test_masked_sites import WORDS, MaskedSites
from tests.task.data import making
from tests.test_docs import PRODUCT
from tests.test_shown_commands import succeed
from univarfl.engines.train import train_experiment
from univarfl.forgetting import delete_everywhere, forget
from univarfl.inference.model import trained_model

KEEP = "sums.keep=true"
SITES = ("east", "north", "south")


@pytest.mark.parametrize(
    "method", [RIDGE, pytest.param(NCM, marks=pytest.mark.slow)], ids=["ridge", "ncm"]
)
def test_the_model_is_that_of_a_run_without_the_client(
    train: Train, method: tuple[str, ...]
) -> None:
    run = train(*method, KEEP)
    found = forget(run, ["2", "0"])
    expected = train(*method, "without=[0,2]")
    assert sha256(found.directory) == sha256(expected) != sha256(run)
    record, other = read_entries(found.directory), read_entries(expected)
    assert record["results"]["test"] == other["results"]["test"]
    assert record["data"]["train"] == other["data"]["train"]
    assert record["data"]["clients"] == other["data"]["clients"]
    assert record["forgotten"] == {"run": str(run), "clients": ["2", "0"]}
    assert [row["client"] for row in rows(found.directory, "clients.csv")] == ["1", "3"]
    assert kept_clients(run) == kept_clients(found.directory) == ["1", "3"]
    assert found.deleted == [run]
    assert trained_model(found.directory, "cpu", None).classes == list(map(str, range(10)))


@pytest.mark.slow
def test_its_settings_are_those_of_a_run_without_the_client(train: Train) -> None:
    """So a sweep or a report does not take it for the whole run, and it can be made again."""
    run = train(*RIDGE, KEEP)
    found = forget(run, ["1"])
    record = read_record(found.directory)
    assert record.config["without"] == ["1"]
    assert record.overrides is not None
    words = [word for word in record.overrides if not word.startswith(("run_id", "output_dir"))]
    again = compose_experiment(whole_words(words)).model_dump()
    assert again["without"] == ["1"]
    assert again["sums"] == record.config["sums"] == {"keep": True, "add_to": None}


@pytest.mark.slow
def test_one_after_another_is_both_at_once(train: Train) -> None:
    run = train(*RIDGE, KEEP)
    once = forget(run, ["0"])
    twice = forget(once.directory, ["3"])
    assert sha256(twice.directory) == sha256(train(*RIDGE, "without=[0,3]"))
    assert twice.deleted == [once.directory, run]
    assert kept_clients(run) == ["1", "2"]


class TestLateClients:
    def test_the_model_is_that_of_all_from_the_start(self, train: Train) -> None:
        first = train(*RIDGE, KEEP, "without=[1]")
        late = train(*RIDGE, KEEP, f"sums.add_to={first}")
        assert sha256(late) == sha256(train(*RIDGE)) != sha256(first)
        assert [row["status"] for row in rows(late, "clients.csv")] == ["ok"] * 4
        assert kept_clients(late) == ["0", "1", "2", "3"]
        events = [row["event"] for row in rows(late, "events.csv")]
        assert events == [f"sums.add_to: the sums of 3 clients are those of {first.name}"]
        assert delete_everywhere(late, ["0"]) == [late, first]

    @pytest.mark.slow
    def test_nobody_is_asked_if_all_sums_are_kept(self, train: Train) -> None:
        first = train(*RIDGE, KEEP)
        again = train(*RIDGE, "method.penalty=0.1", f"sums.add_to={first}")
        assert sha256(again) == sha256(train(*RIDGE, "method.penalty=0.1"))

    @pytest.mark.slow
    def test_damaged_sums_are_refused(self, train: Train) -> None:
        first = train(*RIDGE, KEEP, "without=[1]")
        path = path_of(first, "2")
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with pytest.raises(RunError, match=r"2\.safetensors: is damaged, or of another network"):
            train(*RIDGE, f"sums.add_to={first}")
        with pytest.raises(ConfigError, match="is damaged, or of another network"):
            forget(first, ["0"])

    @pytest.mark.slow
    def test_sums_of_another_network_are_refused(self, train: Train) -> None:
        first = train(*RIDGE, KEEP, "without=[1]")
        trained_one = train("method=fedavg", "rounds=1")
        with pytest.raises(RunError, match="has sums of a network with other weights; use the mod"):
            train(*RIDGE, f"sums.add_to={first}", f"model.weights={trained_one}")


def test_only_the_owner_reads_the_sums(train: Train) -> None:
    run = train(*RIDGE, KEEP)
    assert path_of(run, "0").stat().st_mode & 0o777 == 0o600
    assert path_of(run, "0").parent.stat().st_mode & 0o777 == 0o700
    assert not kept_clients(train(*RIDGE))


@pytest.mark.slow
def test_a_second_attempt_keeps_no_sums_of_the_first(train: Train, tmp_path: Path) -> None:
    """Client 1 answers the first attempt, which fails for another reason, and not the second."""
    honest = sums.sums_of_client

    def told(session: Any, client: int) -> Any:
        if client in failing:
            raise RuntimeError("scanner offline")
        return honest(session, client)

    failing = {0, 2, 3}
    with patch.object(sums, "sums_of_client", told):
        with pytest.raises(RunError, match="1 of 4 clients sent sums"):
            train(*RIDGE, KEEP, "federation.quorum=0.5")
        run = only_run(tmp_path)
        assert kept_clients(run) == ["1"]
        failing = {1}
        words = whole_words([f"resume={run}"])
        train_experiment(compose_experiment(words), words)
    assert kept_clients(run) == ["0", "2", "3"]


@pytest.mark.parametrize(
    ("words", "key", "reason"),
    [
        ("without=[1]", "without", "needs method=ridge or method=ncm"),
        ("sums.keep=true", "sums.keep", "needs method=ridge or method=ncm"),
        ("method=ridge without=[10]", "without", "is no client; name clients from 0 to 9"),
        ("method=ridge num_clients=2 without=[0,1]", "without", "leaves no client"),
        ("method=ridge secure=masked sums.keep=true", "sums.keep", "with masks the server sees"),
        ("method=ridge sums.add_to=nowhere", "sums.add_to", "must be the directory of a run"),
    ],
)
def test_what_does_not_fit_is_refused(words: str, key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_experiment(words.split())
    assert caught.value.key == key
    assert reason in caught.value.allowed


@pytest.mark.slow
def test_runs_without_fitting_sums_are_refused(train: Train) -> None:
    plain, kept = train(*RIDGE), train(*NCM, KEEP)

    def refused(run: Path, *clients: str) -> str:
        with pytest.raises(ConfigError) as caught:
            forget(run, clients)
        return caught.value.allowed

    assert "make the run again with without=[2]" in refused(plain, "2")
    assert "method=ridge and method=ncm keep them" in refused(train("rounds=1"), "2")
    assert "has no sums in" in refused(kept, "7")
    assert "delete the run instead" in refused(kept, "0", "1", "2", "3")
    assert len(kept_clients(kept)) == 4
    for words, reason in (
        ((*RIDGE, f"sums.add_to={plain}"), "has no kept sums"),
        ((*NCM, f"sums.add_to={kept}", "seed=1"), "seed differ; use the settings of that run"),
    ):
        with pytest.raises(ConfigError, match=reason):
            compose_experiment([*SMALL, *words])


AT_SITES = (*WORDS, *RIDGE, "data.validation_share=0.1")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of sites with enough in each class."""
    place = tmp_path_factory.mktemp("images")
    for name in (*SITES, "west"):
        making.tree(place / name, ["cat", "dog"], 22)
    return place


@pytest.mark.slow
@pytest.mark.usefixtures("jumping_clock")
def test_sites_leave_and_join_by_name(images: Path, tmp_path: Path) -> None:
    """A late site gets another number than it would have had; its name counts."""
    grid: Any = MaskedSites(images, tmp_path / "p")
    for name in (*SITES, "west"):
        grid.configure(name, tell_statistics=True)
    every = f"partition.names=[{','.join((*SITES, 'west'))}]"
    whole = trained(grid, tmp_path, "whole", *AT_SITES, KEEP, every)
    found = forget(whole, ["north"])
    others = "partition.names=[east,south,west]"
    three = trained(grid, tmp_path, "three", *AT_SITES, KEEP, others, f"model.weights={whole}")
    assert sha256(found.directory) == sha256(three) != sha256(whole)
    late = trained(
        grid, tmp_path, "late", *AT_SITES, every, f"model.weights={whole}", f"sums.add_to={three}"
    )
    assert sha256(late) == sha256(whole)
    asked = [row["event"] for row in rows(late, "events.csv") if "sums.add_to" in row["event"]]
    assert asked == ["sums.add_to: the sums of 3 clients are those of three"]
    with pytest.raises(ConfigError, match=r"train again with partition\.names=\[east,south\]"):
        forget(trained(grid, tmp_path, "plain", *AT_SITES, others), ["west"])


@pytest.mark.slow
def test_the_commands_of_the_page_run(
    tmp_path: Path, cache_of_all_digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIVARFL_CACHE", str(cache_of_all_digits))
    lines = [each for each in PRODUCT if each.page == "docs/how-to/forget-a-site.md"]
    for each in lines:
        if "coordinator/" not in each.line:
            words = each.words[1:]
            succeed([*words, "federation.workers=1"] if words[0] == "train" else words)
    runs = list((tmp_path / "runs").iterdir())
    named = {run.name: sha256(run) for run in runs if run.name in ("sums", "early", "late")}
    forgotten, excluded = (sha256(run) for run in runs if run.name not in named)
    assert forgotten == excluded
    assert named["late"] == named["sums"] != named["early"]
