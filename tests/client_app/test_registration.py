"""What a worker says of itself."""

from pathlib import Path

import pytest

from client_app.masked.identity import SimulatedIdentity
from client_app.registration import describe_site
from client_app.session import worker_for
from server_app.config.composition import compose_experiment
from task.site import Site
from tests.task.data import making

WORDS = [
    "model=linear", "data=folder", "data.classes=[cat,dog]", "data.image_size=8",
    "partition=sites", "partition.names=[east]",
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        ({}, False),
        ({"tell-statistics": True}, True),
        ({"tell-statistics": True, "max-epsilon": 1.0}, False),
    ],
)
def test_a_site_offers_statistics_if_no_epsilon_limits_it(
    tmp_path: Path, settings: dict[str, bool | float], offered: bool
) -> None:
    directory = making.tree(tmp_path / "east", ["cat", "dog"], 4)
    site = Site.from_node_config({"site": "east", "data-dir": str(directory), **settings})
    text = compose_experiment(WORDS).local().model_dump_json()
    assert describe_site(worker_for(text, site), site)["statistics"] is offered


def test_each_simulated_client_has_a_ledger_of_its_own() -> None:
    identity = SimulatedIdentity(compose_experiment(["secure=masked"]).local(), {})
    assert identity.ledger(0) is identity.ledger(0)
    assert identity.ledger(0) is not identity.ledger(1)
