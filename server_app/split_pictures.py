"""Pictures of a division: how many images of what each client holds, and some of them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from task.data.federated import FederatedData
from task.seeding import numpy_generator

NUMBERED_CELLS = 200
NAMED = 40
SHEET_ROWS, SHEET_COLUMNS, GAP = 12, 14, 2
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
        figure.colorbar(image, ax=cells, location="left", label="images", shrink=0.5, ticks=whole)
    else:
        for client, label in np.argwhere(by_class > 0):
            dark = by_class[client, label] > 0.3 * by_class.max()
            cells.text(
                label, client, by_class[client, label], ha="center", va="center", fontsize=8,
                color="white" if dark else "black",
            )  # fmt: skip
    if classes <= NAMED:
        cells.set_xticks(range(classes), data.dataset.classes, rotation=45, ha="right")
    if clients <= NAMED:
        cells.set_yticks(range(clients))
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

    shown = sorted(data.clients)[:SHEET_ROWS]
    size = data.dataset.images.shape[1]
    step = size + GAP
    sheet = np.full((len(shown) * step, SHEET_COLUMNS * step, 3), 255, dtype=np.uint8)
    labels = []
    for row, client in enumerate(shown):
        train = data.clients[client].train
        chosen = numpy_generator(seed, "contact sheet", client).permutation(train)[:SHEET_COLUMNS]
        for column, position in enumerate(chosen):
            corner = (
                slice(row * step, row * step + size),
                slice(column * step, column * step + size),
            )
            sheet[corner] = data.dataset.images[position]  # a grey image fills all three channels
        domains = {data.dataset.domains[domain] for domain in data.dataset.domain_of[train]}
        what = next(iter(domains)) if len(domains) == 1 else ""
        labels.append(f"client {client}" + (f"\n{what}" if what else ""))
    figure = Figure(figsize=(12, 0.8 * len(shown) + 0.5), layout="constrained")
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="nearest" if size < 64 else "antialiased")
    axes.set_yticks([row * step + size / 2 for row in range(len(shown))], labels)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    more = (
        f", the first {len(shown)} of {len(data.clients)}" if len(shown) < len(data.clients) else ""
    )
    figure.suptitle(f"{title}: training images by client{more}")
    figure.savefig(path, dpi=110)
