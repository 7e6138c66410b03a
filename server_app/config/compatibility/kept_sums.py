"""Which settings do not fit clients that take no part, and sums that are kept or added to."""

from collections.abc import Iterator
from pathlib import Path

from server_app.config.experiment import Experiment
from server_app.config.override_text import flat
from server_app.runs.kept_sums import kept_clients
from server_app.runs.records.run_record import RunRecord, read_record
from server_app.runs.records.tables import RecordError
from task.errors import ConfigError
from task.given_weights import without_weights

KEEP, ADD_TO, WITHOUT = "sums.keep", "sums.add_to", "without"
SPLIT = ("seed", "num_clients", "partition")  # settings that decide which images a client has


def problems(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield why clients cannot be left out, or sums be kept or added to."""
    sums = experiment.sums
    wanted = {WITHOUT: experiment.without, KEEP: sums.keep, ADD_TO: sums.add_to}
    used = {key: value for key, value in wanted.items() if value}
    if not experiment.closed_form:
        for key, value in used.items():
            yield ConfigError(key, value, "needs method=ridge or method=ncm; leave it out")
    if sums.keep or sums.add_to:
        yield from of_sums(experiment, {key: used[key] for key in (KEEP, ADD_TO) if key in used})
    if experiment.without:
        yield from of_clients(experiment)
    if sums.add_to:
        yield from of_earlier(experiment, Path(sums.add_to))


def of_sums(experiment: Experiment, used: dict[str, object]) -> Iterator[ConfigError]:
    """Yield why the server has no exact sums of single clients."""
    for key, value in used.items():
        if experiment.secure.masked:
            allowed = (
                "needs each client's sums, and with masks the server sees the sum over all clients "
                "alone; leave it out, or add secure=none"
            )
            yield ConfigError(key, value, allowed)
        if experiment.privacy.private:
            allowed = "needs exact sums, and clients add noise to theirs; leave it out"
            yield ConfigError(key, value, allowed)
        if experiment.data.get("standardise") == "federated":
            allowed = (
                "needs features that do not depend on other clients, and constants of all clients "
                "standardise these; add data.standardise=schema"
            )
            yield ConfigError(key, value, allowed)


def of_clients(experiment: Experiment) -> Iterator[ConfigError]:
    """Yield why the clients cannot be left out."""
    names = experiment.client_names
    for name in experiment.without:
        if name not in names:
            last = f"from 0 to {len(names) - 1}" if names[0] == "0" else f"of {', '.join(names)}"
            yield ConfigError(WITHOUT, name, f"is no client; name clients {last}")
    if len(experiment.excluded) == len(names):
        yield ConfigError(WITHOUT, list(names), "leaves no client; leave one out of the list")


def of_earlier(experiment: Experiment, directory: Path) -> Iterator[ConfigError]:
    """Yield why the sums of a run cannot be added to."""
    try:
        record = read_record(directory)
    except RecordError as error:
        yield ConfigError(ADD_TO, directory, f"must be the directory of a run: {error}")
        return
    if not record.completed or not kept_clients(directory):
        allowed = "has no kept sums; name a completed run that was made with sums.keep=true"
        yield ConfigError(ADD_TO, directory, allowed)
    if differing := different_settings(experiment, record):
        allowed = f"has sums of other features or images: {', '.join(differing)} differ"
        yield ConfigError(ADD_TO, directory, f"{allowed}; use the settings of that run")


def different_settings(experiment: Experiment, record: RunRecord) -> list[str]:
    """Return the keys in which a run's features, or its clients' images, are others.

    Weights are compared when the sums are added. Sites bring their own images.
    """
    keys = ("data", "model", *(() if experiment.partitioner().sites else SPLIT))

    def deciding(config: dict[str, object]) -> dict[str, object]:
        found = {key: config[key] for key in keys}
        return flat({**found, "model": without_weights(dict(config["model"]))})  # type: ignore[call-overload]

    now, before = deciding(experiment.model_dump()), deciding(dict(record.config))
    return sorted(key for key in now.keys() | before.keys() if now.get(key) != before.get(key))
