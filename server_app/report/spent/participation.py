"""The table of who takes part: updates of fast and slow clients, and how the model serves them."""

import math
from collections.abc import Iterable

import pandas as pd

from server_app.report.spent.charts import timed_groups
from server_app.report.statistics import mean_and_sd
from server_app.report.summary import Summary
from server_app.runs.records.client_scores import ClientScore, read_client_scores
from server_app.runs.records.clients.reading import read_clients
from server_app.runs.records.reader import Run
from server_app.runs.records.tables import CLIENTS, RecordError

TITLE = "Who takes part"
NOTE = (
    "Clients are ordered by the mean simulated time of their attempts, which grows with their "
    "images. Updates: the share of all that counted. Accuracy: of the final model on the images "
    "that the clients of this fifth hold out. The rank correlation is that of a client's images "
    "and its updates that counted, from -1 to 1: below 0, clients with many images count less. "
    "Mean ± standard deviation over seeds."
)
FIFTHS = 5
LABELS = {
    "fast_updates": "updates of the fastest fifth, %",
    "slow_updates": "updates of the slowest fifth, %",
    "never": "clients that never counted",
    "correlation": "images and updates, rank correlation",
    "fast_accuracy": "accuracy at the fastest fifth, %",
    "slow_accuracy": "accuracy at the slowest fifth, %",
    "staleness": "mean staleness",
}
FORMS = {"correlation": "+.2f"}


def participation_table(summary: Summary) -> tuple[pd.DataFrame, list[str]]:
    """Return a row for each setting and method whose runs have a virtual clock, and problems.

    A problem is a line about a record that is damaged.
    """
    rows, problems = [], []
    for key, runs in timed_groups(summary).items():
        found = []
        for run in runs:
            try:
                found.append(participation_of(run))
            except RecordError as error:
                problems.append(f"{run.directory.name}: {error}")
        if found:
            rows.append({**summary.heads[key], **in_words(found)})
    return pd.DataFrame(rows), problems


def in_words(found: Iterable[dict[str, float]]) -> dict[str, str]:
    """Return what `participation_of` returned for several seeds, by label."""
    table = pd.DataFrame(found)
    return {
        label: mean_and_sd(table[name], FORMS.get(name, ".1f")) for name, label in LABELS.items()
    }


def participation_of(run: Run) -> dict[str, float]:
    """Return the numbers of `LABELS` for one run; those that are unknown are NaN.

    Raises:
        RecordError: its tables of clients are missing or damaged.
    """
    table = read_clients(run.directory)
    if "simulated_seconds" not in table:
        raise RecordError(f"{CLIENTS} has no column simulated_seconds")
    tried = table[table["simulated_seconds"] > 0].groupby("client")["simulated_seconds"].mean()
    order = tried.sort_values().index
    if order.empty:
        return dict.fromkeys(LABELS, math.nan)
    number = max(1, len(order) // FIFTHS)
    fast, slow = order[:number], order[-number:]
    counted = table[table["status"] == "ok"]
    updates = counted["client"].value_counts()
    scores = read_client_scores(run.directory)
    return {
        "fast_updates": 100 * updates.reindex(fast).sum() / max(1, len(counted)),
        "slow_updates": 100 * updates.reindex(slow).sum() / max(1, len(counted)),
        "never": run.config["num_clients"] - len(updates),
        "correlation": correlation(run, updates),
        "fast_accuracy": accuracy_at(fast, scores),
        "slow_accuracy": accuracy_at(slow, scores),
        "staleness": counted["staleness"].mean(),
    }


def correlation(run: Run, updates: "pd.Series[int]") -> float:
    """Return Spearman's correlation of clients' images and updates; NaN if it is unknown."""
    images = run.record["data"].get("clients")
    if not isinstance(images, list):  # of very many clients the record has a summary
        return math.nan
    both = pd.DataFrame({"images": images, "updates": updates.reindex(range(len(images)))})
    ranks = both.fillna(0).rank()
    if ranks.nunique().min() < 2:  # all clients are alike in one of them
        return math.nan
    return float(ranks["images"].corr(ranks["updates"]))


def accuracy_at(clients: "pd.Index[int]", scores: Iterable[ClientScore]) -> float:
    """Return the accuracy in % on the images that these clients hold out; NaN if none is known."""
    wanted = set(clients)
    found = [(each.images, each.accuracy) for each in scores if each.client in wanted]
    images = sum(count for count, _ in found)
    return 100 * sum(count * own for count, own in found) / images if images else math.nan
