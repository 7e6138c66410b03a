"""The participants that a participant knows by their keys, from a source of its own."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from task.errors import ProtocolError
from task.protocol.masking.rows import Advert
from task.secure.primitives.hashing import digest
from task.secure.primitives.signing import check_signature, public_bytes
from task.secure.rules.threshold import threshold_of
from task.secure.transcript import roster_hash


class Roster(ABC):
    """The participants, their keys, and how many of them may collude.

    Attributes:
        fingerprint: a hash of the names and keys; all participants must have the same.
    """

    fingerprint: str

    @abstractmethod
    def signer(self, key: EllipticCurvePrivateKey) -> bytes:
        """Return the public key that a participant sends with its keys; empty if all know it."""

    @abstractmethod
    def least_threshold(self, clients: int) -> int:
        """Return the smallest threshold that is accepted.

        Args:
            clients: how many clients a request names.

        Raises:
            ProtocolError: there are too few participants for any.
        """

    def name(self, client: int) -> str:
        """Return how messages call a participant."""
        return f"participant {client}"

    @abstractmethod
    def require(self, client: int) -> None:
        """Refuse a client that is not in the roster.

        Raises:
            ProtocolError: it is not.
        """

    @abstractmethod
    def _key(self, advert: Advert) -> bytes:
        """Return the public key of a participant, in DER.

        Raises:
            ProtocolError: it is not in the roster.
        """

    def check(self, advert: Advert, statement: bytes, signature: bytes) -> None:
        """Refuse a statement that a participant did not sign.

        Args:
            advert: the participant's.
            statement: a hash.
            signature: the signature.

        Raises:
            ProtocolError: it did not, is not in the roster, or has another roster.
        """
        if advert.roster != self.fingerprint:
            raise ProtocolError(f"{self.name(advert.client)} has another roster")
        who = self.name(advert.client)
        check_signature(self._key(advert), statement, signature, who)


class SimulatedRoster(Roster):
    """The roster of a simulation, in which each client has a new key in every attempt.

    It authenticates nobody: all keys are on one machine, and the coordinator sends them around.

    Args:
        colluding: how many participants may collude; None for the default.
    """

    fingerprint = digest("simulated").hex()

    def __init__(self, colluding: int | None) -> None:
        self._colluding = colluding

    def signer(self, key: EllipticCurvePrivateKey) -> bytes:
        return public_bytes(key)

    def least_threshold(self, clients: int) -> int:
        return accepted_threshold(clients, self._colluding)

    def require(self, client: int) -> None:
        pass

    def _key(self, advert: Advert) -> bytes:
        return bytes.fromhex(advert.signer)


class SiteRoster(Roster):
    """The roster of a site, from its own files.

    Args:
        clients: by client's number, the site's name.
        keys: by site's name, its public key in DER; sites that take no part may be among them.
        colluding: how many of all sites may collude; None for the default.
    """

    def __init__(
        self, clients: Mapping[int, str], keys: Mapping[str, bytes], colluding: int | None
    ) -> None:
        self._clients, self._keys, self._colluding = clients, keys, colluding
        self.fingerprint = roster_hash(keys)

    def name(self, client: int) -> str:
        known = self._clients.get(client)
        return f"site {known}" if known else super().name(client)

    def signer(self, key: EllipticCurvePrivateKey) -> bytes:
        return b""

    def least_threshold(self, clients: int) -> int:
        return accepted_threshold(len(self._keys), self._colluding)

    def require(self, client: int) -> None:
        if self._clients.get(client) not in self._keys:
            raise ProtocolError(f"{self.name(client)} is not in the roster of this site")

    def _key(self, advert: Advert) -> bytes:
        self.require(advert.client)
        if advert.signer:
            raise ProtocolError(f"{self.name(advert.client)} brings a key of its own")
        return self._keys[self._clients[advert.client]]


def accepted_threshold(count: int, colluding: int | None) -> int:
    """Return the threshold for a number of participants.

    Raises:
        ProtocolError: they are too few.
    """
    try:
        return threshold_of(count, colluding)
    except ValueError as error:
        raise ProtocolError(str(error)) from None
