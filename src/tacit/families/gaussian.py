"""Numbers, independent within a class: a mean and a variance for each feature (S4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import kernels
from tacit.data.dense import DenseRows, dense_rows
from tacit.data.rows import Rows
from tacit.em import Sums
from tacit.families.base import Expected, Family, check_array, check_is, is_labelled
from tacit.io.records import plain
from tacit.numerics import Array, Matrix, column_sums, ratio

__all__ = ["RECORDS", "CentredMoments", "Gaussian", "Normal"]

LARGEST = 1e150

# Rows whose mean is the first guess of the mean of all.
SAMPLE = 1024

# Sums of squares around a pilot are exact enough if its squared distance from the mean is at most
# this many times the variance: one digit is lost.
NEAR = 10.0

EPS = float(np.finfo(np.float64).eps)
# Interquartile ranges beyond the quartiles at which values are clipped.
FAR = 3.0
# Lower bound of the shared variance, as a fraction of the squared range.
NARROWEST = 1e-4
# Variances below this have inverses that overflow once they are multiplied.
LEAST = 1e-290


@dataclass(frozen=True)
class Normal(Family):
    """What the families of normal distributions share: the noise floor and the pilot.

    Each value is taken as known up to noise of variance `noise`: fitting maximises the expected
    log-density E log N(x + noise). Its estimate is the variance of the data plus `noise`, which
    is scikit-learn's smoothing; stated like this, EM has an objective that never falls. The
    density that predictions use is N(x) itself.

    Squares are never summed raw, which cancels, but around the means of the params at hand, or
    where there are none, around the means of the classes, found in a pass around the `pilot`.

    Attributes
    ----------
    var_smoothing : float
        The noise as a part of the largest variance of all features.
    noise : float, optional
        The noise itself; else set by `bind`.
    pilot : ndarray of shape (d,)
        The mean of all rows, the origin of a first pass; set by `bind`.
    spread : ndarray of shape (d,)
        The variance of each feature in all rows; set by `bind`.
    """

    var_smoothing: float = 1e-9
    noise: Any = None
    pilot: Any = None
    spread: Any = None

    def bind(self, X: Matrix) -> Self:
        """Find the pilot, the spread and the noise."""
        X = self.encode(X)
        n = n_observed(X)
        some = X.take(slice(None, None, max(1, len(X) // SAMPLE)))
        pilot = ratio(some.values.sum(axis=0), n_observed(some), 0.0)
        for _ in range(2):  # once more around the mean, where the sample was far from it
            sums, squares = sum_around(X, None, pilot[None, :])
            shift = ratio(sums[0], n, 0.0)
            spread = np.maximum(ratio(squares[0], n, 0.0) - shift**2, 0.0)
            pilot = pilot + shift
            if (shift**2 <= NEAR * spread).all():
                break
        noise = self.noise
        if noise is None:
            largest = spread.max()
            noise = float(self.var_smoothing * (largest if largest > 0 else 1.0))
        return replace(self, noise=noise, pilot=pilot, spread=np.where(n > 0, spread, 1.0))

    def adopt(self, other: Self) -> Self:
        """Take the constants of the data from another family."""
        noise = other.noise if self.noise is None else self.noise
        return replace(self, noise=noise, pilot=other.pilot, spread=other.spread)

    @abstractmethod
    def _count(
        self, features: DenseRows, weights: Matrix, pilot: Array, params: Any
    ) -> CentredMoments:
        """Return the statistics of rows around a pilot of shape (K, d)."""

    def count(self, features: DenseRows, weights: Matrix, params: Any = None) -> Any:
        """Sum weights, values and squares, with what the params expect of missing cells."""
        if params is not None:
            return self._count(features, weights, params.mean, params)
        shape = weights.shape[1], features.values.shape[1]
        found = self._count(features, weights, np.broadcast_to(self.pilot, shape), None)
        return found if found.exact else self._count(features, weights, found.means(), None)

    def recentre(self, statistics: Any, centre: Any) -> Any:
        """Return the sums around the means of the params, or the pilot of other statistics."""
        pilot = centre.pilot if isinstance(centre, CentredMoments) else centre.mean
        return statistics if statistics.pilot is pilot else statistics.around(pilot)

    def encode(self, X: Matrix) -> DenseRows:
        """Mark NaN as missing."""
        encoded = dense_rows(X)
        found = kernels.scan(encoded.values)
        if max(found.most, -found.least) > LARGEST:
            raise ValueError(
                f"X holds numbers beyond {LARGEST:g}, whose squares overflow: rescale the features."
            )
        return encoded

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check the constants of the data; the sums are for the families to check."""
        check_array("noise", np.asarray(self.noise, dtype=np.float64), (), least=0.0)
        check_array("pilot", self.pilot, (d,))
        check_array("spread", self.spread, (d,), least=0.0)


@dataclass(frozen=True)
class Params:
    """Means and variances, each of shape (K, d)."""

    mean: Array
    variance: Array


@dataclass(frozen=True)
class CentredMoments(Sums, ABC):
    """Sums around a pilot. Two can be added if they are around the same, as those of a round are.

    `around` makes them so (see `tacit.families.Family.recentre`).
    """

    pilot: Array  # (K, d)
    weight: Array  # (K,) or (K, d)
    sums: Array  # (K, d)

    def means(self) -> Array:
        """Return the means, or the pilot where there is no weight."""
        return self.pilot + ratio(self.sums, self.weight.reshape(len(self.sums), -1), 0.0)

    @abstractmethod
    def around(self, pilot: Array) -> Self:
        """Return the same moments around another pilot."""

    @property
    @abstractmethod
    def squared(self) -> Array:
        """Sums of squares around the pilot, of shape (K, d) or (1, d)."""

    @property
    def exact(self) -> bool:
        """Whether the means are so near the pilot that sums of squares lose no digits."""
        n = self.weight.reshape(len(self.sums), -1)
        shift = n * ratio(self.sums, n, 0.0) ** 2
        if len(self.squared) < len(shift):
            shift = shift.sum(axis=0, keepdims=True)
        return bool((shift <= NEAR * (self.squared - shift)).all())

    def __add__(self, other: Self) -> Self:
        if self.pilot is not other.pilot and not np.array_equal(self.pilot, other.pilot):
            raise ValueError("Sums around different pilots cannot be added: recentre one of them.")
        names = [field.name for field in fields(self) if field.name != "pilot"]
        return replace(other, **{n: getattr(self, n) + getattr(other, n) for n in names})


@dataclass(frozen=True)
class Moments(CentredMoments):
    """Soft counts of observed cells, sums and squares around the pilot, each of shape (K, d)."""

    squares: Array

    @property
    def squared(self) -> Array:
        """Sums of squares around the pilot."""
        return self.squares

    def around(self, pilot: Array) -> Self:
        """Return the same moments around another pilot."""
        shift = self.pilot - pilot
        sums = self.sums + self.weight * shift
        squares = self.squares + shift * (self.sums + sums)
        return replace(self, pilot=pilot, sums=sums, squares=squares)


@dataclass(frozen=True)
class Gaussian(Normal):
    """p(x | y) = prod_j N(x_j; mean_yj, variance_yj) (L "Gaussian Distribution").

    Attributes
    ----------
    prior_rows : float
        Pseudo-observations per class with the variance of all rows, as smoothing adds counts: an
        inverse gamma prior of the variance.
    shared : bool
        Whether all classes and features share one variance, in units of the squared range of each
        feature in all rows, as in k-means.
    fence : ndarray of shape (2, d), optional
        If `shared`, the winsorizing limits, set by `bind`: values beyond three interquartile ranges
        from the quartiles are clipped.

    Examples
    --------
    >>> X = np.array([[1.0], [3.0], [np.nan]])
    >>> family = Gaussian(var_smoothing=0.0).bind(X)
    >>> family.maximize(family.count(family.encode(X), np.ones((3, 1))))
    Params(mean=array([[2.]]), variance=array([[1.]]))
    """

    prior_rows: float = 0.0
    shared: bool = False
    fence: Any = None

    def bind(self, X: Matrix) -> Self:
        """Find the pilot, the spread and the noise; the spread by the range if it is shared."""
        if not self.shared:
            return super().bind(X)
        fence = _fence(super().encode(X))
        found = Normal.bind(replace(self, fence=fence), X)
        spread = np.where(fence[1] > fence[0], fence[1] - fence[0], 1.0) ** 2
        return replace(found, noise=0.0, spread=np.maximum(spread, LEAST / NARROWEST))

    def adopt(self, other: Self) -> Self:
        """Take the constants of the data from another family."""
        return replace(super().adopt(other), fence=other.fence)

    def encode(self, X: Matrix) -> DenseRows:
        """Mark NaN as missing, and clip values to the winsorizing limits."""
        encoded = super().encode(X)
        if self.fence is None:
            return encoded
        return replace(encoded, values=np.clip(encoded.values, *self.fence))

    def score(self, params: Params, features: DenseRows, fitting: bool = False) -> Array:
        """Return sum_j log N(x_j; mean_j, variance_j) over the observed cells."""
        X, observed, native = features.values, features.observed, kernels.native()
        noise = self.noise if fitting else 0.0
        scores = np.empty((len(X), len(params.mean)))
        if native is not None:
            shape = params.mean, params.variance, float(noise)
            threads = kernels.threads(2 * scores.size * X.shape[1])
            native.score_gaussian(X, observed, *shape, scores, threads)
            return scores
        for k, (mean, variance) in enumerate(zip(params.mean, params.variance, strict=True)):
            log_norm = np.log(2.0 * np.pi * variance)
            terms = (X - mean) ** 2 + noise
            if observed is None:
                scores[:, k] = terms @ (1.0 / variance) + log_norm.sum()
            else:
                scores[:, k] = (terms * observed) @ (1.0 / variance) + observed @ log_norm
        return -0.5 * scores

    def expect(self, params: Params, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Score, normalise and count in one pass of the kernels."""
        native, features = kernels.native(), rows.features
        if native is None:
            return None
        assert isinstance(features, DenseRows)
        (K, d), observed = params.mean.shape, features.observed
        sums, squares, classes = np.empty((d, K)), np.empty((d, K)), np.empty(K)
        seen = None if observed is None else np.empty((d, K))
        given = (
            features.values,
            observed,
            params.mean,
            params.variance,
            float(self.noise),
            log_prior,
        )
        log_likelihood = native.expect_gaussian(
            *given,
            rows.evidence,
            rows.weight,
            hard,
            sums,
            squares,
            seen,
            classes,
            kernels.threads(2 * features.values.size * K),
        )
        weight = np.repeat(classes[:, None], d, axis=1) if seen is None else seen.T
        return Expected(log_likelihood, classes, Moments(params.mean, weight, sums.T, squares.T))

    def _count(self, features: DenseRows, weights: Matrix, pilot: Array, params: Any) -> Moments:
        """Sum weights, values and squares of the observed cells."""
        if features.observed is None:
            weight = np.repeat(column_sums(weights)[:, None], pilot.shape[1], axis=1)
        else:
            weight = np.asarray(weights.T @ features.observed.astype(np.float64))
        return Moments(pilot, weight, *sum_around(features, weights, pilot))

    def maximize(self, statistics: Moments) -> Params:
        """Return weighted means and variances; those of all rows where a class has no weight."""
        n, squares = statistics.weight, statistics.squares
        shift = ratio(statistics.sums, n, 0.0)
        mean = statistics.pilot + shift
        within = np.maximum(squares - n * shift**2, 4.0 * EPS * squares)  # no less than rounding
        # All classes together: what a class without weight in a feature is given.
        total = n.sum(axis=0)
        centre = ratio((n * mean).sum(axis=0), total, mean.mean(axis=0))
        mean = np.where(n > 0, mean, centre)
        if self.shared:
            seen = n.sum()
            part = float((within / self.spread).sum() / seen) if seen > 0 else 1.0
            part = max(part, NARROWEST)
            return Params(mean, np.repeat(part * self.spread[None, :], len(mean), axis=0))
        everywhere = ratio((within + n * (mean - centre) ** 2).sum(axis=0), total, 1.0)
        if self.prior_rows:
            within, n = within + self.prior_rows * self.spread, n + self.prior_rows
        variance = ratio(within, n, everywhere) + self.noise
        if (variance <= 0).any():
            k, j = np.argwhere(variance <= 0)[0]
            raise ValueError(
                f"Feature {j} has no variance in class {k}, so that its density is infinite. Set "
                "var_smoothing (in mixtures reg_covar) above 0, or leave the feature out."
            )
        return Params(mean, variance)

    def log_prior(self, params: Params) -> float:
        """Return the log density of the variances: what the rows of the prior say of them."""
        if not self.prior_rows:
            return 0.0
        squares = (self.spread + self.noise) / params.variance
        return float(-0.5 * self.prior_rows * (np.log(params.variance) + squares).sum())

    def log_joint(self, params: Params, statistics: Moments) -> float:
        """Return the expected log-density of the cells, noise included."""
        n, squares = statistics.weight, statistics.around(params.mean).squares
        log_norm = np.log(2 * np.pi * params.variance)
        return float(-0.5 * (n * log_norm + (squares + n * self.noise) / params.variance).sum())

    def rounding(self, params: Params, statistics: Moments) -> float:
        """Return the rounding of the sums of squares, in units of the variances."""
        return EPS * float((statistics.squares / params.variance).sum())

    def sample(
        self,
        params: Params,
        statistics: Moments,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        """Draw from the normal distributions."""
        noise = rng.standard_normal((len(labels), params.mean.shape[1]))
        return np.asarray(params.mean[labels] + noise * np.sqrt(params.variance[labels]))

    def n_parameters(self, params: Params) -> int:
        """Return 2 K d, or K d + 1 if the variance is shared."""
        return int(params.mean.size + (1 if self.shared else params.mean.size))

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check the sums."""
        super().check(statistics, K, d)
        check_is(statistics, Moments)
        check_array("prior_rows", np.asarray(self.prior_rows, dtype=np.float64), (), least=0.0)
        if self.shared:
            check_array("fence", self.fence, (2, d), least=-LARGEST, most=LARGEST)
        check_array("weight", statistics.weight, (K, d), least=0.0)
        for name in ("pilot", "sums", "squares"):
            check_array(name, getattr(statistics, name), (K, d))

    def check_params(self, params: Params) -> None:
        """Check that the means are no larger than values can be, and the variances positive."""
        check_array("mean", params.mean, params.mean.shape, least=-LARGEST, most=LARGEST)
        check_array("variance", params.variance, params.mean.shape, least=LEAST)


def _fence(X: DenseRows) -> Array:
    """Return the winsorizing limits of each column."""
    values = X.values if X.observed is None else np.where(X.observed, X.values, np.nan)
    fence = np.tile([[0.0], [1.0]], values.shape[1])
    for j, column in enumerate(values.T):
        there = column[~np.isnan(column)]
        if len(there):
            least, low, high, most = np.quantile(there, (0.0, 0.25, 0.75, 1.0))
            far = FAR * (high - low) or np.inf
            fence[:, j] = max(least, low - far), min(most, high + far)
    return fence


def n_observed(X: DenseRows) -> Array:
    """Return the number of observed cells in each column."""
    if X.observed is None:
        return np.full(X.values.shape[1], float(len(X)))
    return np.asarray(X.observed.sum(axis=0), dtype=np.float64)


def sum_around(features: DenseRows, weights: Matrix, pilot: Array) -> tuple[Array, Array]:
    """Return the weighted sums of observed values and squares around the pilot of each class.

    Weights are None if there is one class, to which every row belongs.
    """
    X, observed, native = features.values, features.observed, kernels.native()
    sums, squares = np.zeros(pilot.shape), np.zeros(pilot.shape)
    if native is not None and observed is None and (weights is None or is_labelled(weights)):
        if weights is None:
            labels, each = np.zeros(len(X), np.int64), np.ones(len(X))
        else:
            labels, each = weights.indices.astype(np.int64), weights.data
        pieces = map(np.ascontiguousarray, (X, labels, each, pilot))
        native.moments(*pieces, sums, squares, kernels.threads(X.size))
        return sums, squares
    for k, rows, w in by_class(np.ones((len(X), 1)) if weights is None else weights):
        centred = X[rows] - pilot[k]
        if observed is not None:
            centred *= observed[rows]
        sums[k] = w @ centred
        squares[k] = w @ centred**2
    return sums, squares


def by_class(weights: Matrix) -> Iterator[tuple[int, Any, Array]]:
    """Yield each class with its rows and their weights: of a CSR matrix only its own rows."""
    if not sparse.issparse(weights):
        yield from ((k, slice(None), weights[:, k]) for k in range(weights.shape[1]))
        return
    columns = weights.tocsc()
    for k in range(weights.shape[1]):
        part = slice(columns.indptr[k], columns.indptr[k + 1])
        yield k, columns.indices[part], columns.data[part]


# As files name them.
RECORDS = {
    "Gaussian": plain(Gaussian, later=("prior_rows", "shared", "fence")),
    "GaussianMoments": plain(Moments),
}
