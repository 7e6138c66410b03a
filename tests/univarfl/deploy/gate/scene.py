"""A gate that can be started, with the keys of two sites."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from tests.processes import UNIVARFL, end
from tests.univarfl.deploy.gate.requests_to import (
    TYPE,
    Client,
    private_key,
    signed,
    wait_for_gate,
)
from tests.univarfl.deploy.gate.upstream import Upstream
from univarfl.deploy.gate.requests import PULL_MESSAGES
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace, SitePlace
from univarfl.deploy.site_keys import make_site
from univarfl.flower.programs import free_ports

FLEET = "/v1/fleet/"
PULL, PUSH = FLEET + PULL_MESSAGES, FLEET + "push-object"


@contextmanager
def running(scene: "Scene") -> Iterator[None]:
    """Run a gate."""
    process = subprocess.Popen(scene.command)
    try:
        wait_for_gate(scene.client, process)
        yield
    finally:
        end([process])


class Scene:
    """A gate with the keys of two sites, and a server behind it."""

    upstream: Upstream

    def __init__(self, root: Path) -> None:
        self.place = CoordinatorPlace(root / "f")
        make_coordinator(self.place, ["localhost"])
        self.keys = {name: self.new_key(root, name) for name in ("north", "south")}
        for name in self.keys:
            shutil.copy(root / name / f"{name}.pub", self.place.sites)
        self.stranger = self.new_key(root, "stranger")
        port, self.internal_port = free_ports(2)
        self.client = Client(self.place.authority, "127.0.0.1", port)
        self.command = [
            UNIVARFL, "deploy", "gate", str(self.place.directory), "--listen", "127.0.0.1",
            "--port", str(port), "--internal-port", str(self.internal_port),
        ]  # fmt: skip

    def new_key(self, root: Path, name: str) -> EllipticCurvePrivateKey:
        make_site(SitePlace(root / name), name, root)
        return private_key(SitePlace(root / name), name)

    def north(self, **more: str) -> dict[str, str]:
        return {**TYPE, **signed(self.keys["north"]), **more}
