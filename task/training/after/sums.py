"""Exact sums of the features of a set of images; see `task.protocol.after.sums`."""

import torch
from torch import Tensor, nn

from task.data.batches import BATCH, DeviceImages, filled
from task.errors import diverged
from task.protocol.after.sums import FRACTION, Form
from task.tensors import is_finite


@torch.inference_mode()
def feature_sums(
    model: nn.Module,
    images: DeviceImages,
    positions: Tensor,
    form: Form,
    private: bool = False,
) -> Tensor:
    """Return the sums over the images at some positions, [length] int64, on the CPU.

    Products are computed in float64. They are integers, and those of a batch add up to less than
    2^53. So every sum is exact, whatever the order in which a library adds.

    Args:
        model: the model; put into eval mode.
        images: the data set.
        positions: indices of images, [n] int64.
        form: what the sums hold.
        private: whether noise is to hide single images: then none of them may stop the sums.

    Raises:
        TrainingError: a feature is not finite.
    """
    model.eval()
    width = form.features if form.products else 0
    products = torch.zeros(width, width, dtype=torch.int64, device=images.device)
    by_class = torch.zeros(form.classes, form.features, dtype=torch.int64, device=images.device)
    for batch in positions.split(BATCH) if len(positions) else ():
        rounded, labels = rounded_features(model, images, batch, private)
        one_hot = torch.nn.functional.one_hot(labels, form.classes).double()
        by_class += (one_hot.T @ rounded).long()
        if form.products:
            products += (rounded.T @ rounded).long()
    return form.packed(products.cpu(), by_class.cpu())


def rounded_features(
    model: nn.Module, images: DeviceImages, positions: Tensor, private: bool = False
) -> tuple[Tensor, Tensor]:
    """Return features in units of 2^-`FRACTION`, [n, d] whole float64 numbers, and labels [n].

    Each row has the length 1 before it is rounded. Features of 0 stay 0.

    Args:
        model: in eval mode.
        images: the data set.
        positions: 1 to `BATCH` of them.
        private: whether features that are not finite count as 0.

    Raises:
        TrainingError: a feature is not finite.
    """
    count = len(positions)
    x, labels = images[filled(positions)]
    features = model(x).features[:count].double()
    if private:
        finite = features.isfinite().all(dim=1, keepdim=True)
        features = torch.where(finite, features, 0.0)
    if not is_finite(features):
        raise diverged("a feature is infinite or NaN")
    return (unit_rows(features) * 2**FRACTION).round(), labels[:count]


def unit_rows(rows: Tensor) -> Tensor:
    """Return rows of length 1; those of 0 stay 0."""
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(lengths > 0, lengths, 1.0)
