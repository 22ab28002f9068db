"""Cells of a column as people have them: which are missing, what each is as text or as a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.data.lazy import lazy
from tacit.data.missing import is_missing
from tacit.numerics import Array

__all__ = ["Cells", "key"]

# Beyond this, squares overflow.
LARGEST = 1e150


def key(cell: Any) -> str:
    """Return a cell as text: whole numbers alike whatever their type, truth values small.

    Examples
    --------
    >>> key(1.0), key(" red "), key(True), key(2.5)
    ('1', 'red', 'true', '2.5')
    """
    if type(cell) is str:
        return cell.strip()
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").strip()
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell) if whole else cell)


def _number(cell: Any) -> float:
    """Return a cell as a number; ValueError or TypeError if it is none."""
    number = float(cell)
    if not abs(number) <= LARGEST or (type(cell) is str and "_" in cell):
        raise ValueError
    return number


class Cells:
    """The cells of one column; each different one is looked at once.

    Examples
    --------
    >>> cells = Cells(["1", "?", "2.5", "1"])
    >>> cells.values, cells.numbers.tolist()
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
    def _different(self) -> set[Any] | None:
        """The different cells, if there are few and equal ones are of one type (1 is True)."""
        listed = self._listed
        try:
            found = set(listed) if len(set(map(type, listed)) - {type(None)}) < 2 else None
        except TypeError:  # lists and the like
            return None
        return found if found is not None and 2 * len(found) <= len(listed) else None

    @lazy
    def values(self) -> list[Any]:
        """The cells as Python objects, missing ones as None."""
        if self._different is None:
            return [None if is_missing(cell) else cell for cell in self._listed]
        missing = {cell for cell in self._different if is_missing(cell)} - {None}
        if not missing:
            return self._listed
        return [None if cell in missing else cell for cell in self._listed]

    def mapped(self, function: Callable[[Any], Any], otherwise: Any = None) -> list[Any]:
        """Return what a function makes of the cells, and `otherwise` where they are missing."""
        if self._different is None:
            return [otherwise if cell is None else function(cell) for cell in self.values]
        known = {cell: function(cell) for cell in self._different if not is_missing(cell)}
        return [known.get(cell, otherwise) for cell in self.values]

    @lazy
    def keys(self) -> list[str | None]:
        """The cells as text."""
        return self.mapped(key)

    @lazy
    def numbers(self) -> Array | None:
        """The cells as numbers, or None if one of them is none."""
        try:
            return np.array(self.mapped(_number, np.nan), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return None

    def no_number(self) -> int:
        """Return the first row that holds no number."""
        rows = range(len(self))
        return next(i for i in rows if Cells([self.values[i]]).numbers is None)

    def sample(self, most: int) -> Cells:
        """Return at most so many of the cells, spread evenly."""
        return Cells(self.values[:: -(-len(self) // most) or 1])
