"""What makes runs hard to compare: other code, other images, parts of models at the clients."""

from collections.abc import Iterable

from univarfl.records.reader import Run
from univarfl.report.breakdown.by_client import TITLE as AT_CLIENTS
from univarfl.report.breakdown.duplicates import duplicates_in
from univarfl.report.summary import Summary


def different_code(runs: Iterable[Run]) -> list[str]:
    """Return a line on the code if runs were made by different code; else nothing."""
    versions: dict[str, list[str]] = {}
    for run in runs:
        for name, version in {"the shared code": run.record.code, **run.record.components}.items():
            found = versions.setdefault(name, [])
            found += [version] if version not in found else []
    changed = [f"{name} ({len(found)} versions)" for name, found in versions.items() if found[1:]]
    return [f"The runs were made by different code: {', '.join(changed)}."] if changed else []


def comparability(summary: Summary) -> list[str]:
    """Return what makes the runs hard to compare: different code, or different images."""
    warnings = different_code([run for group in summary.counted.values() for run in group])
    if own := sorted({method for (_, method), of in summary.counted.items() if of[-1].personal}):
        warnings.append(
            f"{', '.join(own)}: each client keeps a part of the model, and no test accuracy "
            "exists. Accuracy is that of the clients' own models on images that they held out. "
            f'Compare methods under "{AT_CLIENTS}".'
        )
    if summary.data_differ:
        warnings.append(
            "Some runs of equal settings were trained on different images; they are not pooled. "
            'The setting "images" names the version of the images (data_version in run.json).'
        )
    return [*warnings, *duplicates_in([run for group in summary.counted.values() for run in group])]
