"""Average ranks of methods over blocks, and the difference that is significant."""

import math

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range

from univarfl.report.statistics import CONFIDENCE

NONE = "No two methods differ significantly."


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


def significant(ranks: "pd.Series[float]", least: float) -> str:
    """Return a sentence with the methods that are significantly ahead of others.

    Args:
        ranks: average ranks by method.
        least: the smallest significant difference.
    """
    ordered = ranks.sort_values(kind="stable")
    found = []
    for method, rank in ordered.items():
        if behind := [str(other) for other, theirs in ordered.items() if theirs - rank >= least]:
            found.append(f"{method} is significantly ahead of {', '.join(behind)}.")
    return " ".join([*found, "No other two methods differ significantly." if found else NONE])
