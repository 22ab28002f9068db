"""Naive Bayes as a model for `tacit.em`: a class prior times a family p(x | y).

This is the one place where labels enter: `expect` multiplies p(x, y) by the label evidence. A
known label leaves one class, a missing one all of them, candidates some; so supervised,
semi-supervised and unsupervised learning are the same call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.rows import Rows
from tacit.em import Statistics
from tacit.families.base import Family, check_array, check_sums_to_one
from tacit.numerics import (
    Array,
    Matrix,
    column_sums,
    expected_log,
    log,
    log_normalize,
    normalize,
    ratio,
)

__all__ = ["ClassCounts", "NaiveBayes", "Params"]


@dataclass(frozen=True)
class Params:
    """The class prior, log q(y) of shape (K,), and the family's params."""

    class_log_prior: Array
    features: Any


@dataclass(frozen=True)
class ClassCounts(Statistics):
    """Log-likelihood, soft counts of the classes of shape (K,), and the family's statistics."""

    classes: Array
    features: Any


@dataclass(frozen=True)
class NaiveBayes:
    """p(x, y) = q(y) p(x | y), for a family p(x | y); satisfies `tacit.em.Model`.

    Parameters
    ----------
    family : Family
        p(x | y).
    class_alpha : float
        Smoothing of the class prior: (count + class_alpha) / (m + K class_alpha) (S12).
    class_prior : ndarray of shape (K,), optional
        A prior that is given and not estimated.
    hard : bool
        Whether each row counts for its most probable class alone (S16). What EM then raises is
        the sum of log max_y p(x, y).

    Examples
    --------
    >>> from tacit import em
    >>> from tacit.families import Bernoulli
    >>> model = NaiveBayes(Bernoulli(alpha=0.0))
    >>> rows = model.rows([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    >>> start = model.start(rows, [[0.6, 0.4], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.4, 0.6]])
    >>> found = em.fit(model, [rows], start).params  # C (7)-(9)
    >>> np.exp(found.class_log_prior).round(9), np.exp(found.features.log_p).round(9)
    (array([0.4, 0.6]), array([[1., 1., 0., 0.],
           [0., 0., 1., 1.]]))
    """

    family: Family
    class_alpha: float = 0.0
    class_prior: Array | None = None
    hard: bool = False

    def rows(self, X: Any, evidence: Array | None = None, weight: Array | None = None) -> Rows:
        """Encode a matrix of features, with log evidence and weights if there are any."""
        X = X if hasattr(X, "shape") else np.asarray(X, dtype=np.float64)
        return Rows(self.family.encode(X), evidence, weight)

    def start(self, rows: Rows, responsibilities: Matrix) -> Params:
        """Return the params that responsibilities of shape (n, K) give: a start for EM."""
        return self.maximize(self.count(rows, np.asarray(responsibilities, dtype=np.float64)))

    def log_joint_rows(self, params: Params, features: Any, fitting: bool = False) -> Array:
        """Return log p(x, y) of each row and class (S6, W (11))."""
        scores = self.family.score(params.features, features, fitting)
        scores += params.class_log_prior
        return scores

    def posterior(
        self, params: Params, rows: Rows, fitting: bool = False
    ) -> tuple[Array, Array, Array]:
        """Return p(y | x, evidence), log p(x, evidence) and log p(x, y, evidence) of each row.

        A row that is impossible under every class leaves the posterior to the prior and the
        evidence; its log p(x) is -inf.
        """
        joint = self.log_joint_rows(params, rows.features, fitting)
        if rows.evidence is not None:
            joint = joint + rows.evidence
        responsibilities, log_p = normalize(joint)
        impossible = np.isneginf(log_p)
        if impossible.any():
            evidence = np.zeros_like(joint) if rows.evidence is None else rows.evidence
            guess, weight = normalize(params.class_log_prior + evidence[impossible])
            blank = np.isneginf(weight)
            guess[blank] = normalize(evidence[impossible])[0][blank]
            responsibilities[impossible] = guess
        return responsibilities, log_p, joint

    def predict_rows(
        self, params: Params, rows: Rows, output: kernels.Output
    ) -> tuple[Array, Array]:
        """Return the joint, posterior or log-posterior of unlabelled rows, and log p(x).

        A row that is impossible under every class has no posterior; its log p(x) is -inf.
        """
        joint = self.log_joint_rows(params, rows.features)
        if output == "joint":
            return joint, np.full(len(joint), np.nan)
        return normalize(joint) if output == "posterior" else log_normalize(joint)

    def expect(self, params: Params, rows: Rows) -> ClassCounts:
        """Return soft counts: C Fig. 1 step 1, W (21) and (22), L "E-step"."""
        result = self.family.expect(params.features, rows, params.class_log_prior, self.hard)
        if result is not None:
            return ClassCounts(result.log_likelihood, result.classes, result.statistics)
        responsibilities, log_p, joint = self.posterior(params, rows, fitting=True)
        if self.hard:  # H "Hidden class variable"
            best = responsibilities.argmax(axis=1)
            log_p = joint[np.arange(len(best)), best]
            responsibilities = np.eye(joint.shape[1])[best]
        if rows.weight is not None:
            log_p = log_p * rows.weight
        counts = self.count(rows, responsibilities, params)
        return replace(counts, log_likelihood=float(log_p.sum()))

    def count(
        self, rows: Rows, responsibilities: Matrix, params: Params | None = None
    ) -> ClassCounts:
        """Return the statistics of rows with these responsibilities, dense or CSR (n, K)."""
        weights = responsibilities
        if rows.weight is not None:
            weights = responsibilities * rows.weight[:, None]
        classes = column_sums(weights)
        features = self.family.count(rows.features, weights, params and params.features)
        return ClassCounts(0.0, classes, features)

    def maximize(self, statistics: ClassCounts) -> Params:
        """Return ratios of counts: C (2), W (19), L with class_alpha; the family does the rest."""
        if self.class_prior is not None:
            prior = np.asarray(self.class_prior, dtype=np.float64)
        else:
            counts = statistics.classes + self.class_alpha
            prior = ratio(counts, counts.sum(), 1.0 / len(counts))
        return Params(log(prior), self.family.maximize(statistics.features))

    def log_prior(self, params: Params) -> float:
        """Return the log prior of the params, up to a constant: smoothing as a prior (S13)."""
        result = self.family.log_prior(params.features)
        if self.class_prior is None and self.class_alpha:
            alpha = np.broadcast_to(self.class_alpha, params.class_log_prior.shape)
            result += expected_log(alpha, params.class_log_prior)
        return result

    def log_joint(self, params: Params, statistics: ClassCounts) -> float:
        """Return the expected complete-data log-likelihood, C (11) and (16)."""
        return expected_log(statistics.classes, params.class_log_prior) + self.family.log_joint(
            params.features, statistics.features
        )

    def recentre(self, statistics: ClassCounts, centre: Params | ClassCounts) -> ClassCounts:
        """Return statistics that can be added to others (see `tacit.em.Centred`).

        These are around the centre of the params, or are the statistics that are given.
        """
        features = self.family.recentre(statistics.features, centre.features)
        return replace(statistics, features=features)

    def rounding(self, params: Params, statistics: ClassCounts) -> float:
        """Return how many nats rounding can shift the objective by (see `tacit.em.fit`)."""
        own = self.family.rounding(params.features, statistics.features)
        return own + 1e-14 * float(statistics.classes.sum())

    def reorder(self, statistics: ClassCounts, order: npt.NDArray[np.intp]) -> ClassCounts:
        """Return the statistics with the classes in another order."""
        features = self.family.reorder(statistics.features, order)
        return replace(statistics, classes=statistics.classes[order], features=features)

    def n_parameters(self, params: Params) -> int:
        """Return the number of free parameters."""
        own = 0 if self.class_prior is not None else len(params.class_log_prior) - 1
        return own + self.family.n_parameters(params.features)

    def restore(self, statistics: ClassCounts, K: int, d: int) -> Params:
        """Return the params of statistics from elsewhere, such as a file, after validation.

        Raises ValueError unless the model, the statistics and the params are sound for K classes
        and d columns. The fields of all of them must have the right types already.
        """
        check_array("classes", statistics.classes, (K,), least=0.0)
        if not 0.0 <= self.class_alpha < np.inf:
            raise ValueError(f"class_alpha is {self.class_alpha}: expected at least 0")
        self.family.check(statistics.features, K, d)
        params = self.maximize(statistics)
        check_array("class prior", np.exp(params.class_log_prior), (K,), least=0.0)
        check_sums_to_one("class prior", np.exp(params.class_log_prior).sum(keepdims=True))
        self.family.check_params(params.features)
        return params
