"""What the server asks of a worker, read from its message and checked."""

import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from flwr.app import Context, Message
from torch import Tensor

from client_app.arrays import unpack
from client_app.memory import ClientMemory
from client_app.node import site_of
from task import wire
from task.config import LocalConfig
from task.errors import SiteError
from task.fingerprint import code_directories, fingerprint
from task.site import NodeConfig, Site
from task.worker import Worker, shared_worker

IMAGES = "images"  # under which a site keeps the version of its own that a run began with


class RequestError(ValueError):
    """A request is not of the agreed form."""


class CodeMismatchError(RuntimeError):
    """Server and client run different code, so nothing may be trained."""


@dataclass
class Request:
    """A request, whatever its kind.

    Attributes:
        run: the run's id.
        experiment: the `LocalConfig` as JSON.
        fingerprint: of the code that the server runs.
        round: the server's round; 0 before the first.
        clients: the cohort.
        accepted: for each of them, the round it was last accepted in; 0 before that.
        shares: for each of them, its weight in the round's mean, if this worker is to add up what
            it trains; empty if each model is sent apart.
        seconds: how long the server waits for the reply; 0 for ever.
        most_norm: how far a client's model may be from the global one; 0 for any distance.
        weights: the global weights; empty in a query.
        broadcast: what the method's server half sends, if anything.
        node_config: this node's own settings.
    """

    run: str
    experiment: str
    fingerprint: str
    round: int
    clients: list[int]
    accepted: list[int]
    shares: list[float]
    seconds: float
    most_norm: float
    weights: dict[str, Tensor]
    broadcast: dict[str, Tensor]
    node_config: NodeConfig
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, message: Message, context: Context) -> "Request":
        """Read a message that came to a node."""
        config = message.content.config_records[wire.REQUEST]
        return cls(
            run=cast(str, config["run"]),
            experiment=cast(str, config["experiment"]),
            fingerprint=cast(str, config["fingerprint"]),
            round=whole(config["round"], "round"),
            clients=wholes(config["clients"], "clients"),
            accepted=wholes(config["accepted"], "accepted"),
            shares=parts(config["shares"], config["clients"]),
            seconds=finite(config["seconds"], "seconds"),
            most_norm=finite(config["most_norm"], "most_norm"),
            weights=unpack(message.content, wire.ARRAYS),
            broadcast=unpack(message.content, wire.BROADCAST),
            node_config=context.node_config,
        )

    @cached_property
    def worker(self) -> Worker:
        """This process's worker for the experiment, if it runs the server's code.

        Raises:
            CodeMismatchError: it does not.
            SiteError: the experiment and this node disagree on whose data are trained on.
        """
        if fingerprint() != self.fingerprint:
            raise CodeMismatchError(
                f"this worker would train with {code_directories()['task'].parent} "
                f"({fingerprint()[:12]}), the server runs other code ({self.fingerprint[:12]})"
            )
        worker = shared_worker(self.experiment, self.site)
        if self.site is not None:
            version = worker.data.dataset.version
            if ClientMemory(self.run, site=self.site).first(IMAGES, version) != version:
                raise SiteError(
                    "its images have changed since the run began, and with them who is trained and "
                    "who is validated on; start the run anew"
                )
        return worker

    @property
    def deadline(self) -> float:
        """When nobody waits for the reply any more, on this machine's monotonic clock."""
        return self.began + (self.seconds or math.inf)

    @property
    def longest(self) -> float:
        """How far a client's model may be from the global one: what the server or the site says."""
        site = self.site.most_norm if self.site else None
        return min(self.most_norm or math.inf, math.inf if site is None else site)

    @cached_property
    def site(self) -> Site | None:
        """The site that this node is; None for a simulated worker.

        Raises:
            SiteError: the experiment and this node disagree on whose data are trained on.
        """
        sites = LocalConfig.model_validate_json(self.experiment).divider().sites
        return site_of(self.node_config, sites)


def whole(value: object, what: str) -> int:
    """A whole number from 0.

    Raises:
        RequestError: it is something else. Such numbers name files in the client's memory.
    """
    if type(value) is not int or value < 0:
        raise RequestError(f"the request's {what} must be a whole number")
    return value


def wholes(value: object, what: str) -> list[int]:
    """A list of whole numbers from 0.

    Raises:
        RequestError: it is something else.
    """
    if not isinstance(value, list):
        raise RequestError(f"the request's {what} must be a list")
    return [whole(number, what) for number in value]


def finite(value: object, what: str) -> float:
    """A number from 0.

    Raises:
        RequestError: it is something else.
    """
    if not isinstance(value, float) or not 0 <= value < math.inf:
        raise RequestError(f"the request's {what} must be a number from 0")
    return value


def parts(value: object, clients: object) -> list[float]:
    """A part of the whole for each of the clients, or nothing.

    Raises:
        RequestError: it is something else.
    """
    if (
        not isinstance(value, list)
        or not isinstance(clients, list)
        or len(value) not in (0, len(clients))
        or not all(isinstance(part, float) and 0 <= part <= 1 for part in value)
    ):
        raise RequestError("the request's shares must be a part of 1 for each client, or none")
    return value
