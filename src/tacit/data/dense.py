"""Dense rows: a table of numbers whose missing cells are marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.categorical import CategoricalRows
from tacit.data.lazy import Record, lazy
from tacit.numerics import SINGLE_FROM, Array, Index, Matrix

__all__ = ["CHUNK", "DenseRows", "dense_rows"]

# Rows in a chunk.
CHUNK = 1 << 14


@dataclass(frozen=True)
class DenseRows(Record):
    """A dense table of numbers, with the missing cells marked.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        Zero where a cell is missing.
    observed : boolean ndarray of shape (n, d), or None
        None when every cell is observed.
    single : bool
        Whether kernels may score rows in float32. It is a matter of all rows, not of the chunk they
        are in.
    """

    values: Array
    observed: npt.NDArray[np.bool_] | None = None
    single: bool = False

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def take(self, rows: Index) -> DenseRows:
        """Return these rows."""
        observed = None if self.observed is None else self.observed[rows]
        complete = observed is None or observed.all()
        return DenseRows(self.values[rows], None if complete else observed, self.single)

    def scaled(self, factor: float) -> DenseRows:
        """Return the cells times a factor."""
        return DenseRows(self.values * factor, self.observed, self.single)

    def sums(self, weights: Matrix) -> tuple[Array, Array]:
        """Return weights.T @ values, of shape (K, d), for weights dense or CSR of shape (n, K).

        And what it sums up to, of shape (K,).
        """
        found = np.asarray(weights.T @ self.values)
        return found, found.sum(axis=1)

    @property
    def chunk(self) -> int:
        """How many rows a chunk has."""
        return CHUNK

    @lazy
    def complete(self) -> npt.NDArray[np.bool_]:
        """Whether each row has no missing cell."""
        if self.observed is None:
            return np.ones(len(self), bool)
        return np.asarray(self.observed.all(axis=1))

    @lazy
    def bits(self) -> CategoricalRows:
        """Zeros and ones as categories: 2 j + x in column j."""
        columns = 2 * np.arange(self.values.shape[1] + 1)
        values = (columns[:-1] + (self.values > 0)).astype(np.int32)
        values = values if self.observed is None else np.where(self.observed, values, -1)
        return CategoricalRows(values, columns, self.single)

    @lazy
    def patterns(self) -> list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]]:
        """The different sets of observed cells, each with the rows that have it."""
        if self.observed is None:
            return [(np.ones(self.values.shape[1], bool), np.arange(len(self)))]
        masks, which = np.unique(self.observed, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        sizes = np.bincount(which.ravel(), minlength=len(masks))
        return list(zip(masks, np.split(order, np.cumsum(sizes)[:-1]), strict=True))


def dense_rows(X: Matrix) -> DenseRows:
    """Encode a dense numeric matrix, in which NaN is a missing cell."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    missing, single = None if kernels.scan(X).finite else np.isnan(X), X.size >= SINGLE_FROM
    if missing is None or not missing.any():
        return DenseRows(X, None, single)
    return DenseRows(np.where(missing, 0.0, X), ~missing, single)
