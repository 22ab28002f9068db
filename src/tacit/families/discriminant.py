"""Numbers that vary together: one covariance for all classes (GDA, S5), or one for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, solve_triangular

from tacit.em import Sums
from tacit.families.gaussian import Normal, by_class
from tacit.numerics import Array, ratio
from tacit.rows import Cells

__all__ = ["Discriminant"]


@dataclass(frozen=True)
class Params:
    """Means (K, d) and covariances (K, d, d); tied ones are the same matrix K times, a view."""

    mean: Array
    covariance: Array


@dataclass(frozen=True)
class Moments(Sums):
    """Soft counts (K,), sums (K, d) and scatter around the pilot: (K, d, d), tied (1, d, d)."""

    weight: Array
    sums: Array
    scatter: Array


@dataclass(frozen=True)
class Discriminant(Normal):
    """p(x | y) = N(x; mean_y, Sigma) or N(x; mean_y, Sigma_y) (L "GDA").

    Missing cells are integrated out: a row's density is that of its observed cells, and fitting
    fills the others by their conditional mean and covariance.

    Attributes
    ----------
    tied : bool
        Whether the classes share one covariance.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [2.0, 2.0], [5.0, 1.0], [5.0, 3.0]])
    >>> family = Discriminant(var_smoothing=0.0).bind(X)
    >>> weights = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> params = family.maximize(family.count(family.encode(X), weights))
    >>> params.mean, params.covariance[0]
    (array([[1., 1.],
           [5., 2.]]), array([[0.5, 0.5],
           [0.5, 1. ]]))
    """

    tied: bool = True

    def score(self, params: Params, features: Cells, fitting: bool = False) -> Array:
        """Return log N(x_O; mean_O, Sigma_OO) of the observed cells O."""
        noise = self.noise if fitting else 0.0
        scores = np.empty((len(features), len(params.mean)))
        for mask, rows, k, factor in self._factors(params, features):
            centred = features.values[rows][:, mask] - params.mean[k, mask]
            whitened = solve_triangular(factor, centred.T, lower=True)
            inverse_factor = solve_triangular(factor, np.eye(len(factor)), lower=True)
            log_det = 2.0 * np.log(np.diagonal(factor)).sum()
            scores[rows, k] = -0.5 * (
                (whitened**2).sum(axis=0)
                + noise * (inverse_factor**2).sum()  # the trace of the inverse
                + len(factor) * np.log(2.0 * np.pi)
                + log_det
            )
        return scores

    def _factors(
        self, params: Params, features: Cells
    ) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp], int, Array]]:
        """Yield each pattern of observed cells and class with the Cholesky factor of its block."""
        for mask, rows in features.patterns:
            factor = None
            for k, covariance in enumerate(params.covariance):
                if factor is None or not self.tied:
                    factor = _cholesky(covariance[np.ix_(mask, mask)], k)
                yield mask, rows, k, factor

    def count(self, features: Cells, weights: Any, params: Params | None = None) -> Moments:
        """Sum weights, values and their products, with what is expected of missing cells."""
        K, d = weights.shape[1], features.values.shape[1]
        pilot = np.broadcast_to(self.pilot, (K, d))
        weight, sums = np.zeros(K), np.zeros((K, d))
        scatter = np.zeros((1 if self.tied else K, d, d))
        if features.observed is None:  # no filling in: a class needs only its own rows
            for k, rows, w in by_class(weights):
                self._add(k, features.values[rows] - pilot[k], w, weight, sums, scatter)
                scatter[0 if self.tied else k] += w.sum() * self.noise * np.eye(d)
            return Moments(weight, sums, scatter)
        dense = np.asarray(weights.todense()) if hasattr(weights, "todense") else weights
        for mask, rows, k, fill, around in self._fills(params, features, K):
            w = dense[rows, k]
            observed = features.values[rows][:, mask]
            base = pilot[k] if params is None else params.mean[k]
            filled = base + (observed - base[mask]) @ fill.T
            self._add(k, filled - pilot[k], w, weight, sums, scatter)
            scatter[0 if self.tied else k] += w.sum() * (self.noise * fill @ fill.T + around)
        return Moments(weight, sums, scatter)

    def _add(
        self, k: int, centred: Array, w: Array, weight: Array, sums: Array, scatter: Array
    ) -> None:
        weight[k] += w.sum()
        sums[k] += w @ centred
        scatter[0 if self.tied else k] += (centred * w[:, None]).T @ centred

    def _fills(
        self, params: Params | None, features: Cells, K: int
    ) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp], int, Array, Array]]:
        """Yield, for each pattern and class, the map from observed cells O to all cells.

        It is the identity on O and Sigma_MO Sigma_OO^-1 on the missing cells M; with it comes the
        conditional covariance of M. Before there are params, M is at the pilot with the spread.
        """
        d = features.values.shape[1]
        if params is None:
            for mask, rows in features.patterns:
                for k in range(K):
                    yield mask, rows, k, np.eye(d)[:, mask], np.diag(~mask * self.spread)
            return
        for mask, rows, k, factor in self._factors(params, features):
            covariance = params.covariance[k]
            fill = np.eye(d)[:, mask]
            fill[~mask] = cho_solve((factor, True), covariance[np.ix_(mask, ~mask)]).T
            around = np.zeros((d, d))
            around[np.ix_(~mask, ~mask)] = (
                covariance[np.ix_(~mask, ~mask)] - fill[~mask] @ covariance[np.ix_(mask, ~mask)]
            )
            yield mask, rows, k, fill, around

    def complete(self, features: Cells) -> npt.NDArray[np.bool_]:
        """Return the rows without a missing cell."""
        return features.complete

    def maximize(self, statistics: Moments) -> Params:
        """Return L's psi, mu and Sigma; the mean and covariance of all where a class is empty."""
        n = statistics.weight[:, None]
        shift = ratio(statistics.sums, n, 0.0)
        mean = self.pilot + shift
        total = n.sum()
        centre = (n * mean).sum(axis=0) / total
        if self.tied:
            within = statistics.scatter[0] - (n * shift).T @ shift
            covariance = np.broadcast_to(_symmetric(within / total), (len(n), *within.shape))
        else:
            within = statistics.scatter - n[:, :, None] * shift[:, :, None] * shift[:, None, :]
            between = np.where(n > 0, mean - centre, 0.0)
            everywhere = (within.sum(axis=0) + (n * between).T @ between) / total
            covariance = _symmetric(ratio(within, n[:, :, None], everywhere))
        return Params(np.where(n > 0, mean, centre), covariance)

    def log_joint(self, params: Params, statistics: Moments) -> float:
        """Return the expected log-density of all cells, missing ones and noise included."""
        n, shift = statistics.weight, params.mean - self.pilot
        cross = statistics.sums[:, :, None] * shift[:, None, :]
        moved = n[:, None, None] * shift[:, :, None] * shift[:, None, :] - cross
        scatter = moved - np.swapaxes(cross, 1, 2)
        if self.tied:
            scatter = statistics.scatter + scatter.sum(axis=0, keepdims=True)
            n = n.sum(keepdims=True)
        else:
            scatter = statistics.scatter + scatter
        result = 0.0
        for k, (weight, part) in enumerate(zip(n, scatter, strict=True)):
            factor = _cholesky(params.covariance[k], k)
            log_det = 2.0 * np.log(np.diagonal(factor)).sum()
            trace = np.trace(cho_solve((factor, True), part))
            result -= 0.5 * (weight * (len(factor) * np.log(2.0 * np.pi) + log_det) + trace)
        return float(result)

    def reorder(self, statistics: Moments, order: npt.NDArray[np.intp]) -> tuple[Self, Moments]:
        """Return the family and statistics with the classes in another order."""
        pilot = np.broadcast_to(self.pilot, statistics.sums.shape)[order]
        scatter = statistics.scatter if self.tied else statistics.scatter[order]
        return replace(self, pilot=pilot), Moments(
            statistics.weight[order], statistics.sums[order], scatter
        )

    def sample(
        self,
        params: Params,
        statistics: Moments,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        """Draw from the normal distributions."""
        factors = np.stack([_cholesky(c, k) for k, c in enumerate(params.covariance)])
        noise = rng.standard_normal((len(labels), params.mean.shape[1]))
        return np.asarray(params.mean[labels] + np.einsum("nab,nb->na", factors[labels], noise))

    def n_parameters(self, params: Params) -> int:
        """Return K d for the means and d (d + 1) / 2 for each covariance."""
        K, d = params.mean.shape
        return int(K * d + (1 if self.tied else K) * d * (d + 1) // 2)


def _symmetric(covariance: Array) -> Array:
    return 0.5 * (covariance + np.swapaxes(covariance, -1, -2))


def _cholesky(covariance: Array, k: int) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"The covariance of class {k} is singular: too few rows, or features that are constant "
            "or copies of each other. Raise var_smoothing (in mixtures reg_covar), use "
            "covariance 'diag' or 'tied', or leave features out."
        ) from None
