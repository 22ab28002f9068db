"""The residual correction of tables: each value adds to the log-odds of the model.

It is fitted by `tacit.selection.residual`; this is its features, the one-hot values of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.frames.base import PreparedTable
from tacit.frames.columns import Column
from tacit.numerics import Array
from tacit.selection.residual import Correction

__all__ = ["TableCorrection"]


@dataclass(frozen=True)
class TableCorrection(Correction):
    """What each value of a row adds to the log-odds of the classes.

    Attributes
    ----------
    columns : tuple of Column
        The columns, numbers in bins; each has a row of `logs` for each of its values.

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"leaf": ["long", "round"] * 5, "bark": ["a", "b"] * 5}
    >>> model = TableClassifier().fit(table, ["ash", "elm"] * 5)
    >>> model.correction_.evidence(model.prepare(table))[:2].argmax(axis=1)  # ash, elm
    array([0, 1])
    """

    columns: tuple[Column, ...]

    def _indices(self, X: PreparedTable, rows: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the row of `logs` of each value, (n, d), and which values have one."""
        each = [column.to_bins(X.encoded[column.name][rows])[:, 0] for column in self.columns]
        codes, sizes = np.stack(each, axis=1), np.array([len(c.values) for c in self.columns])
        return codes + np.cumsum(sizes) - sizes, (codes >= 0) & (codes < sizes)

    def features(self, X: PreparedTable, rows: Any = slice(None)) -> sparse.csr_array:
        """Return the one-hot values of rows, each as 1 over the root of the number of columns."""
        indices, known = self._indices(X, rows)
        ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        data = np.full(ends[-1], len(self.columns) ** -0.5)
        shape = len(indices), sum(len(column.values) for column in self.columns)
        return sparse.csr_array((data, indices[known].astype(np.intp), ends), shape=shape)

    def terms(self, X: PreparedTable) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return the log-odds of one row as a constant, 0, and a named term for each value."""
        indices, known = self._indices(X, slice(1))
        values = [value for column in self.columns for value in column.values]
        factor, terms = len(self.columns) ** -0.5, []
        for j in np.flatnonzero(known[0]):
            i = int(indices[0, j])
            terms.append((self.columns[j].name, values[i], factor * self.logs[i]))
        return np.zeros(self.logs.shape[1]), terms
