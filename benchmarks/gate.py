"""Measure what the gate adds to the time of a site's request, and to a round.

    uv run python -m benchmarks.gate [REQUESTS]   (two minutes on two cores)

A real SuperLink and a real gate are reached through TLS on this machine, each by a client that
keeps its connection, as a SuperNode does. The two are asked in turns: for heartbeats, and with
pieces of a model, which the SuperLink reads and refuses because there is no run. Then two sites
train for `ROUNDS` rounds through a gate, with an evaluation after each.
"""

import csv
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil
from flwr.proto.fleet_pb2 import ActivateNodeRequest, ActivateNodeResponse
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.proto.node_pb2 import Node

from tests.machines import Machines, until
from tests.task.data import making
from tests.univarfl.deploy.gate.requests_to import TYPE, pem_of, private_key, signed
from univarfl.deploy.coordinator import CoordinatorServices
from univarfl.deploy.keys import make_coordinator
from univarfl.deploy.places import CoordinatorPlace, SitePlace
from univarfl.deploy.site_keys import make_site
from univarfl.flower.programs import free_ports

REQUESTS = 300
ROUNDS = 5
INTERVAL = 30  # seconds between a site's heartbeats
PIECE = 5 * 2**20  # bytes
OK, NO_RUN = 200, 500


def bodies(node: Node) -> dict[str, tuple[bytes, int]]:
    """Return each route's body and the status of the reply."""
    heartbeat = SendNodeHeartbeatRequest(node=node, heartbeat_interval=INTERVAL)
    piece = PushObjectRequest(node=node, run_id=1, object_id="x", object_content=bytes(PIECE))
    return {
        "send-node-heartbeat": (heartbeat.SerializeToString(), OK),
        "push-object": (piece.SerializeToString(), NO_RUN),
    }


def measure(
    place: CoordinatorPlace, site: SitePlace, addresses: dict[str, str], count: int
) -> None:
    """Print the median of the milliseconds of each kind of request at each address."""
    key = private_key(site, "a")
    clients = {
        name: httpx.Client(base_url=f"https://{address}", verify=str(place.authority))
        for name, address in addresses.items()
    }

    def ask(client: httpx.Client, route: str, body: bytes) -> httpx.Response:
        return client.post(f"/v1/fleet/{route}", content=body, headers={**TYPE, **signed(key)})

    joined = ActivateNodeResponse()
    request = ActivateNodeRequest(public_key=pem_of(key), heartbeat_interval=INTERVAL)
    joined.ParseFromString(
        ask(clients["gate"], "activate-node", request.SerializeToString()).content
    )
    for route, (body, status) in bodies(Node(node_id=joined.node_id)).items():
        busy = processor_seconds()
        taken: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(count):
            for name, client in clients.items():
                started = time.perf_counter()
                reply = ask(client, route, body)
                taken[name].append((time.perf_counter() - started) * 1000)
                if reply.status_code != status:
                    raise SystemExit(f"{route}: {reply.status_code} {reply.text}")
        medians = {name: statistics.median(values) for name, values in taken.items()}
        each = ", ".join(f"{value:.1f} ms at the {name}" for name, value in medians.items())
        cost = medians["gate"] - medians["SuperLink"]
        print(f"{route}, {len(body) / 2**20:.1f} MiB: {each}; difference {cost:.1f} ms")
        busy = (processor_seconds() - busy) * 1000 / count
        print(f"  the gate computes for {busy:.1f} ms of one core", flush=True)


def processor_seconds() -> float:
    """Return the processor time that the gate has used so far."""
    for process in psutil.Process().children(recursive=True):
        if "gate" in process.cmdline() and not process.children():
            times = process.cpu_times()
            return float(times.user + times.system)
    raise SystemExit("there is no gate")


def measure_rounds(root: Path) -> None:
    """Print the processor time of the gate in a round of two sites."""
    sites = ("a", "b")
    making.tree(root / "images", [f"{site}/{kind}" for site in sites for kind in ("x", "y")], 12)
    with Machines(root / "machines", {site: root / "images" / site for site in sites}) as machines:
        machines.coordinate()
        for site in sites:
            machines.join(site)
        words = ["data=folder", "data.classes=[x,y]", "data.image_size=32", f"rounds={ROUNDS}"]
        machines.run(*words, "local_epochs=1", "partition=sites", "partition.names=[a,b]")
        until(lambda: rounds_of(machines) == 1, "the first round")
        busy, started = processor_seconds(), time.perf_counter()
        until(lambda: rounds_of(machines) == ROUNDS, "the last round")
        busy, seconds = processor_seconds() - busy, time.perf_counter() - started
        each = busy * 1000 / (ROUNDS - 1)
        print(
            f"a round of {len(sites)} sites takes {seconds / (ROUNDS - 1):.1f} s; "
            f"the gate computes for {each:.0f} ms of them"
        )
        machines.ended()


def rounds_of(machines: Machines) -> int:
    """Return how many rounds the run has completed."""
    for table in (machines.federation / "runs").glob("*/rounds.csv"):
        with table.open(newline="") as file:
            return max((int(row["round"]) for row in csv.DictReader(file)), default=0)
    return 0


def main() -> None:
    """Start a coordinator with one site's key, and measure."""
    count = int(sys.argv[1]) if sys.argv[1:] else REQUESTS
    with tempfile.TemporaryDirectory() as root:
        place, site = CoordinatorPlace(Path(root) / "f"), SitePlace(Path(root) / "a")
        make_coordinator(place, ["localhost"])
        make_site(site, "a", Path(root))
        place.sites.joinpath("a.pub").write_bytes(site.public_key("a").read_bytes())
        with CoordinatorServices(place, "127.0.0.1", *free_ports(2)) as coordinator:
            coordinator.registry.update()
            addresses = {
                "SuperLink": coordinator.superlink.address, "gate": coordinator.gate.address,
            }  # fmt: skip
            measure(place, site, addresses, count)
        measure_rounds(Path(root))


if __name__ == "__main__":
    main()
