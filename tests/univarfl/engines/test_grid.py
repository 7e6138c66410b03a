"""The promises of our own grids; tests/test_flower.py compares them with Ray's."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flwr.app import RecordDict
from flwr.clientapp import ClientApp

from univarfl.engines.local.inprocess_grid import InProcessGrid
from univarfl.engines.local.worker_processes import WorkerProcesses

PROBE = Path(__file__).parents[2] / "probe_app"

# What Flower's grid does under Ray, as tests/probe_app/probe/server.py observes it.
EXPECTED: dict[str, Any] = {
    "ids are ints": True,
    "every node answers": [0, 1],
    "a reply names its message": True,
    "a reply comes from the node": True,
    "a reply is of the same type": "query",
    "state lasts": 2,
    "the sent message is not altered": False,
    "an exception is an error": [True, False, 2],
    "its reason holds the text": True,
    "a failed call's state is lost": 3,
    "an unknown action is an error": [True, 2],
    "train carries arrays": [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32"],
    "evaluate carries arrays": [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32"],
    "an unknown node takes nothing": [],
    "nothing comes before its time": 0,
    "a late reply can still be pulled": True,
    "but once, then an error says it is gone": [True, 3],
}


def test_one_process_does_what_rays_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROBE))
    from probe import client, server  # type: ignore[import-not-found]

    assert server.observations(InProcessGrid(client.app, 2)) == EXPECTED


@pytest.mark.usefixtures("fork_server")
def test_processes_do_what_rays_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROBE))
    from probe import server

    with closing(WorkerProcesses("probe.client:app", 2)) as grid:
        assert server.observations(grid) == EXPECTED


def test_a_message_lives_as_long_as_it_should() -> None:
    grid = InProcessGrid(ClientApp(), 1)
    message = grid.create_message(
        RecordDict(), "query", next(iter(grid.get_node_ids())), "1", ttl=12.5
    )
    assert message.metadata.ttl == 12.5
