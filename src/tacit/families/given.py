"""Log-evidence of another model for each class, taken as it is: nothing is estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.data.dense import DenseRows, dense_rows
from tacit.em import Sums
from tacit.families.base import Family, check_is
from tacit.io.records import plain
from tacit.numerics import Array, Matrix

__all__ = ["RECORDS", "Given"]


@dataclass(frozen=True)
class Total(Sums):
    """The expected evidence of rows, summed."""

    evidence: float


@dataclass(frozen=True)
class Given(Family):
    """log p(x | y) = x_y, up to a constant of the row: nothing is to be estimated.

    Attributes
    ----------
    parts : int
        How many components each class has; all get the evidence of their class.

    Examples
    --------
    >>> family = Given()
    >>> family.score(None, family.encode(np.log([[0.9, 0.1]]))).round(2)
    array([[-0.11, -2.3 ]])
    """

    parts: int = 1

    def encode(self, X: Matrix) -> DenseRows:
        """Take the evidence as it is."""
        return dense_rows(X)

    def score(self, params: Any, features: DenseRows, fitting: bool = False) -> Array:
        """Return the evidence."""
        return np.repeat(features.values, self.parts, axis=1)

    def count(self, features: DenseRows, weights: Matrix, params: Any = None) -> Total:
        """Return the expected evidence."""
        scores = self.score(params, features)
        product = weights.multiply(scores) if sparse.issparse(weights) else weights * scores
        return Total(float(product.sum()))

    def maximize(self, statistics: Total) -> None:
        """Return nothing."""

    def log_joint(self, params: Any, statistics: Total) -> float:
        """Return the expected evidence."""
        return statistics.evidence

    def sample(
        self, params: Any, statistics: Any, labels: npt.NDArray[np.intp], rng: np.random.RandomState
    ) -> Array:
        """Return no evidence: what it comes from is for the other model to draw."""
        return np.zeros((len(labels), 1))

    def n_parameters(self, params: Any) -> int:
        """Return 0."""
        return 0

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check that there is a column for each class."""
        check_is(statistics, Total)
        if d * self.parts != K or not np.isfinite(statistics.evidence):
            raise ValueError(f"evidence has {d} columns: expected one for each of {K} classes")

    def check_params(self, params: Any) -> None:
        """There is nothing to check."""


# As files name them.
RECORDS = {"Given": plain(Given, later=("parts",)), "GivenTotal": plain(Total)}
