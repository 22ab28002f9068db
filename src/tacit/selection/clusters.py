"""Clusters of rows as features: mixtures fitted without labels, each cluster with its p(y | g).

    p(y | x) = sum_g p(g | x) p(y | g)

This is what clusters of texts and of tables share: the class distribution of each cluster g, which
labelled rows estimate, and the log-odds that follow. The mixtures themselves, and how they encode
rows, are in `tacit.text.clusters` and `tacit.frames.clusters`.
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
from tacit.numerics import Array, log, mixture_log_constant, normalize

__all__ = ["MIN_UNLABELED", "Clusters", "LabelledClusters", "fit_mixture", "mixture_seeds"]

# The fraction of unlabelled rows from which on clusters are fitted.
MIN_UNLABELED = 0.1
# Pseudo-count of each cluster's class distribution: so many rows with the classes of all labels.
PRIOR_ROWS = 0.1


@dataclass(frozen=True)
class Clusters(ABC):
    """Clusters of rows, and the class distribution of each.

    Attributes
    ----------
    mixtures : tuple
        The mixtures, of M clusters in all.
    class_ratios : ndarray of shape (M, K)
        p(y | g) / p(y).
    weight : float
        The factor of the log-odds.
    """

    mixtures: tuple[Any, ...]
    class_ratios: Array
    weight: float

    @property
    @abstractmethod
    def temperature(self) -> float:
        """The divisor of log p(x, g): higher for softer clusters."""

    @abstractmethod
    def posterior(self, X: Any, rows: Any = slice(None)) -> Array:
        """Return p(g | x) of rows, shape (n, M)."""

    def mean_posterior(self, log_joints: Iterable[Array]) -> Array:
        """Return p(g | x), shape (n, M), from log p(x, g) in each mixture."""
        n = len(self.mixtures)
        return np.hstack([normalize(joint / self.temperature)[0] / n for joint in log_joints])

    def log_odds(self, posterior: Array) -> Array:
        """Return the weighted log p(y | x) / p(y), shape (n, K), from p(g | x)."""
        p = np.zeros((len(posterior), self.class_ratios.shape[1]))
        for own, ratios in zip(posterior.T, self.class_ratios, strict=True):
            p += own[:, None] * ratios  # not by BLAS, whose sums depend on how many rows there are
        return self.weight * log(p)

    def evidence(self, X: Any) -> Array:
        """Return the weighted log p(y | x) / p(y) of rows, shape (n, K)."""
        return in_parts(lambda part: self.log_odds(self.posterior(X, part)), X.shape[0])

    def decompose(self, terms: Iterable[tuple[Array, Array]]) -> tuple[Array, list[Array]]:
        """Return the log-odds of one row as a constant, (K,), and terms of features, (d, K).

        `terms` has, of each mixture, log p(g) and the terms of log p(x | g), (d, clusters). The log
        of a sum over clusters is an expectation of logs plus an entropy (see
        `mixture_log_constant`), hence a sum over features. log p(x) of each mixture belongs to no
        feature.
        """
        constants, joints, each = [], [], []
        for log_prior, log_p in terms:
            joint = (log_prior + log_p.sum(axis=0)) / self.temperature
            log_evidence = logsumexp(joint) + np.log(len(self.mixtures))
            constants.append(log_prior / self.temperature - log_evidence)
            joints.append(joint - log_evidence)
            each.append(log_p)
        log_ratios = log(self.class_ratios.T)
        within = normalize(np.concatenate(joints) + log_ratios)[0]  # p(g | x, y)
        split = np.split(within, np.cumsum([len(joint) for joint in joints])[:-1], axis=1)
        factor = self.weight / self.temperature
        features = [factor * (log_p @ own.T) for log_p, own in zip(each, split, strict=True)]
        constant = mixture_log_constant((np.concatenate(constants) + log_ratios).ravel(), within)
        return self.weight * constant, features

    def with_labels(
        self, posterior: Array, codes: npt.NDArray[np.intp], weight: Array, K: int
    ) -> Self:
        """Return the clusters with class distributions estimated from labelled rows."""
        one_hot = np.eye(K)[codes] * weight[:, None]
        prior = one_hot.sum(axis=0) + 1.0
        prior /= prior.sum()
        counts = posterior.T @ one_hot + PRIOR_ROWS / len(self.mixtures) * prior
        return replace(self, class_ratios=counts / counts.sum(axis=1, keepdims=True) / prior)


C = TypeVar("C", bound=Clusters)


@dataclass(frozen=True)
class LabelledClusters(Generic[C]):
    """Clusters with the labelled rows from which their class distributions are estimated.

    Attributes
    ----------
    clusters : Clusters
        Clusters without class distributions.
    rows, codes, weight
        The labelled rows, in order, their classes and weights.
    posterior : ndarray of shape (rows, M)
        p(g | x) of these.
    K : int
        The number of classes.
    """

    clusters: C
    rows: npt.NDArray[np.intp]
    codes: npt.NDArray[np.intp]
    weight: Array
    posterior: Array
    K: int

    def fit(self, held_out: Sequence[int] | npt.NDArray[np.intp] = ()) -> C:
        """Return the clusters with class distributions from all labels but the held-out ones."""
        rest = ~np.isin(self.rows, held_out)
        known = self.posterior[rest], self.codes[rest], self.weight[rest]
        return self.clusters.with_labels(*known, self.K)

    def out_of_fold(self, held_out: npt.NDArray[np.intp]) -> Array:
        """Return the log-odds of held-out rows, shape (n, K), without the use of their labels."""
        return self.fit(held_out).log_odds(self.posterior[np.isin(self.rows, held_out)])


def mixture_seeds(random_state: Any, n: int) -> list[int]:
    """Return the seeds of n mixtures, always the same if `random_state` is None."""
    state = check_random_state(0 if random_state is None else random_state)
    seeds: list[int] = state.randint(2**31 - 1, size=n).tolist()
    return seeds


def fit_mixture(mixture: Any, X: Any, weight: Array) -> Any:
    """Return a mixture fitted to rows; it may end short of convergence, which is good enough."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(X, sample_weight=weight)
