"""The weights of a file (``model.weights``) for a network.

A file must have every layer of the network in the same shape. There are three exceptions, and the
run names what it leaves out:

* the classifier, if it is missing or has another shape, as with another number of classes, keeps
  its initial weights as a whole;
* a file with a backbone's names, as its library writes it, gives the backbone alone;
* layers that the network does not have, or that stay with the clients, are ignored.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from task.errors import ConfigError, system_reason
from task.given_weights import EXPECTED, KEY, GivenWeights, cached
from task.optim.parameters import CLASSIFIER
from task.tensors import is_finite

ENCODER = "encoder."  # before the names of a backbone's layers
COUNTER = ".num_batches_tracked"  # of batch norm
MOST_NAMED = 4


class StartingWeights(NamedTuple):
    """The weights of a network, and a line for what was left out of a given file."""

    weights: dict[str, Tensor]
    notes: list[str]


def start_from_cache(model: nn.Module, sha256: str) -> None:
    """Load the weights of the file in the cache that has a hash into a new model.

    Raises:
        ConfigError: there is no such file, or it has other layers.
    """
    given = GivenWeights(cached(sha256), sha256)
    try:
        with given.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        allowed = (
            f"{system_reason(error)}: what is frozen is not sent, so put the coordinator's file of "
            "weights there, under this name"
        )
        raise ConfigError(KEY, given.path, allowed) from None
    if found != sha256:
        raise ConfigError(KEY, given.path, "the file has changed; delete it")
    model.load_state_dict(read_weights(given, model.state_dict()).weights)


def read_weights(given: GivenWeights, initial: Mapping[str, Tensor]) -> StartingWeights:
    """Return the weights of a file for each layer of a network.

    Args:
        given: the file.
        initial: the network's initial weights, drawn from the seed.

    Raises:
        ConfigError: it cannot be read, or has other layers than the network.
    """
    try:
        with safe_open(given.path, "pt") as file:
            return matched(given, file, initial)
    except SafetensorError as error:
        reason = f"is not a file of weights ({error}); {EXPECTED}"
    except OSError as error:
        reason = f"cannot be read: {system_reason(error)}"
    raise ConfigError(KEY, given.path, reason)


def matched(given: GivenWeights, file: Any, initial: Mapping[str, Tensor]) -> StartingWeights:
    """Return the file's weights for each layer of the network.

    Args:
        given: where the file is, for messages.
        file: the open safetensors file; a tensor is read only if its shape fits.
        initial: the network's initial weights.

    Raises:
        ConfigError: layers are missing, have another shape or type, or are not finite.
    """
    names = list(file.keys())
    prefix = ENCODER if is_of_backbone(names, initial) else ""
    shapes = {prefix + name: list(file.get_slice(name).get_shape()) for name in names}
    left_out = {name for name in initial if is_added(name)} if prefix else set()
    wrong = [
        name
        for name, value in initial.items()
        if name not in left_out and shapes.get(name) != list(value.shape)
    ]
    notes = [f"{KEY}: the layers after the backbone keep their initial weights"] if prefix else []
    if others := [name for name in shapes if name not in initial]:
        reason = "the global model has no such layer, or it stays with the clients"
        notes.append(f"{KEY}: ignored, since {reason}: {some(others)}")
    if wrong and all(name.startswith(CLASSIFIER) for name in wrong):
        left_out = {name for name in initial if name.startswith(CLASSIFIER)}
        differing = "; ".join(difference(name, shapes, initial) for name in wrong)
        notes.append(f"{KEY}: the classifier keeps its initial weights: {differing}")
    elif wrong:
        first = difference(next(n for n in wrong if not n.startswith(CLASSIFIER)), shapes, initial)
        raise ConfigError(
            KEY, given.path,
            f"has other layers than this network in {some(wrong)} ({first}); choose the "
            "settings (model=..., model.features, model.norm, data.image_size) it was made with",
        )  # fmt: skip
    weights = {
        name: value.clone()
        if name in left_out
        else read(given, file, name.removeprefix(prefix), value)
        for name, value in initial.items()
    }
    return StartingWeights(weights, notes)


def is_of_backbone(names: Collection[str], initial: Mapping[str, Tensor]) -> bool:
    """Return whether layers have the names that a library gave to the network's backbone."""
    ours = any(name.startswith(ENCODER) for name in names)
    return not ours and any(ENCODER + name in initial for name in names)


def is_added(name: str) -> bool:
    """Return whether a layer is none of a backbone's, or counts batches, which some files omit."""
    return not name.startswith(ENCODER) or name.endswith(COUNTER)


def read(given: GivenWeights, file: Any, name: str, initial: Tensor) -> Tensor:
    """Return one tensor of the file in the network's type.

    Raises:
        ConfigError: it is not of a floating type, or is, unlike the network's; or is not finite.
    """
    value: Tensor = file.get_tensor(name)
    if value.is_floating_point() != initial.is_floating_point():
        raise ConfigError(KEY, given.path, f"{name} is {value.dtype}, not {initial.dtype}")
    value = value.to(initial.dtype).contiguous()
    if not is_finite(value):
        raise ConfigError(KEY, given.path, f"{name} is infinite or NaN; use another file")
    return value


def difference(name: str, shapes: Mapping[str, list[int]], initial: Mapping[str, Tensor]) -> str:
    """Return how a layer of the file differs from the network's."""
    found = shapes.get(name, "missing")
    return f"{name} is {found} in the file and {list(initial[name].shape)} here"


def some(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    every = list(names)
    rest = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + rest
