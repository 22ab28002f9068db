"""Rows of categories: whole numbers that say where in its column's table each cell is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.lazy import Record, lazy
from tacit.numerics import Array, Index

__all__ = ["CategoricalRows"]


@dataclass(frozen=True)
class CategoricalRows(Record):
    """Categories of n rows and d columns.

    Attributes
    ----------
    values : ndarray of int32 of shape (n, d)
        Places in a table with a line for each category of each column; -1 is missing.
    starts : ndarray of shape (d + 1,)
        Where each column's lines begin, and the number of all lines.
    single : bool
        Whether scores are float32. It is a matter of all rows, not of the chunk they are in.
    """

    values: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    single: bool

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Index) -> CategoricalRows:
        """Return these rows."""
        return CategoricalRows(self.values[rows], self.starts, self.single)

    @property
    def chunk(self) -> int:
        """How many rows a chunk has: all, as the kernels share them out themselves."""
        return max(len(self), 1)

    @lazy
    def packed(self) -> Any:
        """The rows as the kernels take them: several columns in one code."""
        native = kernels.native()
        assert native is not None
        return native.CategoricalRows(self.values, self.starts, kernels.threads(self.values.size))

    def expect(
        self, log_p: Array, rows: Any, log_prior: Array, hard: bool
    ) -> tuple[float, Array, Array]:
        """Return the log-likelihood, the counts of classes, (K,), and of codes, as `log_p`.

        `log_p` has a line for each code and a column for each class; `rows` are these rows with
        their evidence and weights.
        """
        counts, classes = np.empty(log_p.shape), np.empty(len(log_prior))
        given = log_p, log_prior, rows.evidence, rows.weight, hard
        how = self.single, kernels.threads(self.values.size * len(log_prior))
        log_likelihood = self.packed.expect(*given, counts, classes, *how)
        return float(log_likelihood), classes, counts

    def keys(self) -> npt.NDArray[np.uint8]:
        """Return a line of bytes for each row, the same for equal rows."""
        if kernels.native() is not None:
            return np.asarray(self.packed.bytes())
        return np.ascontiguousarray(self.values).view(np.uint8)
