"""Runs whose images are there twice, in training and test or with several labels."""

from collections.abc import Iterable

from univarfl.records.reader import Run


def duplicates_in(runs: Iterable[Run]) -> list[str]:
    """Return a line for each data set whose images are in training and test, or have two labels."""
    found = set()
    for run in runs:
        counts = run.data.duplicates
        settings = run.config["data"]
        where = f"data={settings['name']}"
        if counts is None or settings.get("duplicates") == "drop":
            continue
        if tested := counts.test_in_training:
            found.add(
                f"{where}: {tested} of {run.data.test} test images are in training too, so "
                "accuracy is too high. Leave them out with data.duplicates=drop."
            )
        if several := counts.two_labels:
            found.add(
                f"{where}: {several} images have copies with several labels. Leave them out with "
                "data.duplicates=drop."
            )
    return sorted(found)
