"""Who a SuperNode is, as Flower has authenticated it, and what it may not say of itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from flwr.serverapp import Grid

from task.plain_text import one_line
from task.protocol.registration import RegistrationReply

UNNAMED = (
    "a SuperNode whose key has no name: put the key into sites/NAME.pub of 'univarfl deploy "
    "coordinator', or register it with: flwr supernode register KEY --name NAME"
)


@dataclass(frozen=True)
class Identity:
    """One SuperNode, as Flower lists it.

    Attributes:
        node_id: Flower's id.
        site: the name under which its key is registered; empty if there is none, and in a
            simulation.
        public_key: its key, as PEM; empty in a simulation.
    """

    node_id: int
    site: str = ""
    public_key: bytes = b""

    def contradiction(self, reply: RegistrationReply, sites: Sequence[str]) -> str:
        """Return what is wrong in a site's description of itself; empty if nothing is.

        Args:
            reply: the description.
            sites: the sites that the experiment lists; this site is one of them.
        """
        if reply.site != self.site:
            own = f"it calls itself {reply.site!r}" if reply.site else "it names no site"
            return one_line(f"{own}, and its key belongs to site {self.site}")
        index = sites.index(self.site)
        if reply.error:
            return ""  # it could not find out its number
        if (reply.index, reply.nodes) != (index, len(sites)):
            return (
                f"site {self.site} says that it is client {reply.index} of {reply.nodes}, and is "
                f"client {index} of {len(sites)}"
            )
        return ""


def connected_nodes(grid: Grid, named: bool) -> dict[int, Identity]:
    """Return the SuperNodes that are connected now, by id.

    Args:
        grid: the grid.
        named: whether they are sites, with names and keys.
    """
    if not named:
        return {node_id: Identity(node_id) for node_id in grid.get_node_ids()}
    return {
        node.node_id: Identity(node.node_id, node.name, node.public_key)
        for node in grid.get_nodes()
    }
