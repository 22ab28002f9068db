"""Several models of the same rows as one: their log-odds, weighed by what hidden labels show.

    log p(y | x) = sum_c w_c log p_c(x, y) + constant,   w_c >= 0

The weights are learnt from rows whose label was hidden from the models. They also set the
temperature: naive Bayes is too sure of itself where words hang together, and weights below 1 undo
that. The log-odds of the pool are sums of those of its models, so that it can be explained exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tacit import em
from tacit.numerics import Array, expected_log, log, normalize

__all__ = ["Pool", "adapted_shares", "even_out", "learn", "spreads"]

# How firmly weights are held to those expected: as firmly as so many rows would hold them.
FIRMNESS = 2.0
# Part of its expected weight that no model falls below: something must decide.
LEAST = 1e-3
# Part of log p(x, y) by which classes differ if they do not.
ROUNDING = 1e-9
# Part of the shares of the classes that is taken as even, where hidden labels are weighed by them.
EVEN = 0.2


@dataclass(frozen=True)
class Pool:
    """The weight of each of C models.

    Attributes
    ----------
    weights : ndarray of shape (C,)
        By which log p_c(x, y) is multiplied.
    shift : ndarray of shape (K,)
        What is added for each class: 0, or what makes up for shares of the classes that are not
        those of the models.
    """

    weights: Array
    shift: Array

    def joint(self, joints: Array) -> Array:
        """Return the pooled log p(x, y), up to a constant, from those of all models, (n, K, C)."""
        return np.asarray(np.einsum("nkc,c->nk", joints, self.weights) + self.shift)

    def posterior(self, joints: Array) -> Array:
        """Return p(y | x) from log p_c(x, y) of shape (n, K, C).

        Examples
        --------
        >>> pool = Pool(np.array([0.5]), np.zeros(2))
        >>> pool.posterior(np.log([[[0.9], [0.1]]])).round(2)
        array([[0.75, 0.25]])
        """
        return normalize(self.joint(joints))[0]


def spreads(joints: Array, priors: Array | float = 0.0) -> Array:
    """Return how far the classes are apart in each model's log p(x, y), on average over rows.

    `priors`, of shape (K, C), are taken off before.

    Examples
    --------
    >>> spreads(np.array([[[0.0, 0.0], [2.0, 10.0]]]))
    array([1., 5.])
    """
    spread = (joints - priors).std(axis=1).mean(axis=0)
    size = (np.abs(joints) + np.abs(priors)).mean(axis=(0, 1))
    return np.where(spread > ROUNDING * size, spread, 1.0)


def even_out(truth: npt.NDArray[np.intp], shares: Array) -> Array:
    """Return what each row counts, so that classes count by their shares, and rows 1 on average.

    Examples
    --------
    >>> even_out(np.array([0, 0, 0, 1]), np.array([0.5, 0.5])).round(2)
    array([0.67, 0.67, 0.67, 2.  ])
    """
    K = len(shares)
    shares = (shares + EVEN / K) / (1.0 + EVEN)
    counts = (shares / np.maximum(np.bincount(truth, minlength=K), 1))[truth]
    return np.asarray(counts * (len(truth) / max(counts.sum(), np.finfo(np.float64).tiny)))


def learn(
    joints: Array,
    truth: npt.NDArray[np.intp],
    expected: Array,
    scale: Array,
    counts: Array,
    before: Array,
    most: Array | float = np.inf,
) -> Array:
    """Return the weights of models under which hidden labels are most probable.

    They are measured in units of 1 / `scale`.

    Parameters
    ----------
    joints : ndarray of shape (n, K, C)
        log p_c(x, y) of rows by models that did not know their label, or log p_c(x | y).
    truth : ndarray of shape (n,)
        The labels.
    expected : ndarray of shape (C,)
        Weights that are expected, in those units: the result if there are no rows.
    scale : ndarray of shape (C,)
        How far the classes are apart in each model (`spreads`).
    counts : ndarray of shape (n,)
        What each row counts (`even_out`).
    before : ndarray of shape (n, K) or (K,)
        What is added to the pooled log p(x, y).
    most : float or ndarray of shape (C,), default=inf
        What weights are at most.

    Returns
    -------
    ndarray of shape (C,)
        The weights, by which `joints` are to be multiplied.
    """
    n, scaled = len(truth), joints / scale
    right = scaled[np.arange(n), truth]
    sure = np.broadcast_to(before, joints.shape[:2])[np.arange(n), truth]

    def loss(w: Array) -> tuple[float, Array]:
        p, log_sum = normalize(np.einsum("nkc,c->nk", scaled, w) + before)
        value = (counts * (log_sum - np.einsum("nc,c->n", right, w) - sure)).sum()
        slope = np.einsum("nk,nkc,n->c", p, scaled, counts) - np.einsum("nc,n->c", right, counts)
        away = w - expected
        return float(value + FIRMNESS / 2 * (away**2).sum()), slope + FIRMNESS * away

    bounds = list(zip(LEAST * expected, np.maximum(most * scale, LEAST * expected), strict=True))
    found = minimize(loss, expected, jac=True, bounds=bounds, method="L-BFGS-B")
    return np.asarray(found.x / scale)


@dataclass(frozen=True)
class _Shares(em.Statistics):
    """Log-likelihood and expected counts of the classes."""

    counts: Array


@dataclass(frozen=True)
class _OnlyShares:
    """A mixture of which only the shares are unknown: a model for `tacit.em`."""

    def expect(self, log_shares: Array, ratios: Array) -> _Shares:
        p, log_p = normalize(ratios + log_shares)
        return _Shares(float(log_p.sum()), p.sum(axis=0))

    def maximize(self, statistics: _Shares) -> Array:
        return log(statistics.counts / statistics.counts.sum())

    def log_prior(self, log_shares: Array) -> float:
        return 0.0

    def log_joint(self, log_shares: Array, statistics: _Shares) -> float:
        return expected_log(statistics.counts, log_shares)


def adapted_shares(posterior: Array, shares: Array) -> Array:
    """Return the shares of classes in new rows, by EM (Saerens, Latinne and Decaestecker 2002).

    Parameters
    ----------
    posterior : ndarray of shape (n, K)
        p(y | x) of the new rows, under the old shares.
    shares : ndarray of shape (K,)
        The old shares.

    Returns
    -------
    ndarray of shape (K,)

    Examples
    --------
    >>> rows = np.array([[0.9, 0.1]] * 3 + [[0.1, 0.9]])
    >>> adapted_shares(rows, np.array([0.5, 0.5])).round(3)
    array([0.812, 0.188])
    """
    there = shares > 0  # classes that never were cannot be found
    ratios = np.where(there, log(posterior) - log(np.where(there, shares, 1.0)), -np.inf)
    model, start = _OnlyShares(), log(shares)
    found = em.fit(model, [ratios], start, max_iter=1000, tol=1e-8 * len(posterior))
    return np.asarray(np.exp(found.params))
