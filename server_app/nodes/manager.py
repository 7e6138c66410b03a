"""The SuperNodes of a run: simulated workers, all there from the start, or sites."""

import logging
import time
from collections.abc import Callable, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from server_app.config.experiment import Experiment
from server_app.flower.internals import ErrorCode
from server_app.nodes.assignment import served_clients
from server_app.nodes.messages import Letter, RecordWriter, RunIdentity, last_line
from server_app.nodes.registration import (
    NodeInfo,
    RegistrationError,
    check_registration,
)
from task.fingerprint import fingerprint
from task.protocol.base import Packed
from task.protocol.errors import ProtocolError
from task.protocol.messages import REGISTER, RegistrationReply, RegistrationRequest

POLL_SECONDS = 0.1
SITE_POLL_SECONDS = 1.0

logger = logging.getLogger("univarfl")

Note = Callable[[str, str], None]


class NodeManager:
    """Registers SuperNodes and knows which of them are connected.

    Before the first round, a SuperNode that cannot serve ends the run, so that a person can fix it.
    A site that comes later and cannot serve is refused until it leaves and returns. A site that the
    experiment does not list is ignored.

    Args:
        grid: the grid of the SuperNodes.
        run: the run's id and experiment.
        experiment: what is run, and which sites it lists; none in a simulation.
        note: records an event; takes a site's name, empty for the run itself, and what happened.
    """

    def __init__(self, grid: Grid, run: RunIdentity, experiment: Experiment, note: Note) -> None:
        self._grid, self._run, self._note = grid, run, note
        self._device, self._sites = experiment.device, experiment.partitioner().sites
        self._max_images = experiment.update_guard().most_images
        self._join_timeout = experiment.federation.join_timeout
        self._nodes: dict[int, NodeInfo] = {}  # by node id, as the following
        self._online: set[int] = set()
        self._refused: dict[int, int | None] = {}  # the value: the node whose name it also claims
        self._gone: set[int] = set()
        self._asked: dict[str, int] = {}
        self._started = False

    def wait_for_all(self) -> list[NodeInfo]:
        """Wait until every SuperNode has registered; return them by index.

        After ``federation.join_timeout`` seconds, the sites that have come are enough.

        Raises:
            RegistrationError: a SuperNode cannot serve this run, none came, or, in a simulation,
                not all of them came.
        """
        deadline = time.monotonic() + self._join_timeout
        while not self._complete():
            if time.monotonic() >= deadline:
                self._start_without_missing()
                break
            if not self._poll():
                time.sleep(POLL_SECONDS)
        self._started = True
        return self.nodes

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

    def _start_without_missing(self) -> None:
        """Note which sites are missing.

        Raises:
            RegistrationError: no site came, or a simulated worker is missing.
        """
        if self._sites and self._nodes:
            for name in sorted(set(self._sites) - {node.site for node in self._nodes.values()}):
                self._note(name, "absent: its SuperNode is not connected, or not ready in time")
        elif self._asked:
            raise RegistrationError(f"a SuperNode did not answer within {self._join_timeout:g} s")
        else:
            raise RegistrationError(
                f"{len(self._nodes)} SuperNodes connected within {self._join_timeout:g} s"
            )

    def _poll(self) -> bool:
        """See who is connected, ask newcomers to register, and read their replies.

        Returns:
            Whether a reply arrived.
        """
        self._online = set(self._grid.get_node_ids())
        self._refused = {
            node_id: rival
            for node_id, rival in self._refused.items()
            if node_id in self._online and (rival is None or rival in self._online)
        }
        self._note_changes()
        known = self._nodes.keys() | self._refused.keys() | set(self._asked.values())
        newcomers = sorted(self._online - known)
        if newcomers:
            self._ask(newcomers)
        replies = list(self._grid.pull_messages(sorted(self._asked))) if self._asked else []
        for reply in replies:
            self._register(self._asked.pop(reply.metadata.reply_to_message_id), reply)
        return bool(replies)

    def _ask(self, node_ids: Sequence[int]) -> None:
        request = RegistrationRequest(
            run=self._run.id, experiment=self._run.experiment, fingerprint=fingerprint()
        )
        for node_id in node_ids:
            message = RecordWriter().message(REGISTER, Letter(node_id, request))
            for message_id in self._grid.push_messages([message]):
                self._asked[message_id] = node_id

    def _note_changes(self) -> None:
        """Note the sites that left or came back since the last poll."""
        gone = self._nodes.keys() - self._online
        for node_id in sorted(gone - self._gone):
            self._note(self._nodes[node_id].name, "left: its SuperNode is not connected any more")
        for node_id in sorted(self._gone - gone):
            self._note(self._nodes[node_id].name, "came back")
        self._gone = gone

    def _register(self, node_id: int, message: Message) -> None:
        """Register a SuperNode, or refuse it.

        Raises:
            RegistrationError: it cannot serve, and the run has not started.
        """
        if message.has_error() and message.error.code == ErrorCode.NODE_UNAVAILABLE:
            return  # it left; when it is back it is asked again
        rival = None
        try:
            reply = read_registration(message)
            node = NodeInfo.of(node_id, reply)
            if self._sites and node.site and node.site not in self._sites:
                self._refused[node_id] = None
                self._note(node.site, "ignored: partition.names does not list it")
                return
            check_registration(reply, self._device, self._max_images)
            rival = self._node_of_site(node.site)
            if rival in self._online:
                raise RegistrationError(f"two SuperNodes use the name {node.site}")
        except RegistrationError as error:
            if not self._started:
                raise
            self._refused[node_id] = rival
            self._note("", f"refused: {error}")
            return
        if rival is not None:
            del self._nodes[rival]
            self._gone.discard(rival)
        self._nodes[node_id] = node
        if self._started:
            self._note(node.name, "joined")
        elif node.site:
            logger.info("site %s is ready, with %d training images", node.site, node.train)

    def _node_of_site(self, site: str) -> int | None:
        """Return the id of the node that is registered under a site's name already."""
        same = [node_id for node_id, other in self._nodes.items() if other.site == site]
        return same[0] if site and same else None


def read_registration(message: Message) -> RegistrationReply:
    """Read a SuperNode's registration.

    Raises:
        RegistrationError: the message is an error, or has another form.
    """
    if message.has_error():
        reason = last_line(message.error.reason or "")
        raise RegistrationError(f"a SuperNode could not start the ClientApp: {reason}")
    try:
        return RegistrationReply.unpack(Packed.of(message.content))
    except ProtocolError as error:
        raise RegistrationError(
            f"a SuperNode's registration cannot be read ({error}); does it run the same version?"
        ) from None
