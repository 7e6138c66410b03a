"""What hostile replies and requests come to, as a table in Markdown.

    uv run python -m benchmarks.hostile   (one to two minutes on two cores)

Each reply is an honest site's with one change, in a run of two honest sites and ten hostile ones;
each request is an honest coordinator's with one change. Exits with 1 if the model is not that of
the run in which the hostile sites sent nothing usable.
"""

import contextlib
import io
import sys
import tempfile
from pathlib import Path

from tests.conftest import sha256
from tests.hostile import requests
from tests.hostile.federation import MEGABYTE, answered, images_in, reasons, suffered

HEAD = "| {} | bytes sent | memory, MB | what is recorded |\n|---|---|---|---|"
LONGEST = 90


def cell(text: str) -> str:
    """Return a text as the cell of a table."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    return "`" + shown.replace("|", r"\|").replace("`", "'") + "`" if shown else "trained"


def main() -> int:
    """Print the tables, and return the exit code."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with contextlib.redirect_stdout(io.StringIO()):
            outcome = suffered(place)
            found = reasons(outcome.beside)
            (place / "requests").mkdir()
            answers = answered(images_in(place), place / "requests", requests.TRAINING)
        seen = set()
        for kind in ("registration", "training", "validation"):
            print(HEAD.format(f"reply to a request for {kind}"))
            for cost in outcome.costs:
                key = kind, cost.case.name
                if cost.kind != kind or key in seen:
                    continue
                seen.add(key)
                told = found[cost.kind, cost.site, cost.round]
                (reason, *_) = [text for text in told if cost.case.outcome in text]
                print(f"| {cost.case.name} | {cost.sent:,} | {cost.memory / MEGABYTE:.1f} | "
                      f"{cell(reason)} |")  # fmt: skip
            print()
        print(HEAD.format("request to a site"))
        for case, reason, sent, memory in answers:
            print(f"| {case.name} | {sent:,} | {memory / MEGABYTE:.1f} | {cell(reason)} |")
        beside, without = sha256(outcome.beside), sha256(outcome.without)
        print(
            f"\nModel beside the hostile sites: {beside}\nwithout what they sent:         {without}"
        )
    return int(beside != without)


if __name__ == "__main__":
    sys.exit(main())
