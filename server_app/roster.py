"""Who serves a run: simulated workers, all there from the start, or sites that come and go."""

import logging
import time
from collections.abc import Callable

from flwr.app import Message, MessageType
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from server_app.exchange import Run, request
from server_app.experiment import Experiment
from server_app.handshake import HandshakeError, Seat, check, read_introduction, seat_of

POLL_SECONDS = 0.1

logger = logging.getLogger("univarfl")

Note = Callable[[str, str], None]


class Roster:
    """The SuperNodes of a run. Each is asked once to introduce itself and get ready.

    Before the first round whoever cannot serve ends the run, so that a person can mend it. A site
    that comes later and cannot is refused, until it leaves and comes back; one that the experiment
    does not list is left alone.

    Args:
        grid: where the SuperNodes are.
        run: what they are told of it.
        experiment: what is run, and which sites it lists; none in simulation.
        note: is told of a site's coming and going: its name, and what happened.
    """

    def __init__(self, grid: Grid, run: Run, experiment: Experiment, note: Note) -> None:
        self._grid, self._run, self._note = grid, run, note
        self._device, self._sites = experiment.device, experiment.divider().sites
        self._most_images = experiment.guardian().most_images
        self._seats: dict[int, Seat] = {}  # by node id, as the following
        self._online: set[int] = set()
        self._refused: dict[int, int | None] = {}  # and the node of the same name, if that is why
        self._gone: set[int] = set()
        self._asked: dict[str, int] = {}
        self._begun = False

    def meet(self, timeout: float) -> list[Seat]:
        """Wait until everybody is there; of sites, for as long as `timeout` says.

        Raises:
            HandshakeError: somebody cannot serve this run, or nobody came, or, in simulation, not
                all.
        """
        deadline = time.monotonic() + timeout
        while not self._complete():
            if time.monotonic() >= deadline:
                self._give_up(timeout)
                break
            if not self._look():
                time.sleep(POLL_SECONDS)
        self._begun = True
        return self.seats

    @property
    def seats(self) -> list[Seat]:
        """Everybody who has come, by index."""
        return sorted(self._seats.values(), key=lambda seat: seat.index)

    def here(self) -> list[Seat]:
        """Who can be asked now, by index. Newcomers are asked to introduce themselves meanwhile."""
        if self._sites:
            self._look()
        return [seat for seat in self.seats if seat.node_id in self._online]

    def _complete(self) -> bool:
        """Whether everybody that is to come has come."""
        if not self._seats:
            return False
        expected = len(self._sites) or max(seat.seats for seat in self._seats.values())
        return len(self._seats) >= expected

    def _give_up(self, timeout: float) -> None:
        """Go on with the sites that came.

        Raises:
            HandshakeError: nobody came, or a simulated worker is missing.
        """
        if self._sites and self._seats:
            for name in sorted(set(self._sites) - {seat.site for seat in self._seats.values()}):
                self._note(name, "absent: its SuperNode is not there, or has not got ready in time")
        elif self._asked:
            raise HandshakeError(f"a SuperNode did not answer within {timeout:g} s")
        else:
            raise HandshakeError(f"{len(self._seats)} SuperNodes came within {timeout:g} s")

    def _look(self) -> bool:
        """See who is online, ask newcomers, and hear who they are; whether anybody answered."""
        self._online = set(self._grid.get_node_ids())
        self._refused = {
            node_id: rival
            for node_id, rival in self._refused.items()
            if node_id in self._online and (rival is None or rival in self._online)
        }
        self._tell_of_comings_and_goings()
        known = self._seats.keys() | self._refused.keys() | set(self._asked.values())
        for node_id in sorted(self._online - known):
            message = request(MessageType.QUERY, node_id, self._run, 0)
            for message_id in self._grid.push_messages([message]):
                self._asked[message_id] = node_id
        replies = list(self._grid.pull_messages(sorted(self._asked))) if self._asked else []
        for reply in replies:
            self._hear(self._asked.pop(reply.metadata.reply_to_message_id), reply)
        return bool(replies)

    def _tell_of_comings_and_goings(self) -> None:
        gone = self._seats.keys() - self._online
        for node_id in sorted(gone - self._gone):
            self._note(self._seats[node_id].name, "left: its SuperNode is not connected any more")
        for node_id in sorted(self._gone - gone):
            self._note(self._seats[node_id].name, "came back")
        self._gone = gone

    def _hear(self, node_id: int, reply: Message) -> None:
        """Take a SuperNode in, or not.

        Raises:
            HandshakeError: it cannot serve, and the run has not begun.
        """
        if reply.has_error() and reply.error.code == ErrorCode.NODE_UNAVAILABLE:
            return  # it went away; when it is back it is asked again
        rival = None
        try:
            record = read_introduction(reply)
            seat = seat_of(node_id, record)
            if self._sites and seat.site and seat.site not in self._sites:
                self._refused[node_id] = None
                self._note(seat.site, "left alone: partition.names does not list it")
                return
            check(record, self._device, self._most_images)
            rival = self._rival(seat)
            if rival in self._online:
                raise HandshakeError(f"two SuperNodes call themselves {seat.site}")
        except HandshakeError as error:
            if not self._begun:
                raise
            self._refused[node_id] = rival
            self._note("", f"refused: {error}")
            return
        if rival is not None:
            del self._seats[rival]
            self._gone.discard(rival)
        self._seats[node_id] = seat
        if self._begun:
            self._note(seat.name, "joined")
        elif seat.site:
            logger.info("site %s is ready, with %d images to train on", seat.site, seat.train)

    def _rival(self, seat: Seat) -> int | None:
        """The node that has a site's seat already."""
        same = [node_id for node_id, other in self._seats.items() if other.site == seat.site]
        return same[0] if seat.site and same else None
