"""Numbers that vary together: one covariance for all classes (GDA, S5), or one for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.em import Sums
from tacit.families.gaussian import Normal, by_class
from tacit.numerics import Array, ratio
from tacit.rows import Cells

__all__ = ["Discriminant"]


class Block(NamedTuple):
    """What a set O of observed cells needs of covariances: one entry a class, tied ones just one.

    `whiten` is the inverse of the Cholesky factor of Sigma_OO and `log_det` the logarithm of its
    determinant; `fill` maps O to all cells, the identity on O and Sigma_MO Sigma_OO^-1 on the
    missing cells M; `around` is the conditional covariance of M, zero elsewhere.
    """

    whiten: Array
    log_det: Array
    fill: Array
    around: Array


@dataclass(frozen=True)
class Params:
    """Means (K, d) and covariances, (K, d, d) or tied (1, d, d)."""

    mean: Array
    covariance: Array

    @cached_property
    def _blocks(self) -> dict[bytes, Block]:
        return {}

    def block(self, mask: npt.NDArray[np.bool_]) -> Block:
        """Return the block of observed cells; scoring and counting share it."""
        key = mask.tobytes()
        if key not in self._blocks:
            self._blocks[key] = _block(self.covariance, mask)
        return self._blocks[key]

    def __getstate__(self) -> dict[str, Any]:
        return {"mean": self.mean, "covariance": self.covariance}


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
        for mask, rows in features.patterns:
            block, X = params.block(mask), features.values[rows][:, mask]
            # The trace of the inverse is the sum of squares of the inverse factor.
            constant = block.log_det + noise * (block.whiten**2).sum(axis=(1, 2))
            constant = constant + mask.sum() * np.log(2.0 * np.pi)
            for k in range(scores.shape[1]):
                own = 0 if self.tied else k
                whitened = (X - params.mean[k, mask]) @ block.whiten[own].T
                scores[rows, k] = -0.5 * ((whitened**2).sum(axis=1) + constant[own])
        return scores

    def count(self, features: Cells, weights: Any, params: Params | None = None) -> Moments:
        """Sum weights, values and their products, with what is expected of missing cells."""
        K, d = weights.shape[1], features.values.shape[1]
        pilot = np.broadcast_to(self.pilot, (K, d))
        weight, sums = np.zeros(K), np.zeros((K, d))
        scatter = np.zeros((1 if self.tied else K, d, d))

        def add(k: int, centred: Array, w: Array, spread: Array) -> None:
            weight[k] += w.sum()
            sums[k] += w @ centred
            scatter[0 if self.tied else k] += (centred * w[:, None]).T @ centred + w.sum() * spread

        if features.observed is None:  # nothing to fill in: a class needs only its own rows
            for k, rows, w in by_class(weights):
                add(k, features.values[rows] - pilot[k], w, self.noise * np.eye(d))
            return Moments(weight, sums, scatter)
        dense = weights.toarray() if sparse.issparse(weights) else weights
        for mask, rows in features.patterns:
            X = features.values[rows][:, mask]
            for k in range(K):
                if params is None:  # before there are any: at the pilot, with the spread
                    base, fill, around = pilot[k], np.eye(d)[:, mask], np.diag(~mask * self.spread)
                else:
                    block, own = params.block(mask), 0 if self.tied else k
                    base, fill, around = params.mean[k], block.fill[own], block.around[own]
                filled = base + (X - base[mask]) @ fill.T
                add(k, filled - pilot[k], dense[rows, k], self.noise * fill @ fill.T + around)
        return Moments(weight, sums, scatter)

    def complete(self, features: Cells) -> npt.NDArray[np.bool_]:
        """Return the rows without a missing cell."""
        return features.complete

    def maximize(self, statistics: Moments) -> Params:
        """Return L's mu and Sigma; the mean and covariance of all rows where a class is empty."""
        n = statistics.weight[:, None]
        shift = ratio(statistics.sums, n, 0.0)
        mean = self.pilot + shift
        centre = (n * mean).sum(axis=0) / n.sum()
        moved = n[:, :, None] * shift[:, :, None] * shift[:, None, :]
        if self.tied:
            within = (statistics.scatter - moved.sum(axis=0)) / n.sum()
        else:
            within = statistics.scatter - moved
            between = np.where(n > 0, mean - centre, 0.0)
            everywhere = (within.sum(axis=0) + (n * between).T @ between) / n.sum()
            within = ratio(within, n[:, :, None], everywhere)
        covariance = 0.5 * (within + np.swapaxes(within, 1, 2))
        return Params(np.where(n > 0, mean, centre), covariance)

    def log_joint(self, params: Params, statistics: Moments) -> float:
        """Return the expected log-density of all cells, missing ones and noise included."""
        n, shift = statistics.weight, params.mean - self.pilot
        cross = statistics.sums[:, :, None] * shift[:, None, :]
        moved = n[:, None, None] * shift[:, :, None] * shift[:, None, :]
        change = moved - cross - np.swapaxes(cross, 1, 2)
        if self.tied:
            n, change = n.sum(keepdims=True), change.sum(axis=0, keepdims=True)
        block = params.block(np.ones(shift.shape[1], dtype=bool))
        precision = np.swapaxes(block.whiten, 1, 2) @ block.whiten
        traces = (precision * (statistics.scatter + change)).sum(axis=(1, 2))
        log_norm = shift.shape[1] * np.log(2.0 * np.pi) + block.log_det
        return float(-0.5 * (n * log_norm + traces).sum())

    def rounding(self, params: Params, statistics: Moments) -> float:
        """Return the rounding of the scatter, times the condition of the covariances."""
        whiten = params.block(np.ones(params.mean.shape[1], dtype=bool)).whiten
        shift = ((params.mean - self.pilot) ** 2).sum(axis=1)
        size = shift + np.trace(params.covariance, axis1=1, axis2=2)
        condition = size * (whiten**2).sum(axis=(1, 2))  # traces of Sigma and its inverse
        return float(np.finfo(np.float64).eps * (statistics.weight * condition).sum())

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
        factors = np.linalg.cholesky(params.covariance)
        own = np.zeros_like(labels) if self.tied else labels
        noise = rng.standard_normal((len(labels), params.mean.shape[1]))
        return np.asarray(params.mean[labels] + np.einsum("nab,nb->na", factors[own], noise))

    def n_parameters(self, params: Params) -> int:
        """Return K d for the means and d (d + 1) / 2 for each covariance."""
        K, d = params.mean.shape
        return int(K * d + (1 if self.tied else K) * d * (d + 1) // 2)


def _block(covariance: Array, mask: npt.NDArray[np.bool_]) -> Block:
    seen, hidden = np.flatnonzero(mask), np.flatnonzero(~mask)
    try:
        factor = np.linalg.cholesky(covariance[:, seen[:, None], seen])
    except np.linalg.LinAlgError:
        raise ValueError(
            "The covariance of a class is singular: too few rows, or features that are constant or "
            "copies of each other. Raise var_smoothing (in mixtures reg_covar), choose 'diag' or "
            "'tied', or leave features out."
        ) from None
    diagonal = np.diagonal(factor, axis1=1, axis2=2)
    whiten = np.linalg.solve(factor, np.broadcast_to(np.eye(len(seen)), factor.shape))
    fill = np.zeros((len(covariance), len(mask), len(seen)))
    around = np.zeros_like(covariance)
    fill[:, seen, np.arange(len(seen))] = 1.0
    if len(hidden):
        across = covariance[:, hidden[:, None], seen]
        half = across @ np.swapaxes(whiten, 1, 2)
        fill[:, hidden] = half @ whiten
        around[:, hidden[:, None], hidden] = covariance[
            :, hidden[:, None], hidden
        ] - half @ np.swapaxes(half, 1, 2)
    return Block(whiten, 2.0 * np.log(diagonal).sum(axis=1), fill, around)
