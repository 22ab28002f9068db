"""Numbers that vary together: one covariance for all classes (GDA, S5), or one for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.data.dense import DenseRows
from tacit.families.base import check_array, check_is
from tacit.families.gaussian import EPS, LARGEST, LEAST, CentredMoments, Normal, by_class
from tacit.io.records import plain
from tacit.numerics import Array, Matrix, ratio

__all__ = ["RECORDS", "Discriminant", "whiten"]

LOG_2_PI = float(np.log(2.0 * np.pi))
SINGULAR = (
    "The covariance of a class is singular: too few rows, or features that are constant or copies "
    "of each other. Raise var_smoothing (in mixtures reg_covar), choose 'diag' or 'tied', or leave "
    "features out."
)


@dataclass(frozen=True)
class Params:
    """Means (K, d) and covariances, (K, d, d) or tied (1, d, d)."""

    mean: Array
    covariance: Array


@dataclass(frozen=True)
class Moments(CentredMoments):
    """Soft counts (K,), sums (K, d) and scatter around the pilot: (K, d, d), tied (1, d, d)."""

    scatter: Array

    @property
    def squared(self) -> Array:
        """Sums of squares around the pilot, of each class or of all."""
        return np.diagonal(self.scatter, axis1=1, axis2=2)

    def around(self, pilot: Array) -> Self:
        """Return the same moments around another pilot."""
        shift = self.pilot - pilot
        sums = self.sums + self.weight[:, None] * shift
        change = outer(shift, self.sums) + outer(sums, shift)
        tied = len(self.scatter) < len(sums)
        scatter = self.scatter + (change.sum(axis=0, keepdims=True) if tied else change)
        return replace(self, pilot=pilot, sums=sums, scatter=scatter)


def outer(a: Array, b: Array) -> Array:
    """Return the outer product of each row of a with that of b."""
    return a[:, :, None] * b[:, None, :]


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

    @property
    def kind(self) -> tuple[Any, ...]:
        """Whether the classes share one covariance is a part of it."""
        return Discriminant, self.tied

    def adopt(self, other: Self) -> Self:
        """Take the constants of the data from another family."""
        if self.tied != other.tied:
            raise ValueError("covariance cannot change from one partial_fit to the next.")
        return super().adopt(other)

    def score(self, params: Params, features: DenseRows, fitting: bool = False) -> Array:
        """Return log N(x_O; mean_O, Sigma_OO) of the observed cells O."""
        noise = self.noise if fitting else 0.0
        scores = np.empty((len(features), len(params.mean)))
        for mask, rows in features.patterns:
            inverse, log_det = whiten(params.covariance, mask)
            X = features.values[rows][:, mask]
            # The trace of Sigma^-1 is the sum of squares of its factor.
            constant = log_det + noise * (inverse**2).sum(axis=(1, 2)) + mask.sum() * LOG_2_PI
            for k in range(scores.shape[1]):
                own = 0 if self.tied else k
                whitened = (X - params.mean[k, mask]) @ inverse[own].T
                scores[rows, k] = -0.5 * ((whitened**2).sum(axis=1) + constant[own])
        return scores

    def _count(
        self, features: DenseRows, weights: Matrix, pilot: Array, params: Params | None
    ) -> Moments:
        """Sum weights, values and their products, with what is expected of missing cells."""
        K, d = pilot.shape
        weight, sums = np.zeros(K), np.zeros((K, d))
        scatter = np.zeros((1 if self.tied else K, d, d))

        def add(k: int, centred: Array, w: Array, spread: Array) -> None:
            weight[k] += w.sum()
            sums[k] += w @ centred
            scatter[0 if self.tied else k] += (centred * w[:, None]).T @ centred + w.sum() * spread

        if features.observed is None:  # nothing to fill in: a class needs only its own rows
            for k, rows, w in by_class(weights):
                add(k, features.values[rows] - pilot[k], w, self.noise * np.eye(d))
            return Moments(pilot, weight, sums, scatter)
        dense = weights.toarray() if sparse.issparse(weights) else weights
        for mask, rows in features.patterns:
            X = features.values[rows][:, mask]
            if params is None:  # missing cells at the pilot, with the spread
                fill = np.eye(d)[:, mask][None]
                around = np.diag(~mask * (self.spread + self.noise))[None]
            else:
                fill, around = conditional(params.covariance, mask)
            for k in range(K):
                own = k % len(fill)
                centred = (X - pilot[k, mask]) @ fill[own].T
                add(k, centred, dense[rows, k], self.noise * fill[own] @ fill[own].T + around[own])
        return Moments(pilot, weight, sums, scatter)

    def complete(self, features: DenseRows) -> npt.NDArray[np.bool_]:
        """Return the rows without a missing cell."""
        return features.complete

    def maximize(self, statistics: Moments) -> Params:
        """Return L's mu and Sigma; the mean and covariance of all rows where a class is empty."""
        n = statistics.weight[:, None]
        total = n.sum()
        shift = ratio(statistics.sums, n, 0.0)
        mean = statistics.pilot + shift
        centre = (n * mean).sum(axis=0) / total
        scatter = statistics.scatter
        # No less than the rounding of the sums.
        least = 4.0 * EPS * scatter * np.eye(scatter.shape[1])
        if self.tied:
            moved = np.einsum("ki,kj->ij", n * shift, shift)  # no table for each class
            covariance = (scatter - moved + least) / total
        else:
            within = scatter - outer(n * shift, shift) + least
            between = np.where(n > 0, mean - centre, 0.0)
            everywhere = (within.sum(axis=0) + (n * between).T @ between) / total
            covariance = ratio(within, n[:, :, None], everywhere)
        covariance = 0.5 * (covariance + np.swapaxes(covariance, 1, 2))
        return Params(np.where(n > 0, mean, centre), covariance)

    def log_joint(self, params: Params, statistics: Moments) -> float:
        """Return the expected log-density of all cells, missing ones and noise included."""
        n, scatter = statistics.weight, statistics.around(params.mean).scatter
        inverse, log_det = whiten(params.covariance)
        precision = np.swapaxes(inverse, 1, 2) @ inverse
        weight = n.sum(keepdims=True) if self.tied else n
        log_norm = scatter.shape[1] * LOG_2_PI + log_det
        return float(-0.5 * (weight * log_norm + (precision * scatter).sum(axis=(1, 2))).sum())

    def rounding(self, params: Params, statistics: Moments) -> float:
        """Return the rounding of the scatter, times the size of the inverse covariances."""
        inverse, _ = whiten(params.covariance)
        scatter = np.trace(statistics.scatter, axis1=1, axis2=2)
        return EPS * float((scatter * (inverse**2).sum(axis=(1, 2))).sum())

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

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check the sums."""
        super().check(statistics, K, d)
        check_is(statistics, Moments)
        check_array("weight", statistics.weight, (K,), least=0.0)
        check_array("pilot", statistics.pilot, (K, d))
        check_array("sums", statistics.sums, (K, d))
        check_array("scatter", statistics.scatter, (1 if self.tied else K, d, d))

    def check_params(self, params: Params) -> None:
        """Check the means, and that the covariances are positive definite."""
        check_array("mean", params.mean, params.mean.shape, least=-LARGEST, most=LARGEST)
        check_array("covariance", params.covariance, params.covariance.shape)
        variances = np.diagonal(params.covariance, axis1=1, axis2=2)
        check_array("variance", variances, variances.shape, least=LEAST)
        whiten(params.covariance)


def whiten(covariance: Array, mask: npt.NDArray[np.bool_] | None = None) -> tuple[Array, Array]:
    """Return the inverses of the Cholesky factors of Sigma_OO, and the logs of its determinants.

    Examples
    --------
    >>> inverse, log_det = whiten(np.diag([4.0, 9.0])[None], np.array([True, False]))
    >>> inverse.ravel(), np.exp(log_det)
    (array([0.5]), array([4.]))
    """
    if mask is not None:
        covariance = covariance[:, mask][:, :, mask]
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ValueError(SINGULAR) from None
    pivots = np.diagonal(factor, axis1=1, axis2=2)
    # What the features before leave of a variance: nothing but rounding is nothing.
    if (pivots**2 < 1e-13 * np.diagonal(covariance, axis1=1, axis2=2)).any():
        raise ValueError(SINGULAR)
    inverse = np.linalg.solve(factor, np.broadcast_to(np.eye(factor.shape[1]), factor.shape))
    return inverse, 2.0 * np.log(pivots).sum(axis=1)


def conditional(covariance: Array, mask: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the map from the observed cells O to all cells, and the covariance around it.

    The map is the identity on O and Sigma_MO Sigma_OO^-1 on the missing cells M; around it, M has
    its conditional covariance, and O none.
    """
    inverse, _ = whiten(covariance, mask)
    fill = np.zeros((*covariance.shape[:2], int(mask.sum())))
    fill[:, mask] = np.eye(int(mask.sum()))
    half = covariance[:, ~mask][:, :, mask] @ np.swapaxes(inverse, 1, 2)
    fill[:, ~mask] = half @ inverse
    around = np.zeros_like(covariance)
    around[:, np.outer(~mask, ~mask)] = (
        covariance[:, ~mask][:, :, ~mask] - half @ np.swapaxes(half, 1, 2)
    ).reshape(len(covariance), -1)
    return fill, around


# As files name them.
RECORDS = {"Discriminant": plain(Discriminant), "DiscriminantMoments": plain(Moments)}
