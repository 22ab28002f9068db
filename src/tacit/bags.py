"""Sparse rows, and the E- and M-step in one pass over them.

A row is a bag of words (or of whatever its columns are): the entries that are not zero. For
families whose log-density is linear in them, log p(x | y) = x · weights_y + constant_y, a native
kernel goes from the weights straight to posteriors and their sums, by rows and then by columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import engine
from tacit.numerics import Array

__all__ = ["Bags", "Expected", "Memory", "Weights", "bags", "expect", "single"]

# From so many products of an entry and a class on, posteriors are kept in float32: their error,
# about 1e-7, is then far below what the data can tell, and a round takes half the time.
SINGLE_FROM = 1 << 22

# A posterior in float32 that moved by no more than this stays as it was.
STILL = 1e-8

# After so many rounds of adding differences, everything is summed up anew.
RESUM = 16

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
        kernels = engine.native()
        assert kernels is not None
        table = self.table
        data = table.data if table.dtype in KERNEL_TYPES else table.data.astype(np.float64)
        index = np.result_type(table.indptr, table.indices)
        starts, indices = table.indptr.astype(index), table.indices.astype(index, copy=False)
        return kernels.Bags(starts, indices, data, self.width, self.rows, engine.threads())

    def sums(self, weights: Any) -> Array:
        """Return weights.T @ values, of shape (K, d), for weights dense or CSR of shape (n, K)."""
        if sparse.issparse(weights):
            return np.asarray(engine.tally(weights, self.values))
        if engine.native() is None:
            return np.asarray((self.values.T @ weights).T)
        n, K = weights.shape
        flat = np.zeros(n * K + SLACK)
        flat[: n * K] = np.ascontiguousarray(weights).ravel()
        out, totals = np.empty((self.width, K)), np.empty(K)
        self.packed.count(flat, out, totals, engine.threads())
        return out.T


def bags(X: Any) -> Bags:
    """Encode a CSR matrix of numbers without NaN; entries that are zero are left out."""
    if X.dtype.kind == "b":
        X = X.astype(np.float64)
    if not X.data.all():
        X = X.copy()
        X.eliminate_zeros()
    return Bags(X)


KERNEL_TYPES = [np.dtype(name) for name in ("float64", "float32", "int64", "int32")]


class Weights(NamedTuple):
    """Weights of the columns for each class, as the kernels take them.

    Attributes
    ----------
    table : ndarray of shape (d K + SLACK,)
        The weights less their mean over the classes, in float32 or float64.
    mean : ndarray of shape (d,)
        Those means.
    constants : ndarray of shape (K,)
        What is added for each class.
    density : float
        The log density of the smoothing.
    possible : bool
        Whether no weight is -inf.
    """

    table: Any
    mean: Array
    constants: Array
    density: float
    possible: bool


class Expected(NamedTuple):
    """What the E-step expects: the log-likelihood, the counts of classes, (K,), and of words.

    `words` has shape (K, d), and `totals`, of shape (K,), their sums.
    """

    log_likelihood: float
    classes: Array
    words: Array
    totals: Array


@dataclass
class Memory:
    """What the rounds of one fit leave for the next: posteriors, and the sums over them."""

    kept: Any = None
    words: Any = None
    rounds: int = 0
    columns: Any = None


def single(features: Bags, K: int) -> bool:
    """Return whether posteriors of these rows are kept in float32."""
    return bool(features.packed.entries * K >= SINGLE_FROM and features.packed.small)


def expect(
    features: Bags,
    weights: Weights,
    log_prior: Array,
    evidence: Array | None,
    weight: Array | None,
    hard: bool,
    memory: Memory | None,
    smoothed: bool,
) -> Expected:
    """Return what the E-step expects of rows under weights, in one pass and with exact zeros.

    With a `memory` of the round before, and if few rows moved, only what they changed is added to
    the sums; not so without smoothing, where a sum may have to be exactly zero.
    """
    packed, threads, K = features.packed, engine.threads(), len(log_prior)
    own = memory or Memory()
    constants = weights.constants + log_prior
    real = weights.table.dtype
    if own.columns is None:
        own.columns = _column_sums(features, weight)
    baseline = float(own.columns @ weights.mean)
    classes, totals = np.empty(K), np.empty(K)
    words = np.empty((features.width, K))
    odds_will_do = evidence is None and not hard and bool(np.isfinite(constants).all())
    if K == 2 and real == np.float32 and smoothed and odds_will_do:
        middle, odds = constants.mean(), float(constants[1] - constants[0])
        table = np.ascontiguousarray(2.0 * weights.table[1:-SLACK:2])
        kept = np.empty(len(features), np.float32)
        found = packed.expect_odds(table, odds, weight, kept, classes, threads)
        packed.count_odds(kept, own.columns, words, totals, threads)
        total = len(features) if weight is None else weight.sum()
        return Expected(found + baseline + middle * total, classes, words.T, totals)
    again = own.kept is not None and smoothed and real == np.float32
    if own.kept is None:
        own.kept = np.zeros(len(features) * K + SLACK, real)
    found, moved = packed.expect(
        weights.table,
        constants,
        evidence,
        weight,
        log_prior,
        hard,
        own.kept,
        classes,
        again,
        STILL,
        threads,
    )
    if moved is not None and own.rounds < RESUM:
        packed.shift(*moved, own.words, words, totals, threads)
        own.rounds += 1
    else:
        packed.count(own.kept, words, totals, threads)
        own.rounds = 0
    own.words = words
    return Expected(found + baseline, classes, words.T, totals)


def _column_sums(features: Bags, weight: Array | None) -> Array:
    """Return the sum of each column, rows times their weights."""
    ones = np.ones(len(features) + SLACK)
    if weight is not None:
        ones[:-SLACK] = weight
    out, total = np.empty((features.width, 1)), np.empty(1)
    features.packed.count(ones, out, total, engine.threads())
    return out[:, 0]
