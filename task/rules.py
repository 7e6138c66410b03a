"""Which settings of local training fit together; the server and every site check them.

A rule is a function that yields an error for each problem; the first one is raised.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from task.config import LocalConfig, Sgd
from task.errors import ConfigError
from task.registry import explained, named

Settings = TypeVar("Settings", bound=LocalConfig)

# The rules of options, each with what tells whether the option is chosen.
OPTIONS: tuple[tuple[Callable[[LocalConfig], bool], str], ...] = (
    (lambda of: of.task.multilabel, "task.training.multilabel.rules:problems"),
    (lambda of: of.secure.rounded, "task.secure.rules.masked_experiment:problems"),
    (lambda of: of.update.rounded, "task.protocol.number_formats:problems"),
    (
        lambda of: of.privacy.per_example and not of.closed_form,
        "task.privacy.separable:problems",
    ),
    (lambda of: of.privacy.per_client, "task.privacy.whole_clients:problems"),
    (
        lambda of: of.privacy.private and of.closed_form,
        "task.privacy.noisy_sums:problems",
    ),
)


@lru_cache(maxsize=8)
def read_local_config(text: str) -> LocalConfig:
    """Read the settings of local training from JSON; a process parses each text once.

    Raises:
        ConfigError: a key or value is not allowed, or settings do not fit together.
    """
    with explained():
        config = LocalConfig.model_validate_json(text)
    check_local_config(config)
    return config


def read_settings(settings: Mapping[str, Any]) -> LocalConfig:
    """Return the settings of local training that a record has.

    Raises:
        ConfigError: a key or value is not allowed, or settings do not fit together.
    """
    with explained():
        config = LocalConfig.model_validate(settings)
    check_local_config(config)
    return config


def check_local_config(config: LocalConfig) -> None:
    """Build each component, and refuse those that do not fit together.

    Raises:
        ConfigError: a setting of a component is not allowed, or two settings do not fit.
    """
    for problem in problems(config):
        raise problem


def problems(config: LocalConfig) -> Iterator[ConfigError]:
    """Yield each problem by the rules of local training and of the options that are chosen."""
    yield from of_task(config)
    yield from of_sites(config)
    yield from of_rates(config)
    config.augmenter()
    yield from of_input(config)
    yield from of_fixed_statistics(config)
    yield from of_methods(config)
    yield from of_loss(config)
    yield from of_options(OPTIONS, config)


def of_options(
    options: Iterable[tuple[Callable[[Settings], bool], str]], settings: Settings
) -> Iterator[ConfigError]:
    """The problems by the rules of the options that are chosen.

    Args:
        options: for each, what tells whether it is chosen, and the name of its rules.
        settings: the settings.
    """
    for chosen, rules in options:
        if chosen(settings):
            yield from named(rules)(settings)


def of_task(config: LocalConfig) -> Iterator[ConfigError]:
    """Several labels of each example, in a task with one class."""
    if config.source().multilabel and not config.task.multilabel:
        allowed = "has one class for each row, and data.schema has labels; add task=multilabel"
        yield ConfigError("task", config.task.name, allowed)


def of_sites(config: LocalConfig) -> Iterator[ConfigError]:
    """A data set that no site can have, or another number of clients than of sites."""
    source = config.source()
    if sites := config.partitioner().sites:
        source.at_site("a site's own directory")
        if config.num_clients != len(sites):
            allowed = f"must be {len(sites)}, the number of sites in partition.names"
            yield ConfigError("num_clients", config.num_clients, f"{allowed}; leave it out")


def of_rates(config: LocalConfig) -> Iterator[ConfigError]:
    """A warm-up that does not end before the run, or a rate of layers that do not exist."""
    warm = config.optim.warmup_rounds
    if warm >= config.rounds:
        allowed = f"must be below rounds={config.rounds}; lower it, or raise rounds"
        yield ConfigError("optim.warmup_rounds", warm, allowed)
    scale = config.optim.backbone_scale
    network = config.network()
    alone = config.tuning().head_alone and network.projector == "none"
    if scale != 1 and (alone or not network.trained_features):
        chosen = f"tune={config.tune['name']}" if alone else f"model={config.model['name']}"
        allowed = (
            f"has no effect with {chosen}, which trains no layers before the classifier; leave it "
            "out, or set optim.lr"
        )
        yield ConfigError("optim.backbone_scale", scale, allowed)


def of_input(config: LocalConfig) -> Iterator[ConfigError]:
    """A network that does not fit such data, and changes of images if there are none."""
    network, name = config.network(), config.model["name"]
    if not config.source().vectors:
        if not network.takes_images:
            yield ConfigError("model", name, "needs rows of numbers (data=vectors); add model=cnn")
        size, own = config.source().image_size, config.model.get("image_size")
        if network.takes_features and own != size:
            allowed = f"must be data.image_size={size}, the size of the images; leave it out"
            yield ConfigError("model.image_size", own, allowed)
        return
    if not network.takes_vectors:
        allowed = "needs images; add model=mlp, or model=linear model.features=1"
        yield ConfigError("model", name, allowed)
    if not network.trained_features and network.features != 1:
        allowed = "must be 1 with data=vectors, which are images of one pixel"
        yield ConfigError("model.features", network.features, allowed)
    if config.augmentation["name"] != "none":
        allowed = "changes images, and data=vectors has none; leave it out"
        yield ConfigError("augmentation", config.augmentation["name"], allowed)


def of_fixed_statistics(config: LocalConfig) -> Iterator[ConfigError]:
    """Recorded steps of a network that changes during the run."""
    if config.network().norm == "fixed" and config.runtime.graphed:
        allowed = "a recorded step has the batches' statistics, and model.norm=fixed changes them"
        yield ConfigError("runtime.graphed", True, f"{allowed}; leave it out")


def of_methods(config: LocalConfig) -> Iterator[ConfigError]:
    """A method that does not fit the network, the data or how a step is computed."""
    network, members = config.network(), config.local_method().members()
    for name, member in zip(config.methods(), members, strict=True):
        if problem := member.problem_with(network, config.model["name"], config.local_epochs):
            yield ConfigError("method", config.method["name"], problem)
        if config.tuning().adapts and member.narrows:
            allowed = (
                f"cuts the channels of layers, to which tune={config.tune['name']} adds adapters; "
                "choose another method, or tune=all|last_stage|norm"
            )
            yield ConfigError("method", config.method["name"], allowed)
        if config.runtime.compiled and member.varies_network:
            allowed = (
                f"method={name} changes the network while it trains, and every variant would "
                "be compiled again; leave it out"
            )
            yield ConfigError("runtime.compiled", True, allowed)
        if config.runtime.graphed and not member.replayable:
            allowed = f"a step of method={name} cannot be recorded and replayed; leave it out"
            yield ConfigError("runtime.graphed", True, allowed)
        if member.needs_sgd and not isinstance(config.optim, Sgd):
            allowed = (
                f"method={name} computes with local steps as sums of gradients, which those of "
                "this optimizer are not; leave it out, or choose another method"
            )
            yield ConfigError("optim", config.optim.name, allowed)
        if member.personalises and not config.source().validation_share:
            allowed = "needs validation images at the clients; add data.validation_share=0.1"
            yield ConfigError("method", config.method["name"], allowed)


def of_loss(config: LocalConfig) -> Iterator[ConfigError]:
    """A changed cross-entropy with a method whose own definition it would contradict."""
    if config.train.plain:
        return
    key, value = (
        ("train.class_weights", config.train.class_weights)
        if config.train.class_weights != "none"
        else ("train.label_smoothing", config.train.label_smoothing)
    )
    members = config.local_method().members()
    for name, member in zip(config.methods(), members, strict=True):
        if member.adjusts_logits:
            allowed = "changes the logits of the cross-entropy by the client's classes"
        elif member.uses_entropy:
            allowed = "weighs its term by the plain cross-entropy"
        else:
            continue
        cure = "leave it out, or choose another method"
        yield ConfigError(key, value, f"method={name} {allowed}; {cure}")
