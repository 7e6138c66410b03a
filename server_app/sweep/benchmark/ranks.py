"""Average ranks of methods over blocks, and the difference that is significant."""

import math

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range

from server_app.report.statistics import CONFIDENCE


def average_ranks(scores: pd.DataFrame) -> "pd.Series[float]":
    """Return the average rank of each column; 1 is best, and equal scores share their ranks.

    Args:
        scores: one row per block, one column per method; no value is missing.

    Returns:
        The ranks by method; empty without a block.
    """
    if not len(scores):
        return pd.Series(dtype=float)
    ranks = rankdata(-scores.to_numpy(), axis=1)
    return pd.Series(ranks.mean(axis=0), index=scores.columns)


def critical_difference(methods: int, blocks: int) -> float:
    """Return the smallest significant difference of two average ranks (Nemenyi's test).

    Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006, section
    3.2.2: ``q * sqrt(k (k + 1) / (6 N))``, with q from the studentized range over sqrt(2). The test
    takes blocks as independent.

    Args:
        methods: k, at least 2.
        blocks: N, at least 1.
    """
    q = float(studentized_range.ppf(CONFIDENCE, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))
