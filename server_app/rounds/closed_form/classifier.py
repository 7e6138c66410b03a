"""The global weights with a classifier that is solved from all clients' features."""

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
        clients: the clients whose images it knows, ascending.
        missing: by client, why it does not know the others.
    """

    weights: Tensors
    clients: list[int]
    missing: dict[int, str]

    def facts(self) -> dict[str, Any]:
        """Return what the record says about it."""
        missing = {str(client): reason for client, reason in sorted(self.missing.items())}
        return {"clients": len(self.clients), "missing": missing}


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
    matrix, by_class = form.unpacked(found.total)
    if penalty is None:
        weight = mean_classifier(by_class)
    else:
        weight = ridge_classifier(matrix, by_class, penalty)
    classes = context.worker.data.dataset.classes
    absent = [name for name, row in zip(classes, by_class, strict=True) if not bool(row.any())]
    if absent:
        text = f"{stage}: no images of the classes {', '.join(absent)}; their weights are 0"
        context.note("", text)
    before = context.model.weights
    new = {WEIGHT: weight.to(before[WEIGHT].dtype)}
    if BIAS in before:
        new[BIAS] = torch.zeros_like(before[BIAS])
    return Solved({**before, **new}, found.clients, found.missing)


def ridge_classifier(products: Tensor, by_class: Tensor, penalty: float) -> Tensor:
    """Return the classifier's weight [D, d] by ridge regression, float64, with rows of length 1.

    Args:
        products: the sum of products of features, [d, d] int64, in units of 2^(-2 `FRACTION`).
        by_class: the sum of each class's features, [D, d] int64, in units of 2^-`FRACTION`.
        penalty: lambda, above 0.

    Raises:
        RunFailedError: there is no solution.
    """
    matrix = products.double() * 2.0 ** (-2 * FRACTION)
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
