"""Raw column values: which are missing, and each as text or as a number.

What type of feature a column is, and how its values are encoded, is in `tacit.frames.columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.data.lazy import lazy
from tacit.data.missing import is_missing
from tacit.numerics import Array

__all__ = ["ColumnValues", "as_text"]

# Larger numbers overflow when squared.
LARGEST = 1e150


def as_text(value: Any) -> str:
    """Return a value as text: whole numbers as integers whatever their type, truth values lower.

    Examples
    --------
    >>> as_text(1.0), as_text(" red "), as_text(True), as_text(2.5)
    ('1', 'red', 'true', '2.5')
    """
    if type(value) is str:
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if whole else value)


def _number(value: Any) -> float:
    """Return a value as a number; ValueError or TypeError if it is none."""
    number = float(value)
    if not abs(number) <= LARGEST or (type(value) is str and "_" in value):
        raise ValueError
    return number


class ColumnValues:
    """The values of one column, converted on demand; each distinct one is converted once.

    Examples
    --------
    >>> column = ColumnValues(["1", "?", "2.5", "1"])
    >>> column.values, column.numbers.tolist()
    (['1', None, '2.5', '1'], [1.0, nan, 2.5, 1.0])
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    @lazy
    def _listed(self) -> list[Any]:
        for name in ("to_list", "tolist", "to_pylist"):
            if hasattr(self.raw, name):
                return list(getattr(self.raw, name)())
        return list(self.raw)

    @lazy
    def _distinct(self) -> set[Any] | None:
        """The distinct values, if there are few and all are of one type (1 equals True)."""
        listed = self._listed
        try:
            distinct = set(listed) if len(set(map(type, listed)) - {type(None)}) < 2 else None
        except TypeError:  # lists and the like
            return None
        return distinct if distinct is not None and 2 * len(distinct) <= len(listed) else None

    @lazy
    def values(self) -> list[Any]:
        """The values as Python objects, missing ones as None."""
        if self._distinct is None:
            return [None if is_missing(value) else value for value in self._listed]
        missing = {value for value in self._distinct if is_missing(value)} - {None}
        if not missing:
            return self._listed
        return [None if value in missing else value for value in self._listed]

    def mapped(self, function: Callable[[Any], Any], otherwise: Any = None) -> list[Any]:
        """Return a function of each value, and `otherwise` for missing ones."""
        if self._distinct is None:
            return [otherwise if value is None else function(value) for value in self.values]
        known = {value: function(value) for value in self._distinct if not is_missing(value)}
        return [known.get(value, otherwise) for value in self.values]

    @lazy
    def keys(self) -> list[str | None]:
        """The values as text, missing ones as None."""
        return self.mapped(as_text)

    @lazy
    def numbers(self) -> Array | None:
        """The values as numbers, missing ones as NaN; None if one of them is no number."""
        try:
            return np.array(self.mapped(_number, np.nan), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return None

    def first_non_number(self) -> int:
        """Return the first row whose value is no number."""
        rows = range(len(self))
        return next(i for i in rows if ColumnValues([self.values[i]]).numbers is None)

    def sample(self, most: int) -> ColumnValues:
        """Return an even sample of at most so many values."""
        return ColumnValues(self.values[:: -(-len(self) // most) or 1])
