"""Markdown tables."""

from collections.abc import Sequence
from typing import Any

import pandas as pd


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table; empty if there are none."""
    if not rows:
        return ""
    return str(pd.DataFrame(rows).fillna("").to_markdown(index=False, disable_numparse=True))
