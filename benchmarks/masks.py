"""Measure the cost of masks beside Flower's SecAgg+ primitives, on one thread.

    uv run python -m benchmarks.masks                     (two minutes)

A site's part is all that one participant computes in a round: keys, shares, signatures, the
rounding of its update, and masks. The server's part restores secrets and removes the masks of the
sum. Mask streams of a large vector are timed once and multiplied by their number; everything else
is run. Flower's part are its secret sharing and its mask streams alone, without keys, quantisation
and encryption.
"""

import gc
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.ndarrays_arithmetic import parameters_addition
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from tabulate import tabulate

from task.secure.coordinator import Coordinator
from task.secure.participant import Participant
from task.secure.primitives.mask_stream import add_stream
from task.secure.primitives.signing import is_signed, new_signing_key
from task.secure.rules.ledger import MemoryLedger
from task.secure.rules.roster import SimulatedRoster
from task.secure.rules.threshold import default_colluding, threshold_of
from task.secure.transcript import Scope, View
from task.secure.vectors.update_vector import UpdateVector

SIZES, COUNTS, DROPPED = (1_000_000, 11_000_000), (4, 10, 100), (0.0, 0.3)
REPEATS = 3
FLOWERS_RANGE = 1 << 32  # SecAgg+'s default
ADVERT, BOX, SHARE, SIGNATURE = 700, 306, 142, 150  # characters in JSON


def seconds(call: Callable[[], object]) -> float:
    """Return the shortest of a few durations."""
    gc.collect()
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)


def stream_seconds(length: int) -> tuple[float, float]:
    """Return the time for one of our mask streams and its addition, and for one of Flower's."""
    vector, key = np.zeros(length, np.int64), secrets.token_bytes(32)
    values = [np.zeros(length, np.int64)]

    def flowers() -> object:
        return parameters_addition(values, pseudo_rand_gen(key, FLOWERS_RANGE, [(length,)]))

    return seconds(lambda: add_stream(vector, key)), seconds(flowers)


def rounding_seconds(length: int) -> float:
    """Return the time to put a trained model into the integers of a masked sum."""
    start = {"w": torch.zeros(length).normal_()}
    trained = {"w": start["w"] + 1e-3}
    layout, key = UpdateVector(start, (), "stochastic"), secrets.token_bytes(32)
    return seconds(lambda: layout.pack(layout.fixed(trained, 0.5, key), {}, 0.5, key))


class Clock:
    """Adds up the time that each participant spends."""

    def __init__(self) -> None:
        self.spent: dict[int, float] = {}

    @contextmanager
    def of(self, client: int) -> Iterator[None]:
        is_signed.cache_clear()  # each site checks every signature itself
        started = time.perf_counter()
        yield
        self.spent[client] = self.spent.get(client, 0.0) + time.perf_counter() - started


def protocol_seconds(count: int, dropped: int) -> tuple[float, float]:
    """Return what a round costs a site and the server, but for the streams of a large vector."""
    clients, clock, scope = range(count), Clock(), Scope("run", 1, 1, "{}", "00" * 32, "00" * 16)
    images = dict.fromkeys(clients, 100)
    threshold, colluding = threshold_of(count, None), default_colluding(count)
    coordinator = Coordinator(scope, threshold, colluding, True, images, None)
    sites = [Participant(c, SimulatedRoster(None), 1.0, new_signing_key()) for c in clients]
    for client, site in enumerate(sites):
        with clock.of(client):
            advert = site.keys(scope, 100)
        coordinator.add_advert(advert)
    setup = coordinator.setup()
    for client, site in enumerate(sites):
        with clock.of(client):
            boxes = site.share(replace(setup))  # a copy: each site computes the hashes itself
        coordinator.add_boxes(client, boxes)
    shown = coordinator.view(setup, 0.0)
    survivors, total = tuple(clients)[dropped:], np.zeros(1, np.int64)
    for client in survivors:
        site, vector, boxes = sites[client], np.zeros(1, np.int64), coordinator.boxes_for(client)
        with clock.of(client):
            assert site.progress.setup
            view = View(site.progress.setup, shown.members, shown.max_norm)
            site.open_report(view, boxes, MemoryLedger())
            site.mask(vector)
        total += vector
    for client in survivors:
        with clock.of(client):
            signature = sites[client].agree(survivors, MemoryLedger())
        coordinator.add_signature(shown, survivors, client, signature)
    for client in survivors:
        with clock.of(client):
            revealed = sites[client].unmask(coordinator.signatures())
        coordinator.add_revealed(shown, survivors, client, revealed)
    started = time.perf_counter()
    coordinator.unmask(shown, survivors, total)
    server = time.perf_counter() - started
    return sum(clock.spent[client] for client in survivors) / len(survivors), server


def flowers_sharing(count: int) -> tuple[float, float]:
    """Return the time for Flower's shares of two secrets, and for combining one."""
    threshold, secret = threshold_of(count, None), secrets.token_bytes(32)
    started = time.perf_counter()
    shares = create_shares(secret, threshold, count)
    split = time.perf_counter() - started
    started = time.perf_counter()
    combine_shares(shares[:threshold])
    return 2 * split, time.perf_counter() - started


def megabytes(count: int, length: int) -> float:
    """Return what a site sends in a round."""
    text = ADVERT + SIGNATURE + count * (BOX + SHARE)
    return (8 * length + text) / 1e6


def main() -> None:
    """Print a row for each case."""
    torch.set_num_threads(1)
    sharing = {count: flowers_sharing(count) for count in COUNTS}
    rows = []
    for length in SIZES:
        ours, flowers = stream_seconds(length)
        rounding = rounding_seconds(length)
        for count in COUNTS:
            split, combine = sharing[count]
            for share in DROPPED:
                dropped = int(share * count)
                left = count - dropped
                site, server = protocol_seconds(count, dropped)
                streams = left + dropped * left
                rows.append(
                    [
                        f"{length / 1e6:.0f}M", count, dropped, site + rounding + count * ours,
                        split + count * flowers, server + streams * ours,
                        count * combine + streams * flowers, megabytes(count, length),
                        4 * length / 1e6,
                    ]
                )  # fmt: skip
    columns = [
        "parameters", "participants", "dropped", "site, s", "SecAgg+ site, s", "server, s",
        "SecAgg+ server, s", "site sends, MB", "without masks, MB",
    ]  # fmt: skip
    print(tabulate(rows, columns, floatfmt=".3g", tablefmt="pipe"))


if __name__ == "__main__":
    main()
