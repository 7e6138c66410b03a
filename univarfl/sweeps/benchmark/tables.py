"""The tables of a benchmark, from its completed runs."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from server_app.runs.records.tables import LEAST_IMAGES
from univarfl.records.labels import label_of
from univarfl.records.reader import Run
from univarfl.report.breakdown.by_client import spreads
from univarfl.report.readings import EXACT, LAST, LAST_FIVE, readings
from univarfl.report.section import Section
from univarfl.report.statistics import difference, mean_and_sd
from univarfl.report.summary import GLANCE, first_at
from univarfl.sweeps.benchmark.commands import OWN, TUNED, commands
from univarfl.sweeps.benchmark.costs import costs
from univarfl.sweeps.benchmark.outcome import BenchmarkRuns
from univarfl.sweeps.benchmark.ranks import average_ranks, critical_difference, significant

BASE = label_of("method", "fedavg")
EXACT_VALUES = "With statistics of all images"
MINUS_EXACT = "Minus FedAvg, statistics of all images"
OWN_VALUES, MINUS, MINUS_OWN, TARGET, CLIENTS, COSTS, TRIALS, COMMANDS = (
    "With the papers' values", "Minus FedAvg", "Minus FedAvg with its own rate",
    "Rounds and seconds to FedAvg's accuracy", "The worst tenth of the clients", "Cost",
    "Tuning", "Commands",
)  # fmt: skip
NOTES = {
    OWN_VALUES: "The same with the settings of conf/method/, the papers' where they name one, "
    "instead of tuned values.",
    EXACT_VALUES: "The first table again, with batch norm's statistics measured on the clients' "
    "images under the final weights. Cells whose network has no batch norm are left out.",
    MINUS_EXACT: "The differences in this reading.",
    MINUS: "Accuracy after the last round minus FedAvg's of the same cell and seed, both tuned, in "
    "percentage points: mean and Student's 95 % interval over the seeds. Wins, losses and ties "
    "count the runs of all cells. A run that diverged loses to one that did not, two that diverged "
    "are a tie, and neither is in the mean.",
    MINUS_OWN: "The same, minus FedAvg with the learning rate of conf/. A rate that is chosen on "
    "one cell can be a bad one on another cell.",
    TARGET: "The first round at or above FedAvg's mean accuracy after the last round of the cell, "
    "both tuned, and the seconds until then: means over the seeds that reached it. Seconds are "
    "those of the rounds; runs that shared a machine took longer.",
    CLIENTS: "Accuracy of the final global model in %, mean over the worst 10 % of the clients, "
    "tuned: mean ± standard deviation over seeds. A client is scored on images that it held out, "
    f"if it has {LEAST_IMAGES} or more of them.",
    COSTS: "Of one training step in a client's second round on the tuning cell, relative to "
    "FedAvg: operations up to the loss and with the backward pass, and numbers that a client "
    "keeps in memory. Bytes are those of a client's reply.",
    TRIALS: "Accuracy on the clients' validation images in %, mean of the last five rounds and of "
    "the tuning seeds. Every method has as many trials, and the first of the best values is "
    "chosen. A value with which training diverges is the worst. FedAvg and methods without a "
    "coefficient are tuned in the learning rate.",
    COMMANDS: "Each runs the seeds of one row in one cell.",
}


class Tables:
    """The tables of a benchmark.

    Args:
        outcome: its completed runs.
    """

    def __init__(self, outcome: BenchmarkRuns) -> None:
        self.outcome = outcome
        self.frame = pd.DataFrame(self._records(), columns=COLUMNS)

    def _records(self) -> Iterator[tuple[object, ...]]:
        for method in self.outcome.plan.methods:
            for entry in self.outcome.rows(method):
                run = self.outcome.run_of(entry)
                if run is None and not self.outcome.has_diverged(entry):
                    continue
                own = readings(run) if run else dict.fromkeys((LAST, LAST_FIVE, EXACT), DIVERGED)
                kind, label = TUNED if entry.value else OWN, label_of("method", method)
                scores = own[LAST], own[LAST_FIVE], own[EXACT]
                yield kind, entry.cell, label, entry.seed, *scores, run

    def runs(self, kind: str) -> list[Run]:
        """Return the completed runs of one kind of row."""
        return list(self.frame[self.frame["kind"] == kind]["run"].dropna())

    def sections(self) -> list[Section]:
        """Return every table with its explanation."""
        tables = {
            GLANCE: self.standing(TUNED),
            EXACT_VALUES: self.standing(TUNED, (EXACT,)),
            OWN_VALUES: self.standing(OWN),
            MINUS: self.differences(TUNED),
            MINUS_EXACT: self.differences(TUNED, EXACT),
            MINUS_OWN: self.differences(OWN),
            TARGET: self.targets(),
            CLIENTS: self.clients(),
            COSTS: costs(self.outcome),
            TRIALS: self.trials(),
            COMMANDS: commands(self.outcome),
        }
        notes = {GLANCE: self._how_ranked(), **NOTES}
        return [Section(title, notes[title], table=table) for title, table in tables.items()]

    def _how_ranked(self) -> str:
        """Return the explanation of the first table."""
        ranked = self._ranked(TUNED, LAST)
        blocks, methods = ranked.shape
        text = (
            "Accuracy of the final global model in %: mean ± standard deviation over seeds. Every "
            "method is tuned alike; see Tuning."
        )
        if not blocks:
            text += " There are no ranks until two methods have all runs."
        else:
            least = critical_difference(methods, blocks)
            text += (
                f" The rank is the mean over {blocks} pairs of cell and seed, 1 is best; methods "
                f"without all runs have none. Two ranks that differ by less than {least:.1f} are "
                "not significantly different (Nemenyi's test, which takes the pairs as "
                "independent; seeds of one cell are not, so the test is too lenient). "
                + significant(average_ranks(ranked), least)
            )
        return text

    def cells(self, reading: str) -> list[str]:
        """Return the cells, without those that have no batch norm if it is of its statistics."""
        if reading != EXACT:
            return list(self.outcome.plan.cells)
        known = self.frame[np.isfinite(self.frame[reading])]["cell"]
        return [cell for cell in self.outcome.plan.cells if cell in set(known)]

    def standing(self, kind: str, of_ranks: Sequence[str] = (LAST, LAST_FIVE)) -> pd.DataFrame:
        """Return one row per method: its average ranks, and its accuracy in each cell.

        Args:
            kind: of the rows.
            of_ranks: the readings that are ranked; the first is shown.
        """
        shown = self.cells(of_ranks[0])
        part = self.frame[(self.frame["kind"] == kind) & self.frame["cell"].isin(shown)]
        ranks = {
            f"rank, {reading}": average_ranks(self._ranked(kind, reading)) for reading in of_ranks
        }
        ranks = {name: found for name, found in ranks.items() if len(found)}
        rows = []
        for method, of in part.groupby("method", sort=False):
            row = {"method": method}
            row |= {
                name: f"{found[method]:.1f}" if method in found else ""
                for name, found in ranks.items()
            }
            for cell in shown:
                values = 100 * of[of["cell"] == cell][of_ranks[0]]
                row[cell] = (mean_and_sd(finite(values)) + self._of_seeds(values)).strip()
            rows.append(row)
        order = next(iter(ranks.values()), pd.Series(dtype=float))
        rows.sort(key=lambda row: order.get(row["method"], np.inf))
        return pd.DataFrame(rows)

    def _of_seeds(self, values: "pd.Series[float]") -> str:
        """Return how many seeds there are if it is not all, and how many of them diverged."""
        seeds, diverged = len(self.outcome.plan.seeds), len(values) - len(finite(values))
        if not len(values) or (len(values) == seeds and not diverged):
            return ""
        missing = "" if len(values) == seeds else f"{len(values)} of {seeds} seeds"
        return f" ({', '.join(filter(None, [missing, f'{diverged} diverged' * bool(diverged)]))})"

    def _ranked(self, kind: str, reading: str) -> pd.DataFrame:
        """Return a row per cell and seed and a column per method that has all of them."""
        known = self.frame["cell"].isin(self.cells(reading))
        part = self.frame[(self.frame["kind"] == kind) & known]
        scores = part.pivot(index=["cell", "seed"], columns="method", values=reading)
        complete = scores.dropna(axis=1)
        return complete if complete.shape[1] > 1 else complete[:0]

    def differences(self, base_kind: str, reading: str = LAST) -> pd.DataFrame:
        """Return tuned accuracy minus FedAvg's with the same seeds, by cell, with wins and losses.

        Args:
            base_kind: FedAvg's row that is subtracted.
            reading: of the accuracy.
        """
        known = self.frame[self.frame["cell"].isin(self.cells(reading))]
        part = known[known["kind"] == TUNED]
        scores = 100 * part.pivot(index=["cell", "seed"], columns="method", values=reading)
        of_base = known[(known["kind"] == base_kind) & (known["method"] == BASE)]
        base = 100 * of_base.set_index(["cell", "seed"])[reading]
        rows = []
        for method in part["method"].unique() if len(base) else ():
            if (method, base_kind) == (BASE, TUNED):
                continue
            both = pd.DataFrame({"own": scores[method], "base": base}).dropna()
            pairs = both["own"] - both["base"]  # not a number where both diverged
            row = {"method": method}
            row["wins"], row["losses"] = str((pairs > 0).sum()), str((pairs < 0).sum())
            row["ties"] = str((both["own"] == both["base"]).sum())
            for cell in self.cells(reading):
                of_cell = pairs[pairs.index.get_level_values("cell") == cell]
                row[cell] = (difference(finite(of_cell), "+.1f") + self._of_seeds(of_cell)).strip()
            rows.append(row)
        return pd.DataFrame(rows)

    def targets(self) -> pd.DataFrame:
        """Return the rounds and seconds until FedAvg's accuracy was reached, by cell."""
        part = self.frame[self.frame["kind"] == TUNED]
        reached_by_base = finite(part[part["method"] == BASE].set_index("cell")[LAST])
        base = reached_by_base.groupby("cell").mean()
        rows: dict[str, dict[str, str]] = {}
        for (method, cell), of in part.groupby(["method", "cell"], sort=False):
            if cell not in base:
                continue
            reached = [
                (run, at)
                for run in of["run"].dropna()
                if (at := first_at(run, base[cell])) is not None
            ]
            row = rows.setdefault(str(method), {"method": str(method)})
            row[str(cell)] = "never"
            if reached:
                rounds = np.mean([at for _, at in reached])
                seconds = np.mean([seconds_until(run, at) for run, at in reached])
                row[str(cell)] = f"{rounds:.1f} rounds, {seconds:.0f} s"
            if 0 < len(reached) < len(of):
                row[str(cell)] += f" ({len(reached)} of {len(of)} seeds)"
        return pd.DataFrame(rows.values()).fillna("")

    def clients(self) -> pd.DataFrame:
        """Return the mean accuracy of the worst tenth of the clients, by cell."""
        part = self.frame[self.frame["kind"] == TUNED]
        rows = []
        for method, of in part.groupby("method", sort=False):
            found = {
                cell: spreads(runs["run"].dropna()) for cell, runs in of.groupby("cell", sort=False)
            }
            cells = {
                c: mean_and_sd(100 * each["worst_tenth"]) for c, each in found.items() if len(each)
            }
            rows += [{"method": method, **cells}] if cells else []
        return pd.DataFrame(rows).fillna("")

    def trials(self) -> pd.DataFrame:
        """Return the validation accuracy of each value that was tried."""
        rows = []
        for method, tried in self.outcome.trials.items():
            row = {"method": label_of("method", method), "setting": "", "chosen": ""}
            for place, trial in enumerate(tried, start=1):
                key, _, value = trial.value.partition("=")
                row[f"value {place}"] = f"{value}{score_text(trial.score)}"
                row["setting"] = key
                if trial.chosen:
                    row["chosen"] = value
            rows.append(row)
        return pd.DataFrame(rows)


DIVERGED = -math.inf  # the accuracy of a run without a final model: the worst
COLUMNS = ("kind", "cell", "method", "seed", LAST, LAST_FIVE, EXACT, "run")


def finite(values: "pd.Series[float]") -> "pd.Series[float]":
    """Return the values of the runs that did not diverge."""
    return values[np.isfinite(values)]


def seconds_until(run: Run, at: int) -> float:
    """Return the seconds of a run's rounds up to one of them."""
    return sum(seconds for each, seconds in run.series["train", "seconds"].items() if each <= at)


def score_text(score: float | None) -> str:
    """Return what follows a tuned value: its score in %, or that training diverged."""
    if score is None:
        return ""
    return f": {100 * score:.1f}" if math.isfinite(score) else ": diverged"
