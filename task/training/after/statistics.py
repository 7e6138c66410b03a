"""Count, mean and covariance of each class's features on a set of images."""

import torch
from torch import Tensor, nn

from task.data.batches import DeviceImages
from task.protocol.after.statistics import CLASSES, COUNTS, COVARIANCES, MEANS
from task.training.evaluation import outputs


def feature_statistics(
    model: nn.Module, images: DeviceImages, positions: Tensor, least: int
) -> dict[str, Tensor]:
    """Return the statistics of the classifier's inputs for each class that has images.

    Args:
        model: the model; put into eval mode.
        images: the data set.
        positions: indices of images, [n] int64, at least one.
        least: classes with fewer images are left out.

    Returns:
        The tensors that `task.protocol.after.statistics.check_statistics` describes.
    """
    # They stay on the device until the last batch, because the CPU waits for each copy from a GPU.
    features, labels = [], []
    for out, y in outputs(model, images, positions):
        features.append(out.features.float())
        labels.append(y)
    every, classes = torch.cat(features).cpu(), torch.cat(labels).cpu()
    enough = classes.bincount()[classes] >= least
    return statistics_of(every[enough], classes[enough])


def statistics_of(features: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Return the statistics of features [n, d] with labels [n], computed in float64.

    The covariance is unbiased, so that it can be pooled exactly; that of one image is 0.
    """
    classes, counts = labels.unique(return_counts=True)
    means, covariances = [], []
    for label, count in zip(classes.tolist(), counts.tolist(), strict=True):
        own = features[labels == label].double()
        mean = own.mean(dim=0)
        centred = own - mean
        means.append(mean)
        covariances.append(centred.T @ centred / max(1, count - 1))
    return {
        CLASSES: classes,
        COUNTS: counts,
        MEANS: torch.stack(means) if means else torch.empty(0),
        COVARIANCES: torch.stack(covariances) if covariances else torch.empty(0),
    }
