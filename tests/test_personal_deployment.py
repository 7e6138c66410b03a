"""A method whose clients keep a part of the model, at real sites, over TLS."""

from functools import partial
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from server_app.runs.records.run_record import read_entries
from tests.conftest import Train, rows, sha256
from tests.machines import Machines, until
from tests.processes import end
from tests.test_deployment import SITES, WORDS, create_images, has_reached
from univarfl.records.scores import read_client_scores

ROUNDS = 3
PERSONAL = ["method=fedbn", "data.validation_share=0.3", f"rounds={ROUNDS}", "evaluate_every=3"]


def files_with(content: bytes, root: Path) -> list[Path]:
    """Return the files below a directory that hold some bytes."""
    return [path for path in root.rglob("*") if path.is_file() and content in path.read_bytes()]


@pytest.mark.slow
def test_a_site_that_is_restarted_goes_on_with_its_own_part(tmp_path: Path, train: Train) -> None:
    images = create_images(tmp_path, SITES)
    words = [word for word in WORDS if not word.startswith("rounds=")]
    data = {site: images / site for site in SITES}
    with Machines(tmp_path / "machines", data) as machines:
        memory = {site: machines.root / site / "memory" for site in SITES}
        machines.coordinate()
        for site in SITES:
            machines.join(site)
        log = machines.run(
            *words, *PERSONAL, "partition=sites", f"partition.names=[{','.join(SITES)}]",
            "federation.quorum=1", "federation.round_timeout=20",
        )  # fmt: skip
        until(partial(has_reached, machines, 1), "round 1")
        end([machines.processes.pop("north")])
        kept = {site: sorted(memory[site].rglob("*.safetensors"))[-1] for site in SITES}
        parts = {site: load_file(path) for site, path in kept.items()}
        machines.join("north")
        assert machines.ended() == 0, log.read_text()
        directory = machines.record()
    assert "site north: came back" in log.read_text()
    record = read_entries(directory)
    own = set(record["personal"])
    assert len(parts["north"]) == len(own)
    for site in SITES:
        assert not list(memory[site].rglob("*.safetensors"))
        for value in parts[site].values():
            if value.size >= 8:
                assert files_with(value.tobytes(), machines.federation) == []
    for server_round in range(1, ROUNDS + 1):
        models = load_file(directory / "models" / f"round-{server_round:06d}.safetensors")
        sent = {name.partition("/")[2] for name in models}
        assert sent
        assert not sent & own
    trained = [(row["round"], row["site"], row["status"]) for row in rows(directory, "clients.csv")]
    assert len(trained) == 2 * ROUNDS
    assert {status for _, _, status in trained} == {"ok"}
    simulated = train(
        *words, *PERSONAL, "partition=domains", "num_clients=2", "data.test_share=0",
        f"data.root={images / 'together'}",
    )  # fmt: skip
    assert sha256(simulated) == sha256(directory)
    scores = read_client_scores(directory)
    assert [score.site for score in scores] == list(SITES)
    assert [score._replace(site="") for score in scores] == read_client_scores(simulated)
    assert not (directory / "clients").exists()
    for number, site in enumerate(SITES):
        place = f"run-{record['key']}-{record['model_sha256'][:12]}/{number}.safetensors"
        kept_there = (machines.root / site / "models" / place).read_bytes()
        assert kept_there == (simulated / "clients" / f"{number}.safetensors").read_bytes()
