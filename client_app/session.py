"""What a worker needs to answer a request: its data and model, its site, its deadline."""

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from flwr.app import RecordDict
from torch import Tensor

from client_app.admission import admitted_site
from client_app.client_state import ClientState
from client_app.node import check_extensions, simulated
from task.config import LocalConfig, Settings
from task.data.image_store.store import store_root
from task.errors import CodeMismatchError, ProtocolError, SiteError
from task.exact_sum import KEY_BYTES
from task.fingerprint import changed_since_start, code_directories, fingerprint_for
from task.machine.files import require_space
from task.protocol.envelope import Request
from task.protocol.tensors import PackedTensors, check_tensors
from task.registry import named
from task.rules import read_local_config
from task.seeding import numpy_generator
from task.site import NodeConfig, Site
from task.training.worker import Worker, shared_worker

SITE_VERSION = "task.data.site_data:site_version"
DATA_VERSION = "data-version"  # the entry with the version of a site's images at the run's start

Asked = TypeVar("Asked", bound=Request)


@dataclass
class Session(Generic[Asked]):
    """One request on one node.

    Attributes:
        request: what the server asks.
        node_config: the node's own settings.
        state: what the node keeps in memory between the messages of a run.
        started: when the request arrived, on the monotonic clock.
    """

    request: Asked
    node_config: NodeConfig
    state: RecordDict = field(default_factory=RecordDict)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    @cached_property
    def config(self) -> LocalConfig:
        """The experiment's settings, which are read only if all their code may run here.

        Raises:
            ProtocolError: it is not in the one form in which a server writes it. An owner who reads
                it could miss a key that stands twice.
            SiteError: it has code of a package, and the site does not list it or its owner has not
                approved the experiment.
        """
        check_extensions(self.node_config, self.request.experiment, self.request.run)
        config = read_local_config(self.request.experiment)
        if config.model_dump_json() != self.request.experiment:
            raise ProtocolError("its experiment is not in the form in which a server writes it")
        return config

    @cached_property
    def site(self) -> Site | None:
        """The site that this node is; None for a simulated worker.

        Raises:
            ProtocolError, SiteError: as for `admitted_site`.
        """
        return admitted_site(self.request, self.config, self.node_config)

    @cached_property
    def worker(self) -> Worker:
        """This process's worker for the experiment.

        Raises:
            CodeMismatchError: it would run other code than the server, or than at its start.
            SiteError: the experiment and this node disagree on whose data are trained on, or the
                site's images changed since the run began.
            SpaceError: the site's disk has less free than its owner keeps free.
        """
        request = self.request
        own = fingerprint_for(request.experiment)
        if own != request.fingerprint:
            raise CodeMismatchError(
                f"this worker has the code {own[:12]} in {code_directories()['task'].parent}, but "
                f"the server runs other code ({request.fingerprint[:12]}); install the same version"
            )
        if self.site is None:
            worker = shared_worker(request.experiment)
        elif changed_since_start():
            raise CodeMismatchError(
                "the code that is installed here has changed since the site was started; start the "
                "site again"
            )
        else:
            require_space(store_root(), 0, self.site.keep_free_megabytes)
            worker = worker_for(request.experiment, self.site)
            version = worker.data.dataset.version
            if ClientState(request.run, site=self.site).first(DATA_VERSION, version) != version:
                raise SiteError(
                    "its images have changed since the run began, and with them the split into "
                    "training and validation; start a new run"
                )
        return worker

    def refuse_if_masked(self, what: str) -> None:
        """Refuse to send something of one client in an experiment with masked rounds.

        Raises:
            ProtocolError: the experiment has secure=masked.
            SiteError: as for `config`.
        """
        if self.config.secure.masked:
            raise ProtocolError(f"secure=masked: {what} of one client is not sent")

    def require_last_round(self, rule: str) -> None:
        """Refuse a request that belongs after the last round, and comes in another one.

        Args:
            rule: what is done after the last round alone, such as "statistics are sent".

        Raises:
            ProtocolError: it names another round.
        """
        if self.request.round != self.config.rounds:
            raise ProtocolError(f"{rule} after the last round alone")

    def stage(self, name: str) -> Settings:
        """Return the settings of the stage after training, to which the request belongs.

        Args:
            name: the stage.

        Raises:
            ProtocolError: the experiment names another stage, or the request another round than
                the last.
        """
        after = self.config.after
        if after["name"] != name:
            raise ProtocolError(f"it belongs to after={name}, and the experiment has another stage")
        self.require_last_round(f"after={name} comes")
        return after

    def rounding_key(self, purpose: str, client: int) -> bytes:
        """Return the key from which the random rounding of a client's numbers is drawn.

        It comes from the operating system. Only in a simulation it follows from the seed, so that
        the same seed gives the same bits.

        Args:
            purpose: what is rounded.
            client: the client.
        """
        if not simulated(self.node_config):
            return secrets.token_bytes(KEY_BYTES)
        request = self.request
        key = "rounding", purpose, request.round, request.attempt, client
        return numpy_generator(self.config.seed, *key).bytes(KEY_BYTES)

    def refuse_scores_with_noise(self) -> None:
        """Refuse to send scores on images that noise at the clients protects.

        Raises:
            ProtocolError: clients add noise.
        """
        if self.worker.config.privacy.private:
            raise ProtocolError("scores on its images are not sent with noise at the clients")

    def check_clients(self, clients: Sequence[int]) -> None:
        """Refuse a list of clients if this is a site, which has one client.

        Raises:
            ProtocolError: it is a list.
        """
        if self.site is not None and len(clients) > 1:
            raise ProtocolError(f"it names {len(clients)} clients, and a site has one")

    def check_trained_here(self, client: int) -> None:
        """Refuse a client that this worker does not train.

        Raises:
            ProtocolError: it does not.
        """
        if client not in self.worker.data.clients:
            raise ProtocolError(f"client {client} is not trained here")

    def client_state(self) -> ClientState:
        """Return the place of what the run's clients keep between rounds.

        Raises:
            StateLostError: a site keeps states that another experiment of the run has left.
        """
        max_bytes = self.worker.config.models_kept * self.worker.model_bytes
        state = ClientState(self.request.run, max_bytes, self.site)
        if self.site is not None:
            state.require_experiment(self.request.experiment)
        return state

    def tensors(self, weights: PackedTensors) -> dict[str, Tensor]:
        """Return the global weights that were sent.

        Raises:
            ProtocolError: they do not fit the experiment's model.
        """
        received = weights.unpack()
        check_tensors(received, self.worker.personal.shared)
        return received

    @property
    def deadline(self) -> float:
        """When the server stops waiting for the reply, on this machine's monotonic clock."""
        return self.started + (self.request.seconds or math.inf)

    def max_norm(self, requested: float) -> float:
        """Return the largest update norm: the smaller of the server's and the site's bound.

        Args:
            requested: the server's bound; 0 for none.
        """
        own = self.site.max_norm if self.site else None
        return min(requested or math.inf, math.inf if own is None else own)


def worker_for(experiment: str, site: Site) -> Worker:
    """Return this process's worker for an experiment on a site's images as they are now.

    Args:
        experiment: a `LocalConfig` as JSON.
        site: the site.

    Raises:
        ConfigError, DataError, SiteError: as for `federate_site`.
    """
    version = named(SITE_VERSION)(read_local_config(experiment), site)
    return shared_worker(experiment, site, version)
