"""Sparse rows: a CSR matrix, all of its rows or some, packed once for the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import kernels
from tacit.data.lazy import Record, lazy
from tacit.numerics import SINGLE_FROM, Array, Index, Matrix

__all__ = ["SLACK", "SparseRows", "by_column", "canonical", "sparse_rows"]

# Kernels read whole vectors: behind a table there is room for one.
SLACK = 8

# Values beyond this would lose too much in float32.
LARGEST_SINGLE = 1 << 16


@dataclass(frozen=True)
class SparseRows(Record):
    """Rows of a CSR matrix without missing cells; all of them, or those given by their numbers.

    Attributes
    ----------
    matrix : CSR matrix
        Nothing that it stores is zero.
    rows : ndarray, optional
        The numbers of the rows; None for all.
    single : bool
        Whether scores are float32. It is a matter of all rows, not of the chunk they are in.
    """

    matrix: Matrix
    rows: npt.NDArray[np.intp] | None = None
    single: bool = False

    def __len__(self) -> int:
        return int(self.matrix.shape[0]) if self.rows is None else len(self.rows)

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.matrix.shape[1])

    def take(self, rows: Index) -> SparseRows:
        """Return these rows; nothing is copied."""
        own = np.arange(self.matrix.shape[0]) if self.rows is None else self.rows
        return SparseRows(self.matrix, own[rows], self.single)

    def scaled(self, factor: float) -> SparseRows:
        """Return the rows times a factor."""
        return SparseRows(self.matrix * factor, self.rows, self.single)

    @property
    def chunk(self) -> int:
        """How many rows a chunk has unless asked otherwise: all, as kernels share them out."""
        return max(len(self), 1)

    @lazy
    def values(self) -> Any:
        """These rows as a CSR matrix."""
        return self.matrix if self.rows is None else self.matrix[self.rows]

    @lazy
    def packed(self) -> Any:
        """These rows as the kernels take them, by rows and by columns."""
        native = kernels.native()
        assert native is not None
        matrix, rows = self.matrix, self.rows
        if rows is not None and len(rows) and (np.diff(rows) == 1).all():  # cut them out first
            matrix, rows = _cut(matrix, int(rows[0]), int(rows[-1]) + 1), None
        arrays = kernels.csr_arrays(matrix)
        return native.SparseRows(*arrays, self.width, rows, kernels.threads(matrix.nnz))

    @lazy
    def column_sums(self) -> Array:
        """The sum of each column."""
        return np.asarray(self.sums(np.ones((len(self), 1)))[0][0])

    def sums(self, weights: Matrix) -> tuple[Array, Array]:
        """Return weights.T @ values, of shape (K, d), for weights dense or CSR of shape (n, K).

        And what it sums up to, of shape (K,).
        """
        if sparse.issparse(weights):
            return kernels.tally(weights, self.values)
        if kernels.native() is None:
            words = np.asarray((self.values.T @ weights).T)
            return words, words.sum(axis=1)
        n, K = weights.shape
        flat = np.zeros(n * K + SLACK)
        flat[: n * K] = np.ascontiguousarray(weights).ravel()
        out, totals = np.empty((self.width, K)), np.empty(K)
        threads = kernels.threads(self.packed.entries * K)
        self.packed.count(flat, None, None, out, totals, threads)
        return out.T, totals


def _cut(matrix: Matrix, first: int, last: int) -> Any:
    """Return the rows [first, last) of a CSR matrix; nothing but where they begin is copied."""
    starts = matrix.indptr[first : last + 1]
    part = slice(starts[0], starts[-1])
    pieces = matrix.data[part], matrix.indices[part], starts - starts[0]
    return type(matrix)(pieces, shape=(last - first, matrix.shape[1]), copy=False)


def sparse_rows(X: Matrix) -> SparseRows:
    """Encode a CSR matrix of numbers without NaN; entries that are zero are left out."""
    X = canonical(X.astype(np.float64) if X.dtype.kind == "b" else X)
    found = kernels.scan(X.data)
    if not found.full:
        X = X.copy()
        X.eliminate_zeros()
    small = max(found.most, -found.least) <= LARGEST_SINGLE
    return SparseRows(X, single=small and len(X.data) >= SINGLE_FROM)


def canonical(X: Matrix) -> Any:
    """Return a CSR matrix with each column at most once in a row; ValueError if it is malformed."""
    if kernels.has_duplicates(X):  # which checks the indices as well
        X = X.copy()
        X.sum_duplicates()
    return X


def by_column(counts: Array) -> Array:
    """Return a table of shape (K, d) as one of shape (d, K), a line for each column."""
    if counts.T.flags.c_contiguous:
        return counts.T
    native, out = kernels.native(), np.empty(counts.shape[::-1])
    assert native is not None
    native.by_column(counts.T, out, kernels.threads(4 * counts.size))
    return out
