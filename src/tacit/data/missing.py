"""Which values are missing: None, NaN, NaT, NA, and texts that say so."""

from __future__ import annotations

from typing import Any

__all__ = ["is_missing", "is_na"]

# Texts that say that nothing is known.
MISSING = frozenset({"", "NA", "na", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?"})


def is_na(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA.

    Examples
    --------
    >>> import numpy as np
    >>> [is_na(value) for value in (None, float("nan"), np.datetime64("NaT"), "nan", 0, [1])]
    [True, True, True, False, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # arrays
        return False


def is_missing(cell: Any) -> bool:
    """Return whether a cell is missing: None, NaN, NA, or a text that says so.

    Examples
    --------
    >>> [is_missing(cell) for cell in (None, float("nan"), " ", "?", "n/a", 0, "none")]
    [True, True, True, True, True, False, False]
    """
    if type(cell) is str:
        return len(cell) < 5 and (cell in MISSING or cell.strip() in MISSING)
    return is_na(cell)
