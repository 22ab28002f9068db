"""Bernoulli features: each is there or not, and absence counts too (S1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.preprocessing import binarize

from tacit import kernels
from tacit.data.dense import DenseRows, dense_rows
from tacit.data.lazy import lazy
from tacit.data.rows import Rows
from tacit.data.sparse import SparseRows, by_column, canonical, sparse_rows
from tacit.em import Sums
from tacit.families.base import Expected, check_array, check_is, check_sums_to_one
from tacit.families.linear import Linear, Logs, Ratios, Smoothing
from tacit.io.records import plain
from tacit.numerics import (
    SINGLE_FROM,
    Array,
    Matrix,
    column_sums,
    dot,
    expected_log,
    log,
    ratio,
    times,
)

__all__ = ["RECORDS", "Bernoulli"]

# Rows of more columns than this are hardly ever equal.
MOST_BITS = 64


def _rest(ones: Array, seen: Array) -> Array:
    """Return seen - ones; what is left by the rounding of the two sums is none."""
    zeros = seen - ones
    zeros[zeros < 1e-13 * seen] = 0.0
    return zeros


@dataclass(frozen=True)
class Params(Ratios):
    """p(x_j = 1 | y) and p(x_j = 0 | y): the counts of ones and zeros, smoothed by alpha.

    Attributes
    ----------
    seen : ndarray of shape (K, d) or (K, 1)
        How many cells were seen; (K, 1) where that is the same for all columns.
    given_zeros : ndarray of shape (K, d), optional
        The zeros among them, if they were counted and are not just the rest.
    """

    seen: Array
    given_zeros: Array | None = None

    @lazy
    def logs(self) -> Logs:
        """The smoothed ratios of counts, C (3), H, W (14); 1/2 where nothing was seen."""
        native, (K, d) = kernels.native(), self.counts.shape
        given = self.given_zeros
        if given is None and self.seen.shape[1] > 1:
            given = _rest(self.counts, self.seen)
        if native is None:
            zeros = _rest(self.counts, self.seen) if given is None else given
            totals = self.counts + zeros + 2.0 * self.alpha
            p = ratio(self.counts + self.alpha, totals, 0.5)
            return Logs(log(p), log(ratio(zeros + self.alpha, totals, 0.5)))
        tables = np.empty((d, K)), np.empty((d, K))
        pieces = self.counts.T, None if given is None else by_column(given)
        seen, alpha = np.ascontiguousarray(self.seen[:, 0]), np.atleast_1d(self.alpha)
        threads = kernels.threads(32 * K * d)
        found = native.log_odds(*pieces, seen, alpha, *tables, threads)
        return Logs(tables[0].T, tables[1].T, *found)

    @property
    def log_not(self) -> Array:
        """Log p(x_j = 0 | y), of shape (K, d)."""
        log_not = self.logs.log_not
        assert log_not is not None
        return log_not

    @lazy
    def log_odds(self) -> Array:
        """log_p - log_not."""
        return self.log_p - self.log_not

    @lazy
    def all_absent(self) -> Array:
        """The log-likelihood of a row without any feature, of shape (K,)."""
        return np.asarray(self.log_not.sum(axis=1))

    @property
    def smoothing(self) -> Smoothing | None:
        """How the counts become log-odds; None where columns have totals of their own."""
        if self.seen.shape[1] > 1 or self.alpha.ndim:
            return None
        log_totals = log(self.seen[:, 0] + 2.0 * self.alpha)
        return None if np.isinf(log_totals).any() else Smoothing(log_totals, self.seen[:, 0])


@dataclass(frozen=True)
class Counts(Sums):
    """Soft counts of ones among the observed cells, of shape (K, d), and of these.

    `seen` has the shape (K, 1) where it is the same for all columns. `given_zeros` are those that
    were counted, where they are not just the rest.
    """

    ones: Array
    seen: Array
    given_zeros: Array | None = None

    @property
    def zeros(self) -> Array:
        """Soft counts of zeros, of shape (K, d)."""
        return _rest(self.ones, self.seen) if self.given_zeros is None else self.given_zeros


@dataclass(frozen=True)
class Bernoulli(Linear):
    """p(x | y) = prod_j p_j(x_j | y) for x_j in {0, 1} or {-1, +1}: C Def. 1, H, W (3)-(5).

    Attributes
    ----------
    binarize : float or None
        Values above it are 1, the others 0. None: the values are 0 and 1, or -1 and +1, already.

    Examples
    --------
    >>> family = Bernoulli(alpha=0.0)
    >>> features = family.encode(np.array([[1, 0], [1, 1]]))
    >>> params = family.maximize(family.count(features, np.ones((2, 1))))
    >>> np.exp(params.log_p)
    array([[1. , 0.5]])
    """

    binarize: float | None = 0.0

    def encode(self, X: Matrix) -> DenseRows | SparseRows:
        """Turn values into zeros and ones, keeping NaN as missing."""
        X = canonical(X) if sparse.issparse(X) else X
        if self.binarize is None:
            X = _check_binary(X)
        elif sparse.issparse(X) and self._keeps_all(X.data):
            ones = np.ones(len(X.data), np.float32)  # the structure stays as it is
            own = type(X)((ones, X.indices, X.indptr), shape=X.shape, copy=False)
            return SparseRows(own, single=len(ones) >= SINGLE_FROM)
        elif sparse.issparse(X):
            X = binarize(X, threshold=self.binarize)
        else:
            X = np.where(np.isnan(X), np.nan, np.greater(X, self.binarize))
        return sparse_rows(X) if sparse.issparse(X) else dense_rows(X)

    def _keeps_all(self, data: Any) -> bool:
        """Return whether every entry that is stored is 1."""
        assert self.binarize is not None
        found = kernels.scan(data)
        positive = self.binarize == 0 and found.least >= 0 and found.full
        return self.binarize >= 0 and (positive or bool((data > self.binarize).all()))

    def score(
        self, params: Params, features: DenseRows | SparseRows, fitting: bool = False
    ) -> Array:
        """Return sum_j x_j log p_j + (1 - x_j) log(1 - p_j), W (5)."""
        X = features.values
        if isinstance(features, DenseRows):
            zeros = 1.0 - X if features.observed is None else features.observed - X
            return dot(X, params.log_p) + dot(zeros, params.log_not)
        # Every feature absent, corrected where one is present: only non-zeros are visited. A
        # feature that is certain (log_not = -inf) has no such correction: its absence is counted.
        log_not = params.log_not
        if np.isfinite(params.all_absent).all():
            scores: Array = dot(X, params.log_odds)
            scores += params.all_absent
            return scores
        certain = np.isneginf(log_not)
        log_not = np.where(certain, 0.0, log_not)
        scores = dot(X, params.log_p - log_not) + log_not.sum(axis=1)
        present = times(X, certain.T.astype(np.float64))
        scores[present < certain.sum(axis=1)] = -np.inf
        return scores

    def predict_rows(
        self, params: Params, X: Matrix, log_prior: Array, output: kernels.Output
    ) -> tuple[Array, Array] | None:
        """Score sparse rows as they come, if all that is stored is 1."""
        if not sparse.issparse(X) or self.binarize != 0 or np.isinf(params.all_absent).any():
            return None
        constants = log_prior + params.all_absent
        return kernels.score(X, params.log_odds.T, constants, output, ones=True)

    def count(
        self, features: DenseRows | SparseRows, weights: Matrix, params: Params | None = None
    ) -> Counts:
        """Sum the weights of ones and of zeros: the numerators of W (20), H, C Fig. 1."""
        ones, totals = self._sums(features, weights)
        classes = column_sums(weights)[:, None]
        if isinstance(features, SparseRows):
            return self._counts(ones, totals, classes)
        X, observed = features.values, features.observed
        if observed is None:
            return Counts(ones, classes, np.asarray(weights.T @ (1.0 - X)))
        zeros = np.asarray(weights.T @ (observed - X))
        return Counts(ones, ones + zeros, zeros)

    def _counts(self, words: Array, totals: Array, classes: Array) -> Counts:
        return Counts(words, classes.reshape(-1, 1))

    def expect(self, params: Ratios, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Score, normalise and count in one pass of the kernels, dense rows as categories."""
        features = rows.features
        if not isinstance(features, DenseRows):
            return super().expect(params, rows, log_prior, hard)
        if kernels.native() is None or features.values.shape[1] > MOST_BITS:
            return None
        assert isinstance(params, Params)
        K, d = params.counts.shape
        table = np.stack([params.log_not.T, params.log_p.T], axis=1).reshape(2 * d, K)
        given = replace(rows, features=features.bits)
        log_likelihood, classes, counts = features.bits.expect(table, given, log_prior, hard)
        zeros, ones = counts[::2].T, counts[1::2].T
        seen = classes[:, None] if features.observed is None else ones + zeros
        return Expected(log_likelihood, classes, Counts(ones, seen, zeros))

    def keys(self, features: DenseRows | SparseRows) -> npt.NDArray[np.uint8] | None:
        """Return a line of bytes for each row of a dense table, the same for equal rows."""
        if isinstance(features, SparseRows) or features.values.shape[1] > MOST_BITS:
            return None
        return features.bits.keys()

    def recentre(self, statistics: Counts, centre: Params | Counts) -> Counts:
        """Count zeros, or leave them to be the rest, as the params or the other statistics do."""
        if (statistics.given_zeros is None) == (centre.given_zeros is None):
            return statistics
        zeros = None if centre.given_zeros is None else statistics.zeros
        return replace(statistics, given_zeros=zeros)

    def maximize(self, statistics: Counts) -> Params:
        """Return the smoothed ratios of counts, C (3), H, W (14)."""
        alpha = np.asarray(self.alpha)
        given = statistics.seen, statistics.given_zeros
        return self._with_weights(Params(statistics.ones, alpha, *given))

    def log_prior(self, params: Params) -> float:
        """Return the log density of Beta(alpha + 1, alpha + 1) at the params (H, S13)."""
        density = self._density(params)
        if density is not None:
            return density
        return self.smoothing(params.log_p) + self.smoothing(params.log_not)

    def log_joint(self, params: Params, statistics: Counts) -> float:
        """Return C (16) without the class prior's part."""
        weights = params.weights
        if weights is not None and statistics.given_zeros is None:
            seen = expected_log(statistics.seen[:, 0], weights.constants)
            return weights.expected_score(statistics.ones) + seen
        own = params.logs.score if statistics.ones is params.counts else None
        if own is not None:
            return own
        return expected_log(statistics.ones, params.log_p) + expected_log(
            statistics.zeros, params.log_not
        )

    def sample(
        self,
        params: Params,
        statistics: Counts,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        """Draw zeros and ones."""
        p = np.exp(params.log_p)[labels]
        return (rng.random_sample(p.shape) < p).astype(np.float64)

    def n_parameters(self, params: Params) -> int:
        """Return K d."""
        return int(params.counts.size)

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check the counts and how values are made zeros and ones."""
        super().check(statistics, K, d)
        check_is(statistics, Counts)
        if self.binarize is not None and not np.isfinite(self.binarize):
            raise ValueError(f"binarize is {self.binarize}: expected a finite number")
        check_array("ones", statistics.ones, (K, d), least=0.0)
        check_array("seen", statistics.seen, (K, 1), (K, d), least=0.0)
        if statistics.given_zeros is not None:
            check_array("given_zeros", statistics.given_zeros, (K, d), least=0.0)

    def check_params(self, params: Params) -> None:
        """Check that ones and zeros are all there is."""
        check_sums_to_one("p(x | y)", np.exp(params.log_p) + np.exp(params.log_not))


def _check_binary(X: Matrix) -> Any:
    """Map {-1, +1} to {0, 1}; anything else than these two codings is an error."""
    is_sparse = sparse.issparse(X)
    values = np.unique(X.data if is_sparse else X[~np.isnan(X)])
    implicit_zeros = is_sparse and X.nnz < X.shape[0] * X.shape[1]
    if np.isin(values, (0, 1)).all():
        return X
    if np.isin(values, (-1, 1)).all() and not implicit_zeros:
        return (X + 1) / 2 if not is_sparse else binarize(X, threshold=0.0)
    raise ValueError(
        f"With binarize=None the features must be 0 and 1, or -1 and +1. Found {values[:5]}"
        f"{' ...' if len(values) > 5 else ''}: set binarize=0.0 to take positive values as 1."
    )


# As files name them.
RECORDS = {"Bernoulli": plain(Bernoulli), "BernoulliCounts": plain(Counts)}
