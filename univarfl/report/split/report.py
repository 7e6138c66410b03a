"""``univarfl data``: how a data set is split among clients, as text, table and pictures."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from server_app.config.experiment import Experiment
from server_app.runs.records.csv_files import rows_as_csv
from task.data.dataset import Positions
from task.data.federated import FederatedData, federate
from task.data.skew import Counts, counts, skew
from task.errors import ConfigError, system_reason
from task.machine.files import write_whole
from univarfl.report.split.pictures import draw_images, draw_split

MAX_CLIENTS = 30  # rows of the printed table
UNLIMITED_WIDTH = 200  # columns of the printed table where the output is not a terminal
PLURAL = {"class": "classes", "domain": "domains"}
COLUMNS = ("client", "split", "class", "domain", "images")


def report_split(experiment: Experiment, directory: Path) -> None:
    """Prepare the data set, write the split's table and pictures, and print a summary.

    Raises:
        ConfigError, DataError: the data cannot be used, or the directory cannot be written.
    """
    if experiment.partitioner().sites:
        raise ConfigError(
            "partition", "sites", "each site already has its own images, so nothing is split; "
            "a site can look at its images with "
            "data=folder data.root=DIRECTORY partition=iid num_clients=1",
        )  # fmt: skip
    root = experiment.data.get("root")
    if root and directory.absolute().is_relative_to(root):
        raise ConfigError("--to", directory, "is inside data.root; choose a directory outside it")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(directory, error) from None
    data = federate(experiment.local())
    table = counts(data)
    written = write_files(experiment, data, table, directory)
    print(summary(experiment, data, table), end="")
    print(f"wrote {directory / written[0]}", *written[1:], sep="  ")


def summary(experiment: Experiment, data: FederatedData, table: Counts) -> str:
    """Return the printed text: data set, split, clients and skew."""
    output, text = Console(), io.StringIO()
    terminal = output.is_terminal
    width = output.width if terminal else UNLIMITED_WIDTH
    console = Console(
        file=text, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False
    )
    for line in description(experiment, data, table):
        console.print(line, soft_wrap=True)
    console.print(client_table(data, table, width))
    for line in closing(data, table):
        console.print(line, soft_wrap=True)
    return text.getvalue()


def write_files(
    experiment: Experiment, data: FederatedData, table: Counts, directory: Path
) -> list[str]:
    """Write the table and the pictures, each file whole or not at all, and return their names.

    Raises:
        ConfigError: the directory cannot be written.
    """
    title = title_of(experiment)
    with rc_context({"text.parse_math": False}):  # a class may be called $x_1$ and be no formula
        files = {
            "split.csv": rows_as_csv(split_rows(data)),
            "split.png": draw_split(data, table, experiment.seed, title),
        }
        if not data.dataset.vectors:
            files["images.png"] = draw_images(data, experiment.seed, title)
    twice = data.dataset.duplicates
    head = ("image", "label", "set", "repeats", "its label")
    lists: dict[str, Sequence[tuple[str, ...]]] = {
        "skipped.csv": [("image", "reason"), *data.dataset.skipped],
        "duplicates.csv": [head, *(twice.listed if twice else ())],
    }
    for name, rows in lists.items():
        if len(rows) > 1:
            files[name] = rows_as_csv(rows)
        else:
            (directory / name).unlink(missing_ok=True)  # of an earlier report
    try:
        for name, content in files.items():
            write_whole(directory / name, content)
    except OSError as error:
        raise not_writable(directory, error) from None
    return list(files)


def not_writable(directory: Path, error: OSError) -> ConfigError:
    """Return the error for a ``--to`` directory that cannot be written."""
    return ConfigError("--to", directory, f"cannot be written: {system_reason(error)}")


def title_of(experiment: Experiment) -> str:
    """Return the pictures' title: data set, partition and, for a Dirichlet split, its alpha."""
    directory = Path(experiment.data.get("root") or "").name
    name = str(experiment.data["name"])
    if directory.lower() not in ("", name):
        name += f" {directory}"
    partition = experiment.partition
    alpha = f" alpha {partition['alpha']:g}" if "alpha" in partition else ""
    return f"{name}, {partition['name']}{alpha}"


def description(experiment: Experiment, data: FederatedData, table: Counts) -> Iterator[str]:
    """Yield lines that describe the data set and the split."""
    dataset = data.dataset
    _, size, _, channels = dataset.images.shape
    form = f"{channels} numbers each" if dataset.vectors else f"{size}x{size}"
    domains = f", {len(dataset.domains)} domains" if len(dataset.domains) > 1 else ""
    yield (
        f"{experiment.data['name']}: {len(dataset.train)} training images, {len(dataset.test)} "
        f"test images, {form}, {len(dataset.classes)} classes{domains}"
    )
    sizes = table.by_class.sum(axis=1)
    yield (
        f"partition={experiment.partition['name']}: {len(sizes)} clients with {sizes.min()} to "
        f"{sizes.max()} images, {experiment.validation_share:.0%} of them for validation"
    )
    for note in data.notes:
        yield f"note: {note}"
    yield ""


def client_table(data: FederatedData, table: Counts, width: int) -> Table:
    """Return a table with one row per client.

    It has a column for each class if that fits into `width` characters; otherwise it names each
    client's largest class. With many clients, only the largest are shown.
    """
    by_class, by_domain = table
    sizes = by_class.sum(axis=1)
    distance = skew(by_class).distance
    fixed = len("client images skew classes") + max(map(len, data.dataset.domains))
    names = data.dataset.label_names
    wide = fixed + sum(max(len(name), 4) + 1 for name in names) <= width
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("client", "images", "skew", "classes"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for name in names if wide else ("largest class",):
        grid.add_column(name, justify="right")
    if by_domain.shape[1] > 1:
        grid.add_column("domains")
    for client in shown_clients(sizes):
        row = [str(client), str(sizes[client])]
        row += [f"{distance[client]:.2f}", str(np.count_nonzero(by_class[client]))]
        if wide:
            row += [str(count or "") for count in by_class[client]]
        else:
            top = int(by_class[client].argmax())
            row.append(f"{names[top]} {by_class[client][top] / sizes[client]:.0%}")
        if by_domain.shape[1] > 1:
            domains = np.flatnonzero(by_domain[client])
            row.append(", ".join(data.dataset.domains[domain] for domain in domains))
        grid.add_row(*row)
    return grid


def shown_clients(sizes: NDArray[np.int64]) -> list[int]:
    """Return the clients to print, ascending: all of them, or the `MAX_CLIENTS` largest."""
    if len(sizes) <= MAX_CLIENTS:
        return list(range(len(sizes)))
    largest: list[int] = np.argsort(-sizes, kind="stable")[:MAX_CLIENTS].tolist()
    return sorted(largest)


def closing(data: FederatedData, table: Counts) -> Iterator[str]:
    """Yield lines on the clients that were not printed, and on the skew of classes and domains."""
    clients = len(data.clients)
    if clients > MAX_CLIENTS:
        yield f"(the {MAX_CLIENTS} largest of {clients} clients; split.csv has all of them)"
    yield ""
    for kind, images in (("class", table.by_class), ("domain", table.by_domain)):
        count = images.shape[1]
        if count > 1:
            of_clients = skew(images)
            yield (
                f"{kind} skew {of_clients.distance.mean():.2f}: the share of images whose {kind} "
                f"would have to change to give all clients the same mix (mean over clients)"
            )
            yield (
                f"effective number of {PLURAL[kind]} per client: {of_clients.effective.mean():.1f} "
                f"of {count}"
            )
    count = len(data.dataset.domains)
    if np.any(np.count_nonzero(table.by_domain, axis=1) > 1):
        yield (
            "clients hold images of several domains; partition=domains "
            f"num_clients={count} gives each domain its own client"
        )


def split_rows(data: FederatedData) -> Iterator[tuple[object, ...]]:
    """Yield a heading, then the images of each client, split, class and domain that is not empty.

    The test set's rows have no client.
    """
    dataset, clients = data.dataset, data.clients
    numbers, names = list(clients), dataset.label_names
    held = np.stack([clients.owners(), clients.held_out()])
    yield COLUMNS
    for (owner, validation), label, domain, images in cells_of(data, held, clients.positions):
        split = "validation" if validation else "train"
        yield numbers[owner], split, names[label], dataset.domains[domain], images
    nobody = np.empty((0, len(dataset.test)), dtype=np.int64)
    for _, label, domain, images in cells_of(data, nobody, dataset.test):
        yield "", "test", names[label], dataset.domains[domain], images


def cells_of(
    data: FederatedData, held: NDArray[np.int64], positions: Positions
) -> Iterator[tuple[list[int], int, int, int]]:
    """Yield the holder, the class and the domain of images, and their number, in ascending order.

    Args:
        data: the split.
        held: [k, N], who holds each image.
        positions: [N], the images.
    """
    dataset = data.dataset
    columns = np.stack([*held, dataset.labels[positions], dataset.domain_of[positions]])
    found = pd.DataFrame(columns.T).value_counts(sort=False).sort_index()
    for (*holder, label, domain), images in found.items():
        yield holder, label, domain, images
