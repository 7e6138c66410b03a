"""Pictures of a split: how many images of each class every client holds, and examples of them."""

import io
import math
from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from task.data.federated import FederatedData
from task.data.skew import Counts
from task.seeding import numpy_generator
from univarfl.report.charts.names import clipped, legend_width, room, width, wrapped

MAX_NUMBERED_CELLS = 200  # with more cells, a colour bar replaces the numbers in them
MAX_DRAWN = 1000  # clients; of more, a sample is drawn
MAX_NAMED = 40  # with more classes or clients, their names are left out
LONGEST_CLASS, LONGEST_DOMAIN, LONGEST_IN_LEGEND, LONGEST_IN_SHEET = 24, 20, 40, 12  # characters
FONT, TITLE_FONT = 10, 12  # points
SHEET_ROWS, SHEET_COLUMNS = 12, 14
LINE_HEIGHT = 0.24  # inches, of a line of the legend or of the title
DOMAIN_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")


def draw_split(data: FederatedData, table: Counts, seed: int, title: str) -> bytes:
    """Draw images per client and class as a heat map, and per client and domain as bars.

    Args:
        data: the split.
        table: images per client and class, and per client and domain.
        seed: chooses the clients if there are more than `MAX_DRAWN`.
        title: the picture's title.

    Returns:
        The content of a PNG file.
    """
    if len(data.clients) > MAX_DRAWN:
        table = of_some_clients(table, seed)
        title += f": {MAX_DRAWN:,} of {len(data.clients):,} clients, drawn at random"
    clients, classes = table.by_class.shape
    labels = max(tilted_height(class_names(data)), 0.7) if classes <= MAX_NAMED else 0.7
    height = min(max(0.3 * clients + 1.1 + labels, 3.5), 14)
    figure = Figure(figsize=(min(max(0.5 * classes + 5, 8), 18), height), layout="constrained")
    cells, bars = figure.subplots(1, 2, sharey=True, width_ratios=(2.2, 1))
    draw_classes(cells, data, table.by_class)
    draw_domains(bars, data.dataset.domains, table.by_domain)
    add_title(figure, title)
    return png(figure)


def of_some_clients(table: Counts, seed: int) -> Counts:
    """Return the counts of `MAX_DRAWN` clients that are drawn at random, in ascending order."""
    generator = numpy_generator(seed, "clients of the picture")
    rows = np.sort(generator.choice(len(table.by_class), MAX_DRAWN, replace=False))
    return Counts(table.by_class[rows], table.by_domain[rows])


def draw_classes(cells: Axes, data: FederatedData, by_class: NDArray[np.int64]) -> None:
    """Draw images per client and class, [K, classes], as a heat map."""
    clients, classes = by_class.shape
    shades = PowerNorm(0.5, vmin=0, vmax=by_class.max())  # so that small counts show too
    present = np.ma.masked_equal(by_class, 0)
    image = cells.imshow(present, aspect="auto", cmap="Blues", norm=shades)
    if clients * classes > MAX_NUMBERED_CELLS:
        figure = cells.get_figure()
        assert isinstance(figure, Figure)
        whole = MaxNLocator(6, integer=True)
        figure.colorbar(
            image, ax=cells, location="left", label="images (root scale)", shrink=0.5, ticks=whole
        )
    else:
        for client, label in np.argwhere(by_class > 0):
            dark = by_class[client, label] > 0.3 * by_class.max()
            cells.text(
                label, client, by_class[client, label], ha="center", va="center", fontsize=8,
                color="white" if dark else "black",
            )  # fmt: skip
    if classes <= MAX_NAMED:
        cells.set_xticks(range(classes), class_names(data), rotation=45, ha="right")
    if clients <= MAX_NAMED:
        cells.set_yticks(range(clients), client_labels(data, data.clients))
    elif clients < len(data.clients):
        cells.set_yticks([])  # a row is not the client of that number
    cells.set(xlabel="class", ylabel="client")


def draw_domains(bars: Axes, domains: tuple[str, ...], by_domain: NDArray[np.int64]) -> None:
    """Draw images per client and domain, [K, domains], as stacked bars with a legend below.

    If there are more domains than colours, one bar shows all images of a client.
    """
    clients = len(by_domain)
    if len(domains) > len(DOMAIN_COLOURS):
        domains, by_domain = ("",), by_domain.sum(axis=1, keepdims=True)
    left = np.zeros(clients)
    drawn = []
    for images, colour in zip(by_domain.T, DOMAIN_COLOURS, strict=False):
        drawn.append(bars.barh(range(clients), images, left=left, color=colour).patches[0])
        left += images
    bars.set(xlabel="images per client")
    bars.grid(axis="x", alpha=0.3)
    if len(domains) > 1:
        figure = bars.get_figure()
        assert isinstance(figure, Figure)
        names = clipped(domains, LONGEST_IN_LEGEND)
        counts = range(len(names), 1, -1)
        fitting = (count for count in counts if legend_width(names, count, FONT) < room(figure))
        columns = next(fitting, 1)
        figure.legend(drawn, names, loc="outside lower center", ncols=columns, frameon=False)
        add_lines(figure, -(-len(names) // columns))


def draw_images(data: FederatedData, seed: int, title: str) -> bytes:
    """Draw a contact sheet: one row per client, with random images of its training set.

    Returns:
        The content of a PNG file.
    """
    dataset = data.dataset
    names = clipped(dataset.label_names, LONGEST_IN_SHEET)
    shown = sorted(data.clients)[:SHEET_ROWS]
    size = dataset.images.shape[1]
    across, down = round(1.03 * size), round(1.2 * size)  # the class is written below each image
    sheet = np.full((len(shown) * down, SHEET_COLUMNS * across, 3), 255, dtype=np.uint8)
    figure = Figure(figsize=(12, 0.96 * len(shown) + 0.5), layout="constrained")
    axes = figure.subplots()
    for row, client in enumerate(shown):
        train = data.clients[client].train
        chosen = numpy_generator(seed, "contact sheet", client).permutation(train)[:SHEET_COLUMNS]
        for column, position in enumerate(chosen):
            top, left = row * down, column * across
            # A grey image fills all three channels.
            sheet[top : top + size, left : left + size] = dataset.images[position]
            name = names[dataset.labels[position]]
            axes.text(left + size / 2, top + size, name, ha="center", va="top", fontsize=7)
    axes.imshow(sheet, interpolation="nearest" if size < 64 else "antialiased")
    rows = [row * down + size / 2 for row in range(len(shown))]
    axes.set_yticks(rows, client_labels(data, shown))
    axes.set_xticks([])
    axes.set_ylabel("client")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    some = f", the first {len(shown)} of {len(data.clients)}"
    more = some if len(shown) < len(data.clients) else ""
    add_title(figure, f"{title}: training images by client{more}")
    return png(figure)


def png(figure: Figure) -> bytes:
    """Return a figure as the content of a PNG file."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


def add_title(figure: Figure, title: str) -> None:
    """Add a title; each line after the first makes the figure higher."""
    lines = wrapped(title, lambda line: width(line, TITLE_FONT) < room(figure))
    figure.suptitle("\n".join(lines), fontsize=TITLE_FONT)
    add_lines(figure, len(lines) - 1)


def add_lines(figure: Figure, lines: int) -> None:
    """Make a figure higher, for some lines of text."""
    figure.set_figheight(figure.get_figheight() + LINE_HEIGHT * lines)


def tilted_height(names: Iterable[str]) -> float:
    """Return the height in inches of labels that are written at 45 degrees."""
    return max(width(name, FONT) for name in names) / 72 / math.sqrt(2)


def class_names(data: FederatedData) -> list[str]:
    """Return the names of the classes as labels."""
    return clipped(data.dataset.label_names, LONGEST_CLASS)


def client_labels(data: FederatedData, clients: Iterable[int]) -> list[str]:
    """Return clients' numbers, each followed by its domain if all of its images are of one."""
    names = clipped(data.dataset.domains, LONGEST_DOMAIN)
    labels = []
    for client in clients:
        domains = np.unique(data.dataset.domain_of[np.concatenate(data.clients[client])])
        domain = names[domains[0]] if len(domains) == 1 else ""
        labels.append(f"{client} {domain}".strip())
    return labels
