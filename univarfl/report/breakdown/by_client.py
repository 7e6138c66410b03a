"""How accuracy is spread over the clients: a table, and the clients from the worst to the best."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from server_app.runs.records.client_scores import accuracies_that_count
from server_app.runs.records.tables import LEAST_IMAGES, RecordError
from univarfl.records.reader import Run
from univarfl.records.scores import read_client_scores
from univarfl.report.charts.base import Chart, Plot, mean_series, slug
from univarfl.report.section import Section
from univarfl.report.settings import ALL, JUDGED_BY
from univarfl.report.statistics import CONFIDENCE, difference, mean_and_sd, span
from univarfl.report.summary import BASELINE, Summary

TITLE = "Accuracy at the clients"
NOTE = (
    "The final model at each client, on images that the client held out and on which nobody "
    f"trained. Clients with fewer than {LEAST_IMAGES} of them do not count. Every client counts "
    "the same. Of more than 1,000 clients, a sample is scored. The worst tenth is the mean of the "
    "worst 10 % of the clients, at least one. In the table: mean ± standard deviation over seeds, "
    f"and paired differences in percentage points with Student's {CONFIDENCE:.0%} interval."
)
MOST_PLACES = 101  # of a curve; with more clients it shows so many quantiles
NAMES = {"mean": "mean", "worst_tenth": "worst tenth", "deviation": "standard deviation"}
COMPARED = ("mean", "worst_tenth")
Key = tuple[str, str]  # the setting and the method of runs that differ in their seeds alone


class ByClient:
    """The scores of the clients, of runs that recorded them.

    Methods whose clients keep a part of the model have no accuracy on the test set. They are
    compared with the others here, so a setting leaves out the split that accuracy is measured on.

    Args:
        summary: the runs.

    Attributes:
        problems: one line for each record that is damaged.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self.problems: list[str] = []
        self._settings: dict[str, dict[str, Key]] = {}
        for key, head in summary.heads.items():
            words = [f"{name} {head[name]}" for name in summary.keys if name != JUDGED_BY]
            self._settings.setdefault(", ".join(words) or ALL, {})[key[1]] = key

    def section(self, baseline: str | None) -> Section:
        """Return the table and the charts."""
        return Section(TITLE, NOTE, list(self.charts()), self.table(baseline))

    def table(self, baseline: str | None = None) -> pd.DataFrame:
        """Return a row for each setting and method: accuracy in %, mean ± deviation over seeds.

        Differences are in percentage points, paired by seed, with their interval.

        Args:
            baseline: the label of the method to subtract; by default FedAvg, or else the first
                method of a setting.
        """
        rows = []
        for methods in self._settings.values():
            name = baseline or (BASELINE if BASELINE in methods else next(iter(methods)))
            base = spreads(self._summary.counted[methods[name]]) if name in methods else None
            for method, key in methods.items():
                found = spreads(self._summary.counted[key])
                if not len(found):
                    continue
                head = {k: v for k, v in self._summary.heads[key].items() if k != JUDGED_BY}
                row = {**head, "clients": span(found["clients"])}
                row |= {title: mean_and_sd(100 * found[of]) for of, title in NAMES.items()}
                if base is not None and method != name:
                    for of in COMPARED:
                        pairs = 100 * (found[of] - base[of]) if len(base) else found[of][:0]
                        row[f"{NAMES[of]} minus {name}"] = difference(pairs.dropna(), "+.1f")
                rows.append(row)
        return pd.DataFrame(rows).fillna("")

    def charts(self) -> Iterator[Chart]:
        """Yield a chart for each setting: every client's accuracy, mean over the seeds."""
        styles = list(dict.fromkeys(method for _, method in self._summary.counted))
        for setting, methods in self._settings.items():
            series = []
            for method, key in methods.items():
                if found := self._read(self._summary.counted[key]):
                    places = np.linspace(0, 1, min(MOST_PLACES, max(map(len, found))))
                    values = 100 * np.array([np.quantile(each, places) for each in found])
                    series.append(mean_series(method, styles.index(method), 100 * places, values))
            if series:
                title = "" if setting == ALL else setting
                figure = Plot("clients from the worst to the best, %", "accuracy, %", series)
                yield Chart(TITLE, title, f"clients-{slug(setting)}", figure)

    def _read(self, runs: Sequence[Run]) -> list[list[float]]:
        """Return the sorted accuracies of two clients or more, for each run that has them."""
        found = []
        for run in runs:
            try:
                each = accuracies_that_count(read_client_scores(run.directory))
            except RecordError as error:
                self.problems.append(f"{run.directory.name}: {error}")
            else:
                found += [each] if len(each) > 1 else []
        return found


def spreads(runs: Sequence[Run]) -> pd.DataFrame:
    """Return ``client_scores`` of the runs' records by seed, without runs where none counts."""
    counted = {
        run.config["seed"]: spread.entries()
        for run in runs
        if (spread := run.record.client_scores) and spread.clients
    }
    return pd.DataFrame(counted.values(), index=list(counted))
