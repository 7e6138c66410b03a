"""What the stages after training changed, as a table."""

import pandas as pd

from univarfl.records.labels import label_of
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
        stages = [stage for run in runs if (stage := run.record.after) and stage.accuracies]
        if stages:
            found = [stage.accuracies for stage in stages]
            pairs = 100 * pd.DataFrame(found, columns=["before", "after"])
            rows.append(
                {
                    "setting": setting, "method": method,
                    "stage": label_of("after", stages[0].name),
                    "seeds": len(pairs),
                    "before, %": mean_and_sd(pairs["before"]),
                    "after, %": mean_and_sd(pairs["after"]),
                    "gain, points": difference(pairs["after"] - pairs["before"], "+.1f"),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)
