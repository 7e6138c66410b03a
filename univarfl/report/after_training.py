"""What the stages after training changed, as a table."""

import pandas as pd

from univarfl.records.labels import label_of
from univarfl.records.reader import Run
from univarfl.report.section import Section
from univarfl.report.statistics import CONFIDENCE, difference, mean_and_sd
from univarfl.report.summary import Summary

TITLE = "After training"
NOTE = (
    "Test accuracy before and after the stage that followed the last round. After fine-tuning the "
    "clients have models of their own, and it is the mean accuracy at the clients. Mean ± standard "
    f"deviation over seeds. The gain is in percentage points, with Student's {CONFIDENCE:.0%} "
    "interval of the mean. It is not significant if the interval includes 0. Metrics by class, the "
    "confusion matrix and accuracy at the clients show the model after the stage. All other tables "
    "and charts show the model before it."
)


def after_training(summary: Summary) -> Section:
    """Return what the stages changed."""
    return Section(TITLE, NOTE, table=after_training_table(summary))


def after_training_table(summary: Summary) -> pd.DataFrame:
    """Return a row for each setting and method; empty if no run has a stage that was scored."""
    rows = []
    for (setting, method), runs in summary.counted.items():
        if found := [pair for run in runs if (pair := accuracies(run))]:
            pairs = 100 * pd.DataFrame(found, columns=["before", "after"])
            stage = str(runs[0].record["after"]["name"])
            rows.append(
                {
                    "setting": setting, "method": method,
                    "stage": label_of("after", stage),
                    "seeds": len(pairs),
                    "before, %": mean_and_sd(pairs["before"]),
                    "after, %": mean_and_sd(pairs["after"]),
                    "gain, points": difference(pairs["after"] - pairs["before"], "+.1f"),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def accuracies(run: Run) -> tuple[float, float] | None:
    """Return the accuracies before and after a run's stage; None if it has not both."""
    stage = run.record.get("after", {})
    found = [stage.get(when, {}) for when in ("before", "after")]
    before, after = (each.get("accuracy", each.get("mean")) for each in found)
    return (before, after) if isinstance(before, float) and isinstance(after, float) else None
