"""Masked rounds of four real sites, over TLS."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import CNN, LEARNS, Train, rows, sha256
from tests.machines import Machines
from tests.task.data import making

SITES = ("east", "north", "south", "west")
WORDS = [
    "data=folder", "data.classes=[cat,dog]", *CNN, LEARNS, "rounds=2", "local_epochs=1",
    "evaluate_every=2",
]  # fmt: skip
NEAREST = ("secure.rounding=nearest", "strategy.weighting=uniform")
ON_SITES = ["partition=sites", f"partition.names=[{','.join(SITES)}]"]


def with_rosters(machines: Machines, sites: Sequence[str]) -> None:
    """Give each site the public keys of all, and let it take part in masked rounds only."""
    for site in sites:
        roster = machines.root / site / "roster"
        roster.mkdir()
        for other in sites:
            key = (machines.root / other / f"{other}.pub").read_bytes()
            (roster / f"{other}.pub").write_bytes(key)
        with (machines.root / site / "site.toml").open("a") as file:
            file.write(f'roster = "{roster}"\nrequire-secure = true\n')
            file.write("allow-nearest = true\n")


@pytest.mark.slow
def test_four_sites_mask_their_updates_and_train_the_model_of_the_simulation(
    tmp_path: Path, train: Train
) -> None:
    images = making.tree(
        tmp_path / "images", [f"{site}/{kind}" for site in SITES for kind in ("cat", "dog")], 12
    )
    with Machines(tmp_path / "machines", {site: images / site for site in SITES}) as machines:
        with_rosters(machines, SITES)
        machines.coordinate()
        logs = [machines.join(site) for site in SITES]
        open_run = machines.run(*WORDS, *ON_SITES)
        assert machines.ended() != 0
        assert "takes part in masked rounds only" in open_run.read_text()
        log = machines.run(*WORDS, *ON_SITES, "secure=masked", *NEAREST)
        assert machines.ended() == 0, log.read_text()
        directory = machines.record()
    fingerprints = {text.partition("fingerprint ")[2][:39] for text in map(Path.read_text, logs)}
    assert len(fingerprints) == 1
    assert [row["status"] for row in rows(directory, "clients.csv")] == ["ok"] * 8
    simulated = train(
        *WORDS, "partition=domains", "num_clients=4", "data.test_share=0", f"data.root={images}",
        "secure=rounded", *NEAREST,
    )  # fmt: skip
    assert sha256(simulated) == sha256(directory)
