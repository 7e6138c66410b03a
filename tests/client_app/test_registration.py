"""What a worker says of itself."""

from pathlib import Path

import pytest

from client_app.masked.identity import SimulatedIdentity
from client_app.registration import describe_site
from client_app.session import worker_for
from server_app.config.composition import compose_experiment
from task.errors import SiteError
from task.site import Site
from tests.task.data import making

WORDS = [
    "model=linear", "data=folder", "data.classes=[cat,dog]", "data.image_size=8",
    "partition=sites", "partition.names=[east]",
]  # fmt: skip


def text() -> str:
    """Return the experiment."""
    return compose_experiment(WORDS).local().model_dump_json()


def site_in(place: Path, **settings: bool | float) -> Site:
    """Return a site with eight images, whose settings have ``-`` where the keywords have ``_``."""
    directory = making.tree(place / "east", ["cat", "dog"], 4)
    more = {name.replace("_", "-"): value for name, value in settings.items()}
    return Site.from_node_config({"site": "east", "data-dir": str(directory), **more})


@pytest.mark.parametrize("tells", [False, True])
def test_a_site_offers_statistics_if_its_owner_wants_it(tmp_path: Path, tells: bool) -> None:
    site = site_in(tmp_path, tell_statistics=tells)
    assert describe_site(worker_for(text(), site), site)["statistics"] is tells


def test_a_site_with_a_limit_of_epsilon_describes_nothing_without_noise(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="trains only with secret noise of its own"):
        worker_for(text(), site_in(tmp_path, tell_statistics=True, max_epsilon=1.0))


def test_each_simulated_client_has_a_ledger_of_its_own() -> None:
    identity = SimulatedIdentity(compose_experiment(["secure=masked"]).local(), {})
    assert identity.ledger(0) is identity.ledger(0)
    assert identity.ledger(0) is not identity.ledger(1)
