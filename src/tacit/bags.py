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
from tacit.numerics import Array, expected_log

__all__ = ["Bags", "Expected", "Memory", "Weights", "bags", "expect"]

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
        arrays = engine.arrays(self.table)
        return kernels.Bags(*arrays, self.width, self.rows, engine.threads(self.table.nnz))

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
        self.packed.count(flat, out, totals, None, engine.threads(self.packed.entries * K))
        return out.T


def bags(X: Any) -> Bags:
    """Encode a CSR matrix of numbers without NaN; entries that are zero are left out."""
    if X.dtype.kind == "b":
        X = X.astype(np.float64)
    if not engine.scan(X.data).full:
        X = X.copy()
        X.eliminate_zeros()
    return Bags(X)


class Weights(NamedTuple):
    """Weights of the columns for each class, as the kernels take them.

    Attributes
    ----------
    table : ndarray of shape (d (2 K + 1) + SLACK,)
        The weights less their mean over the classes, in float32 or float64; after all of them what
        rounding took off each; and whether that matters for the column.
    mean : ndarray of shape (d,)
        Those means.
    constants : ndarray of shape (K,)
        What is added for each class.
    """

    table: Any
    mean: Array
    constants: Array


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
    """What the rounds of one fit leave for the next.

    Attributes
    ----------
    table : ndarray, optional
        Room for the weights.
    kept : ndarray, optional
        The posteriors of the last round, row by row.
    words : ndarray of shape (d, K), optional
        The sums over them.
    rounds : int
        How many rounds ago all of them were summed up.
    columns : ndarray of shape (d,), optional
        The sum of each column.
    """

    table: Any = None
    kept: Any = None
    words: Any = None
    rounds: int = 0
    columns: Any = None

    def table_for(self, features: Bags, K: int) -> Any:
        """Return room for the weights of K classes, in float32 where that will do."""
        if self.table is None:
            packed = features.packed
            single = packed.entries * K >= SINGLE_FROM and packed.small
            real = np.float32 if single else np.float64
            self.table = np.zeros(features.width * (2 * K + 1) + SLACK, real)
        return self.table


def expect(
    features: Bags,
    weights: Weights,
    log_prior: Array,
    evidence: Array | None,
    weight: Array | None,
    hard: bool,
    own: Memory,
    smoothed: bool,
) -> Expected:
    """Return what the E-step expects of rows under weights, in one pass and with exact zeros.

    With the memory `own` of the round before, and if few rows moved, only what they changed is
    added to the sums; not so without smoothing, where a sum may have to be exactly zero.
    """
    packed, K = features.packed, len(log_prior)
    threads = engine.threads(packed.entries * K)
    if own.columns is None:
        own.columns = _column_sums(features, weight)
    constants = weights.constants + log_prior
    middle = float(constants[np.isfinite(constants)].mean())
    constants -= middle
    single, finite = weights.table.dtype == np.float32, bool(np.isfinite(constants).all())
    classes, totals = np.empty(K), np.empty(K)
    words = np.empty((features.width, K))
    if K == 2 and single and smoothed and evidence is None and not hard and finite:
        odds, table = float(constants[1] - constants[0]), weights.table
        kept = np.empty(len(features), np.float32)
        log_odds = np.ascontiguousarray(2.0 * table[1 : 2 * features.width : 2])
        entropy = packed.expect_odds(log_odds, odds, weight, kept, classes, threads)
        score = packed.count_odds(kept, own.columns, words, totals, table, threads)
    else:
        again = own.kept is not None and single and smoothed
        if own.kept is None:
            own.kept = np.zeros(len(features) * K + SLACK, weights.table.dtype)
        known = evidence, weight, log_prior, hard
        state = own.kept, classes, again, STILL
        entropy, moved = packed.expect(weights.table, constants, *known, *state, threads)
        if moved is not None and own.rounds < RESUM:
            before = *moved, own.words
            score = packed.shift(*before, words, totals, weights.table, threads)
            own.rounds += 1
        else:
            score = packed.count(own.kept, words, totals, weights.table, threads)
            own.rounds = 0
        own.words = words
    if evidence is not None:
        posteriors = own.kept[:-SLACK].astype(np.float64).reshape(evidence.shape)
        score += expected_log(posteriors, evidence)
    rows = len(features) if weight is None else float(weight.sum())
    score += float(own.columns @ weights.mean) + middle * rows + expected_log(classes, constants)
    return Expected(entropy + score, classes, words.T, totals)


def _column_sums(features: Bags, weight: Array | None) -> Array:
    """Return the sum of each column, rows times their weights."""
    ones = np.ones(len(features) + SLACK)
    if weight is not None:
        ones[:-SLACK] = weight
    out, total = np.empty((features.width, 1)), np.empty(1)
    features.packed.count(ones, out, total, None, engine.threads(features.packed.entries))
    return out[:, 0]
