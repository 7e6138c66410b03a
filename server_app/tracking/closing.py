"""The last lines that a completed run prints: its results, and the paths of its files."""

from pathlib import Path

from server_app.runs.records.parts import Privacy, Spread
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.run_record import RunRecord
from server_app.runs.records.tables import CLIENTS, LEAST_IMAGES, PARQUET, ROUNDS
from task.privacy.description import FROM_SYSTEM

CURVES = "curves.png"


def closing_lines(directory: Path, record: RunRecord) -> list[str]:
    """Return the last lines of a completed run: its results, and the paths of its files."""
    shown = ", ".join(f"{split} {value:.3f}" for split, value in record.results.accuracies())
    shared = ", the part that the clients share" if record.personal else ""
    clients = PARQUET if (directory / PARQUET).exists() else CLIENTS
    return [
        *([record.stopped.why] if record.stopped else []),
        f"final accuracy: {shown} (the rounds took {record.seconds.rounds:.0f} s)",
        *statistics_lines(record),
        *([clients_line(record.client_scores)] if record.client_scores else []),
        *([privacy_line(record.privacy)] if record.privacy else []),
        f"record  {directory / RUN_JSON}  {ROUNDS}  {clients}",
        f"model   {directory / 'model.safetensors'}{shared}",
        *parts_line(directory, record.client_parts),
        *curves_line(directory),
    ]


def statistics_lines(record: RunRecord) -> list[str]:
    """Return the test accuracy with batch norm's statistics of all images, if it is another one."""
    scores = record.exact_scores
    if "accuracy" not in scores or record.statistics_setting == "exact":
        return []
    return [f"with batch norm's statistics of all images: test {scores['accuracy']:.3f}"]


def curves_line(directory: Path) -> list[str]:
    """Return where the picture of the curves is; nothing if it could not be drawn."""
    path = directory / CURVES
    return [f"curves  {path}"] if path.exists() else []


def parts_line(directory: Path, parts: int) -> list[str]:
    """Return where the parts of the model that clients keep are; nothing if none is saved."""
    return [f"parts   {directory / 'clients'}, of {parts} clients"] if parts else []


def clients_line(spread: Spread) -> str:
    """Return how accuracy is spread over the clients."""
    if not spread.clients:
        reason = f"none of them holds out {LEAST_IMAGES} images; raise data.validation_share"
        return f"accuracy at the clients: not counted, because {reason}"
    shown = (
        f"mean {spread.mean:.3f}, standard deviation {spread.deviation:.3f}, "
        f"worst tenth {spread.worst_tenth:.3f}"
    )
    few = spread.too_few_images
    of = f"of {spread.clients + few} clients"
    which = f"{of} (with {LEAST_IMAGES} held-out images or more)" if few else of
    return f"accuracy at {spread.clients} {which}: {shown}"


def privacy_line(privacy: Privacy) -> str:
    """Return the privacy budget that a run has spent, or why it is unknown."""
    if privacy.delta is None:
        return f"privacy {privacy.epsilon}: {privacy.why}"
    spent = f"epsilon {privacy.epsilon:.2f} at delta {privacy.delta:g}"
    study = "" if privacy.noise == FROM_SYSTEM else f"; the noise is {privacy.noise}"
    return f"privacy {spent} for {privacy.unit}{study}"
