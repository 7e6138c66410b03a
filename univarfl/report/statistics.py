"""The statistics of a report's tables, as text."""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

CONFIDENCE = 0.95


def mean_and_sd(values: "pd.Series[float]", form: str = ".1f") -> str:
    """Return mean ± sample standard deviation; the mean alone for one value, "" for none."""
    values = values.dropna()
    if not len(values):
        return ""
    mean = format(values.mean(), form)
    return f"{mean} ± {values.std(ddof=1):{form.lstrip('+')}}" if len(values) > 1 else mean


def difference(pairs: "pd.Series[float]", form: str) -> str:
    """Return mean and confidence interval; the mean alone for one pair or equal pairs."""
    pairs = pairs.dropna()
    if not len(pairs):
        return ""
    mean = format(pairs.mean(), form)
    return mean if all_equal(pairs) else f"{mean} ({interval(pairs, form)})"


def all_equal(values: "pd.Series[float]") -> bool:
    """Return whether values are equal up to rounding; one value or none is."""
    return len(values) < 2 or np.allclose(values, values.iloc[0], rtol=1e-9, atol=0, equal_nan=True)


def interval(differences: "pd.Series[float]", form: str = "+.1f") -> str:
    """Return Student's confidence interval of the mean of two values or more."""
    low, high = limits(differences)
    return f"{low:{form}} to {high:{form}}"


def limits(differences: "pd.Series[float]") -> tuple[float, float]:
    """Return the ends of `interval`."""
    count, mean = len(differences), differences.mean()
    half = stdtrit(count - 1, (1 + CONFIDENCE) / 2) * differences.std(ddof=1) / np.sqrt(count)
    return float(mean - half), float(mean + half)


def span(counts: "pd.Series[int]") -> str:
    """Return a count, or the range of several that differ."""
    least, most = counts.min(), counts.max()
    return str(least) if least == most else f"{least} to {most}"
