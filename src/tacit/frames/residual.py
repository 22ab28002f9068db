"""The residual correction of tables: what each cell adds to the log-odds of the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.frames.base import Prepared
from tacit.frames.columns import Column
from tacit.numerics import Array
from tacit.selection.residual import Correction

__all__ = ["TableCorrection"]


@dataclass(frozen=True)
class TableCorrection(Correction):
    """What the cells of a table add.

    Attributes
    ----------
    columns : tuple of Column
        The columns, numbers cut into bins; each has a row of `logs` for each of its values.

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"leaf": ["long", "round"] * 5, "bark": ["a", "b"] * 5}
    >>> model = TableClassifier().fit(table, ["ash", "elm"] * 5)
    >>> model.correction_.evidence(model.prepare(table))[:2].argmax(axis=1)  # ash, elm
    array([0, 1])
    """

    columns: tuple[Column, ...]

    def _places(self, X: Prepared, rows: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the row of `logs` of each cell, and which cells have one."""
        each = [column.shaped(X.cells[column.name][rows])[:, 0] for column in self.columns]
        codes, sizes = np.stack(each, axis=1), np.array([len(c.values) for c in self.columns])
        return codes + np.cumsum(sizes) - sizes, (codes >= 0) & (codes < sizes)

    def seen(self, X: Prepared, rows: Any = slice(None)) -> Any:
        """Return which values the cells of a table have."""
        places, there = self._places(X, rows)
        ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        each = np.full(ends[-1], len(self.columns) ** -0.5)
        shape = len(places), sum(len(column.values) for column in self.columns)
        return sparse.csr_array((each, places[there].astype(np.intp), ends), shape=shape)

    def terms(self, X: Prepared) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return what is added before cells are seen, which is nothing, and by each cell."""
        places, there = self._places(X, slice(1))
        values = [value for column in self.columns for value in column.values]
        by, found = len(self.columns) ** -0.5, []
        for j in np.flatnonzero(there[0]):
            at = int(places[0, j])
            found.append((self.columns[j].name, values[at], by * self.logs[at]))
        return np.zeros(self.logs.shape[1]), found
