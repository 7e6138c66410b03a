"""``univarfl train``: one run."""

from contextlib import nullcontext
from typing import Annotated

import typer

from server_app.config.choices import choices
from univarfl.cli.arguments import Words


def train_help() -> str:
    """Return the help of ``univarfl train``, with the choices that ``conf/`` offers."""
    groups = "\n".join(f"  {group}={' | '.join(names)}" for group, names in choices().items())
    return f"""Run one experiment, print its progress, and keep its record.

\b
Without overrides: UniVarFL on handwritten digits with ten clients, in a few minutes on a CPU.
\b
An override is key=value, with the keys of conf/config.yaml:
  univarfl train method=fedavg alpha=0.05 rho=0.5 seed=1
  univarfl train method.energy_weight=0          only L_V of UniVarFL
  univarfl train method=univarfl+fedprox         two methods at once
  univarfl train method=fedalign model=resnet56 data.image_size=8
  univarfl train partition=iid num_clients=20 strategy.weighting=uniform
  univarfl train federation.workers=1 rounds=2   in one process
  univarfl train engine=flower                   in workers of Flower and Ray
  univarfl train data=pacs data.root=PACS --dry-run
  univarfl train resume=latest                   continue the last run
\b
Choices:
{groups}
\b
Other keys: alpha rho seed rounds num_clients local_epochs batch_size optim.lr ...
'univarfl list keys' shows all, 'univarfl config' shows all values of an experiment.
\b
The record goes to output_dir, else $UNIVARFL_RUNS, else ./runs, one directory for each run:
run.json, rounds.csv, clients.csv, model.safetensors, curves.png, run.log.
\b
On a terminal, bars show the clients of the round, images a second, and the time left for round and
run; elsewhere there is a line for each round.
\b
Exit codes: 0 completed, 1 the run failed, 2 bad input (nothing was run), 130 interrupted.
"""


def train(
    overrides: Words = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check settings and machine, not the images; say what would be run."
        ),
    ] = False,
) -> None:
    """Run one experiment."""
    # Imported here because Hydra, PyTorch and Flower take seconds. The experiment is composed
    # before PyTorch and Flower are imported, so that a wrong word is refused at once.
    from server_app.config.composition import check_settings, compose_settings  # noqa: PLC0415
    from server_app.config.recorded_words import resumes  # noqa: PLC0415
    from server_app.config.resuming import whole_words  # noqa: PLC0415

    words = whole_words(overrides or [])
    typed = [word for word in overrides or [] if not resumes(word)]
    settings = compose_settings(words)

    if dry_run:
        from univarfl.engines.plan import plan_lines  # noqa: PLC0415

        print("\n".join(plan_lines(check_settings(settings, typed))))
        return

    from task.progress import progress_file  # noqa: PLC0415
    from univarfl.engines.early import command_workers, start_early  # noqa: PLC0415
    from univarfl.engines.errors import InterruptedRunError  # noqa: PLC0415
    from univarfl.terminal.streams import on_terminal  # noqa: PLC0415

    named = progress_file() if on_terminal() else nullcontext()
    start_early(settings)
    with named:
        experiment = check_settings(settings, typed)

        from univarfl.cli.progress import progress_on_terminal  # noqa: PLC0415
        from univarfl.engines.layout import Layout  # noqa: PLC0415
        from univarfl.engines.train import train_experiment  # noqa: PLC0415

        try:
            with progress_on_terminal(experiment):
                workers = command_workers(Layout.of(experiment))
                train_experiment(experiment, words, workers)
        except KeyboardInterrupt as error:  # typer would drop its text
            raise InterruptedRunError(str(error)) from None
