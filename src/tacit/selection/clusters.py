"""Clusters of rows as evidence of their class: what clusters of texts and of tables share.

    p(y | x) = sum_g p(g | x) p(y | g)

Mixtures fitted without labels find the clusters g; labelled rows tell the class distribution of
each. How the mixtures see rows is for `tacit.text.clusters` and `tacit.frames.clusters` to say.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from tacit.data.rows import in_parts
from tacit.numerics import Array, log, log_of_parts, normalize

__all__ = ["UNLABELED", "Leaning", "Lesson", "fitted", "seeds"]

# The share of rows without a label from which on groups are looked for.
UNLABELED = 0.1
# Rows of the classes as they are labelled that each group has before any of its own is seen.
PRIOR_ROWS = 0.1


@dataclass(frozen=True)
class Leaning(ABC):
    """Groups of rows that lean to classes.

    Attributes
    ----------
    mixtures : tuple
        What groups there are, M in all.
    shares : ndarray of shape (M, K)
        p(y | g) / p(y).
    weight : float
        By which what they say is multiplied, in log-odds.
    """

    mixtures: tuple[Any, ...]
    shares: Array
    weight: float

    @property
    @abstractmethod
    def doubt(self) -> float:
        """By what log p(x, g) is divided."""

    @abstractmethod
    def posterior(self, X: Any, rows: Any = slice(None)) -> Array:
        """Return p(g | x) of rows, of shape (n, M)."""

    def averaged(self, joints: Iterable[Array]) -> Array:
        """Return p(g | x) from log p(x, g) in each mixture."""
        by = len(self.mixtures)
        return np.hstack([normalize(joint / self.doubt)[0] / by for joint in joints])

    def said(self, posterior: Array) -> Array:
        """Return what p(g | x) says for each class beyond its share, of shape (n, K)."""
        p = np.zeros((len(posterior), self.shares.shape[1]))
        for own, shares in zip(posterior.T, self.shares, strict=True):
            p += own[:, None] * shares  # not by BLAS, whose sums depend on how many rows there are
        return self.weight * log(p)

    def evidence(self, X: Any) -> Array:
        """Return what the groups of rows say for each class beyond its share, of shape (n, K)."""
        return in_parts(lambda part: self.said(self.posterior(X, part)), X.shape[0])

    def blended(self, terms: Iterable[tuple[Array, Array]]) -> tuple[Array, list[Array]]:
        """Return what is said of each class before a row is seen, and by its cells.

        `terms` are log p(g) and what each cell of one row adds, of shape (cells, groups), of each
        mixture. The log of a sum over groups is a mean of logs, and an entropy (`log_of_parts`): so
        it is the sum of what each cell says. What p(x) is in each mixture is no cell's.
        """
        before, joints, cells = [], [], []
        for log_prior, said in terms:
            joint = (log_prior + said.sum(axis=0)) / self.doubt
            constant = logsumexp(joint) + np.log(len(self.mixtures))
            before.append(log_prior / self.doubt - constant)
            joints.append(joint - constant)
            cells.append(said)
        lean = log(self.shares.T)
        within = normalize(np.concatenate(joints) + lean)[0]
        each = np.split(within, np.cumsum([len(joint) for joint in joints])[:-1], axis=1)
        by = self.weight / self.doubt
        found = [by * (said @ own.T) for said, own in zip(cells, each, strict=True)]
        start = log_of_parts((np.concatenate(before) + lean).ravel(), within)
        return self.weight * start, found

    def taught(self, posterior: Array, codes: npt.NDArray[np.intp], weight: Array, K: int) -> Self:
        """Return the groups with shares by rows of known classes."""
        given = np.eye(K)[codes] * weight[:, None]
        prior = given.sum(axis=0) + 1.0
        prior /= prior.sum()
        counts = posterior.T @ given + PRIOR_ROWS / len(self.mixtures) * prior
        return replace(self, shares=counts / counts.sum(axis=1, keepdims=True) / prior)


G = TypeVar("G", bound=Leaning)


@dataclass(frozen=True)
class Lesson(Generic[G]):
    """Rows of known classes, by which groups are taught.

    Attributes
    ----------
    groups : Leaning
        Groups that lean to no class yet.
    rows, codes, weight
        The rows, in order, their classes and weights.
    posterior : ndarray of shape (rows, M)
        p(g | x) of these.
    K : int
        The number of classes.
    """

    groups: G
    rows: npt.NDArray[np.intp]
    codes: npt.NDArray[np.intp]
    weight: Array
    posterior: Array
    K: int

    def taught(self, without: Sequence[int] | npt.NDArray[np.intp] = ()) -> G:
        """Return the groups as all rows but some teach them."""
        rest = ~np.isin(self.rows, without)
        return self.groups.taught(self.posterior[rest], self.codes[rest], self.weight[rest], self.K)

    def said(self, held: npt.NDArray[np.intp]) -> Array:
        """Return what groups say of some of the rows, in order, that had no part in the lesson."""
        return self.taught(held).said(self.posterior[np.isin(self.rows, held)])


def seeds(random_state: Any, n: int) -> list[int]:
    """Return where n mixtures begin, always the same unless a state is given."""
    state = check_random_state(0 if random_state is None else random_state)
    found: list[int] = state.randint(2**31 - 1, size=n).tolist()
    return found


def fitted(mixture: Any, X: Any, weight: Array) -> Any:
    """Return a mixture that is good enough to tell rows apart by, if not at the end of EM."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(X, sample_weight=weight)
