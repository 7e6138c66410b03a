"""Who a worker's participants are: simulated clients with new keys, or a site with its own key."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from client_app.node import signing_key
from client_app.session import Session
from task.config import LocalConfig
from task.errors import ProtocolError, SiteError
from task.secure.rules.ledger import MemoryLedger, SumLedger
from task.secure.rules.roster import (
    Roster,
    SimulatedRoster,
    SiteRoster,
    accepted_threshold,
)
from task.secure.rules.site_files import read_roster, site_ledger
from task.secure.rules.threshold import colluding_of
from task.site import Site


class ParticipantIdentity(ABC):
    """What a worker's participants know of all participants and of themselves.

    Attributes:
        roster: the participants that they know.
        max_share: the largest weight of one update that they accept.
    """

    roster: Roster
    max_share: float

    @abstractmethod
    def signer(self, client: int) -> EllipticCurvePrivateKey:
        """Return the key with which a participant signs."""

    @abstractmethod
    def ledger(self, client: int) -> SumLedger:
        """Return the ledger of a participant's earlier signatures."""

    @abstractmethod
    def most_colluding(self, clients: int) -> int:
        """Return how many participants may collude with the coordinator.

        Args:
            clients: how many clients a request names.
        """

    @property
    def temporary_keys(self) -> Mapping[int, EllipticCurvePrivateKey]:
        """The signing keys that exist for one attempt only, by client."""
        return {}


class SimulatedIdentity(ParticipantIdentity):
    """Simulated clients, each with a new key in every attempt, and no record of earlier attempts.

    Args:
        config: the experiment.
        keys: the keys, by client.
    """

    def __init__(self, config: LocalConfig, keys: Mapping[int, EllipticCurvePrivateKey]) -> None:
        self._colluding = config.secure.colluding
        self.roster = SimulatedRoster(self._colluding)
        self.max_share, self._keys = config.secure.max_share, keys
        self._ledgers: defaultdict[int, SumLedger] = defaultdict(MemoryLedger)

    def signer(self, client: int) -> EllipticCurvePrivateKey:
        return self._keys[client]

    def ledger(self, client: int) -> SumLedger:
        return self._ledgers[client]

    def most_colluding(self, clients: int) -> int:
        return colluding_of(clients, self._colluding)

    @property
    def temporary_keys(self) -> Mapping[int, EllipticCurvePrivateKey]:
        return self._keys


class SiteIdentity(ParticipantIdentity):
    """A site, which trusts its own files only: its key, its roster and its limits.

    Args:
        config: the experiment.
        site: the site.
        key: the site's private key.
        images: returns the version of the site's images.

    Raises:
        SiteError: the roster cannot be used.
    """

    def __init__(
        self,
        config: LocalConfig,
        site: Site,
        key: EllipticCurvePrivateKey,
        images: Callable[[], str],
    ) -> None:
        clients, keys = dict(enumerate(config.partitioner().sites)), read_roster(site, key)
        self.roster = SiteRoster(clients, keys, site.colluding)
        self._colluding = max(
            colluding_of(len(keys), site.colluding),
            colluding_of(config.num_clients, config.secure.colluding),
        )
        self.max_share = min(config.secure.max_share, site.max_share)
        self._key, self._site, self._images = key, site, images

    def signer(self, client: int) -> EllipticCurvePrivateKey:
        return self._key

    def ledger(self, client: int) -> SumLedger:
        return site_ledger(self._site, self._images())

    def most_colluding(self, clients: int) -> int:
        """Return the larger number of the site and the experiment: a request can be stricter."""
        return self._colluding


def identity_of(
    session: Session[Any], keys: Mapping[int, EllipticCurvePrivateKey]
) -> ParticipantIdentity:
    """Return the identity of the participants of a worker.

    Args:
        session: a request for a stage.
        keys: by client, what simulated clients sign with.

    Raises:
        ProtocolError: the experiment has no masked rounds.
        SiteError: the site's roster cannot be used.
    """
    config = session.config
    if not config.secure.masked:
        raise ProtocolError("a stage of a masked round, and the experiment has secure=none")
    if session.site is None:
        return SimulatedIdentity(config, keys)
    key = signing_key(session.node_config)
    assert key is not None  # only simulated workers have none
    return SiteIdentity(config, session.site, key, lambda: session.worker.data.dataset.version)


def check_identity(session: Session[Any]) -> None:
    """Refuse an experiment with masked rounds that this site's own files do not allow.

    Raises:
        SiteError: the roster cannot be used, lacks a site of the experiment, or asks for more
            participants than the experiment.
    """
    config = session.config
    assert session.site is not None
    roster = identity_of(session, {}).roster
    try:
        for client in range(config.num_clients):
            roster.require(client)
        least = roster.least_threshold(config.num_clients)
        offered = accepted_threshold(config.num_clients, config.secure.colluding)
    except ProtocolError as error:
        raise SiteError(f"site {session.site.name}: {error}") from None
    if offered < least:
        raise SiteError(
            f"site {session.site.name} takes part in masked rounds of at least {least} sites (its "
            f"roster and colluding), and this experiment allows rounds of {offered}; raise "
            "secure.colluding"
        )
