"""What the families of sparse rows share: log p(x | y) is linear in the entries of the row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacit import bags, engine
from tacit.bags import Bags, Weights
from tacit.families.base import Smoothed
from tacit.numerics import Array, log
from tacit.rows import Rows

__all__ = ["Linear", "Ratios"]


@dataclass(frozen=True)
class Ratios(ABC):
    """Params that are ratios of counts. Their logarithms are taken when somebody asks for them.

    Attributes
    ----------
    counts : ndarray of shape (K, d)
        Of what is there.
    alpha : ndarray of shape () or (d,)
        What is added to every count.
    density : float, optional
        The log density of the smoothing, once it has been seen on the way.
    """

    counts: Array
    alpha: Array
    density: ClassVar[float | None] = None

    @abstractmethod
    def weights(self, table: Any) -> Weights | None:
        """Return the weights for the kernels, in `table`; None if they cannot take them."""

    def _prepare(self, table: Any, others: Array | None, log_totals: Array) -> tuple[Weights, bool]:
        """Return the weights, and whether all are below +inf."""
        kernels = engine.native()
        assert kernels is not None
        K, d = self.counts.shape
        mean, constants = np.empty(d), np.empty(K)
        density, doubtful = kernels.prepare(
            by_column(self.counts),
            None if others is None else by_column(others),
            np.atleast_1d(self.alpha),
            log_totals,
            table,
            mean,
            constants,
            engine.threads(16 * K * d),
        )
        self.__dict__["density"] = density
        return Weights(table, mean, constants), doubtful


def by_column(counts: Array) -> Array:
    """Return a table of shape (K, d) with a line for each column, as the kernels keep it."""
    return np.ascontiguousarray(counts.T)


@dataclass(frozen=True)
class Linear(Smoothed):
    """A family p(x | y) with log p(x | y) = x · weights_y + constant_y for sparse rows x."""

    takes_sparse: ClassVar[bool] = True

    @abstractmethod
    def _counts(self, words: Array, totals: Array, classes: Array) -> Any:
        """Return the statistics: sums of entries, (K, d) and (K,), and counts of the classes."""

    def expect(
        self, params: Ratios, rows: Rows, log_prior: Array, hard: bool
    ) -> tuple[float, Array, Any] | None:
        """Score, normalise and count sparse rows in one pass of the kernels."""
        features = rows.features
        if engine.native() is None or not isinstance(features, Bags):
            return None
        memory = rows.memory or bags.Memory()
        weights = params.weights(memory.table_for(features, len(log_prior)))
        if weights is None:
            return None
        found = bags.expect(
            features,
            weights,
            log_prior,
            rows.evidence,
            rows.weight,
            hard,
            memory,
            bool(np.all(np.asarray(self.alpha) > 0)),
        )
        statistics = self._counts(found.words, found.totals, found.classes)
        return found.log_likelihood, found.classes, statistics


def expected_logs(weights: Array, counts: Array, alpha: Any) -> float:
    """Return the sum of weights · log(counts + alpha), with 0 · -inf = 0."""
    kernels = engine.native()
    if kernels is None:
        logs = log(counts + alpha)
        return float(np.multiply(weights, logs, out=np.zeros(logs.shape), where=weights != 0).sum())
    pieces = by_column(weights), by_column(counts), np.atleast_1d(alpha)
    return float(kernels.expected_logs(*pieces, engine.threads(8 * counts.size)))
