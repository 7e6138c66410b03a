"""Which experiments DP-SGD can train: those where each image has a gradient of its own."""

from collections.abc import Iterator

from task import registry
from task.config import LocalConfig
from task.errors import ConfigError


def problems(config: LocalConfig) -> Iterator[ConfigError]:
    """Yield what makes the images of a batch depend on each other."""
    members = config.local_method().members()
    for name, member in zip(config.methods(), members, strict=True):
        if not member.separable:
            fitting = [
                known
                for known in registry.names("method")
                if registry.component_class("method", known).separable
            ]
            keeps = config.models_kept or any(each.server_update for each in members)
            whole = "" if keeps else ", or protect whole clients with privacy=client secure=masked"
            allowed = (
                "does not work with privacy.unit=example: an image's loss depends on other images, "
                "in its batch or through the client's class counts; choose method="
                f"{', '.join(fitting)}{whole}"
            )
            yield ConfigError("method", name, allowed)
    if config.train.class_weights != "none":
        allowed = (
            "an image's weight depends on the classes of all images, which privacy.unit=example "
            "cannot hide; leave it out"
        )
        yield ConfigError("train.class_weights", config.train.class_weights, allowed)
    if config.last_batch != "merge":
        allowed = "batches are drawn at random with privacy.unit=example; leave it out"
        yield ConfigError("last_batch", config.last_batch, allowed)
    tuning = config.tuning()
    if config.network().keeps_statistics and (config.keeps_statistics or tuning.trains_norm):
        allowed = (
            "batch norm mixes the images of a batch, and its statistics reveal them; with "
            "privacy.unit=example add model.norm=group, or leave batch norm frozen: "
            "tune=lora model.projector=none"
        )
        yield ConfigError("model.norm", config.network().norm, allowed)
    if config.runtime.compiled:
        allowed = "the gradients of single images are computed uncompiled; add runtime=eager"
        yield ConfigError("runtime.compiled", True, allowed)
    if config.runtime.graphed:
        allowed = "the gradients of single images are not recorded; add runtime=eager"
        yield ConfigError("runtime.graphed", True, allowed)
    if config.runtime.precision != "float32":
        allowed = "the gradients of single images are clipped in float32; choose float32"
        yield ConfigError("runtime.precision", config.runtime.precision, allowed)
