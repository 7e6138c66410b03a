"""Images that are there twice: equal pixels, once they are decoded and resized."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from task.data.dataset import Duplicates
from task.data.sources.base import DatasetIndex, OnDuplicates

MOST_LISTED = 10_000


class Found(NamedTuple):
    """The images that are there twice.

    Attributes:
        first: [N] int64, the copy of each image that is kept: the first one in training, or else
            the first one in the test set; an image without copies is its own.
        leaked: [N] bool, test images that are in training as well.
        contradicting: [N] bool, images whose copies have several labels.
    """

    first: NDArray[np.int64]
    leaked: NDArray[np.bool_]
    contradicting: NDArray[np.bool_]

    @property
    def repeats(self) -> NDArray[np.bool_]:
        """Which images repeat the copy that is kept, [N]."""
        repeated: NDArray[np.bool_] = self.first != np.arange(len(self.first))
        return repeated

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """Which images `drop` leaves out, [N]: repeats, and all copies with several labels."""
        return self.repeats | self.contradicting

    def counts(self) -> dict[str, int]:
        """Return how many images there are of each kind."""
        return {
            "test_in_training": int(self.leaked.sum()),
            "two_labels": int(self.contradicting.sum()),
            "repeats": int(self.repeats.sum()),
        }


def find_duplicates(
    hashes: Sequence[bytes], dataset_index: DatasetIndex, usable: NDArray[np.bool_]
) -> Found:
    """Compare all usable images by the hashes of their pixels."""
    count, test, labels = len(hashes), dataset_index.test, dataset_index.labels
    first = np.arange(count, dtype=np.int64)
    leaked, contradicting = np.zeros((2, count), dtype=np.bool_)
    copies: dict[bytes, list[int]] = {}
    for index in np.flatnonzero(usable).tolist():
        copies.setdefault(hashes[index], []).append(index)
    for group in copies.values():
        if len(group) > 1:
            kept = min(group, key=lambda index: (test[index], index))
            first[group] = kept
            leaked[group] = test[group] & ~test[kept]
            contradicting[group] = len(set(labels[group].tolist())) > 1
    return Found(first, leaked, contradicting)


def described(
    found: Found, dataset_index: DatasetIndex, usable: NDArray[np.bool_], choice: OnDuplicates
) -> Duplicates:
    """Return the counts, the list and a note on images that are there twice.

    Args:
        found: the images.
        dataset_index: all images.
        usable: [N] bool, those that could be decoded.
        choice: what is done with them; the note ends with it.
    """
    places = np.flatnonzero(found.repeats).tolist()
    counts = found.counts()
    if not places:
        return Duplicates(**counts, note="", listed=())

    names = dataset_index.label_names

    def row(index: int) -> tuple[str, str, str, str, str]:
        sides = ("training", "test")
        other = int(found.first[index])
        return (
            dataset_index.name(index),
            names[dataset_index.labels[index]],
            sides[int(dataset_index.test[index])],
            dataset_index.name(other),
            names[dataset_index.labels[other]],
        )

    tests, images = int((usable & dataset_index.test).sum()), int(usable.sum())
    parts = [
        f"{counts['test_in_training']} of {tests} test images are in training too",
        f"{counts['two_labels']} images have copies with several labels",
        f"{counts['repeats']} of {images} images repeat another one",
    ]
    said = ", ".join(part for part in parts if not part.startswith("0 "))
    worst = np.flatnonzero(found.repeats & (found.contradicting | found.leaked)).tolist() or places
    name, label, _, other, other_label = row(worst[0])
    labels = f" (labels {label} and {other_label})" if label != other_label else ""
    what_now = {
        "note": "data.duplicates=drop leaves them out",
        "drop": f"{int(found.dropped.sum())} are left out (data.duplicates=drop)",
        "refuse": "remove the copies, or choose data.duplicates=note or data.duplicates=drop",
    }
    note = f"{said}, such as {name} and {other}{labels}; {what_now[choice]}"
    return Duplicates(**counts, note=note, listed=tuple(map(row, places[:MOST_LISTED])))
