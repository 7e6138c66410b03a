"""Removal of clients from the model of a run whose classifier was solved from kept sums."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from server_app.aggregation.client_update import ClientUpdate
from server_app.aggregation.weights import from_tensors, to_tensors
from server_app.config.experiment import Experiment
from server_app.config.override_text import quoted
from server_app.config.recorded_words import recorded_words
from server_app.config.rules import read_experiment
from server_app.rounds.closed_form.classifier import (
    absent_classes,
    form_of,
    with_classifier,
)
from server_app.runs.directory import plan_run_directory
from server_app.runs.kept_sums import delete_sums, keep_sum, kept_clients, read_sum
from server_app.runs.recorder import Recorder
from server_app.runs.records.client_counts import recorded_counts
from server_app.runs.records.run_record import read_record
from server_app.runs.records.tables import RecordError
from task.error_messages import describe_error
from task.errors import ConfigError, RunError
from task.methods.base import Method
from task.methods.families.closed_form import ClosedForm
from task.protocol.after.sums import Form
from task.training.evaluation import Metrics
from task.training.worker import shared_worker
from univarfl.records.reader import Run
from univarfl.records.trained import completed_run, final_weights, local_config_of

ONLY_ROUND = 1


@dataclass(frozen=True)
class Forgetting:
    """The run without some clients.

    Attributes:
        directory: of the new run.
        deleted: the runs whose sums of these clients were deleted.
    """

    directory: Path
    deleted: Sequence[Path]


def forget(directory: Path, clients: Sequence[str]) -> Forgetting:
    """Write a run whose model never knew some clients, and delete their kept sums.

    The sums of the other clients are added up again, and the classifier is solved from them. The
    sums are exact, so the model has the same bits as one that was made without these clients.

    Args:
        directory: the run; it and its model stay.
        clients: numbers of clients or, of a run on sites, their names.

    Raises:
        ConfigError: the run has kept no sums, or no such client; nothing was written.
        DataError, DeviceError: the test images cannot be used; nothing was written.
        RunError: the new run failed, or sums cannot be deleted.
    """
    started = time.perf_counter()
    run = completed_run(directory)
    names = list(dict.fromkeys(clients))
    others = [name for name in check_kept(run, names) if name not in names]
    experiment = without(run, names)
    worker = shared_worker(local_config_of(run).model_dump_json())
    form = form_of(worker.model, products=is_ridge(worker.method))
    images, total = added(directory, others, form)
    before, method = to_tensors(final_weights(run)), run.config["method"]
    weights = with_classifier(before, form, total, method.get("penalty"))
    found = worker.test(weights, by_class=True)
    place = plan_run_directory(experiment)
    placed = experiment.placed(place)
    recorder = Recorder(place, placed)
    try:
        recorder.update(
            overrides=overrides_of(run, placed),
            data=data_of(run, experiment, images),
            forgotten={"run": str(directory), "clients": names},
        )
        for note in absent_classes(form, total, run.data.classes, f"method={method['name']}"):
            recorder.event(ONLY_ROUND, "", note)
        write_results(recorder, experiment, found, images, started)
        recorder.save_model(from_tensors(weights))
        for name in others:
            kept = read_sum(directory, name, form)
            keep_sum(place, name, kept.images, kept.vector)
        recorder.complete()
    except BaseException as error:
        recorder.fail(describe_error(error))
        raise
    recorder.close()
    try:
        return Forgetting(place, delete_everywhere(directory, names))
    except OSError as error:
        reason = f"{place} is made, but sums in {directory} stay: {describe_error(error)}"
        raise RunError(f"{reason}; delete them, or repeat the command") from error


def check_kept(run: Run, clients: Sequence[str]) -> list[str]:
    """Return the clients whose sums a run has kept, which these clients are among.

    Raises:
        ConfigError: they are not, or no other client is left; the text says what to do instead.
    """
    config, directory = run.config, run.directory
    kept = kept_clients(directory)
    if not kept:
        raise ConfigError("run", directory, f"has kept no client's sums; {cure(config, clients)}")
    for name in clients:
        if name not in kept:
            raise ConfigError("client", name, f"has no sums in {directory}: {', '.join(kept)} have")
    if len(clients) == len(kept):
        allowed = f"has sums of no other client; delete the run instead: rm -r {directory}"
        raise ConfigError("run", directory, allowed)
    return kept


def cure(config: Mapping[str, Any], clients: Sequence[str]) -> str:
    """Return how to get a model without some clients from a run that has kept no sums."""
    forgettable = "method=ridge and method=ncm keep them with sums.keep=true and without masks"
    sites = config["partition"].get("names", []) if config["partition"]["name"] == "sites" else []
    if sites:
        others = ",".join(str(name) for name in sites if str(name) not in clients)
        return f"{forgettable}; train again with partition.names=[{others}]"
    if config["method"]["name"] in ("ridge", "ncm"):
        return f"{forgettable}; make the run again with without=[{','.join(clients)}]"
    return f"{forgettable}; train again on images without those of the client"


def without(run: Run, clients: Sequence[str]) -> Experiment:
    """Return the experiment of a run without some clients, for a new run beside it.

    Raises:
        ConfigError: the settings are not those of this version.
    """
    config, directory = run.config, run.directory
    changes = {
        "without": [*config["without"], *clients],
        "sums": {"keep": True, "add_to": None},
        "output_dir": str(directory.absolute().parent),
        "run_id": None,
        "resume": None,
    }
    return read_experiment(json.dumps({**config, **changes}))


def overrides_of(run: Run, experiment: Experiment) -> list[str] | None:
    """Return the words of a run that never had the clients, if those of the run are recorded."""
    if run.record.overrides is None:
        return None
    names = ",".join(map(quoted, experiment.without))
    words = [*run.record.overrides, f"without=[{names}]", "sums.keep=true"]
    others = [word for word in words if not word.startswith("sums.add_to=")]
    return recorded_words(others, experiment)


def is_ridge(method: Method) -> bool:
    """Return whether a method that trains nothing needs the products of features."""
    return isinstance(method, ClosedForm) and method.needs_products


def added(directory: Path, clients: Sequence[str], form: Form) -> tuple[dict[str, int], Tensor]:
    """Return clients' numbers of images, by name, and the sum of their kept sums.

    Raises:
        ConfigError: some are damaged.
    """
    images, total = {}, torch.zeros(form.length, dtype=torch.int64)
    for name in clients:
        kept = read_sum(directory, name, form)
        images[name] = kept.images
        total += kept.vector
    return images, total


def data_of(run: Run, experiment: Experiment, images: Mapping[str, int]) -> dict[str, Any]:
    """Return what the record says about the images: nothing of those that are forgotten."""
    each = [images.get(name, 0) for name in experiment.client_names]
    counts = {"train": sum(each), "clients": recorded_counts(each)}
    return {**run.data.entries(), **counts, "validation": None}


def write_results(
    recorder: Recorder,
    experiment: Experiment,
    found: Metrics,
    images: Mapping[str, int],
    started: float,
) -> None:
    """Write the scores of the model into the record.

    Args:
        recorder: the new run's.
        experiment: without the clients.
        found: the scores on the test images.
        images: by name of each client that it knows, the number of its images.
        started: when the run began, by `time.perf_counter`.
    """
    sites = experiment.partitioner().sites
    updates = [
        ClientUpdate(client, sites[client] if sites else "", examples=images[name])
        for client, name in enumerate(experiment.client_names)
        if name in images
    ]
    seconds = round(time.perf_counter() - started, 3)
    train = {"clients": len(updates), "failed": 0, "seconds": seconds}
    recorder.round(
        ONLY_ROUND, {"train": train, "test": found.means, "validation": {"clients": 0}}, updates,
        found.recall,
    )  # fmt: skip
    if found.by_class:
        recorder.save_by_class(found.by_class)
    recorder.update(
        seconds={"connect": 0.0, "rounds": seconds, "total": seconds},
        results={"test": dict(found.means), "validation": {"clients": 0}},
    )


def delete_everywhere(directory: Path, clients: Sequence[str]) -> list[Path]:
    """Delete clients' sums in a run and in the runs that its sums come from.

    Returns:
        The runs that had some.

    Raises:
        OSError: they cannot be deleted.
    """
    deleted: list[Path] = []
    waiting, seen = [directory], set[Path]()
    while waiting:
        place = waiting.pop()
        if place in seen or not place.is_dir():
            continue
        seen.add(place)
        if set(clients) & set(kept_clients(place)):
            for name in clients:
                delete_sums(place, name)
            deleted.append(place)
        try:
            record = read_record(place)
        except RecordError:
            continue
        earlier = (
            record.config.get("sums", {}).get("add_to"),
            record.forgotten and record.forgotten.run,
        )
        waiting += [Path(found) for found in earlier if found]
    return deleted
