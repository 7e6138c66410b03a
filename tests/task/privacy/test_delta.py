"""Delta: what is refused, and what is noted."""

from pathlib import Path

import pytest

from client_app.registration import describe_site
from client_app.session import worker_for
from server_app.config.composition import compose_experiment
from server_app.runs.records.run_record import read_entries
from task.errors import ConfigError, SiteError
from task.privacy.settings import large_delta
from task.site import Site
from tests.conftest import Train
from tests.task.data import making

NOISE = (
    "method=fedavg", "privacy=example", "privacy.noise_multiplier=1", "privacy.sampling_rate=0.1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("delta", "images", "note"),
    [
        (1e-3, 999, ""),
        (1e-3, 1000, "privacy.delta is 0.001, which is 1 / 1000: telling one of 1000 images in"),
        (1e-5, 100_001, "set it far below 1 / 100001"),
        (1e-5, 60_000, ""),
    ],
)
def test_a_delta_above_one_image_is_noted(delta: float, images: int, note: str) -> None:
    found = large_delta("privacy.delta", delta, images)
    assert note in found
    assert bool(found) == bool(note)


@pytest.mark.parametrize("delta", ["0.9", "0.0011", "0", "1"])
@pytest.mark.parametrize(
    "words", [NOISE, ("privacy=client", "secure=masked", "model.norm=group")], ids=["image", "all"]
)
def test_a_delta_that_promises_nothing_is_refused(words: tuple[str, ...], delta: str) -> None:
    with pytest.raises(ConfigError, match=r"privacy\.delta=.*: must be (less|greater) than"):
        compose_experiment([*words, f"privacy.delta={delta}"])


def test_a_site_refuses_it_too(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="delta: input should be less than or equal to"):
        Site.from_node_config({"site": "east", "data-dir": str(tmp_path), "delta": 0.9})


@pytest.mark.usefixtures("all_digits")
def test_a_simulation_records_the_note(train: Train) -> None:
    words = ("model=linear", "num_clients=1", "partition=iid", "rounds=1")
    record = read_entries(train(*NOISE, *words, "privacy.delta=1e-3"))
    assert any("privacy.delta is 0.001" in note for note in record["data"]["notes"])


def test_a_site_logs_it_for_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    making.tree(tmp_path / "east", ["cat", "dog"], 501)
    words = [
        *NOISE, "model=linear", "data=folder", "data.classes=[cat,dog]", "data.image_size=8",
        "partition=sites", "partition.names=[east]",
    ]  # fmt: skip
    config = compose_experiment(words).local()
    site = Site.from_node_config(
        {"site": "east", "data-dir": str(tmp_path / "east"), "delta": 1e-3, "max-epsilon": 1.0}
    )
    describe_site(worker_for(config.model_dump_json(), site), site)
    assert "delta is 0.001, which is 1 / 1000" in caplog.text
