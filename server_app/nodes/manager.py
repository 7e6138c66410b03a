"""The SuperNodes of a run: simulated workers, all there from the start, or sites."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import cached_property

from flwr.app import Message
from flwr.serverapp import Grid

from server_app.aggregation.guards.base import guard_of
from server_app.config.experiment import Experiment
from server_app.flower.internals import ErrorCode
from server_app.nodes.assignment import served_clients
from server_app.nodes.collection import collect
from server_app.nodes.messages import AddressedRequest, RecordWriter, RunIdentity
from server_app.nodes.registration import (
    UNNAMED,
    NodeIdentity,
    NodeInfo,
    Question,
    RegistrationError,
    check_registration,
    connected_nodes,
    read_registration,
)
from task.given_weights import WEIGHTS_HASH, cached
from task.plain_text import one_line
from task.protocol.registration import REGISTER, RegistrationRequest
from task.protocol.tensors import PackedTensors

POLL_SECONDS = 0.1
SITE_POLL_SECONDS = 1.0
REPLY_SECONDS = 20.0  # for a site to deliver a registration that it has announced
MOST_REASONS = 20

logger = logging.getLogger("univarfl")

Note = Callable[[str, str], None]


class NodeManager:
    """Registers SuperNodes and knows which of them are connected.

    A site is the owner of a key: Flower authenticates it, and has the name under which the
    coordinator registered the key. What a site says of itself must agree with that name. A site
    that cannot serve, or says otherwise, is refused until it leaves and returns. A site that the
    experiment does not list is ignored. Neither ends the run.

    A simulated worker that cannot serve ends the run, so that a person can fix it.

    Args:
        grid: the grid of the SuperNodes.
        run: the run's id and experiment.
        experiment: what is run, and which sites it lists; none in a simulation.
        note: records an event; takes a site's name, empty for the run itself, and what happened.
    """

    def __init__(self, grid: Grid, run: RunIdentity, experiment: Experiment, note: Note) -> None:
        self._grid, self._run, self._note = grid, run, note
        self._model = experiment.local().model
        self._device, self._sites = experiment.device, experiment.partitioner().sites
        classes = len(experiment.data.get("classes") or ())
        self._bounds = guard_of(experiment).most_images, classes
        self._join_timeout = experiment.federation.join_timeout
        self._nodes: dict[int, NodeInfo] = {}  # by node id, as the following
        self._online: dict[int, NodeIdentity] = {}
        self._refused: dict[int, int | None] = {}  # the value: the node that has its name
        self._reasons: dict[int, str] = {}  # why a node was refused the last time
        self._gone: set[int] = set()
        self._asked: dict[str, Question] = {}
        self._started = False

    def wait_for_all(self) -> list[NodeInfo]:
        """Wait until every SuperNode has registered; return them by index.

        After ``federation.join_timeout`` seconds, the sites that have come are enough; also once
        every site that has not registered was refused.

        Raises:
            RegistrationError: no site can be used, or a simulated worker is missing or useless.
        """
        deadline = time.monotonic() + self._join_timeout
        if self._sites:
            names = ", ".join(self._sites)
            logger.info("waiting up to %g s for the sites %s", self._join_timeout, names)
        while not self._complete():
            if self._waits_in_vain():
                self._start_without_missing("")
                break
            if time.monotonic() >= deadline:
                self._start_without_missing(f" within {self._join_timeout:g} s")
                break
            if not self._poll():
                time.sleep(POLL_SECONDS)
        self._started = True
        return self.nodes

    @cached_property
    def _weights(self) -> PackedTensors:
        """The file of weights that sites need if they train a part of the network.

        A simulated worker finds it in the cache of this machine.
        """
        sha256 = self._model.get(WEIGHTS_HASH)
        return PackedTensors(cached(sha256).read_bytes() if self._sites and sha256 else b"")

    def go_on_as(self, run: RunIdentity) -> None:
        """Ask SuperNodes that come from now on to register for another form of the experiment."""
        self._run = run

    @property
    def nodes(self) -> list[NodeInfo]:
        """All registered SuperNodes, by index."""
        return sorted(self._nodes.values(), key=lambda node: node.index)

    def connected(self) -> list[NodeInfo]:
        """Return the SuperNodes that are connected now, by index; register newcomers meanwhile."""
        if self._sites:
            self._poll()
        return [node for node in self.nodes if node.node_id in self._online]

    def wait_for_clients(self, clients: Sequence[int], count: int) -> list[NodeInfo]:
        """Return the connected SuperNodes, once they serve at least `count` of the clients.

        Waits ``federation.join_timeout`` seconds at most.
        """
        deadline = time.monotonic() + self._join_timeout
        while True:
            nodes = self.connected()
            served = len(served_clients(clients, nodes))
            if served >= max(1, count) or time.monotonic() >= deadline:
                return nodes
            time.sleep(SITE_POLL_SECONDS)

    def _complete(self) -> bool:
        if not self._nodes:
            return False
        expected = len(self._sites) or max(node.nodes for node in self._nodes.values())
        return len(self._nodes) >= expected

    def _missing_sites(self) -> set[str]:
        return set(self._sites) - {node.site for node in self._nodes.values()}

    def _refused_sites(self) -> set[str]:
        online = self._online.keys() & self._refused.keys()
        return {self._online[node_id].site for node_id in online} & self._missing_sites()

    def _waits_in_vain(self) -> bool:
        missing = self._missing_sites()
        return bool(missing) and missing == self._refused_sites() and not self._asked

    def _start_without_missing(self, within: str) -> None:
        """Note which sites are missing; `within` is a text with the time waited for them.

        Raises:
            RegistrationError: no site can be used, or a simulated worker is missing.
        """
        if self._sites and self._nodes:
            for name in sorted(self._missing_sites() - self._refused_sites()):
                self._note(name, "absent: its SuperNode is not connected, or not ready in time")
            return
        found = sorted(set(self._reasons.values()))[:MOST_REASONS]
        if self._asked:
            found.append(f"a SuperNode did not answer{within}")
        if not found:
            raise RegistrationError(f"{len(self._nodes)} SuperNodes connected{within}")
        none = f"no site can be used{within}: " if self._sites else ""
        raise RegistrationError(none + "; ".join(found))

    def _poll(self) -> bool:
        """See who is connected, ask newcomers to register, and read their replies.

        Returns:
            Whether a reply arrived.
        """
        connected = connected_nodes(self._grid, named=bool(self._sites))
        self._online = connected
        self._refused = {
            node_id: rival
            for node_id, rival in self._refused.items()
            if node_id in self._online and (rival is None or rival in self._online)
        }
        self._note_changes()
        waiting = {each.identity.node_id for each in self._asked.values() if not each.may_be_lost}
        known = self._nodes.keys() | self._refused.keys() | waiting
        for node_id in sorted(connected.keys() - known):
            self._ask(connected[node_id])
        return self._read_replies()

    def _read_replies(self) -> bool:
        """Register those SuperNodes whose reply is there; return whether there is one."""
        expected = {
            name: each.addressed.request.reply_limits() for name, each in self._asked.items()
        }
        replies = sorted(collect(self._grid, expected, REPLY_SECONDS))
        for message_id, reply in replies:
            if question := self._asked.pop(message_id, None):
                node = question.identity.node_id  # one answer of a site counts
                self._asked = {k: q for k, q in self._asked.items() if q.identity.node_id != node}
                self._register(question, reply)
        return bool(replies)

    def _ask(self, identity: NodeIdentity) -> None:
        """Ask a SuperNode to register, unless it is none of the experiment's sites."""
        if self._sites and not identity.site:
            self._refuse(identity, f"refused: {UNNAMED}")
        elif self._sites and identity.site not in self._sites:
            self._refuse(identity, "ignored: partition.names does not list it")
        else:
            request = RegistrationRequest(
                run=self._run.id, experiment=self._run.experiment,
                fingerprint=self._run.fingerprint, weights=self._weights,
            )  # fmt: skip
            addressed = AddressedRequest(identity.node_id, request, identity.public_key)
            pushed = self._grid.push_messages([RecordWriter().message(REGISTER, addressed)])
            for message_id in filter(None, pushed):  # Flower 1.43 gives "" if it is not accepted
                self._asked[message_id] = Question(identity, addressed, time.monotonic())

    def _note_changes(self) -> None:
        """Note the sites that left or came back since the last poll."""
        gone = self._nodes.keys() - self._online.keys()
        for node_id in sorted(gone - self._gone):
            self._note(self._nodes[node_id].name, "left: its SuperNode is not connected any more")
        for node_id in sorted(self._gone - gone):
            self._note(self._nodes[node_id].name, "came back")
        self._gone = gone

    def _register(self, question: Question, message: Message) -> None:
        """Register a SuperNode, or refuse it.

        Raises:
            RegistrationError: a simulated worker cannot serve.
        """
        if message.has_error() and message.error.code == ErrorCode.NODE_UNAVAILABLE:
            return  # it left; when it is back it is asked again
        identity = question.identity
        rival = None
        try:
            reply = read_registration(question.addressed, message, signed=bool(self._sites))
            if self._sites and (wrong := identity.contradiction(reply, self._sites)):
                raise RegistrationError(wrong)
            check_registration(identity.site, reply, self._run, self._device, *self._bounds)
            rival = self._node_of_site(identity.site)
            if rival in self._online:
                raise RegistrationError(f"two SuperNodes use the name {identity.site}")
        except RegistrationError as error:
            if not self._sites:
                raise
            self._refuse(identity, f"refused: {error}", rival)
            return
        if rival is not None:
            del self._nodes[rival]
            self._gone.discard(rival)
        node = self._nodes[identity.node_id] = NodeInfo.of(identity, reply)
        self._reasons.pop(identity.node_id, None)
        if self._started:
            self._note(node.name, "joined")
        elif node.site:
            logger.info("site %s is ready, with %d training images", node.site, node.train)

    def _refuse(self, identity: NodeIdentity, reason: str, rival: int | None = None) -> None:
        """Offer a SuperNode no client until it returns; note the reason unless it is known."""
        self._refused[identity.node_id] = rival
        site = one_line(identity.site)
        text = f"site {site}: {reason}" if site else reason
        if self._reasons.get(identity.node_id) != text:
            self._reasons[identity.node_id] = text
            self._note(site, reason)

    def _node_of_site(self, site: str) -> int | None:
        """Return the id of the node that is registered under a site's name already."""
        same = [node_id for node_id, other in self._nodes.items() if other.site == site]
        return same[0] if site and same else None
