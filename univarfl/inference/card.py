"""The model card: input, output, accuracy, data, privacy and origin of a model."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from server_app.config.override_text import flat
from server_app.runs.records.run_record import RunRecord
from server_app.runs.records.tables import RecordError
from task.errors import ConfigError
from task.machine.files import write_whole
from task.plain_text import escaped
from task.privacy.description import FROM_SYSTEM
from univarfl.inference.model import TrainedModel
from univarfl.records.labels import client_count, counts_in_words
from univarfl.records.scores import read_by_class, read_client_scores

MARKDOWN = "\\`<[|"  # characters with which Markdown begins something else than text
OMITTED_SETTINGS = (
    "data.root", "model.weights", "after.images", "clock.trace", "output_dir", "run_id", "resume",
    "published", "watch", "federation", "device", "engine",
)  # fmt: skip
RESIZING = {
    "squash": "the aspect ratio is not kept",
    "crop": "the ends of the longer side are cut off",
    "pad": "black borders make it square",
}
PROVENANCE = {"run_id", "started", "ended", "fingerprint", "code", "model_sha256", "versions"}


def write_card(model: TrainedModel, to: Path, files: Mapping[str, Mapping[str, object]]) -> None:
    """Write ``model_card.json`` and ``model_card.md`` beside a model's files.

    Args:
        model: the exported model.
        to: the directory of the files.
        files: by file name, ``sha256``, and ``largest_difference`` of a probability from PyTorch's.

    Raises:
        OSError: they cannot be written.
        ConfigError: the run's record is damaged.
    """
    card = {**card_of(model), "files": dict(files)}
    write_whole(to / "model_card.json", f"{json.dumps(card, indent=2)}\n".encode())
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=False,  # noqa: S701
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"cell": cell, "line": line, "agreement": agreement, "share": share}
    environment.filters |= {"client_count": client_count, "counts_in_words": counts_in_words}
    environment.globals["resizing"] = RESIZING
    text = environment.get_template("card.md.j2").render(card)
    write_whole(to / "model_card.md", text.encode())


def card_of(model: TrainedModel) -> dict[str, Any]:
    """Return the content of the card, without paths of the machine that trained the model.

    Raises:
        ConfigError: the run's record is damaged.
    """
    record, classifier = model.run.record, model.classifier
    try:
        by_class = read_by_class(
            model.run.directory, model.classes, multilabel=classifier.multilabel
        )
        score = score_of_client(model)
    except RecordError as error:
        raise ConfigError("run", model.run.directory, str(error)) from None
    settings = {
        key: value
        for key, value in flat(model.run.config).items()
        if key not in OMITTED_SETTINGS
        and key.split(".")[0] not in OMITTED_SETTINGS
        and not (key == "seed" and noise_from_seed(record))
        and not (isinstance(value, str) and Path(value).is_absolute())
    }
    return {
        "classes": model.classes,
        "multilabel": classifier.multilabel,
        "input": classifier.facts(),
        "output": {"name": "probabilities", "shape": ["images", len(model.classes)]},
        "client": model.client,
        "client_score": score,
        "metrics": record.results.entries(),
        "recall": {
            model.classes[label]: {"images": images, "recall": value}
            for label, (images, value) in model.run.recall.items()
        },
        "class_metrics": by_class
        and {
            name: dataclasses.asdict(each)
            for name, each in zip(model.classes, by_class.classes, strict=True)
        },
        "confusion": by_class and by_class.confusion,
        "data": {"name": model.run.config["data"]["name"], **model.run.data.entries()},
        "privacy": record.privacy and record.privacy.entries(),
        "settings": settings,
        "provenance": record.model_dump(include=PROVENANCE, exclude_none=True),
    }


def score_of_client(model: TrainedModel) -> dict[str, Any] | None:
    """Return the score of a client's own model; None if it was not scored, or is no client's.

    With ``after=finetune`` the scores are those of other models, which are not kept.

    Raises:
        RecordError: the scores cannot be read.
    """
    if model.run.config["after"]["name"] == "finetune":
        return None
    scores = read_client_scores(model.run.directory)
    return next((each._asdict() for each in scores if each.client == model.client), None)


def noise_from_seed(record: RunRecord) -> bool:
    """Return whether the noise of a run can be removed by whoever knows its seed.

    Records without a word on the noise are older: their noise came from the seed.
    """
    return record.privacy is not None and record.privacy.noise != FROM_SYSTEM


def cell(text: object) -> str:
    """Return a text of a record for Markdown: on one line, without tables, code, HTML and links."""
    return "".join("\\" + each if each in MARKDOWN else each for each in line(text))


def line(text: object) -> str:
    """Return a text of a record on one line, for a block of code."""
    return escaped(" ".join(str(text).split()))


def share(value: float | None) -> str:
    """Return a metric with three digits; "-" for None, which means undefined."""
    return "-" if value is None else f"{value:.3f}"


def agreement(difference: float) -> str:
    """Return how closely a file's probabilities agree with PyTorch's, for instance "to 1e-07"."""
    return f"to {difference:.0e}" if difference else "exactly"
