"""The global weights with a classifier that is solved from all clients' features."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from server_app.config.experiment import Experiment
from server_app.rounds.closed_form.collecting import Collection
from server_app.rounds.context import RoundContext
from server_app.rounds.errors import RunFailedError
from task.errors import ConfigError
from task.machine.files import MEGABYTE
from task.protocol.after.sums import FRACTION, Form
from task.tensors import Tensors
from task.training.after.sums import unit_rows

WEIGHT, BIAS = "classifier.weight", "classifier.bias"
NOT_POSITIVE = (
    "the sums of products and the penalty have no solution: a client has sent sums that no "
    "images have, or the penalty is too small"
)


class Solved(NamedTuple):
    """A model with a new classifier.

    Attributes:
        weights: the global weights.
        images: by client whose images it knows, how many these are.
        missing: by client, why it does not know the others.
    """

    weights: Tensors
    images: dict[int, int]
    missing: dict[int, str]

    def facts(self) -> dict[str, Any]:
        """Return what the record says about it."""
        missing = {str(client): reason for client, reason in sorted(self.missing.items())}
        return {"clients": len(self.images), "missing": missing}


def solve(context: RoundContext, penalty: float | None, stage: str) -> Solved:
    """Return the global weights with a new classifier; `context.model` stays as it is.

    Args:
        context: the run, in its last round or after it.
        penalty: lambda of ridge regression; None for the means of the classes.
        stage: the setting that asks for it, such as ``method=ridge``, for messages.

    Raises:
        ConfigError: the sums are larger than a message may be.
        RunFailedError: too few clients have answered, or their sums have no solution.
    """
    products = penalty is not None
    form = form_of(context.worker.model, products=products)
    check_size(context.experiment, context.worker.model, stage, products=products)
    found = Collection(context, form)
    found.collect(stage)
    for note in absent_classes(form, found.total, context.worker.data.dataset.classes, stage):
        context.note("", note)
    privacy = context.experiment.privacy
    noisy = privacy.private and privacy.noise_multiplier > 0
    weights = with_classifier(context.model.weights, form, found.total, penalty, noisy)
    return Solved(weights, found.images, found.missing)


def with_classifier(
    before: Tensors, form: Form, total: Tensor, penalty: float | None, noisy: bool = False
) -> Tensors:
    """Return weights with the classifier that follows from sums over all images.

    Args:
        before: the weights.
        form: of the sums.
        total: the sums, [length] int64.
        penalty: lambda of ridge regression; None for the means of the classes.
        noisy: whether clients have added noise.

    Raises:
        RunFailedError: there is no solution.
    """
    matrix, by_class = form.unpacked(total)
    if penalty is None:
        weight = mean_classifier(by_class)
    else:
        weight = ridge_classifier(matrix, by_class, penalty, noisy)
    new = {WEIGHT: weight.to(before[WEIGHT].dtype)}
    if BIAS in before:
        new[BIAS] = torch.zeros_like(before[BIAS])
    return {**before, **new}


def absent_classes(form: Form, total: Tensor, classes: Sequence[str], stage: str) -> Iterator[str]:
    """Yield a note on the classes without images, if there are any.

    Args:
        form: of the sums.
        total: the sums.
        classes: the names of all classes.
        stage: the setting that asks for the classifier.
    """
    _, by_class = form.unpacked(total)
    absent = [name for name, row in zip(classes, by_class, strict=True) if not bool(row.any())]
    if absent:
        yield f"{stage}: no images of the classes {', '.join(absent)}; their weights are 0"


def ridge_classifier(
    products: Tensor, by_class: Tensor, penalty: float, noisy: bool = False
) -> Tensor:
    """Return the classifier's weight [D, d] by ridge regression, float64, with rows of length 1.

    Noise makes some eigenvalues of the sum of products negative, which no images have. These are
    set to 0, so that there is always a solution.

    Args:
        products: the sum of products of features, [d, d] int64, in units of 2^(-2 `FRACTION`).
        by_class: the sum of each class's features, [D, d] int64, in units of 2^-`FRACTION`.
        penalty: lambda, above 0.
        noisy: whether clients have added noise.

    Raises:
        RunFailedError: there is no solution.
    """
    matrix = products.double() * 2.0 ** (-2 * FRACTION)
    if noisy:
        values, vectors = torch.linalg.eigh(matrix)
        matrix = (vectors * values.clamp(min=0)) @ vectors.T
    matrix.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed):
        raise RunFailedError(NOT_POSITIVE)
    sums = by_class.double() * 2.0**-FRACTION
    return unit_rows(torch.cholesky_solve(sums.T, factor).T)


def mean_classifier(by_class: Tensor) -> Tensor:
    """Return the direction of the mean of each class's features, [D, d] float64.

    Args:
        by_class: the sum of each class's features, [D, d] int64.
    """
    return unit_rows(by_class.double())


def form_of(network: nn.Module, *, products: bool) -> Form:
    """Return the form of the sums of a network's features."""
    classes, features = network.state_dict()[WEIGHT].shape
    return Form(classes, features, products)


def check_size(experiment: Experiment, network: nn.Module, stage: str, *, products: bool) -> None:
    """Refuse sums that are larger than a message may be, before any is asked for.

    Args:
        experiment: what is run.
        network: the experiment's.
        stage: the setting that needs the sums.
        products: whether they have the products of features.

    Raises:
        ConfigError: they are.
    """
    form, most = form_of(network, products=products), experiment.federation.message_megabytes
    if form.bytes > most * MEGABYTE:
        group, _, name = stage.partition("=")
        allowed = (
            f"needs {form.bytes / MEGABYTE:,.1f} MB for a client's sums ({form.classes} classes, "
            f"{form.features} features), and federation.message_megabytes is {most:g}; raise it "
            "to at most 2000, or lower model.features"
        )
        raise ConfigError(group, name, allowed)
