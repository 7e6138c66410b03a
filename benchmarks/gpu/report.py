"""The report: one Markdown section for each part that has records."""

from pathlib import Path

from benchmarks.gpu import bits, chip, graphed, kernels, memory, pacs, records, rounds, steps
from benchmarks.gpu.unit import Result

TITLES = {
    "chip": "The device",
    "bits": "Bits and precision, two rounds",
    "eager": "Step time, eager",
    "compiled": "Step time, compiled",
    "kernels": "Where a step spends its time",
    "graphed": "Recorded steps",
    "rounds": "A round by ways of training its clients",
    "memory": "Out of memory",
    "pacs": "PACS as published",
}


def report(output: Path) -> str:
    """Return the reports of every folder of records in `output`."""
    folders = sorted(path for path in output.glob("*") if any(path.glob("*.json")))
    return "\n\n".join(map(section, folders)) or f"There are no records in {output}."


def section(folder: Path) -> str:
    """Return one folder's report, its title marked if it holds a trial."""
    found = records.read(folder)
    first = next(iter(found.values()))
    trial = "CPU trial" if first["device"] == "cpu" else "quick trial" if first["quick"] else ""
    note = f" ({trial}: these numbers say nothing about a GPU)" if trial else ""
    lines = [f"# {folder.name}{note}"]
    for part, title in TITLES.items():
        text = part_report(part, found)
        failed = [
            f"- {name} failed: {record['error'].strip().splitlines()[-1]}"
            for name, record in found.items()
            if record["part"] == part and "error" in record
        ]
        if text or failed:
            lines += [f"## {title}", *filter(None, [text, "\n".join(failed)])]
    return "\n\n".join(lines)


def part_report(part: str, found: dict[str, records.Record]) -> str:
    """Return a part's tables; empty if it has no results."""
    results: dict[str, Result] = records.results(found, part)
    if part in steps.MODES:
        return steps.report(records.results(found, "chip").get("chip"), results)
    modules = {
        "chip": chip, "bits": bits, "graphed": graphed, "kernels": kernels, "rounds": rounds,
        "memory": memory, "pacs": pacs,
    }  # fmt: skip
    return str(modules[part].report(results))
