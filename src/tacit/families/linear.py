"""What the families of sparse rows share: log p(x | y) is linear in the entries of the row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit import kernels
from tacit.data import rounds
from tacit.data.memory import Known, Smoothing
from tacit.data.rows import Rows
from tacit.data.sparse import Bags, by_column
from tacit.families.base import ROUNDING, Expected, Smoothed
from tacit.numerics import Array, log

__all__ = ["Linear", "Logs", "Ratios", "expected_logs"]

# With less smoothing than this, sums are not kept up by differences, whose rounding would show.
LEAST_ALPHA = 1e-6


class Logs(NamedTuple):
    """Logarithms of parameters, and what a kernel comes across while it takes them.

    Attributes
    ----------
    log_p, log_not : ndarray of shape (K, d)
        Of what is there and, where that counts, of what is not.
    density, score : float, optional
        The log density of the smoothing, and the expected log-likelihood of the data behind the
        counts.
    """

    log_p: Array
    log_not: Array | None = None
    density: float | None = None
    score: float | None = None


@dataclass(frozen=True)
class Ratios(ABC):
    """Params that are ratios of counts. Their logarithms are taken when somebody asks for them.

    Attributes
    ----------
    counts : ndarray of shape (K, d)
        Of what is there.
    alpha : ndarray of shape () or (d,)
        What is added to every count.
    noted : float, optional
        The log density of the smoothing, if a round has come across it.
    """

    counts: Array
    alpha: Array
    noted: ClassVar[float | None] = None

    @property
    @abstractmethod
    def logs(self) -> Logs:
        """The logarithms, taken once."""

    @property
    def log_p(self) -> Array:
        """Log p of what is there, of shape (K, d)."""
        return self.logs.log_p

    @property
    def density(self) -> float | None:
        """The log density of the smoothing, if a kernel has come across it."""
        return self.logs.density if self.noted is None else self.noted

    @property
    @abstractmethod
    def smoothing(self) -> Smoothing | None:
        """How the counts become weights for the kernels; None if these cannot take them."""

    @abstractmethod
    def following(self, classes: Array) -> Smoothing:
        """Return how counts become weights in the next round, after these counts of classes."""


@dataclass(frozen=True)
class Linear(Smoothed):
    """A family p(x | y) with log p(x | y) = x · weights_y + constant_y for sparse rows x."""

    takes_sparse: ClassVar[bool] = True

    @abstractmethod
    def _counts(self, words: Array, totals: Array, classes: Array) -> Any:
        """Return the statistics: sums of entries, (K, d) and (K,), and counts of the classes."""

    @abstractmethod
    def _words(self, statistics: Any) -> Array:
        """Return the sums of entries, (K, d)."""

    def expect(self, params: Ratios, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Score, normalise and count sparse rows in one pass of the kernels."""
        features = rows.features
        if kernels.native() is None or not isinstance(features, Bags):
            return None
        smoothing = params.smoothing
        if smoothing is None:
            return None
        rows = rows if rows.memory is not None else rows.fresh()
        assert rows.memory is not None
        weights = rows.memory.weights(features, params.counts, smoothing)
        if not weights.bounded:  # the absence of a certain feature is another matter
            return None
        params.__dict__["noted"] = weights.density
        known = None
        if rows.known is not None:
            known = Known(rows.known.classes, self._words(rows.known.features))
        smoothed = bool(np.all(np.asarray(self.alpha) >= LEAST_ALPHA))
        found = rounds.expect(rows, known, weights, params.following, log_prior, hard, smoothed)
        statistics = self._counts(found.words, found.totals, found.classes)
        single = weights.table.dtype == np.float32
        rounding = ROUNDING * float(found.classes.sum()) if single else 0.0
        return Expected(found.log_likelihood, found.classes, statistics, rounding, with_known=True)


def expected_logs(weights: Array, counts: Array, alpha: Any) -> float:
    """Return the sum of weights · log(counts + alpha), with 0 · -inf = 0."""
    native = kernels.native()
    if native is None:
        logs = log(counts + alpha)
        return float(np.multiply(weights, logs, out=np.zeros(logs.shape), where=weights != 0).sum())
    pieces = by_column(weights), by_column(counts), np.atleast_1d(alpha)
    return float(native.expected_logs(*pieces, kernels.threads(8 * counts.size)))
