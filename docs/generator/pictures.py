"""Make the pictures of the documentation.

    uv run python -m docs.generator.pictures            (all; the run takes a minute or two)
    uv run python -m docs.generator.pictures terms      (some: dashboard, report, run, terms)

The report and the dashboard show the saved records of a study in Chromium, which must be installed.
The diagram of the architecture is drawn by hand: ``docs/assets/architecture.svg``.
"""

import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI

from task.methods.univarfl import EPS, classifier_variance, hyperspherical_energy
from univarfl.report.charts.draw import STYLE

ROOT = Path(__file__).resolve().parent.parent.parent
ASSETS = ROOT / "docs" / "assets"
RECORDS = ROOT / "benchmarks" / "records" / "seeds.tar.xz"
CHROMIUM = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
WIDTH, HEIGHT = 1000, 1100  # of the picture of a page, in pixels
DRAWING = 5000  # milliseconds that a page has to draw itself
SEED, CURVES = 1, 4  # of the dashboard
COLUMNS = 100  # of the terminal
CLASSES, ROWS = 10, 200


def terms() -> None:
    """Draw UniVarFL's two terms, each as a curve computed by the project's code."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, right = figure.subplots(1, 2)
        variances, values = variance_curve()
        left.plot(variances, values)
        left.axvline(1 / CLASSES, color="grey", linestyle=":")
        left.set(xlabel="variance of a class's probability", ylabel="L_V")
        degrees, energies = energy_curve()
        right.plot(degrees, energies)
        right.set(xlabel="angle between two features (degrees)", ylabel="energy of the pair")
        figure.savefig(ASSETS / "terms.svg", metadata={"Date": None})
    plt.close("all")


def variance_curve() -> tuple[list[float], list[float]]:
    """Return L_V against the variance, for balanced answers that grow more certain."""
    classes = torch.arange(ROWS) % CLASSES
    points = []
    for scale in torch.linspace(0, 12, 60):
        logits = scale * torch.nn.functional.one_hot(classes, CLASSES).float()
        variance = torch.softmax(logits, dim=1).var(dim=0).mean()
        points.append((float(variance), float(classifier_variance(logits))))
    variances, values = zip(*points, strict=True)
    return list(variances), list(values)


def energy_curve() -> tuple[list[float], list[float]]:
    """Return the energy of two features against their angle in degrees."""
    degrees = torch.linspace(20, 180, 80)
    angles = torch.deg2rad(degrees)
    pairs = [torch.tensor([[1.0, 0.0], [a.cos(), a.sin()]]) for a in angles]
    return degrees.tolist(), [float(hyperspherical_energy(pair, EPS)) for pair in pairs]


def run() -> None:
    """Run ``univarfl train`` and draw its output as a terminal."""
    with tempfile.TemporaryDirectory() as place:
        shown = subprocess.run(
            [sys.executable, "-m", "univarfl", "train", f"output_dir={place}/runs"],
            capture_output=True, text=True, check=True, cwd=ROOT,
        ).stdout.replace(place, "~")  # fmt: skip
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print("$ uv run univarfl train", style="bold", highlight=False)
    for line in shown.splitlines():
        console.print(shortened(line), highlight=True, no_wrap=True, crop=True)
    svg = console.export_svg(title="univarfl train", theme=MONOKAI, unique_id="run")
    (ASSETS / "run.svg").write_text(without_fonts(svg))


def shortened(line: str) -> str:
    """Return a line of output, cut at its end with "..." if it is too long for the terminal."""
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 4]} ..."


def without_fonts(svg: str) -> str:
    """Return the picture without the fonts that Rich would have a browser fetch."""
    head, _, rest = svg.partition("@font-face")
    _, _, body = rest.rpartition("@font-face")
    _, _, tail = body.partition("}")
    return (
        (head + tail).replace("Fira Code, monospace", "monospace").replace("Fira Code", "monospace")
    )


def report() -> None:
    """Show the report of a study in Chromium, and save its top as a picture."""
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(RECORDS) as tar:
            tar.extractall(place, filter="data")
        for record in list(Path(place).rglob("run.json")):
            if not is_compared(json.loads(record.read_text())["config"]["method"]):
                shutil.rmtree(record.parent)
        subprocess.run([sys.executable, "-m", "univarfl", "report", place], check=True, cwd=ROOT)
        photograph(next(Path(place).rglob("index.html")).as_uri(), "report")


def is_compared(method: dict[str, Any]) -> bool:
    """Return whether a method is in the picture of the report: FedAvg, or UniVarFL as published."""
    usual = (method.get("energy_weight"), method.get("variance_weight")) == (0.5, None)
    return method["name"] == "fedavg" or (method["name"] == "univarfl" and usual)


def dashboard() -> None:
    """Show the dashboard of a study in Chromium, and save its top as a picture."""
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(RECORDS) as tar:
            tar.extractall(place, filter="data")
        command = [sys.executable, "-m", "univarfl", "dashboard", place, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
            assert server.stdout is not None
            address = next(line for line in server.stdout if line.startswith("http")).strip()
            first = [path.parent.name for path in sorted(Path(place).rglob("run.json"))]
            chosen = [name for name in first if f"-s{SEED}-" in name][:CURVES]
            words = "&".join(f"run={name}" for name in chosen)
            photograph(f"{address}#{words}&metric=test+accuracy&axis=round", "dashboard")
            server.terminate()


def photograph(address: str, name: str) -> None:
    """Save the top of a page as a picture."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("pictures of pages need Chromium")
    with tempfile.TemporaryDirectory() as place:
        picture = Path(place, "page.png")
        size = [f"--user-data-dir={place}/profile", f"--window-size={WIDTH},{HEIGHT}"]
        subprocess.run(
            [browser, *CHROMIUM, *size, f"--virtual-time-budget={DRAWING}",
             f"--screenshot={picture}", address], check=True,
        )  # fmt: skip
        Image.open(picture).convert("RGB").quantize(64).save(ASSETS / f"{name}.png", optimize=True)


PICTURES: dict[str, Callable[[], None]] = {
    "dashboard": dashboard,
    "report": report,
    "run": run,
    "terms": terms,
}


def main() -> None:
    """Make the named pictures, or all."""
    names = sys.argv[1:] or list(PICTURES)
    if not set(names) <= set(PICTURES):
        raise SystemExit(__doc__)
    for name in names:
        PICTURES[name]()


if __name__ == "__main__":
    main()
