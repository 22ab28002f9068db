"""The contract of a family p(x | y), and smoothing, which the discrete ones share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.data.rows import Rows
from tacit.kernels import Output
from tacit.numerics import Array, Matrix, expected_log

__all__ = [
    "Expected",
    "Family",
    "Smoothed",
    "check_array",
    "check_is",
    "check_sums_to_one",
    "is_labelled",
]


class Expected(NamedTuple):
    """Expected statistics of rows.

    Attributes
    ----------
    log_likelihood : float
        Of the rows, summed.
    classes : ndarray of shape (K,)
        Expected counts of the classes.
    statistics
        Those of the family.
    responsibilities : ndarray of shape (n, K), optional
        p(y | x) of each row times its weight, where the kernel has them at hand.
    """

    log_likelihood: float
    classes: Array
    statistics: Any
    responsibilities: npt.NDArray[np.floating[Any]] | None = None


@dataclass(frozen=True)
class Family(ABC):
    """Class-conditional distributions p(x | y) for K classes, without the class prior.

    A family is immutable. Its fields are the user's settings and, after `bind`, constants of the
    data. Statistics are sums (`tacit.em.Sums`); params are small records of arrays.

    Attributes
    ----------
    takes_sparse : bool
        Whether features may be sparse.
    """

    takes_sparse: ClassVar[bool] = False

    @property
    def kind(self) -> tuple[Any, ...]:
        """The type of the family, which models must share to be compatible."""
        return (type(self),)

    def bind(self, X: Matrix) -> Self:
        """Return the family with the constants that it takes from the training data."""
        return self

    def adopt(self, other: Self) -> Self:
        """Return the family with the constants of the data of another, instead of `bind`."""
        return self

    def for_em(self, features: Any) -> Self:
        """Return the family whose `maximize` prepares params for the E-step of these rows."""
        return self

    def recentre(self, statistics: Any, centre: Any) -> Any:
        """Return statistics in the form of those they are added to, or that go with params.

        Sums of squares are around a centre, and both must have the same.
        """
        return statistics

    def extend(self, X: Matrix, statistics: Any) -> tuple[Self, Any]:
        """Return the family and statistics, widened for what is new in a further batch."""
        return self, statistics

    @abstractmethod
    def encode(self, X: Matrix) -> Any:
        """Return a matrix of numbers as this family's `Features`; ValueError if they do not fit."""

    @abstractmethod
    def score(self, params: Any, features: Any, fitting: bool = False) -> Array:
        """Return log p(x | y), shape (n, K), of the observed cells.

        With `fitting`, the log-likelihood that the estimates maximise, where that differs.
        """

    def predict_rows(
        self, params: Any, X: Matrix, log_prior: Array, output: Output
    ) -> tuple[Array, Array] | None:
        """Return the joint, posterior or log-posterior of rows, and log p(x), if there is a kernel.

        X is not validated; that is done on the way, and None is returned if anything is unusual.
        (`NaiveBayes.predict_rows` does the same in NumPy.)
        """
        return None

    @abstractmethod
    def count(self, features: Any, weights: Matrix, params: Any = None) -> Any:
        """Return the statistics of rows of which class k has weights[:, k], dense or CSR.

        `params` say what to expect of cells whose statistics depend on it (see `complete`).
        """

    def expect(self, params: Any, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Score, normalise and count in one go, if there is a kernel for it; else return None.

        The class prior is `log_prior`. (`NaiveBayes.expect` does the same in NumPy.)
        """
        return None

    def keys(self, features: Any) -> npt.NDArray[np.uint8] | None:
        """Return a row of bytes for each row, the same for equal rows; None if few are equal."""
        return None

    def complete(self, features: Any) -> npt.NDArray[np.bool_]:
        """Return the rows whose statistics, given the label, do not depend on the params."""
        return np.ones(len(features), dtype=bool)

    @abstractmethod
    def maximize(self, statistics: Any) -> Any:
        """Return the params that maximise log_joint + log_prior."""

    def log_prior(self, params: Any) -> float:
        """Return the log prior density of the params, up to a constant: what smoothing adds."""
        return 0.0

    @abstractmethod
    def log_joint(self, params: Any, statistics: Any) -> float:
        """Return the expected log-likelihood of the rows behind the statistics."""

    def rounding(self, params: Any, statistics: Any) -> float:
        """Return how many nats rounding can shift log_joint by, where that is not negligible."""
        return 0.0

    def reorder(self, statistics: Any, order: npt.NDArray[np.intp]) -> Any:
        """Return the statistics with the classes in another order.

        Each of their arrays has a line for each class, or one for all of them.
        """
        arrays = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
        own = {name: a[order] for name, a in arrays.items() if np.shape(a)[:1] == order.shape}
        return replace(statistics, **own)

    @abstractmethod
    def sample(
        self, params: Any, statistics: Any, labels: npt.NDArray[np.intp], rng: np.random.RandomState
    ) -> Array:
        """Draw a row for each label (S7)."""

    @abstractmethod
    def n_parameters(self, params: Any) -> int:
        """Return the number of free parameters."""

    @abstractmethod
    def check(self, statistics: Any, K: int, d: int) -> None:
        """Raise ValueError unless statistics and constants of the data are sound for these sizes.

        This is for what comes from elsewhere, such as a file. Its fields have the right types.
        """

    @abstractmethod
    def check_params(self, params: Any) -> None:
        """Raise ValueError unless params that sound statistics gave can be predicted with."""


def is_labelled(weights: Matrix) -> bool:
    """Return whether weights, dense or CSR of shape (n, K), give each row to one class."""
    return sparse.issparse(weights) and bool((np.diff(weights.indptr) == 1).all())


def check_array(
    name: str, array: Any, *shapes: tuple[int, ...], least: float = -np.inf, most: float = np.inf
) -> None:
    """Raise ValueError unless an array has one of the shapes and finite entries in the range.

    Examples
    --------
    >>> check_array("weight", np.array([1.0, -1.0]), (2,), least=0.0)
    Traceback (most recent call last):
    ...
    ValueError: weight holds -1.0: expected at least 0.0
    """
    if not isinstance(array, np.ndarray) or array.dtype != np.float64:
        raise ValueError(f"{name} is no array of float64")
    if array.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} has shape {array.shape}: expected {expected}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity")
    if array.min(initial=np.inf) < least:
        raise ValueError(f"{name} holds {array.min()}: expected at least {least}")
    if array.max(initial=-np.inf) > most:
        raise ValueError(f"{name} holds {array.max()}: expected at most {most}")


def check_is(statistics: Any, kind: type) -> None:
    """Raise ValueError unless statistics are of the family's own kind."""
    if type(statistics) is not kind:
        raise ValueError("the statistics are those of another family")


def check_sums_to_one(name: str, totals: Array) -> None:
    """Raise ValueError unless the totals of probabilities are all 1, up to rounding.

    Examples
    --------
    >>> check_sums_to_one("p(word | y)", np.array([1.0, 0.7]))
    Traceback (most recent call last):
    ...
    ValueError: p(word | y) sums to 0.7: expected 1
    """
    wrong = ~(np.abs(totals - 1.0) <= 1e-6)  # NaN is wrong too
    if wrong.any():
        raise ValueError(f"{name} sums to {totals[wrong][0]}: expected 1")


@dataclass(frozen=True)
class Smoothed(Family):
    """A family of probabilities that are ratios of counts, smoothed by `alpha` (S11).

    Attributes
    ----------
    alpha : float or array of shape (d,)
        Added to every count. It is a prior, Dirichlet(alpha + 1), so that the smoothed ratio is
        the maximum a posteriori estimate (S13). 0 is maximum likelihood, 1 is Laplace's rule.
    """

    alpha: Any = 1.0

    def bind(self, X: Matrix) -> Self:
        """Check that alpha fits the columns."""
        shape, d = np.shape(self.alpha), X.shape[1]
        if shape not in ((), (d,)):
            raise ValueError(
                "When alpha is an array, it should contain one value for each of the "
                f"{d} features. Got shape {shape} instead."
            )
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if not (np.isfinite(alpha).all() and (alpha >= 0).all()):
            raise ValueError(
                f"All values in alpha must be finite and at least 0. Got {self.alpha}."
            )
        return replace(self, alpha=alpha)

    def smoothing(self, log_p: Array) -> float:
        """Return alpha · log_p, summed: the log density of Dirichlet(alpha + 1), up to a constant.

        Without smoothing it is nothing, whatever the probabilities (S10).
        """
        alpha = np.asarray(self.alpha)
        if alpha.ndim or not alpha:
            return expected_log(np.broadcast_to(alpha, log_p.shape), log_p)
        return float(alpha * log_p.sum())

    def adopt(self, other: Self) -> Self:
        """Make alpha an array, as `bind` does."""
        return replace(self, alpha=np.asarray(self.alpha, dtype=np.float64))

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check alpha; the sums are for the families to check."""
        check_array("alpha", self.alpha, (), (d,), least=0.0)
