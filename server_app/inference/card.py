"""The model card: what a model is, was trained on, and is worth; for people and for programs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from server_app.flattening import flat
from server_app.inference.model import TrainedModel
from task.files import write_whole

UNTOLD = (
    "data.root", "output_dir", "run_id", "resume", "published", "watch", "federation", "device",
    "engine",
)  # fmt: skip
PROVENANCE = ("run_id", "started", "ended", "fingerprint", "code", "model_sha256", "versions")


def write_card(model: TrainedModel, to: Path, files: Mapping[str, Mapping[str, object]]) -> None:
    """Write ``model_card.json`` and ``model_card.md`` beside a model's files.

    Args:
        model: what they are of.
        to: the directory that holds them.
        files: by name, ``sha256``, and ``largest_difference`` of a probability from PyTorch's.

    Raises:
        OSError: they cannot be written.
    """
    card = {**card_of(model), "files": dict(files)}
    write_whole(to / "model_card.json", f"{json.dumps(card, indent=2)}\n".encode())
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=False,  # noqa: S701
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"cell": cell, "agreement": agreement}
    text = environment.get_template("card.md.j2").render(card)
    write_whole(to / "model_card.md", text.encode())


def card_of(model: TrainedModel) -> dict[str, Any]:
    """The facts, without a path of the machine that it was trained on."""
    record, classifier = model.run.record, model.classifier
    settings = {
        key: value
        for key, value in flat(model.run.config).items()
        if key not in UNTOLD
        and key.split(".")[0] not in UNTOLD
        and not (key == "seed" and "privacy" in record)  # the noise follows from it
    }
    return {
        "classes": model.classes,
        "input": {
            "name": "pixels",
            "shape": ["images", "height", "width", classifier.channels],
            "type": "uint8",
            "resized_to": classifier.size,
        },
        "output": {"name": "probabilities", "shape": ["images", len(model.classes)]},
        "metrics": record["results"],
        "recall": {
            model.classes[label]: {"images": images, "recall": value}
            for label, (images, value) in model.run.recall.items()
        },
        "data": {"name": model.run.config["data"]["name"], **record["data"]},
        "privacy": record.get("privacy"),
        "settings": settings,
        "provenance": {key: record[key] for key in PROVENANCE if key in record},
    }


def cell(text: object) -> str:
    """A text that can stand in a table of Markdown."""
    return str(text).replace("|", r"\|").replace("\n", " ")


def agreement(difference: float) -> str:
    """How a file's probabilities agree with PyTorch's."""
    return f"to {difference:.0e}" if difference else "exactly"
