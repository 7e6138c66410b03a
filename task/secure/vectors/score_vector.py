"""A validation score as a vector of 64-bit integers, which can be masked and added."""

import math

import numpy as np

from task.secure.primitives.mask_stream import Vector
from task.training.evaluation import Score

LENGTH = 2
LOSS_UNIT = 2.0**-20
MAX_LOSS = 2.0**30  # of a client's images together; a larger one, or NaN, counts as this


def pack_score(score: Score) -> Vector:
    """Return the number of correct images, and the summed loss in fixed point."""
    loss = MAX_LOSS if math.isnan(score.loss) else min(score.loss, MAX_LOSS)
    return np.array([score.correct, round(loss / LOSS_UNIT)], np.int64)


def unpack_scores(vector: Vector, examples: int) -> Score:
    """Return the score that sums of packed scores stand for.

    Args:
        vector: the sum.
        examples: the number of all images together.
    """
    correct, loss = vector.tolist()
    return Score(examples, correct, loss * LOSS_UNIT)
