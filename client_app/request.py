"""What the server asks of a worker, read from its message and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from flwr.app import Context, Message
from flwr.common.constant import PARTITION_ID_KEY
from torch import Tensor

from task import wire
from task.config import LocalConfig
from task.data.federated import Site
from task.errors import SiteError
from task.fingerprint import code_directories, fingerprint
from task.worker import Worker, shared_worker


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
    weights: dict[str, Tensor]
    broadcast: dict[str, Tensor]
    node_config: Mapping[str, object]

    @classmethod
    def of(cls, message: Message, context: Context) -> "Request":
        """Read a message that came to a node."""
        config = message.content.config_records[wire.REQUEST]
        return cls(
            run=cast(str, config["run"]),
            experiment=cast(str, config["experiment"]),
            fingerprint=cast(str, config["fingerprint"]),
            round=cast(int, config["round"]),
            clients=cast(list[int], config["clients"]),
            accepted=cast(list[int], config["accepted"]),
            weights=tensors(message, wire.ARRAYS),
            broadcast=tensors(message, wire.BROADCAST),
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
        return shared_worker(self.experiment, self.site)

    @cached_property
    def site(self) -> Site | None:
        """The site that this node is; None for a simulated worker.

        Raises:
            SiteError: the experiment and this node disagree on whose data are trained on.
        """
        sites = LocalConfig.model_validate_json(self.experiment).divider().sites
        return site_of(self.node_config, sites)


def site_of(node_config: Mapping[str, object], sites: Sequence[str]) -> Site | None:
    """The site that this node is, by its own settings; None for a simulated worker.

    Only a simulated worker, which Flower gives a partition id, reads the data that the experiment
    names: a real one reads its own, whatever a coordinator asks.

    Raises:
        SiteError: the node is a site and the experiment has none, or the other way round.
    """
    simulated = PARTITION_ID_KEY in node_config
    if simulated and not sites:
        return None
    if simulated or "data-dir" not in node_config:
        raise SiteError(
            "a SuperNode names no data of its own: start it with --node-config "
            "\"site='NAME' data-dir='DIRECTORY'\""
        )
    directory = Path(str(node_config["data-dir"])).expanduser().absolute()
    site = Site(str(node_config.get("site", directory.name)), str(directory))
    if not sites:
        raise SiteError(
            f"{site.name} is a site with data of its own; run with partition=sites "
            "partition.names=[...] data=folder data.classes=[...]"
        )
    return site


def tensors(message: Message, name: str) -> dict[str, Tensor]:
    """The arrays that a message holds under a name; empty when there are none."""
    arrays = message.content.array_records.get(name)
    return {} if arrays is None else dict(arrays.to_torch_state_dict())
