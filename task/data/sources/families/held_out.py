"""Test sets that are drawn from a data set's images, the same for every seed of an experiment."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from task.seeding import numpy_generator

TEST_SEED = 0

Key = TypeVar("Key", bound=Hashable)


def share_of_group(share: float) -> Callable[[tuple[str, ...], int], int]:
    """Return a function for `sample_test` that gives a share of each group, rounded."""
    return lambda _, images: int(images * share + 0.5)


def sample_test(
    groups: Sequence[tuple[str, ...]], wanted: Callable[[tuple[str, ...], int], int]
) -> NDArray[np.bool_]:
    """Draw a test set image by image.

    Args:
        groups: each image's group, such as its domain and class.
        wanted: returns the number of test images of a group, given the group and its size.

    Returns:
        [N] bool, true for images of the test set.
    """
    test = np.zeros(len(groups), dtype=np.bool_)
    for group, indexes in sorted(members_of(groups).items()):
        generator = numpy_generator(TEST_SEED, "test", *group)
        test[generator.permutation(indexes)[: wanted(group, len(indexes))]] = True
    return test


def sample_test_subjects(
    groups: Sequence[tuple[str, ...]], subjects: Sequence[str], share: float
) -> NDArray[np.bool_]:
    """Draw a test set of whole subjects: all images of a subject are in it, or none.

    A subject is drawn only if each of its groups then has at most its share of test images. So a
    group can have fewer than its share, or none if each of its subjects has too many images. If no
    subject fits at all, the smallest one is drawn.

    Args:
        groups: each image's group, such as its domain and class.
        subjects: each image's subject, such as a patient or a lesion.
        share: of the images of each group.

    Returns:
        [N] bool, true for images of the test set.
    """
    test = np.zeros(len(groups), dtype=np.bool_)
    images_of = members_of(subjects)
    counts = {name: Counter(groups[image] for image in images_of[name]) for name in images_of}
    room = {group: int(images * share + 0.5) for group, images in Counter(groups).items()}
    names = sorted(images_of)
    for group, places in sorted(members_of([min(counts[name]) for name in names]).items()):
        generator = numpy_generator(TEST_SEED, "test", *group)
        for name in generator.permutation([names[place] for place in places]):
            if all(images <= room[each] for each, images in counts[name].items()):
                test[images_of[name]] = True
                for each, images in counts[name].items():
                    room[each] -= images
    if share and not test.any() and len(names) > 1:
        test[images_of[min(names, key=lambda name: (len(images_of[name]), name))]] = True
    return test


def members_of(keys: Sequence[Key]) -> dict[Key, list[int]]:
    """Return the positions of each key, in the order in which the keys first appear."""
    members: dict[Key, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    return members
