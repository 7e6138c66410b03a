"""Records of runs whose results are chosen, written by the recorder that real runs use."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from server_app.config.composition import compose_experiment
from server_app.runs.recorder import Recorder
from server_app.runs.records.csv_files import rows_as_csv
from server_app.runs.records.record import RUN_JSON
from server_app.runs.records.run_record import HASH, hash_of_entries
from server_app.tracking.loggers import metric_loggers

CLASSES = [f"digit {label}" for label in range(10)]


def change(directory: Path, **entries: object) -> None:
    """Change entries of a run's ``run.json``."""
    path = directory / RUN_JSON
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def write_entries(directory: Path, entries: Mapping[str, object]) -> None:
    """Write a run's ``run.json`` with any entries, and their hash."""
    whole = {**entries, HASH: hash_of_entries(entries)}
    (directory / RUN_JSON).write_text(json.dumps(whole))


def append_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Add rows to a table."""
    with path.open("ab") as file:
        file.write(rows_as_csv(rows))


def record(
    place: Path,
    name: str,
    words: Sequence[str],
    test: Sequence[float],
    validation: Sequence[float] | None = None,
    classes: Sequence[str] = CLASSES,
) -> Path:
    """A completed run with these accuracies after rounds 0, 1, ...; its directory."""
    experiment = compose_experiment(
        [f"rounds={len(test) - 1}", "watch.tensorboard=false", "run_id=" + name, *words]
    )
    place.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(place / name, experiment)
    recorder.update(data={"classes": list(classes)}, seconds={"rounds": len(test) - 1.0})
    with metric_loggers(experiment, recorder.directory, recorder.record) as loggers:
        for at, accuracy in enumerate(test):
            scores = {
                "test": {
                    "accuracy": accuracy, "loss": 1 - accuracy, "balanced_accuracy": accuracy,
                    "macro_f1": accuracy, "calibration_error": 0.1,
                }
            }  # fmt: skip
            if at:
                scores["train"] = {"ce": 1 / at, "clients": 4, "failed": 0, "seconds": 1.0}
                scores["validation"] = {
                    "accuracy": (validation or test)[at], "loss": 0.5, "clients": 4
                }  # fmt: skip
            recall = {label: (36, min(1, accuracy + 0.01 * label)) for label in range(len(classes))}
            recorder.round(at, scores, recall=recall)
            loggers.round(at, scores)
    recorder.complete()
    recorder.close()
    return place / name
