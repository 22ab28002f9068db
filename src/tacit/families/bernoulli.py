"""Bernoulli features: each is there or not, and absence counts too (S1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.preprocessing import binarize

from tacit.em import Sums
from tacit.families.base import Smoothed
from tacit.numerics import Array, dot, expected_log, log, ratio, times
from tacit.rows import Cells, cells

__all__ = ["Bernoulli"]


@dataclass(frozen=True)
class Params:
    """log p(x_j = 1 | y) and log p(x_j = 0 | y), each of shape (K, d)."""

    log_p: Array
    log_not: Array


@dataclass(frozen=True)
class Counts(Sums):
    """Soft counts of ones and of zeros among the observed cells, each of shape (K, d)."""

    ones: Array
    zeros: Array


@dataclass(frozen=True)
class Bernoulli(Smoothed):
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

    takes_sparse: ClassVar[bool] = True

    def encode(self, X: Any) -> Cells:
        """Turn values into zeros and ones, keeping NaN as missing."""
        if self.binarize is None:
            X = _check_binary(X)
        elif sparse.issparse(X) and self.binarize >= 0 and (X.data > self.binarize).all():
            ones = np.ones(len(X.data))  # what is stored is 1: the structure stays as it is
            X = type(X)((ones, X.indices, X.indptr), shape=X.shape, copy=False)
        elif sparse.issparse(X):
            X = binarize(X, threshold=self.binarize)
        else:
            X = np.where(np.isnan(X), np.nan, np.greater(X, self.binarize))
        return cells(X)

    def score(self, params: Params, features: Cells, fitting: bool = False) -> Array:
        """Return sum_j x_j log p_j + (1 - x_j) log(1 - p_j), W (5)."""
        X = features.values
        if not sparse.issparse(X):
            zeros = 1.0 - X if features.observed is None else features.observed - X
            return dot(X, params.log_p) + dot(zeros, params.log_not)
        # Every feature absent, corrected where one is present: only non-zeros are visited. A
        # feature that is certain (log_not = -inf) has no such correction: its absence is counted.
        certain = np.isneginf(params.log_not)
        log_not = np.where(certain, 0.0, params.log_not)
        scores: Array = dot(X, params.log_p - log_not) + log_not.sum(axis=1)
        if certain.any():
            present = times(X, certain.T.astype(np.float64))
            scores[present < certain.sum(axis=1)] = -np.inf
        return scores

    def count(self, features: Cells, weights: Any, params: Params | None = None) -> Counts:
        """Sum the weights of ones and of zeros: the numerators of W (20), H, C Fig. 1."""
        X = features.values
        ones = features.sums(weights)
        if not sparse.issparse(X):
            observed = 1.0 if features.observed is None else features.observed
            return Counts(ones, np.asarray(weights.T @ (observed - X)))
        totals = np.asarray(weights.sum(axis=0), dtype=np.float64).reshape(-1, 1)
        zeros = totals - ones
        zeros[zeros < 1e-13 * totals] = 0.0  # the rounding of the two sums: none was zero
        return Counts(ones, zeros)

    def maximize(self, statistics: Counts) -> Params:
        """Return the smoothed ratios of counts, C (3), H, W (14); 1/2 where nothing was seen."""
        totals = statistics.ones + statistics.zeros + 2.0 * self.alpha
        p = ratio(statistics.ones + self.alpha, totals, 0.5)
        return Params(log(p), log(ratio(statistics.zeros + self.alpha, totals, 0.5)))

    def log_prior(self, params: Params) -> float:
        """Return the log density of Beta(alpha + 1, alpha + 1) at the params (H, S13)."""
        return self.smoothing(params.log_p) + self.smoothing(params.log_not)

    def log_joint(self, params: Params, statistics: Counts) -> float:
        """Return C (16) without the class prior's part."""
        return expected_log(statistics.ones, params.log_p) + expected_log(
            statistics.zeros, params.log_not
        )

    def reorder(self, statistics: Counts, order: npt.NDArray[np.intp]) -> Counts:
        """Return the statistics with the classes in another order."""
        return Counts(statistics.ones[order], statistics.zeros[order])

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
        return int(params.log_p.size)


def _check_binary(X: Any) -> Any:
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
