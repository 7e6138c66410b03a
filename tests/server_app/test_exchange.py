"""What an exchange makes of replies that are for something else, or that tell of a lost worker."""

from collections.abc import Iterable

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from client_app.app import app as client_app
from server_app.composition import compose_experiment
from server_app.engines.inprocess_grid import InProcessGrid
from server_app.exchange import Exchange, Run, request
from server_app.failures import WorkerLostError
from task import wire

RUN = Run("run", compose_experiment(["num_clients=2"]).local().model_dump_json())
RAYS = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died unexpectedly'>"


class Failing(InProcessGrid):
    """A grid whose every reply is an error with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(client_app, 1)
        self.reason = reason

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [
            Message(Error(0, self.reason), reply_to=message)
            for name, message in self._sent.items()
            if name in set(message_ids)
        ]


def exchange(grid: InProcessGrid, simulated: bool, server_round: int = 1) -> Exchange:
    (node,) = grid.get_node_ids()
    return Exchange(grid, [request("query", node, RUN, server_round)], 60, simulated)


def test_ray_has_lost_a_worker() -> None:
    with pytest.raises(WorkerLostError, match=r"a worker's process has ended \(ActorDiedError\)"):
        exchange(Failing(RAYS), simulated=True).replies()


@pytest.mark.parametrize(("reason", "simulated"), [(RAYS, False), ("ValueError: x", True)])
def test_a_site_that_says_so_is_one_failed_reply(reason: str, simulated: bool) -> None:
    (reply,) = exchange(Failing(reason), simulated).replies()
    assert reply is not None
    assert reply.has_error()


@pytest.mark.parametrize("name", ["run", "round", "fingerprint"])
def test_a_reply_for_something_else_is_an_error(name: str) -> None:
    other = ClientApp()

    @other.query()
    def answer(message: Message, context: Context) -> Message:
        reply = client_app(message, context)
        about = reply.content.config_records[wire.ABOUT]
        about[name] = 7 if name == "round" else "other"
        return Message(RecordDict(dict(reply.content)), reply_to=message)

    (reply,) = exchange(InProcessGrid(other, 1), simulated=True).replies()
    assert reply is not None
    assert reply.error.reason is not None
    assert f"its reply is for another {name}" in reply.error.reason


def test_a_reply_that_belongs_is_left_as_it_is() -> None:
    (reply,) = exchange(InProcessGrid(client_app, 1), simulated=True).replies()
    assert reply is not None
    assert not reply.has_error()
