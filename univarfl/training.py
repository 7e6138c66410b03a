"""Training and sweeps from Python."""

from typing import Any, Literal

import univarfl.application  # noqa: F401

# isort: split

from server_app.config.composition import compose_experiment
from server_app.config.resuming import whole_words
from task.errors import ConfigError
from univarfl.run import Run
from univarfl.runs import Runs
from univarfl.settings_kept import settings_kept
from univarfl.words import entries, text, words_of


def train(
    *, engine: Literal["inprocess", "flower"] = "inprocess", progress: bool = True, **settings: Any
) -> Run:
    """Run one experiment, and return it once it is completed.

    The same settings as for ``univarfl train``; a key with dots is written as a dictionary, or as
    ``**{"optim.lr": 0.1}``::

        run = univarfl.train(method="fedavg", alpha=0.05, rounds=3, optim={"lr": 0.1})
        run = univarfl.train(data={"name": "folder", "root": "scans"}, num_clients=4)

    The record is written as by the command, under ``output_dir``, else ``$UNIVARFL_RUNS``, else
    ``./runs``. ``resume=DIRECTORY`` continues a run that was interrupted.

    Args:
        engine: "inprocess" trains in this process, or in several with ``federation={"workers":
            2}``; "flower" in workers of Flower and Ray. The models are equal, bit for bit.
        progress: whether to show a bar in a notebook or on a terminal, and lines elsewhere.
        settings: the settings; see ``univarfl train --help``.

    Raises:
        ConfigError: a key or value is not allowed, or settings do not fit together; nothing was
            run.
        DataError, DeviceError: the data cannot be used, or there is no GPU; nothing was run.
        RunError: the run failed; its record says why.
        KeyboardInterrupt: the run was interrupted; it can be resumed.
    """
    words = whole_words(words_of({"engine": engine, **settings}))
    experiment = compose_experiment(words)

    # Imported here because PyTorch and Flower take seconds, and a wrong word is refused first.
    from server_app.runs.directory import plan_run_directory  # noqa: PLC0415
    from univarfl.engines.train import train_experiment  # noqa: PLC0415
    from univarfl.progress import progress_of  # noqa: PLC0415

    directory = plan_run_directory(experiment)
    placed = experiment.placed(directory, resume=bool(experiment.resume))
    with settings_kept(), progress_of(experiment, directory, progress):
        return Run(train_experiment(placed, words))


def sweep(*, jobs: int | None = None, **settings: Any) -> Runs:
    """Run an experiment for each combination of values that has no completed run yet.

    A list gives several values of a key; a tuple is one value that is a list::

        runs = univarfl.sweep(method=["fedavg", "univarfl"], seed=[0, 1, 2], rounds=6)
        runs.table

    Runs are in-process, each in a process of its own, unless ``engine="flower"``. The same call
    again runs what is missing.

    Args:
        jobs: how many runs at a time; None for as many as cores and memory allow.
        settings: as for `train`, without ``resume`` and ``run_id``; or ``sweep="univarfl_table1"``
            for a table of a paper.

    Returns:
        The completed run of each combination; the last key varies fastest.

    Raises:
        ConfigError: a key or value is not allowed in any combination; nothing was run.
        RunError: some runs failed or could not start; all others are completed and kept.
        KeyboardInterrupt: the runs were interrupted; the same call continues them.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError("jobs", jobs, "must be at least 1")
    from univarfl.sweeps.cells import cells_of  # noqa: PLC0415

    cells = cells_of([f"{key}={values(key, value)}" for key, value in entries(settings)])
    from univarfl.engines.local.processes import (  # noqa: PLC0415
        warm_up,
        without_callers_script,
    )

    warm_up("univarfl.application", "univarfl.sweeps.job")
    from univarfl.sweeps.schedule import Sweep  # noqa: PLC0415

    planned = Sweep(cells, jobs)
    with without_callers_script():
        planned.run()
    found = [planned.existing.completed(cell) for cell in cells]
    return Runs(Run(directory) for directory in found if directory)


def values(key: str, value: Any) -> str:
    """Return the values of one key, joined as ``univarfl sweep`` reads them."""
    if isinstance(value, list):
        if not value:
            raise ConfigError(key, value, "must have at least one value")
        return ",".join(text(key, each) for each in value)
    return text(key, value)
