"""The table of who takes part: updates of fast and slow clients, and how the model serves them."""

import math
from collections.abc import Iterable

import pandas as pd

from server_app.runs.records.client_scores import ClientScore
from server_app.runs.records.tables import CLIENTS, RecordError
from univarfl.records.clients import read_clients
from univarfl.records.reader import Run
from univarfl.records.scores import read_client_scores
from univarfl.report.section import Section
from univarfl.report.spent.charts import timed_groups
from univarfl.report.statistics import mean_and_sd
from univarfl.report.summary import Summary

TITLE = "Who takes part"
NOTE = (
    "Of the clients that were asked, ordered by the mean recorded time of their attempts. It grows "
    "with their images, and ends with the round. Updates: the share of all that counted. Accuracy: "
    "of the final model on the images that the clients of this fifth hold out; with few images it "
    "says little. The rank correlation is that of a client's images and its updates that counted, "
    "from -1 to 1: below 0, clients with many images count less. Above 1,000 clients it is that of "
    "the clients that counted. An empty cell is unknown. Mean ± standard deviation over seeds."
)
FIFTHS = 5
LABELS = {
    "fast_updates": "updates of the fastest fifth, %",
    "slow_updates": "updates of the slowest fifth, %",
    "never": "clients that never counted",
    "correlation": "images and updates, rank correlation",
    "fast_accuracy": "accuracy at the fastest fifth, %",
    "slow_accuracy": "accuracy at the slowest fifth, %",
    "slow_images": "images held out there",
    "staleness": "mean staleness",
}
FORMS = {"correlation": "+.2f", "slow_images": ".0f"}


def participation(summary: Summary) -> tuple[Section, list[str]]:
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
    return Section(TITLE, NOTE, table=pd.DataFrame(rows)), problems


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
        "correlation": correlation(images_of(run, counted), updates),
        "fast_accuracy": accuracy_at(fast, scores),
        "slow_accuracy": accuracy_at(slow, scores),
        "slow_images": sum(each.images for each in scores if each.client in slow),
        "staleness": counted["staleness"].mean(),
    }


def images_of(run: Run, counted: pd.DataFrame) -> "pd.Series[int]":
    """Return clients' images by number: of all, or of those that counted if there are very many."""
    recorded = run.data.clients
    if isinstance(recorded, list):
        return pd.Series(recorded)
    return counted.groupby("client")["examples"].max()


def correlation(images: "pd.Series[int]", updates: "pd.Series[int]") -> float:
    """Return Spearman's correlation of clients' images and updates; NaN if all are alike."""
    both = pd.DataFrame({"images": images, "updates": updates.reindex(images.index).fillna(0)})
    ranks = both.rank()
    if ranks.nunique().min() < 2:
        return math.nan
    return float(ranks["images"].corr(ranks["updates"]))


def accuracy_at(clients: "pd.Index[int]", scores: Iterable[ClientScore]) -> float:
    """Return the accuracy in % on the images that these clients hold out; NaN if none is known."""
    wanted = set(clients)
    found = [(each.images, each.accuracy) for each in scores if each.client in wanted]
    images = sum(count for count, _ in found)
    return 100 * sum(count * own for count, own in found) / images if images else math.nan
