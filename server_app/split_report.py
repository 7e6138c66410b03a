"""``univarfl data``: a data set and its division among clients, as text, table and pictures."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from server_app.experiment import Experiment
from server_app.split_pictures import draw_images, draw_split
from task.data.federated import FederatedData, federate
from task.data.skew import counts, skew
from task.errors import ConfigError, system_reason

MOST_CLIENTS = 30
UNBOUND = 200
PLURAL = {"class": "classes", "domain": "domains"}
COLUMNS = ("client", "split", "class", "domain", "images")


def report_split(experiment: Experiment, directory: Path) -> None:
    """Prepare the data set, print how it is divided, and put table and pictures into a directory.

    Raises:
        ConfigError, DataError: the data cannot be used, or the directory cannot be written.
    """
    if experiment.divider().sites:
        raise ConfigError(
            "partition", "sites", "there is nothing to divide; a site looks at its own images with "
            "data=folder data.root=DIRECTORY partition=iid num_clients=1",
        )  # fmt: skip
    root = experiment.data.get("root")
    if root and directory.absolute().is_relative_to(root):
        raise ConfigError("--to", directory, "would lie among the images of data.root")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot be written: {system_reason(error)}"
        raise ConfigError("--to", directory, reason) from None
    data = federate(experiment.local())
    table = counts(data)
    terminal = Console(highlight=False, markup=False, emoji=False)
    terminal.width = terminal.width if terminal.is_terminal else UNBOUND
    for line in description(experiment, data, table):
        terminal.print(line, soft_wrap=True)
    terminal.print(client_table(data, table, terminal.width))
    for line in closing(experiment, data, table):
        terminal.print(line, soft_wrap=True)
    write_table(data, directory / "split.csv")
    write_skipped(data, directory / "skipped.csv")
    title = title_of(experiment)
    with rc_context({"text.parse_math": False}):  # a class may be called $x_1$ and be no formula
        draw_split(data, table, title, directory / "split.png")
        draw_images(data, experiment.seed, title, directory / "images.png")
    skipped = "  skipped.csv" if data.dataset.skipped else ""
    written = f"wrote {directory / 'split.csv'}  split.png  images.png{skipped}"
    terminal.print(written, soft_wrap=True)


def title_of(experiment: Experiment) -> str:
    """What the pictures show."""
    place = Path(experiment.data.get("root") or "").name
    name = str(experiment.data["name"])
    if place.lower() not in ("", name):
        name += f" {place}"
    alpha = f" alpha {experiment.alpha:g}" if "alpha" in experiment.partition else ""
    return f"{name}, {experiment.partition['name']}{alpha}"


def description(
    experiment: Experiment, data: FederatedData, table: NDArray[np.int64]
) -> Iterator[str]:
    """The data set and the division, in a few lines."""
    dataset = data.dataset
    size = experiment.data["image_size"]
    domains = f", {len(dataset.domains)} domains" if len(dataset.domains) > 1 else ""
    yield (
        f"{experiment.data['name']}: {len(dataset.train)} images to train on, {len(dataset.test)} "
        f"to test, {size}x{size}, {len(dataset.classes)} classes{domains}"
    )
    sizes = table.sum(axis=(1, 2))
    yield (
        f"partition={experiment.partition['name']}: {len(sizes)} clients with {sizes.min()} to "
        f"{sizes.max()} images, a tenth of each for validation"
    )
    for note in data.notes:
        yield f"note: {note}"
    yield ""


def client_table(data: FederatedData, table: NDArray[np.int64], width: int) -> Table:
    """A row per client; where there are many, the largest; class by class where that fits."""
    by_class, by_domain = table.sum(axis=2), table.sum(axis=1)
    sizes = by_class.sum(axis=1)
    found = skew(by_class)
    fixed = len("client images skew classes") + max(map(len, data.dataset.domains))
    wide = fixed + sum(max(len(name), 4) + 1 for name in data.dataset.classes) <= width
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("client", "images", "skew", "classes"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for name in data.dataset.classes if wide else ("largest class",):
        grid.add_column(name, justify="right")
    if by_domain.shape[1] > 1:
        grid.add_column("domains")
    for client in shown_clients(sizes):
        row = [str(client), str(sizes[client])]
        row += [f"{found.distance[client]:.2f}", str(np.count_nonzero(by_class[client]))]
        if wide:
            row += [str(count or "") for count in by_class[client]]
        else:
            top = int(by_class[client].argmax())
            row.append(f"{data.dataset.classes[top]} {by_class[client][top] / sizes[client]:.0%}")
        if by_domain.shape[1] > 1:
            held = np.flatnonzero(by_domain[client])
            row.append(", ".join(data.dataset.domains[index] for index in held))
        grid.add_row(*row)
    return grid


def shown_clients(sizes: NDArray[np.int64]) -> list[int]:
    """The clients that a person can look at: all, or the largest ones."""
    if len(sizes) <= MOST_CLIENTS:
        return list(range(len(sizes)))
    largest: list[int] = np.argsort(-sizes, kind="stable")[:MOST_CLIENTS].tolist()
    return sorted(largest)


def closing(experiment: Experiment, data: FederatedData, table: NDArray[np.int64]) -> Iterator[str]:
    """Which clients were shown, and the skew of classes, and of domains where there are any."""
    if len(table) > MOST_CLIENTS:
        yield f"(the {MOST_CLIENTS} largest of {len(table)} clients; split.csv has them all)"
    yield ""
    named = {"class": table.sum(axis=2), "domain": table.sum(axis=1)}
    for what, part in named.items():
        count = part.shape[1]
        if count > 1:
            found = skew(part)
            yield (
                f"{what} skew {found.distance.mean():.2f}, the share of images that would have to "
                f"be of another {what} for all clients to be alike"
            )
            yield f"a client is as mixed as {found.effective.mean():.1f} of {count} {PLURAL[what]}"
    if len(data.dataset.domains) > 1 and experiment.partition["name"] != "domains":
        count = len(data.dataset.domains)
        yield f"domains are mixed; partition=domains num_clients={count} gives each one client"


def write_table(data: FederatedData, path: Path) -> None:
    """Images per client, split, class and domain, one row for each that is not 0."""
    dataset = data.dataset
    parts = [
        (client, name, held)
        for client, split in data.clients.items()
        for name, held in split._asdict().items()
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for client, name, held in [*parts, ("", "test", dataset.test)]:
            cells = np.stack([dataset.labels[held], dataset.domain_of[held]])
            for (label, domain), images in zip(*unique_columns(cells), strict=True):
                row = (dataset.classes[label], dataset.domains[domain], images)
                writer.writerow([client, name, *row])


def write_skipped(data: FederatedData, path: Path) -> None:
    """Images that were left out, each with the reason; no file where there are none."""
    path.unlink(missing_ok=True)
    if data.dataset.skipped:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("image", "reason"), *data.dataset.skipped])


def unique_columns(
    cells: NDArray[np.int64],
) -> tuple[list[list[int]], list[int]]:
    """The different columns of [2, n], and how often each is there."""
    columns, images = np.unique(cells, axis=1, return_counts=True)
    return columns.T.tolist(), images.tolist()
