"""Sites in this process: each has a key, which Flower's node list shows with its name."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, PublicFormat
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo

from univarfl.deploy.keys import new_key, write_key
from univarfl.engines.local.inprocess_grid import InProcessGrid


class SiteGrid(InProcessGrid):
    """A grid of sites.

    Args:
        client_app: handles the messages.
        root: holds a directory of images for each site.
        names: what the sites call themselves; a site's key is registered under the same name.
        place: where the keys and the client state are kept.

    Attributes:
        registered: by node id, the name under which its key is registered.
        keys: by node id, its key as Flower lists it.
    """

    def __init__(
        self, client_app: ClientApp, root: Path, names: Sequence[str], place: Path
    ) -> None:
        super().__init__(client_app, len(names))
        self.registered = dict(zip(self._nodes, names, strict=True))
        self.keys: dict[int, bytes] = {}
        for node_id, name in self.registered.items():
            key, path = new_key(), place / f"{node_id}.key"
            path.unlink(missing_ok=True)
            write_key(path, key, PrivateFormat.OpenSSH)
            self.keys[node_id] = pem(key)
            self._supernodes[node_id].context.node_config = {
                "site": name, "data-dir": str(root / name), "key": str(path),
                "memory-dir": str(place / f"{name}.mem"),
                "models-dir": str(place / f"{name}.models"),
            }  # fmt: skip

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return the connected sites as Flower's SuperLink lists them."""
        return [
            NodeInfo(node_id=node, public_key=self.keys[node], name=self.registered[node])
            for node in self.get_node_ids()
        ]


def pem(key: EllipticCurvePrivateKey) -> bytes:
    """Return the public key of a private key in the form in which Flower lists it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
