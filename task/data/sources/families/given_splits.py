"""The names of splits that a user gives, and which images they put into the test set."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TRAIN, TEST = ("train", "training"), ("test", "testing")
VALIDATION = ("val", "valid", "validation")
SPLITS = (*TRAIN, *VALIDATION, *TEST)


def split_test(splits: Sequence[str]) -> NDArray[np.bool_]:
    """Return which images are in the split for testing: ``test``, or else ``val``."""
    held_out = TEST if set(splits) & set(TEST) else VALIDATION
    return np.array([split in held_out for split in splits], dtype=np.bool_)


def split_notes(splits: Sequence[str]) -> list[str]:
    """Return a note if a validation split is used for training."""
    used = sum(split in VALIDATION for split in splits)
    if not used or not set(splits) & set(TEST):
        return []
    reason = "each client holds out images of its own for validation (data.validation_share)"
    return [f"{used} images of the validation split are used for training; {reason}"]


def unlisted_note(classes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return a note on the given classes that no image has."""
    empty = sorted(set(classes) - set(names))
    return [f"no images of class {', '.join(empty)}"] if empty else []
