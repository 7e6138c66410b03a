"""The parts of the checklist, in the order in which they are run."""

from benchmarks.gpu import bits, chip, graphed, kernels, memory, pacs, rounds, steps
from benchmarks.gpu.unit import Unit

PARTS: dict[str, list[Unit]] = {
    "chip": chip.units(),
    "bits": bits.units(),
    "eager": steps.units("eager"),
    "kernels": kernels.units(),
    "graphed": graphed.units(),
    "rounds": rounds.units(),
    "memory": memory.units(),
    "pacs": pacs.units(),
    "compiled": steps.units("compiled"),
}
