"""Which settings do not fit examples with any number of labels."""

from collections.abc import Iterator

from task.config import LocalConfig
from task.errors import ConfigError

SUCH_AS = ("fedavg", "fedprox", "moon", "scaffold")
STAGES = ("none", "finetune")  # after training, which read neither classes nor a softmax


def problems(config: LocalConfig) -> Iterator[ConfigError]:
    """Yield methods, losses and stages that are defined for one class of each example."""
    members = config.local_method().members()
    for name, member in zip(config.methods(), members, strict=True):
        if not member.multilabel:
            cure = f"choose method={', '.join(SUCH_AS)} or another that fits"
            if member.cure_for_labels:
                cure = f"{member.cure_for_labels}, or {cure}"
            allowed = f"is defined for one class of each image, not for task=multilabel; {cure}"
            yield ConfigError("method", name, allowed)
    if config.train.class_weights != "none":
        allowed = "weighs an image by its class, and with task=multilabel it has none; leave it out"
        yield ConfigError("train.class_weights", config.train.class_weights, allowed)
    if config.train.label_smoothing:
        allowed = (
            "spreads a label over all classes, and with task=multilabel each label is a question "
            "of its own; leave it out"
        )
        yield ConfigError("train.label_smoothing", config.train.label_smoothing, allowed)
    if (stage := config.after["name"]) not in STAGES:
        allowed = "is defined for one class of each image, not for task=multilabel"
        yield ConfigError("after", stage, f"{allowed}; choose after={' or '.join(STAGES)}")
