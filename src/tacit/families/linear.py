"""What the families of sparse rows share: log p(x | y) is linear in the entries of the row.

For these a native kernel goes from weights straight to posteriors and their sums, by rows and then
by columns: `Linear.expect`. `tacit.models.naive_bayes` does the same in NumPy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.dense import DenseRows
from tacit.data.rows import Rows
from tacit.data.sparse import SLACK, SparseRows, by_column
from tacit.families.base import Expected, Smoothed
from tacit.numerics import Array, Matrix, expected_log

__all__ = ["Linear", "Logs", "Ratios", "Smoothing", "Weights"]


R = TypeVar("R", bound="Ratios")


class Logs(NamedTuple):
    """Log-probabilities, and sums that a kernel takes in the same pass.

    Attributes
    ----------
    log_p, log_not : ndarray of shape (K, d)
        Of presence and, for Bernoulli features, of absence.
    density, score : float, optional
        The log density of the smoothing, and the expected log-likelihood of the data behind the
        counts.
    """

    log_p: Array
    log_not: Array | None = None
    density: float | None = None
    score: float | None = None


class Smoothing(NamedTuple):
    """How counts become weights.

    Attributes
    ----------
    log_totals : ndarray of shape (K,)
        Log of what the smoothed counts are divided by.
    class_counts : ndarray of shape (K,), optional
        Counts of the classes, for Bernoulli features, whose absence counts too.
    """

    log_totals: Array
    class_counts: Array | None = None


@dataclass(frozen=True)
class Weights:
    """log p(x | y) = constants_y + sum_j x_j (table + remainder + mean)_jy, as the kernels take it.

    Attributes
    ----------
    table : ndarray of shape (d K + SLACK,)
        Weights less their mean over the classes, in float32 or float64.
    remainder : ndarray of float32 of shape (d K,), optional
        What rounding to float32 took off them.
    mean : ndarray of shape (d,)
        Their mean over the classes.
    constants : ndarray of shape (K,)
        log p(x | y) of a row without entries.
    density : float
        The log density of the smoothing.
    """

    table: npt.NDArray[np.float32] | Array
    remainder: npt.NDArray[np.float32] | None
    mean: Array
    constants: Array
    density: float

    @property
    def single(self) -> bool:
        """Whether the table is float32."""
        return self.table.dtype == np.float32

    def expected_score(self, counts: Array) -> float:
        """Return the expected log p(x | y) of counts of entries, (K, d), without the constants."""
        native = kernels.native()
        assert native is not None
        given = by_column(counts), self.table, self.remainder, self.mean
        return float(native.expected_score(*given, kernels.threads(4 * counts.size)))


@dataclass(frozen=True)
class Ratios(ABC):
    """Params that are ratios of counts; their logarithms are taken when first needed.

    Attributes
    ----------
    counts : ndarray of shape (K, d)
        Expected sums of the entries.
    alpha : ndarray of shape () or (d,)
        Smoothing: added to every count.
    weights : Weights, optional
        What rows are scored with in the rounds of a fit.
    """

    counts: Array
    alpha: Array
    weights: Weights | None = field(default=None, kw_only=True, repr=False)

    @property
    @abstractmethod
    def logs(self) -> Logs:
        """The logarithms, taken once."""

    @property
    def log_p(self) -> Array:
        """Log-probability of each word or present feature, of shape (K, d)."""
        return self.logs.log_p

    @property
    @abstractmethod
    def smoothing(self) -> Smoothing | None:
        """How the counts become weights for the kernels; None if these cannot take them."""

    def make_weights(self, single: bool) -> Weights | None:
        """Return the weights for the kernels; None if there are no kernels for them."""
        native, smoothing, (K, d) = kernels.native(), self.smoothing, self.counts.shape
        if native is None or smoothing is None:
            return None
        table = np.empty(d * K + SLACK, np.float32 if single else np.float64)
        table[d * K :] = 0
        mean, constants = np.empty(d), np.empty(K)
        remainder = np.empty(d * K, np.float32) if single else None
        given = self.counts.T, np.atleast_1d(self.alpha), *smoothing
        out = table, remainder, mean, constants
        density, bounded = native.make_weights(*given, *out, kernels.threads(16 * K * d))
        # A feature that is certain has infinite log-odds: weights cannot express its absence.
        return Weights(*out, density) if bounded else None

    @property
    def density(self) -> float | None:
        """The log prior density, where a kernel has computed it."""
        return self.logs.density if self.weights is None else self.weights.density


@dataclass(frozen=True)
class Linear(Smoothed):
    """A family p(x | y) with log p(x | y) = x · weights_y + constant_y for sparse rows x.

    Attributes
    ----------
    single : bool, optional
        Which weights `maximize` makes for the kernels; set by `for_em`.
    """

    single: bool | None = field(default=None, kw_only=True, metadata={"saved": False})
    takes_sparse: ClassVar[bool] = True

    @abstractmethod
    def _counts(self, words: Array, totals: Array, classes: Array) -> Any:
        """Return the statistics: sums of entries, (K, d) and (K,), and counts of the classes."""

    def for_em(self, features: Any) -> Self:
        """Let `maximize` make the weights that these rows are scored with."""
        if kernels.native() is None or not isinstance(features, SparseRows):
            return self
        return replace(self, single=features.single)

    def _sums(self, features: DenseRows | SparseRows, weights: Matrix) -> tuple[Array, Array]:
        """Return sums of entries by class, (K, d) and (K,), laid out as those of the rounds."""
        words, totals = features.sums(weights)
        return (words if self.single is None else by_column(words).T), totals

    def _with_weights(self, params: R) -> R:
        """Return params with the weights that the rounds of a fit score rows with."""
        if self.single is None:
            return params
        return replace(params, weights=params.make_weights(self.single))

    def _density(self, params: Ratios) -> float | None:
        """Return the log prior density under this family's alpha, if a kernel computed it."""
        return params.density if np.array_equal(params.alpha, self.alpha) else None

    def expect(self, params: Ratios, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Return what the E-step expects of sparse rows: posteriors by rows, sums by columns."""
        features = rows.features
        if not isinstance(features, SparseRows):
            return None
        weights = params.weights or params.make_weights(features.single)
        if weights is None:
            return None
        constants = weights.constants + log_prior
        middle = float(constants[np.isfinite(constants)].mean())
        constants -= middle  # small numbers, for float32
        K, both = len(constants), column_sums(rows)
        words, totals, classes = np.empty((features.width, K)), np.empty(K), np.empty(K)
        threads = kernels.threads(features.packed.entries * K)
        out = words, totals, threads
        table = weights.table, weights.remainder
        smoothed = np.isfinite(constants).all() and (np.asarray(self.alpha) > 0).all()
        if K == 2 and weights.single and smoothed and rows.evidence is None and not hard:
            posteriors = np.empty(len(features), np.float32)
            log_odds = np.ascontiguousarray(2.0 * weights.table[1 : 2 * features.width : 2])
            log_likelihood = features.packed.expect_odds(
                log_odds, constants[1] - constants[0], rows.weight, posteriors, classes, threads
            )
            log_likelihood += features.packed.count_odds(posteriors, both, *table, *out)
            responsibilities = None
        else:
            posteriors = np.empty(len(features) * K + SLACK, weights.table.dtype)
            posteriors[-SLACK:] = 0
            given = rows.evidence, rows.weight, log_prior, hard
            log_likelihood = features.packed.expect(
                weights.table, constants, *given, posteriors, classes, threads
            )
            log_likelihood += features.packed.count(posteriors, *table, *out)
            responsibilities = posteriors[:-SLACK].reshape(len(features), K)
        size = len(features) if rows.weight is None else float(rows.weight.sum())
        log_likelihood += middle * size + float((both * weights.mean).sum())
        log_likelihood += expected_log(classes, constants)
        statistics = self._counts(words.T, totals, classes)
        return Expected(log_likelihood, classes, statistics, responsibilities)


def column_sums(rows: Rows) -> Array:
    """Return the sum of each column of sparse rows, each row times its weight."""
    features = rows.features
    assert isinstance(features, SparseRows)
    if rows.weight is None:
        return features.column_sums
    return np.asarray(features.sums(rows.weight[:, None])[0][0])
