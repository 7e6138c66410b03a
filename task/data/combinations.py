"""Combinations of labels: what splits and counts use where an image can have several classes.

Each combination that the data set has is one value of ``labels``, so that a split by class is one
by combination.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from task.data.sources.base import Labels

NONE = "no label"
JOINT = " + "  # between the classes of a combination


def labels_of(classes: Sequence[str], targets: NDArray[np.uint8]) -> Labels:
    """Return the labels of all images.

    Args:
        classes: the class names.
        targets: [N, D], 1 for each class that an image has.
    """
    if not len(targets):
        return Labels(np.zeros(0, dtype=np.int64), targets, [])
    inverse = np.unique(targets, axis=0, return_inverse=True)[1]
    labels = inverse.reshape(-1).astype(np.int64)
    count = labels.max() + 1
    notes = [
        f"{count} combinations of {len(classes)} labels occur; they are split like classes",
        "accuracy is the share of images whose labels are all right",
    ]
    present = targets.max(axis=0).tolist()
    if empty := [name for name, found in zip(classes, present, strict=True) if not found]:
        notes.append(f"no images with label {', '.join(empty)}")
    return Labels(labels, targets, notes)


def names_of(
    classes: Sequence[str], labels: NDArray[np.int64], targets: NDArray[np.uint8]
) -> list[str]:
    """Return the name of each combination, by its number.

    Args:
        classes: the class names.
        labels: [N], as `labels_of` returned it.
        targets: [N, D].
    """
    first = np.unique(labels, return_index=True)[1]
    return [
        JOINT.join(classes[place] for place in np.flatnonzero(row).tolist()) or NONE
        for row in targets[first]
    ]
