"""The reference of the files in a run directory; the columns of its tables are the code's."""

from collections.abc import Mapping

from docs.generator.markdown import code, table
from server_app.runs.records.by_class import CLASS_METRICS, CLASS_METRICS_COLUMNS
from server_app.runs.records.client_scores import CLIENT_SCORE_COLUMNS, CLIENT_SCORES
from server_app.runs.records.metrics import METRICS
from server_app.runs.records.tables import (
    CLASS_COLUMNS,
    CLASSES,
    CLIENT_COLUMNS,
    CLIENT_LOSSES,
    CLIENTS,
    EVENT_COLUMNS,
    EVENTS,
    ROUND_COLUMNS,
    ROUNDS,
)

INTRODUCTION = """# Files of a run

A run leaves one directory, `runs/<id>/`. Text in a CSV file that a spreadsheet would run as a
formula (such as `=1+1`) has a `'` in front.
"""
FILES = {
    "run.json": "Configuration, seed, versions, hashes, machine, result and status. A run is "
    'finished only if it has `"status": "completed"`, which is written last.',
    "rounds.csv": "Losses and scores of each round.",
    "clients.csv": "One row for each client and round: number of images, device, losses and, if "
    "the client failed, the reason. When a run with more than 10,000 rows is completed, "
    "`clients.parquet` replaces this file.",
    "clients.parquet": "The same table, for a completed run with more than 10,000 rows. Read it "
    "with `univarfl.load_run(RUN).clients` or `pandas.read_parquet`. Text cells have no `'` in "
    "front here. If a record has both files, `clients.csv` is used.",
    "classes.csv": "Recall of each class on the test set; `run.json` names the classes.",
    "class_metrics.csv": "Metrics of each class against the rest on the test set, of the final "
    "model. Not in runs without test images.",
    "confusion.csv": "Confusion matrix of the final model on the test set, in images: a row for "
    "each true class, a column for each class that the model gave. Not with `task=multilabel`.",
    "client_scores.csv": "The score of the final model, or with `after=finetune` of the client's "
    "fine-tuned model, at each client, on the images that it held out; "
    "of more than 1,000 clients, at a sample. Not with masks or noise at the clients.",
    "events.csv": "Events of sites and of the run; empty for most runs.",
    "model.safetensors": "The global model after the last round, not after the best one; without "
    "the layers that stay with each client. With `after=ccvr` or `feddf`, the model "
    "after that stage.",
    "clients/": "In a simulation whose clients keep a part of the model: the part of each client "
    "that has trained, `clients/3.safetensors`.",
    "sums/": "With `sums.keep=true`: the exact sums of each client's features, for "
    "`univarfl forget` and `sums.add_to`; only the owner can read them.",
    "models/": "With `watch.models_every`: the models of the kept rounds. "
    "`models/round-000002.safetensors` has the model that round 2's participants received "
    "(`received/`), each trained model (`client-3/`) and the global model after it "
    "(`aggregated/`).",
    "tensorboard/": "TensorBoard logs, if TensorBoard is installed.",
    "analysis/": "The results of `univarfl analyse`.",
    "curves.png": "Accuracy and loss over the rounds.",
    "run.log": "Everything that was printed, and the full tracebacks of errors.",
    "flower.log": "Flower's own output, if Flower itself ended the run.",
    "running_jobs/": "With `strategy=fedbuff`: the weights that running clients started from; "
    "deleted when the run is completed.",
    "checkpoints/": "The last two rounds of an unfinished run; deleted when it is completed.",
}


def listed(at_end: bool) -> str:
    """Return the names of the metrics, as a list in a sentence."""
    names = [f"`{name}`" for name, metric in METRICS.items() if metric.at_end == at_end]
    return f"{', '.join(names[:-1])} and {names[-1]}"


COLUMNS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    ROUNDS: (
        ROUND_COLUMNS,
        {
            "round": "Number of the round; round 0 is the untrained model.",
            "split": "`train`: means over the clients whose update counts, weighted by their "
            "numbers of images. `validation`: the held-out images (`data.validation_share`) of "
            "the participants; after the last round, of all clients. `test`: the test set.",
            "metric": "For `train`: `ce`, the method's terms, `seconds`, and `learning_rate` "
            "if it has a schedule; with `clock=virtual` also `simulated_seconds` since the run "
            "began, and with `strategy=fedbuff` the mean `staleness`. For `test`: "
            f"{listed(at_end=False)}; after the last round also {listed(at_end=True)}, means over "
            "the classes for which they are defined.",
            "value": "The value; accuracies are between 0 and 1.",
        },
    ),
    CLIENTS: (
        (*CLIENT_COLUMNS, *CLIENT_LOSSES),
        {
            "round": "Number of the round.",
            "client": "Number of the client, from 0.",
            "site": "Name of the site; empty in simulation.",
            "status": "`ok` if the update counts, `left out` if its simulated device did not send "
            "it in time, otherwise `failed`.",
            "reason": "Why it does not count.",
            "examples": "Number of training images.",
            "seconds": "Seconds of local training.",
            "device": "Kind of device. With `clock=virtual` or `strategy=fedbuff` two columns "
            "follow: `staleness`, the server steps since the weights that the client started from, "
            "and `simulated_seconds` of its attempt.",
            "ce": "Mean cross-entropy.",
            "l_he": "UniVarFL's energy; empty for other methods.",
            "l_v": "Variance term of UniVarFL or FedUV; empty for other methods. The terms of "
            "other methods follow in columns of their own.",
        },
    ),
    CLASSES: (
        CLASS_COLUMNS,
        {
            "round": "Number of the round.",
            "class": "Number of the class, from 0.",
            "examples": "Number of its test images.",
            "recall": "Share of them that were recognised.",
        },
    ),
    CLASS_METRICS: (
        CLASS_METRICS_COLUMNS,
        {
            "class": "Name of the class.",
            "images": "Number of its test images.",
            "sensitivity": "Share of them that were recognised, as `recall` in `classes.csv`; "
            "empty without images of the class.",
            "specificity": "Share of the other images that were not taken for the class; empty "
            "without images of other classes.",
            "auroc": "Area under the ROC curve of the class's probability; empty without images "
            "of the class or of others, or if a probability is not finite.",
            "average_precision": "Average precision of the class's probability; empty as `auroc`.",
        },
    ),
    CLIENT_SCORES: (
        CLIENT_SCORE_COLUMNS,
        {
            "client": "Number of the client, from 0.",
            "site": "Name of the site; empty in simulation.",
            "images": "Number of the client's held-out images.",
            "accuracy": "Share of them that the model gave the right class, from 0 to 1.",
            "loss": "Mean cross-entropy.",
        },
    ),
    EVENTS: (
        EVENT_COLUMNS,
        {
            "time": "Time in UTC.",
            "round": "Number of the round.",
            "site": "Name of the site; empty for the run as a whole.",
            "event": "What happened, in words.",
        },
    ),
}
RECORD = {
    "format": "Version of this format.",
    "status": "`running`, `completed` or `failed`.",
    "reason": "Why the run failed.",
    "run_id": "Name of the run directory.",
    "key": "Random identifier of the run.",
    "config": "Every setting, resolved.",
    "fingerprint": "Hash of all code of the app.",
    "code": "Hash of the code that every run uses and that can change a result.",
    "components": "Hashes of the chosen components, such as the method.",
    "data_version": "Hash of the images and of how they were read.",
    "versions": "Python and the packages that can change a result.",
    "machine": "Operating system, number of cores, threads of a worker.",
    "started": "Time in UTC.",
    "engine": "Name of the engine, and Flower's number of the run.",
    "overrides": "The words that were typed.",
    "workers": "Number and kinds of the workers.",
    "data": "Images, classes and clients: counts, names and what was left out.",
    "request_bytes": "Bytes of the numbers that one client receives in a round.",
    "reply_bytes": "Bytes of the numbers that it returns: as many, or twice as many if masked.",
    "results": "Losses and scores of the final model, which is the one after the last round, or "
    "after the stage that `after` names.",
    "client_scores": "Mean, worst tenth and standard deviation of the accuracy over the clients "
    "with 20 held-out images or more; `too_few_images` counts the others.",
    "personal": "The layers that stay with each client, if there are any.",
    "client_parts": "In a simulation whose clients keep a part of the model: how many of their "
    "parts are in `clients/`.",
    "statistics": "For networks with batch norm: the test scores with averaged statistics and with "
    "those of all images (`readings`), who measured them on how many images each, and seconds; see "
    "[Choose the statistics of batch norm](../how-to/measure-batch-norm.md).",
    "after": "With a stage after training: its name and seconds, test scores `before` and `after` "
    "it, and who took part. With `after=finetune` the scores are those over the clients, as in "
    "`client_scores`.",
    "forgotten": "In a run that `univarfl forget` wrote: the earlier `run`, and the `clients` that "
    "were removed from its model.",
    "privacy": "With differential privacy: what was spent, on what, and what it does not cover. "
    "`attempts` counts every attempt at a round that was begun, repeated ones included.",
    "seconds": "Seconds of `connect` (until all SuperNodes were ready), of the `rounds`, of batch "
    "norm's `statistics` and the stage `after` training where they exist, and in `total`.",
    "ended": "Time in UTC.",
    "model_sha256": "Hash of `model.safetensors`.",
    "sha256": "Hash of all other entries, compared before a run is resumed.",
    "resumed": "When the run was resumed.",
    "resumed_from": "Round after which the run continued.",
    "restartable": "Whether the run failed for a reason after which it can go on.",
}


def page() -> str:
    """Return the page of a run's files."""
    parts = [INTRODUCTION.strip(), table(("File", "Content"), rows_of(FILES))]
    for name, (columns, meanings) in COLUMNS.items():
        rows = [(code(column), meanings[column]) for column in columns]
        parts += [f"## {name}", table(("Column", "Meaning"), rows)]
    parts += ["## run.json", table(("Key", "Meaning"), rows_of(RECORD))]
    return "\n\n".join(parts) + "\n"


def rows_of(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the rows of a table of names and meanings."""
    return [(code(name), text) for name, text in texts.items()]
