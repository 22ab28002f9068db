"""Sparse rows: bags of words, or of whatever their columns are; what is zero is not stored.

What the rounds of EM do with them is in `tacit.data.rounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import kernels
from tacit.numerics import Array

__all__ = ["SLACK", "Bags", "bags", "by_column"]

# Kernels read whole vectors: behind a table there is room for one.
SLACK = 8


@dataclass(frozen=True)
class Bags:
    """Rows of a CSR matrix without missing cells; all of them, or those given by their numbers."""

    table: Any
    rows: npt.NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return int(self.table.shape[0]) if self.rows is None else len(self.rows)

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.table.shape[1])

    def take(self, rows: Any) -> Bags:
        """Return these rows; nothing is copied."""
        own = np.arange(self.table.shape[0]) if self.rows is None else self.rows
        return Bags(self.table, own[rows])

    def scaled(self, factor: float) -> Bags:
        """Return the rows times a factor."""
        return Bags(self.table * factor, self.rows)

    @property
    def chunk(self) -> int:
        """How many rows a chunk has: all, as the kernels share them out themselves."""
        return max(len(self), 1)

    @cached_property
    def values(self) -> Any:
        """These rows as a CSR matrix."""
        return self.table if self.rows is None else self.table[self.rows]

    @cached_property
    def packed(self) -> Any:
        """These rows as the kernels take them."""
        native = kernels.native()
        assert native is not None
        table, rows = self.table, self.rows
        if rows is not None and len(rows) and (np.diff(rows) == 1).all():  # cut them out first
            table, rows = _cut(table, int(rows[0]), int(rows[-1]) + 1), None
        arrays = kernels.csr_arrays(table)
        return native.Bags(*arrays, self.width, rows, kernels.threads(table.nnz))

    def sums(self, weights: Any) -> tuple[Array, Array]:
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
        self.packed.count(flat, out, totals, None, kernels.threads(self.packed.entries * K))
        return out.T, totals


def _cut(table: Any, first: int, last: int) -> Any:
    """Return the rows [first, last) of a CSR matrix; nothing but where they begin is copied."""
    starts = table.indptr[first : last + 1]
    part = slice(starts[0], starts[-1])
    pieces = table.data[part], table.indices[part], starts - starts[0]
    return type(table)(pieces, shape=(last - first, table.shape[1]), copy=False)


def bags(X: Any) -> Bags:
    """Encode a CSR matrix of numbers without NaN; entries that are zero are left out."""
    if X.dtype.kind == "b":
        X = X.astype(np.float64)
    if not kernels.scan(X.data).full:
        X = X.copy()
        X.eliminate_zeros()
    return Bags(X)


def by_column(counts: Array) -> Array:
    """Return a table of shape (K, d) with a line for each column, as the kernels keep it."""
    if counts.T.flags.c_contiguous:
        return counts.T
    native, out = kernels.native(), np.empty(counts.shape[::-1])
    assert native is not None
    native.by_column(counts.T, out, kernels.threads(4 * counts.size))
    return out
