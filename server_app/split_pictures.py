"""Pictures of a division: how many images of what each client holds, and some of them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from task.data.federated import FederatedData
from task.seeding import numpy_generator

NUMBERED_CELLS = 200
NAMED = 40
SHEET_ROWS, SHEET_COLUMNS = 12, 14
DOMAIN_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")


def draw_split(data: FederatedData, table: NDArray[np.int64], title: str, path: Path) -> None:
    """Draw images per client and class as a heat map, and per client and domain as bars."""
    # Imported here because it takes a second, which the other commands need not wait for.
    from matplotlib.colors import PowerNorm  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    by_class, by_domain = table.sum(axis=2), table.sum(axis=1)
    clients, classes = by_class.shape
    height = min(max(0.3 * clients + 1.8, 3.5), 14)
    figure = Figure(figsize=(min(max(0.5 * classes + 5, 8), 18), height), layout="constrained")
    cells, bars = figure.subplots(1, 2, sharey=True, width_ratios=(2.2, 1))
    shades = PowerNorm(0.5, vmin=0, vmax=by_class.max())  # so that small counts show too
    present = np.ma.masked_equal(by_class, 0)
    image = cells.imshow(present, aspect="auto", cmap="Blues", norm=shades)
    if clients * classes > NUMBERED_CELLS:
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
    if classes <= NAMED:
        names = [shortened(name, 24) for name in data.dataset.classes]
        cells.set_xticks(range(classes), names, rotation=45, ha="right")
    if clients <= NAMED:
        cells.set_yticks(range(clients), [client_label(data, client) for client in data.clients])
    cells.set(xlabel="class", ylabel="client")
    left = np.zeros(clients)
    for domain, name in enumerate(data.dataset.domains):
        colour = DOMAIN_COLOURS[domain % len(DOMAIN_COLOURS)]
        held = by_domain[:, domain]
        bars.barh(range(clients), held, left=left, color=colour, label=name or None)
        left += held
    bars.set(xlabel="images per client")
    bars.grid(axis="x", alpha=0.3)
    if len(data.dataset.domains) > 1:
        bars.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def draw_images(data: FederatedData, seed: int, title: str, path: Path) -> None:
    """Draw a contact sheet: a row per client, of images drawn at random from its training set."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    dataset = data.dataset
    shown = sorted(data.clients)[:SHEET_ROWS]
    size = dataset.images.shape[1]
    across, down = round(1.03 * size), round(1.2 * size)  # below each image its class is written
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
            name = shortened(dataset.classes[dataset.labels[position]], 14)
            axes.text(left + size / 2, top + size, name, ha="center", va="top", fontsize=7)
    axes.imshow(sheet, interpolation="nearest" if size < 64 else "antialiased")
    labels = [client_label(data, client) for client in shown]
    axes.set_yticks([row * down + size / 2 for row in range(len(shown))], labels)
    axes.set_xticks([])
    axes.set_ylabel("client")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    some = f", the first {len(shown)} of {len(data.clients)}"
    more = some if len(shown) < len(data.clients) else ""
    figure.suptitle(f"{title}: training images by client{more}")
    figure.savefig(path, dpi=110)


def client_label(data: FederatedData, client: int) -> str:
    """A client's number, and its domain if it has but one."""
    dataset = data.dataset
    held = np.unique(dataset.domain_of[np.concatenate(data.clients[client])])
    domain = shortened(dataset.domains[held[0]], 20) if len(held) == 1 else ""
    return f"{client} {domain}".strip()


def shortened(name: str, most: int) -> str:
    """A name that fits."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
