"""Runs with Flower's SuperLink and Ray's workers, started by every supported command."""

import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from server_app.runs.records.run_record import read_entries
from tests.chaos.through_ray import suffered
from tests.conftest import CNN, SMALL, Train, model_for, rows, sha256
from tests.documents import example
from tests.processes import family_of, names
from tests.server_app.rounds.ending.saved import scored_again
from tests.univarfl.engines.test_grid import EXPECTED, PROBE
from univarfl.engines.superlink import PrivateSuperLink
from univarfl.records.scores import read_client_scores

ROOT = Path(__file__).parent.parent
TINY = [*SMALL[1:], "rounds=1"]
CLUSTER_ID = "/ray.rpc.NodeInfoGcsService/GetClusterId"
TRAIN = ("train", "engine=flower")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def superlink(runs: Path) -> Iterator[PrivateSuperLink]:
    """Start one SuperLink for all `flwr run` tests, like a user's own local one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIVARFL_RUNS", str(runs))
        patch.setenv("UNIVARFL_MEMORY", str(runs.with_name("memory")))
        with PrivateSuperLink() as superlink:
            superlink.wait_until_ready()
            yield superlink


def flwr(superlink: PrivateSuperLink, *words: str) -> str:
    """Run one of Flower's commands until it ends; return its output."""
    output = superlink.home / "flwr.txt"
    with output.open("w") as file:
        superlink.popen(["flwr", *words], file).wait(300)
    return output.read_text()


def run_app(
    superlink: PrivateSuperLink, runs: Path, overrides: list[str], *words: str
) -> tuple[str, Path]:
    """Run `flwr run .` with overrides; return its output and the new run directory."""
    before = set(runs.iterdir())
    config = f'overrides="{" ".join(overrides)}"'
    said = flwr(superlink, "run", str(ROOT), "--stream", "--run-config", config, *words)
    new = set(runs.iterdir()) - before
    assert len(new) == 1, said
    return said, new.pop()


def univarfl(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the installed `univarfl` command."""
    command = [str(Path(sys.executable).parent / "univarfl"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_flwr_run_on_flowers_default_federation(
    superlink: PrivateSuperLink, runs: Path, train: Train
) -> None:
    said, directory = run_app(superlink, runs, TINY)
    record = read_entries(directory)
    assert record["status"] == "completed"
    assert record["engine"]["name"] == "flower"
    assert f"Successfully started run {record['engine']['run_id']}" in said
    assert [worker["runtime"] for worker in record["workers"]] == ["ray", "ray"]
    assert re.search(r"round 1/1 .*test 0\.\d+ .*l_he .*clients 4/4", said)
    assert sha256(directory) == sha256(train("rounds=1"))


@pytest.mark.slow
def test_flwr_run_with_ten_supernodes_gives_the_same_bits(
    superlink: PrivateSuperLink, runs: Path, train: Train
) -> None:
    federation = "num-supernodes=10 client-resources-num-cpus=1"
    _, directory = run_app(superlink, runs, TINY, "--federation-config", federation)
    assert len(read_entries(directory)["workers"]) == 10
    assert len({row["site"] for row in rows(directory, "clients.csv")}) == 4
    assert sha256(directory) == sha256(train("rounds=1"))


@pytest.mark.slow
def test_masked_rounds_over_ray_give_the_same_bits(
    superlink: PrivateSuperLink, runs: Path, train: Train
) -> None:
    """The secrets follow a SuperNode, whichever of Ray's processes answers its messages."""
    _, directory = run_app(superlink, runs, [*TINY, "rounds=2", "method=feduv", "secure=masked"])
    assert read_entries(directory)["secure"]["threshold"] == 3
    assert [row["ce"] for row in rows(directory, "clients.csv")] == [""] * 8
    assert sha256(directory) == sha256(train("rounds=2", "method=feduv", "secure=rounded"))


@pytest.mark.slow
@pytest.mark.parametrize("secure", ["none", "masked"])
def test_batch_norm_measured_over_ray_gives_the_same_bits(
    superlink: PrivateSuperLink, runs: Path, train: Train, secure: str
) -> None:
    words = [*CNN, "rounds=1", "model.statistics=exact", f"secure={secure}"]
    said, directory = run_app(superlink, runs, [*TINY, *words])
    assert re.search(r"test accuracy averaged 0\.\d+, of all images 0\.\d+", said)
    assert sha256(directory) == sha256(train(*words))


@pytest.mark.slow
@pytest.mark.parametrize("secure", ["none", "masked"])
def test_closed_form_over_ray_gives_the_same_bits(
    superlink: PrivateSuperLink, runs: Path, train: Train, secure: str
) -> None:
    words = ["method=ridge", "rounds=1"]
    _, directory = run_app(superlink, runs, [*TINY, *words, f"secure={secure}", "num_clients=3"])
    assert sha256(directory) == sha256(train(*words))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["ccvr after.samples=20", "feddf after.steps=3"])
def test_stages_after_training_over_ray_give_the_same_bits(
    superlink: PrivateSuperLink, runs: Path, train: Train, stage: str
) -> None:
    words = ["rounds=1", *f"after={stage}".split()]
    said, directory = run_app(superlink, runs, [*TINY, *words])
    assert re.search(r"after training, \w+: test 0\.\d+ -> 0\.\d+", said)
    assert sha256(directory) == sha256(train(*words))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["moon+scaffold", "fedbn+fedper"])
def test_client_state_follows_the_clients_between_rays_workers(
    superlink: PrivateSuperLink, runs: Path, train: Train, method: str
) -> None:
    """With half of the clients in each round, a client returns on either worker."""
    words = [
        *model_for(method),
        f"method={method}",
        "rounds=4",
        "rho=0.5",
        "seed=1",
        "partition=dirichlet",
    ]
    _, directory = run_app(superlink, runs, [*SMALL[1:], *words])
    assert read_entries(directory)["status"] == "completed"
    sites = {(row["client"], row["site"]) for row in rows(directory, "clients.csv")}
    assert len(sites) > len({client for client, _ in sites})
    here = train(*words)
    assert sha256(directory) == sha256(here)
    assert read_client_scores(directory) == read_client_scores(here)
    if "fedbn" in method:
        assert scored_again(directory) == read_client_scores(directory)
    assert list(runs.with_name("memory").iterdir()) == []


@pytest.mark.slow
def test_local_training_works_in_another_flower_app(tmp_path: Path) -> None:
    """The documented app trains a network of its own with SCAFFOLD under Flower's FedAvg."""
    (tmp_path / "my_app.py").write_text(example("my_app.py"))
    (tmp_path / "pyproject.toml").write_text(example("pyproject.toml of my_app"))
    with PrivateSuperLink() as superlink:
        superlink.wait_until_ready()
        said = flwr(superlink, "run", str(tmp_path), "--stream", "--federation-config",
                    "num-supernodes=4 client-resources-num-cpus=1")  # fmt: skip
    found = re.search(r"test accuracy (0\.\d+)", said)
    assert found, said
    assert float(found[1]) > 0.7


@pytest.mark.slow
def test_code_from_the_wrong_tree_is_refused(superlink: PrivateSuperLink, runs: Path) -> None:
    """Flower's workers import from the directory in which the SuperLink was started."""
    for package in ("client_app", "task"):
        shutil.copytree(ROOT / package, superlink.empty / package)
    shutil.copytree(ROOT / "conf", superlink.empty / "conf")
    with (superlink.empty / "task" / "seeding.py").open("a") as file:
        file.write("# changed\n")
    try:
        said, directory = run_app(superlink, runs, TINY)
    finally:
        for package in ("client_app", "conf", "task"):
            shutil.rmtree(superlink.empty / package)
    record = read_entries(directory)
    assert record["status"] == "failed"
    assert f"import their code from '{superlink.empty}', the server from" in record["reason"]
    assert "error: the run failed: the clients import their code from" in said
    assert rows(directory, "clients.csv") == []


@pytest.mark.slow
def test_bad_input_fails_the_flower_run_with_its_one_line(
    superlink: PrivateSuperLink, runs: Path
) -> None:
    before = set(runs.iterdir())
    said = flwr(superlink, "run", str(ROOT), "--stream", "--run-config", 'overrides="alpha=0"')
    assert "error: alpha=0: must be greater than 0" in said
    assert set(runs.iterdir()) == before
    listed = json.loads(flwr(superlink, "ls", "--format", "json"))
    assert latest(listed)["status"].startswith("finished:failed")


def latest(listed: dict[str, Any]) -> dict[str, Any]:
    runs: list[dict[str, Any]] = listed["runs"]
    return max(runs, key=lambda run: str(run["pending-at"]))


@pytest.mark.slow
def test_rays_grid_behaves_like_the_in_process_grid(
    superlink: PrivateSuperLink, tmp_path: Path
) -> None:
    result = tmp_path / "observed.json"
    said = flwr(
        superlink, "run", str(PROBE), "--stream", "--run-config", f'result="{result}"',
        "--federation-config", "num-supernodes=2 client-resources-num-cpus=1",
    )  # fmt: skip
    assert result.exists(), said
    assert json.loads(result.read_text()) == EXPECTED


@pytest.mark.slow
def test_univarfl_train_runs_flower_and_gives_the_same_bits(train: Train, tmp_path: Path) -> None:
    done = univarfl(
        "train", "engine=flower", *TINY, "federation.workers=1", f"output_dir={tmp_path / 'flower'}"
    )
    assert done.returncode == 0, done.stderr
    (directory,) = (tmp_path / "flower").iterdir()
    record = read_entries(directory)
    assert (record["status"], record["engine"]["name"]) == ("completed", "flower")
    assert [worker["runtime"] for worker in record["workers"]] == ["ray"]
    assert sha256(directory) == sha256(train("rounds=1"))
    assert any(line.startswith("round 1/1  test 0.") for line in done.stdout.splitlines())
    assert f"curves  {directory / 'curves.png'}" in done.stdout


@pytest.mark.slow
def test_univarfl_train_fails_with_one_line_when_the_run_fails(tmp_path: Path) -> None:
    done = univarfl(
        "train", "engine=flower", *TINY, "federation.join_timeout=0.1", f"output_dir={tmp_path}"
    )
    assert done.returncode == 1
    assert "did not answer within 0.1 s" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stdout + done.stderr
    (directory,) = tmp_path.iterdir()
    assert read_entries(directory)["status"] == "failed"


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_ends_all_its_processes(tmp_path: Path) -> None:
    words = [*TINY, "engine=flower", "rounds=500", f"output_dir={tmp_path}"]
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "univarfl"), "train", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("round "):
            break
    family = psutil.Process(process.pid).children(recursive=True)
    assert_ray_answers_nobody_without_the_runs_token(family)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    (directory,) = tmp_path.iterdir()
    onward = f"resume the run with: univarfl train resume={directory}"
    assert errors.splitlines()[-1] == f"univarfl: interrupted; {onward}"
    assert names(family) == ""
    record = read_entries(directory)
    assert (record["status"], record["reason"]) == ("failed", "interrupted")


def assert_ray_answers_nobody_without_the_runs_token(family: list[psutil.Process]) -> None:
    """It listens on every network interface."""
    (server,) = (member for member in family if member.name() == "gcs_server")
    ports = {each.laddr.port for each in server.net_connections() if each.status == "LISTEN"}
    assert ports
    for port, token in itertools.product(ports, ("", "Bearer 0000")):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(CLUSTER_ID)(
                    b"", timeout=20, metadata=[("authorization", token)]
                )
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.slow
def test_no_superlink_is_left_running() -> None:
    with PrivateSuperLink() as superlink:
        superlink.wait_until_ready()
        process, home = superlink.process, superlink.home
        family = family_of(process.pid)
        assert "flower-superlink" in names(family)
        assert process.poll() is None
        assert home.exists()
    assert process.poll() is not None
    assert names(family) == ""
    assert not home.exists()


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_a_restart_and_no_bits(train: Train, tmp_path: Path) -> None:
    words = [*SMALL[1:], "rounds=3", "method=moon", f"output_dir={tmp_path}", "run_id=struck"]
    (said,) = suffered(words, tmp_path / "struck", "worker", 1)
    assert "a worker's process has ended (ActorDiedError); the workers are restarted" in said
    assert read_entries(tmp_path / "struck")["resumed_from"] >= 1
    assert sha256(tmp_path / "struck") == sha256(train("rounds=3", "method=moon"))
