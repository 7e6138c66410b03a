"""Who a SuperNode is, what it says about itself, and whether it can serve the run."""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from flwr.app import Message
from flwr.serverapp import Grid

from server_app.nodes.failure import last_line
from server_app.nodes.messages import AddressedRequest, RunIdentity, read_reply
from task.config import Device
from task.errors import ProtocolError
from task.extensions import run_by_clients
from task.fingerprint import code_directories
from task.plain_text import one_line
from task.protocol.registration import REGISTER, RegistrationReply, RegistrationRequest

UNNAMED = (
    "a SuperNode whose key has no name: put the key into sites/NAME.pub of 'univarfl deploy "
    "coordinator', or register it with: flwr supernode register KEY --name NAME"
)
ASK_AGAIN_SECONDS = 300.0  # a site may prepare its images for longer, and answers both then


@dataclass(frozen=True)
class NodeIdentity:
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
        """Return the error in a site's description of itself; empty if there is none.

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


def connected_nodes(grid: Grid, named: bool) -> dict[int, NodeIdentity]:
    """Return the SuperNodes that are connected now, by id.

    Args:
        grid: the grid.
        named: whether they are sites, with names and keys.
    """
    if not named:
        return {node_id: NodeIdentity(node_id) for node_id in grid.get_node_ids()}
    return {
        node.node_id: NodeIdentity(node.node_id, node.name, node.public_key)
        for node in grid.get_nodes()
    }


class Question(NamedTuple):
    """A registration request on its way.

    Attributes:
        identity: of the SuperNode.
        addressed: the request.
        asked: when it was sent, in seconds of `time.monotonic`.
    """

    identity: NodeIdentity
    addressed: AddressedRequest[RegistrationRequest]
    asked: float

    @property
    def may_be_lost(self) -> bool:
        """Whether a site is asked again.

        A SuperNode that is started again does not get the messages that it has taken before, and
        Flower notices only those that are away for longer.
        """
        return bool(self.identity.site) and time.monotonic() - self.asked >= ASK_AGAIN_SECONDS


class RegistrationError(RuntimeError):
    """The workers cannot serve this run; the text says why and what to do."""


@dataclass(frozen=True)
class NodeInfo:
    """One registered SuperNode.

    Attributes:
        node_id: Flower's id, random in each run.
        index: its place among the SuperNodes, from 0; for a site, its client's number.
        device: what its clients are trained on.
        runtime: ``ray`` or ``process``.
        host: its machine's name; empty for a site.
        compiled: whether it trains through the compiler.
        nodes: how many SuperNodes there are, or sites in the experiment.
        site: the site's name, to which its key belongs; empty for a simulated worker, which serves
            any client.
        train: the number of images that the site trains on.
        validation: the number of images that it validates on.
        labels: its training images by class; empty if it does not share them.
        statistics: whether the site sends statistics of its images' features.
        state: names the storage of its clients' states; empty if there is none, and for a site.
        public_key: the key with which a site signs its replies; empty for a simulated worker.
    """

    node_id: int
    index: int
    device: str
    runtime: str
    host: str
    compiled: bool = False
    nodes: int = 1
    site: str = ""
    train: int = 0
    validation: int = 0
    labels: tuple[int, ...] = ()
    statistics: bool = False
    state: str = ""
    public_key: bytes = b""

    @classmethod
    def of(cls, identity: NodeIdentity, reply: RegistrationReply) -> Self:
        """Return the node that a registration describes."""
        worker = not identity.site
        return cls(
            node_id=identity.node_id,
            index=reply.index,
            device=reply.device,
            runtime=reply.runtime,
            host=reply.host if worker else "",
            compiled=reply.compiled,
            nodes=reply.nodes,
            site=identity.site,
            train=reply.train,
            validation=reply.validation,
            labels=tuple(reply.labels),
            statistics=reply.statistics,
            state=reply.state if worker else "",
            public_key=identity.public_key,
        )

    @property
    def name(self) -> str:
        """Its name in the record."""
        return self.site or f"supernode-{self.index}"

    def serves(self, client: int) -> bool:
        """Return whether it can train the client."""
        return not self.site or self.index == client


def read_registration(
    addressed: AddressedRequest[RegistrationRequest], message: Message, signed: bool
) -> RegistrationReply:
    """Read a SuperNode's registration.

    Raises:
        RegistrationError: the message is an error, has another form, or is not signed.
    """
    if message.has_error():
        reason = last_line(message.error.reason or "")
        raise RegistrationError(f"a SuperNode could not start the ClientApp: {reason}")
    try:
        return read_reply(REGISTER, addressed, message, signed)
    except ProtocolError as error:
        raise RegistrationError(
            f"a SuperNode's registration cannot be read ({error}); does it run the same version?"
        ) from None


def check_registration(
    site: str,
    reply: RegistrationReply,
    run: RunIdentity,
    device: Device,
    max_images: int,
    classes: int,
) -> None:
    """Refuse a SuperNode that cannot serve the run.

    Args:
        site: the site to which its key belongs; empty in a simulation.
        reply: its registration.
        run: the run's id and experiment.
        device: what the experiment asks for.
        max_images: a site that claims more images is refused.
        classes: the number of the experiment's classes; 0 if the data set alone knows it.

    Raises:
        RegistrationError: it runs other code, sees no GPU although one was asked for, cannot
            train, or claims an impossible number of images.
    """
    if reply.fingerprint != run.fingerprint:
        raise RegistrationError(other_code_message(site, reply, run))
    if device == "cuda" and not reply.cuda and not site:
        raise RegistrationError(
            "device=cuda, but the clients see no GPU, because Flower hides it by default. "
            f"Add {federation_advice(reply.nodes)}, or use 'univarfl train', which adds it"
        )
    if reply.error:
        cure = "; run 'univarfl deploy check' there with this experiment's words"
        raise RegistrationError(f"a SuperNode cannot train: {reply.error}{cure if site else ''}")
    if site and not (2 <= reply.train <= max_images and reply.validation <= max_images):
        raise RegistrationError(
            f"site {site} claims {reply.train} training images and {reply.validation} "
            f"validation images; between 2 and guard.most_images={max_images} are allowed"
        )
    if reply.labels and classes and len(reply.labels) != classes:
        raise RegistrationError(
            f"site {site} counts images of {len(reply.labels)} classes, and there are {classes}"
        )
    if reply.labels and max(reply.labels) > reply.train + reply.validation:
        raise RegistrationError(
            f"site {site} counts {max(reply.labels)} images of a class, and has "
            f"{reply.train + reply.validation}"
        )


def check_shared_state(nodes: Sequence[NodeInfo]) -> None:
    """Refuse workers that do not share the storage of their clients' states.

    Raises:
        RegistrationError: there are several storages.
    """
    storages = {node.state: node for node in nodes if node.state}
    if len(storages) > 1:
        names = ", ".join(f"{node.name} on {node.host}" for node in storages.values())
        raise RegistrationError(
            f"the clients' states are kept in {len(storages)} places ({names}), and a client may "
            "be trained by any worker: set UNIVARFL_MEMORY to a directory that all machines share, "
            "before 'ray start' on each of them"
        )


def other_code_message(site: str, reply: RegistrationReply, run: RunIdentity) -> str:
    """Return the error text, with its cure, for a client that runs other code than the server."""
    packages = sorted({each.package for each in run_by_clients(run.experiment)})
    also = f" of univarfl and of {', '.join(packages)}, which this run uses," if packages else ""
    if site:
        return (
            f"site {site} runs other code ({reply.fingerprint[:12]}) than the coordinator "
            f"({run.fingerprint[:12]}): install the same version{also} there, and look "
            "into the site's log for the directory that its code comes from"
        )
    return (
        f"the clients import their code from {reply.code!r}, the server from "
        f"'{code_directories()['task'].parent}', and the two differ. Flower's local "
        "SuperLink lets its workers import from the directory that it was first started in. End "
        f"it (kill {os.getppid()}) and start it from an empty directory, or use "
        "'univarfl train', which does that"
    )


def federation_advice(supernodes: int) -> str:
    """Return the option of ``flwr run`` that gives each SuperNode a share of the GPU."""
    share = math.floor(1000 / supernodes) / 1000  # rounded down, so that the shares fit on one GPU
    return (
        f'--federation-config "num-supernodes={supernodes} client-resources-num-cpus=1 '
        f'client-resources-num-gpus={share:g}"'
    )


def hidden_gpu_warning(nodes: Sequence[NodeInfo], device: Device, server_sees_gpu: bool) -> str:
    """Return a warning if the server sees a GPU that its clients do not; empty if all is well.

    Clients that were told to use the CPU, and sites, which are other machines, need no warning.
    """
    if device != "auto" or not server_sees_gpu:
        return ""
    if any(node.device != "cpu" or node.site for node in nodes):
        return ""
    return (
        "the clients train on the CPU although this machine has a GPU, because Flower hides it by "
        f"default: add {federation_advice(len(nodes))}"
    )
