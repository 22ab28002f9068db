"""Categories: feature j takes one of v_j values, coded 0 .. v_j - 1 (S2)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import kernels
from tacit.data.categorical import CategoricalRows
from tacit.data.lazy import lazy
from tacit.data.rows import Rows
from tacit.em import Sums
from tacit.families.base import (
    Expected,
    Smoothed,
    check_array,
    check_is,
    check_sums_to_one,
    is_labelled,
)
from tacit.io.records import plain
from tacit.numerics import SINGLE_FROM, Array, Matrix, expected_log, log, ratio

__all__ = ["RECORDS", "Categorical"]

# The largest code of a category: each takes a line in a table, so more is a mistake.
MOST = 10_000_000
UNKNOWN = ("missing", "error")


@dataclass(frozen=True)
class Params:
    """log p_j(x | y), of shape (sum of v_j, K): the features' tables one below the other.

    `cell_log_p` is what a cell counts for: log_p, or its mean over neighbouring categories
    (see `Categorical.beside`).
    """

    log_p: Array
    cell_log_p: Array


@dataclass(frozen=True)
class Counts(Sums):
    """Soft counts, laid out as the params."""

    counts: Array


@dataclass(frozen=True)
class Categorical(Smoothed):
    """p(x | y) = prod_j p_j(x_j | y) for x_j in {0, .., v_j - 1} (L).

    Attributes
    ----------
    min_categories : int or array of shape (d,), optional
        The least number of categories of each feature; else as many as the training data show.
    handle_unknown : {"missing", "error"}
        What a category is that the training data did not have.
    sizes : tuple of int
        v_j; set by `bind`.
    beside : tuple of float
        Ordinal smoothing, for categories with an order such as bins of numbers: the weight that a
        cell gives to each of the two neighbouring categories (at the ends to itself). A cell then
        counts with the mean of log p, which is below the log of the mean: the likelihood is a lower
        bound. At most 1/3; empty means none.

    Examples
    --------
    >>> X = np.array([[0.0, 2.0], [1.0, np.nan]])
    >>> family = Categorical(alpha=1.0).bind(X)
    >>> params = family.maximize(family.count(family.encode(X), np.ones((2, 1))))
    >>> [np.exp(table).round(2).tolist() for table in family.split(params.log_p)]
    [[[0.5, 0.5]], [[0.25, 0.25, 0.5]]]
    """

    min_categories: Any = None
    handle_unknown: str = "missing"
    sizes: tuple[int, ...] = ()
    beside: tuple[float, ...] = ()

    def bind(self, X: Matrix) -> Self:
        """Find the number of categories of each feature."""
        family = replace(super().bind(X), sizes=tuple(self._sizes(X).tolist()))
        family._check_beside()
        return family

    def adopt(self, other: Self) -> Self:
        """Take the number of categories from another family."""
        return replace(super().adopt(other), sizes=other.sizes, beside=other.beside)

    def _check_beside(self) -> None:
        if self.beside:
            check_array("beside", np.array(self.beside), (len(self.sizes),), least=0.0, most=1 / 3)

    def _sizes(self, X: Matrix) -> npt.NDArray[np.int64]:
        sizes = _largest(X) + 1
        if sizes.max() > MOST:
            raise ValueError(
                f"A category is coded {sizes.max() - 1}: categories are coded 0, 1, 2, ... Encode "
                "them with sklearn.preprocessing.OrdinalEncoder."
            )
        if self.min_categories is None:
            return sizes
        least = np.asarray(self.min_categories)
        if least.dtype.kind not in "iu":
            raise ValueError(
                f"'min_categories' should have integral type. Got {least.dtype} instead."
            )
        if (least < 1).any():
            raise ValueError(f"'min_categories' should be at least 1. Got {least.min()}.")
        if least.shape not in ((), sizes.shape):
            raise ValueError(
                f"'min_categories' should have shape {sizes.shape} when an array-like is "
                f"provided. Got {least.shape} instead."
            )
        return np.maximum(sizes, least.astype(np.int64))

    def extend(self, X: Matrix, statistics: Counts) -> tuple[Self, Counts]:
        """Make room for categories that a further batch brings."""
        sizes = np.maximum(self._sizes(X), self.sizes)
        wider = replace(self, sizes=tuple(sizes.tolist()))
        counts = np.zeros((sum(wider.sizes), statistics.counts.shape[1]))
        places = wider._offsets().repeat(self.sizes) + np.concatenate(
            [np.arange(size) for size in self.sizes]
        )
        counts[places] = statistics.counts
        return wider, Counts(counts)

    def _offsets(self) -> npt.NDArray[np.int64]:
        return np.cumsum((0, *self.sizes[:-1]))

    def split(self, table: Array) -> list[Array]:
        """Cut a table of shape (sum of v_j, K) into one of shape (K, v_j) for each feature."""
        return [part.T for part in np.split(table, self._offsets()[1:])]

    def encode(self, X: Matrix) -> CategoricalRows:
        """Turn categories into places in the tables; -1 is missing."""
        starts = np.append(self._offsets(), sum(self.sizes))
        single = X.size >= SINGLE_FROM
        native = kernels.native()
        if native is not None and _whole(X):
            shifted = np.empty(X.shape, np.int32)
            if not native.offset_categories(X, starts, shifted, kernels.threads(X.size)):
                return CategoricalRows(shifted, starts, single)
        codes = _check_codes(X, warn=True)
        unknown = codes >= np.array(self.sizes)
        if unknown.any() and self.handle_unknown == "error":
            i, j = np.argwhere(unknown)[0]
            raise ValueError(
                f"Found unknown category {codes[i, j]} in column {j}, row {i}: training had 0 to "
                f"{self.sizes[j] - 1}. Set min_categories, or handle_unknown='missing'."
            )
        missing = (codes < 0) | unknown
        places = np.where(missing, -1, codes + self._offsets()).astype(np.int32)
        return CategoricalRows(places, starts, single)

    def score(self, params: Params, features: CategoricalRows, fitting: bool = False) -> Array:
        """Return sum_j log p_j(x_j | y)."""
        codes, native = features.values, kernels.native()
        scores = np.zeros((len(codes), params.cell_log_p.shape[1]))
        if native is not None:
            native.gather(codes, params.cell_log_p, scores)
            return scores
        for column in codes.T:
            scores += np.where(column[:, None] < 0, 0.0, params.cell_log_p[column])
        return scores

    def count(
        self, features: CategoricalRows, weights: Matrix, params: Params | None = None
    ) -> Counts:
        """Sum weights by category and class: C Fig. 1 and L, for v_j values."""
        codes, native = features.values, kernels.native()
        counts = np.zeros((sum(self.sizes), weights.shape[1]))
        if native is not None and is_labelled(weights):
            labels = weights.indices.astype(np.int64)
            native.count_labelled_categories(
                codes, labels, weights.data, counts, kernels.threads(codes.size)
            )
            return Counts(counts)
        weights = weights.toarray() if sparse.issparse(weights) else weights
        if native is not None:
            native.accumulate(codes, np.ascontiguousarray(weights), counts)
            return Counts(counts)
        for column in codes.T:
            np.add.at(counts, column[column >= 0], weights[column >= 0])
        return Counts(counts)

    def expect(self, params: Params, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Score, normalise and count in one pass of the kernels."""
        features = rows.features
        if kernels.native() is None or not isinstance(features, CategoricalRows):
            return None
        log_likelihood, classes, counts = features.expect(params.cell_log_p, rows, log_prior, hard)
        return Expected(log_likelihood, classes, Counts(counts))

    def keys(self, features: CategoricalRows) -> npt.NDArray[np.uint8]:
        """Return a line of bytes for each row, the same for equal rows."""
        return features.keys()

    def _totals(self, table: Array) -> Array:
        """Sum a table over each feature's categories, and repeat the sum for each of them."""
        return np.add.reduceat(table, self._offsets()).repeat(self.sizes, axis=0)

    @lazy
    def _alpha(self) -> Array:
        """The smoothing of each line of the table."""
        alpha = np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), (len(self.sizes),))
        return alpha.repeat(self.sizes)[:, None]

    def maximize(self, statistics: Counts) -> Params:
        """Return the smoothed ratios of counts (S11); uniform where nothing was seen."""
        counts = self._blurred(statistics.counts) + self._alpha
        uniform = (1.0 / np.array(self.sizes)).repeat(self.sizes)[:, None]
        log_p = log(ratio(counts, self._totals(counts), uniform))
        return Params(log_p, self._blurred(log_p))

    def _blurred(self, table: Array) -> Array:
        """Return the mean of each category's line and its neighbours' (see `beside`)."""
        if not any(self.beside):
            return table
        part, first = np.repeat(self.beside, self.sizes), self._offsets().repeat(self.sizes)
        last = first + np.repeat(self.sizes, self.sizes) - 1
        lines = np.flatnonzero(part)
        below, above = np.maximum(lines - 1, first[lines]), np.minimum(lines + 1, last[lines])
        own, blurred = part[lines, None], table.copy()
        blurred[lines] = (1.0 - 2.0 * own) * table[lines] + own * (table[below] + table[above])
        return blurred

    def log_prior(self, params: Params) -> float:
        """Return the log density of Dirichlet(alpha + 1) at the params, up to a constant (S13)."""
        return expected_log(self._alpha, params.log_p)

    def log_joint(self, params: Params, statistics: Counts) -> float:
        """Return C (16) without the class prior's part."""
        return expected_log(statistics.counts, params.cell_log_p)

    def reorder(self, statistics: Counts, order: npt.NDArray[np.intp]) -> Counts:
        """Return the statistics with the classes in another order."""
        return Counts(statistics.counts[:, order])

    def sample(
        self,
        params: Params,
        statistics: Counts,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        """Draw categories by inverting the cumulated probabilities."""
        drawn = np.empty((len(labels), len(self.sizes)))
        for j, table in enumerate(self.split(params.log_p)):
            cumulated = np.cumsum(np.exp(table), axis=1)
            point = rng.random_sample(len(labels)) * cumulated[labels, -1]
            drawn[:, j] = (cumulated[labels] <= point[:, None]).sum(axis=1)
        return drawn

    def n_parameters(self, params: Params) -> int:
        """Return K sum_j (v_j - 1), of the categories that are not impossible in every class."""
        possible = int((params.log_p > -np.inf).any(axis=1).sum())
        return int(params.log_p.shape[1]) * (possible - len(self.sizes))

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check the counts and the numbers of categories."""
        super().check(statistics, K, d)
        check_is(statistics, Counts)
        if len(self.sizes) != d or min(self.sizes) < 1 or self.handle_unknown not in UNKNOWN:
            raise ValueError(f"sizes or handle_unknown do not fit {d} columns of categories")
        if (self._sizes(np.zeros((1, d))) > self.sizes).any():
            raise ValueError("sizes are below min_categories")
        check_array("counts", statistics.counts, (sum(self.sizes), K), least=0.0)
        self._check_beside()

    def check_params(self, params: Params) -> None:
        """Check that the categories of each feature are all there is."""
        check_sums_to_one("p(category | y)", np.add.reduceat(np.exp(params.log_p), self._offsets()))


def _whole(X: Matrix) -> bool:
    """Return whether the kernels take these numbers as they are."""
    return X.dtype in (np.int64, np.int32) and bool(X.flags.c_contiguous)


def _largest(X: Matrix) -> npt.NDArray[np.int64]:
    """Return the largest code of each column."""
    native, tops = kernels.native(), np.empty(X.shape[1], np.int64)
    threads = kernels.threads(X.size)
    if native is not None and _whole(X) and native.largest_categories(X, tops, threads) >= 0:
        return tops
    codes: npt.NDArray[np.int64] = _check_codes(X).max(axis=0, initial=0)
    return codes


def _check_codes(X: Matrix, warn: bool = False) -> npt.NDArray[np.int64]:
    """Return non-negative numbers as integers, as scikit-learn does, and NaN as -1."""
    if X.dtype.kind in "iub" and X.min(initial=0) >= 0:
        return np.asarray(X, dtype=np.int64)
    X = np.asarray(X, dtype=np.float64)
    missing = np.isnan(X)
    if (X < 0).any():
        raise ValueError(
            "Negative values in data passed to Categorical (input X): categories are coded 0, 1, "
            "..., and a missing cell is NaN."
        )
    codes = np.where(missing, -1.0, np.minimum(X, 2.0**53)).astype(np.int64)
    broken = ~missing & (codes != X) & (X < 2.0**53)
    if warn and broken.any():
        i, j = np.argwhere(broken)[0]
        warnings.warn(
            f"Categories are whole numbers; {X[i, j]} in row {i}, column {j} is rounded down. "
            "Encode them with sklearn.preprocessing.OrdinalEncoder, or use GaussianNB for numbers.",
            UserWarning,
            stacklevel=2,
        )
    return codes


# As files name them.
RECORDS = {"Categorical": plain(Categorical, later=("beside",)), "CategoricalCounts": plain(Counts)}
