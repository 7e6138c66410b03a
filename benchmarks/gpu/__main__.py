"""The command; see the package's description."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks.gpu as package
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.report import report
from benchmarks.gpu.schedule import run_all
from benchmarks.gpu.unit import Settings

REPORT = "report"


def main(words: Sequence[str]) -> int:
    """Run what is left of the parts, or print the report; return the exit code."""
    arguments = parser().parse_args(words)
    output = arguments.output.absolute()
    if arguments.parts == [REPORT]:
        print(report(output))
        return 0
    every = {unit.name: [unit] for part in PARTS.values() for unit in part} | PARTS
    if unknown := sorted(set(arguments.parts) - set(every)):
        parser().error(f"unknown part {unknown[0]!r}; choose from {', '.join(PARTS)}, {REPORT}")
    pacs = arguments.pacs.absolute() if arguments.pacs.is_dir() else None
    if pacs is None:
        print(f"PACS is not at {arguments.pacs}: what needs it is left out (--pacs DIRECTORY)")
    settings = Settings(output, arguments.device, arguments.quick, pacs)
    units = [unit for name in arguments.parts or PARTS for unit in every[name]]
    left = run_all(units, settings, 60 * arguments.minutes)
    names = ", ".join(unit.name for unit in left)
    print(f"left, call again: {names}" if left else "nothing is left")
    print(f"records: {settings.folder}; tables: python -m benchmarks.gpu report --output {output}")
    return int(bool(left))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        "python -m benchmarks.gpu",
        description=package.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    environment = os.environ.get
    made.add_argument("parts", nargs="*", metavar="PART", help="parts or units, or 'report'")
    made.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    made.add_argument("--quick", action="store_true", help="tiny sizes, to try the logic")
    made.add_argument("--minutes", type=float, default=8.0, help="length of this call (8)")
    made.add_argument(
        "--output", type=Path, metavar="DIRECTORY",
        default=Path(environment("UNIVARFL_GPU_OUTPUT", "runs/gpu")), help="folder of records",
    )  # fmt: skip
    made.add_argument(
        "--pacs", type=Path, metavar="DIRECTORY",
        default=Path(environment("UNIVARFL_GPU_PACS", "../PACS")), help="folder of PACS",
    )  # fmt: skip
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
