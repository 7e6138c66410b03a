"""The migration of older records to the form of this version."""

from collections.abc import Mapping
from typing import Any

from task.extensions import PLUS

ALL_IMAGES = "of all images"  # the reading with batch norm's statistics of all clients' images
NO_WORD = "made from the seed, by an older version: it protects nobody"

RESIZED = ("folder", "ham10000", "hub", "imagenet200", "office_home")  # data with data.resize
OWN = ("folder", "table")  # data with data.window
DEALT = ("pathological", "power_law")  # partitions with partition.deal
EVERY_IMAGE = 10**9
PAN = {"pan": "none", "pan_frequency": 1, "pan_amplitude": 0.05}
STATISTICS = {"statistics": "averaged", "statistics_images": 256, "fixed_after": 0.5}
PROJECTED = ("cnn", "resnet18", "resnet50", "resnet56")  # models with model.projector

SECTIONS: dict[str, dict[str, Any]] = {
    "data": {"interpolation": "bilinear", "normalisation": "own", "validation_share": 0.1},
    "optim": {
        "schedule": "constant",
        "keep_momentum": False,
        "warmup_rounds": 0,
        "backbone_scale": 1.0,
    },
    "runtime": {"graphed": False},
}
METHODS = {
    "feduv": {"sigma": "paper"},
    "fedalign": {"subblock": "paper"},
    "univarfl": {"hinge": "variance"},
}


def migrated(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a ``run.json`` as this version would have written them.

    An entry that has a wrong type stays: `RunRecord` refuses it.
    """
    found = {name: dict(part) if isinstance(part, dict) else part for name, part in entries.items()}
    if "fingerprint" in found:
        found.setdefault("code", found["fingerprint"])
    if isinstance(privacy := found.get("privacy"), dict):
        privacy.setdefault("noise", NO_WORD)
    stage = found.get("after")
    if isinstance(stage, dict) and stage.get("name") == "batch_norm":
        found.setdefault("statistics", {"readings": {ALL_IMAGES: stage.get("after")}})
    config = found.get("config")
    if isinstance(config, dict) and isinstance(method := config.get("method"), dict):
        config |= {key: dict(part) for key, part in config.items() if isinstance(part, dict)}
        if isinstance(method.get("name"), str):
            add_later_settings(config)
    return found


def add_later_settings(config: dict[str, Any]) -> None:
    """Add the settings that a run's configuration lacks, with the values that were used."""
    for section, later in SECTIONS.items():
        if isinstance(held := config.get(section), dict):
            held |= later | held
    data = config.get("data")
    if isinstance(data, dict):
        if data.get("name") in RESIZED:
            data.setdefault("resize", "squash")
        if data.get("name") in OWN:
            data.setdefault("window", None)
        if data.get("name") == "hub":
            data.setdefault("subject", None)
        if data.get("name") == "imagenet200":
            data.setdefault("subset", "own")
    config.setdefault("last_batch", "merge")
    config.setdefault("without", [])
    config.setdefault("sums", {"keep": False, "add_to": None})
    config.setdefault("tune", {"name": "all"})
    config.setdefault("stop", {"patience": None, "metric": "accuracy", "min_delta": 0.0})
    config.setdefault("update", {"format": "float32", "error_feedback": False})
    config.setdefault("task", {"name": "classes"})
    config.setdefault("train", {"class_weights": "none", "label_smoothing": 0.0})
    config.setdefault("after", {"name": "none"})
    replace_batch_norm(config)
    config.setdefault("clock", {"name": "real"})
    config.setdefault("participation", {"name": "uniform"})
    partition = config.get("partition")
    if isinstance(partition, dict) and partition.get("name") in DEALT:
        partition.setdefault("deal", "even")
    model = config.get("model")
    if isinstance(model, dict) and model.get("name") in PROJECTED:
        model.setdefault("projector", "normalised")
        model |= STATISTICS | model
    if isinstance(model, dict) and model.get("name") in (*PROJECTED, "lenet"):
        model |= PAN | model
    if isinstance(model, dict) and model.get("name") == "resnet18":
        model.setdefault("layout", "small")
    method = config["method"]
    for name in method["name"].split(PLUS):
        method |= METHODS.get(name, {}) | method


def replace_batch_norm(config: dict[str, Any]) -> None:
    """Replace the stage ``after=batch_norm``, which measured all images of each client."""
    if config["after"] == {"name": "batch_norm"} and isinstance(model := config.get("model"), dict):
        config["after"] = {"name": "none"}
        model |= {"statistics": "exact", "statistics_images": EVERY_IMAGE} | model
