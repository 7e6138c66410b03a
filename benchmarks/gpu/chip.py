"""The GPU itself: name, memory, versions, and how fast it multiplies matrices."""

import platform
import time
from contextlib import suppress
from typing import NamedTuple

import torch

from benchmarks.gpu.unit import Result, Settings, Unit
from task.config import Precision
from task.training.device import set_precision

PART = "chip"
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")


class Peak(NamedTuple):
    """Dense operations a second in units of 10^12, by the vendor's data sheet."""

    float32: float
    tf32: float
    bfloat16: float


PEAKS = {
    "A100": Peak(19.5, 156, 312),
    "H100": Peak(67, 494, 989),
    "H100 PCIe": Peak(51, 378, 756),
    "H200": Peak(67, 494, 989),
    "L4": Peak(30.3, 60, 121),
    "L40S": Peak(91.6, 183, 362),
    "RTX 3090": Peak(35.6, 35.6, 71),
    "RTX 4090": Peak(82.6, 82.6, 165),
}


def units() -> list[Unit]:
    """Return the one unit of this part."""
    return [Unit(PART, "chip", measure)]


def measure(settings: Settings) -> Result:
    """Describe the device, and time a large matrix product in each precision."""
    device = torch.device(settings.device)
    size, repeats = (256, 2) if settings.quick else (8192, 10)
    found: Result = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "measured": {
            precision: matrix_product(device, precision, size, repeats) for precision in PRECISIONS
        },
    }
    if settings.device == "cpu":
        return found | {"name": platform.processor() or platform.machine(), "memory_gib": 0.0}
    facts = torch.cuda.get_device_properties(device)
    return found | {
        "name": facts.name,
        "memory_gib": facts.total_memory / 2**30,
        "multiprocessors": facts.multi_processor_count,
        "capability": f"{facts.major}.{facts.minor}",
    }


def matrix_product(device: torch.device, precision: Precision, size: int, repeats: int) -> float:
    """Return 10^12 operations a second of a square matrix product on random data."""
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    set_precision(precision, device)
    a, b = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    a @ b
    synchronize(device)
    started = time.perf_counter()
    for _ in range(repeats):
        a @ b
    synchronize(device)
    return repeats * 2 * size**3 / (time.perf_counter() - started) / 1e12


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak(chip: Result, precision: str) -> tuple[float, str]:
    """Return the chip's peak in 10^12 operations a second, and where the number is from."""
    words = set(chip["name"].replace("-", " ").split())
    known = [name for name in PEAKS if set(name.split()) <= words]
    if known:
        return getattr(PEAKS[max(known, key=len)], precision), "data sheet"
    return float(chip["measured"][precision]), "measured matrix product"


def report(results: dict[str, Result]) -> str:
    """Return the chip's table."""
    lines = []
    with suppress(KeyError):
        chip = results["chip"]
        versions = f"PyTorch {chip['torch']}, CUDA {chip['cuda']}, Python {chip['python']}"
        lines += [f"{chip['name']}, {chip['memory_gib']:.0f} GiB; {versions}.", ""]
        lines += ["| precision | matrix product, TFLOP/s | peak, TFLOP/s | peak from |"]
        lines += ["|---|---|---|---|"]
        for precision in PRECISIONS:
            most, source = peak(chip, precision)
            lines.append(
                f"| {precision} | {chip['measured'][precision]:.3g} | {most:.3g} | {source} |"
            )
    return "\n".join(lines)
