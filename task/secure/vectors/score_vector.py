"""A validation score as a vector of 64-bit integers, which can be masked and added."""

import math

import numpy as np

from task.secure.primitives.mask_stream import Vector
from task.secure.vectors.rounding import rounded_at_random
from task.training.evaluation import Score

LENGTH = 2
LOSS_UNIT = 2.0**-16
MAX_LOSS = 2.0**30  # of a client's images together; a larger one, or NaN, counts as this


def pack_score(score: Score, key: bytes) -> Vector:
    """Return the number of correct images, and the summed loss in fixed point.

    Args:
        score: a client's.
        key: 32 bytes that the rounding of the loss is drawn from.
    """
    loss = MAX_LOSS if math.isnan(score.loss) else min(score.loss, MAX_LOSS)
    (rounded,) = rounded_at_random(np.array([loss]), 1.0, LOSS_UNIT, key)
    return np.array([score.correct, rounded], np.int64)


def unpack_scores(vector: Vector, examples: int) -> Score:
    """Return the score that sums of packed scores stand for.

    Args:
        vector: the sum.
        examples: the number of all images together.
    """
    correct, loss = vector.tolist()
    return Score(examples, correct, loss * LOSS_UNIT)
