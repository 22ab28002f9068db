"""Stacking: several models of the same rows as one log-linear pool; and prior shift.

    log p(y | x) = sum_c w_c log p_c(x, y) + constant,   w_c >= 0

The weights are learnt from out-of-fold predictions. They calibrate as well: naive Bayes is
overconfident where features are dependent, and weights below 1 are a temperature. The log-odds of
the ensemble are sums of its members' log-odds, so that they are explained exactly. Which models
there are, and how they were held out, is for others to say (`tacit.selection.candidates`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tacit import em
from tacit.numerics import Array, expected_log, log, normalize

__all__ = ["balanced_weight", "estimate_class_prior", "fit_weights", "log_odds_scale"]

# Penalty (ridge) on the distance of weights from those expected.
PENALTY = 2.0
# Fraction of its expected weight that is the lower bound of a weight: some member must decide.
MIN_WEIGHT = 1e-3
# Nats below which the evidence of a member is taken for nothing, and is not scaled up.
LEAST_EVIDENCE = 1e-3
# Fraction of the uniform distribution in the class prior that held-out rows are reweighted to.
UNIFORM = 0.2


def log_odds_scale(evidence: Array) -> Array:
    """Return the standard deviation of log p_c(x | y) over classes, averaged over rows, (C,).

    `evidence` is log p_c(x | y), (n, K, C). A member that tells next to nothing has 1.

    Examples
    --------
    >>> log_odds_scale(np.array([[[0.0, 0.0], [2.0, 10.0]]]))
    array([1., 5.])
    """
    deviation = evidence.std(axis=1).mean(axis=0)
    return np.where(deviation > LEAST_EVIDENCE, deviation, 1.0)


def balanced_weight(truth: npt.NDArray[np.intp], class_prior: Array) -> Array:
    """Return sample weights under which class proportions are the class prior, 1 on average.

    The prior is mixed with some of the uniform distribution.

    Examples
    --------
    >>> balanced_weight(np.array([0, 0, 0, 1]), np.array([0.5, 0.5])).round(2)
    array([0.67, 0.67, 0.67, 2.  ])
    """
    K = len(class_prior)
    prior = (class_prior + UNIFORM / K) / (1.0 + UNIFORM)
    weight = (prior / np.maximum(np.bincount(truth, minlength=K), 1))[truth]
    return np.asarray(weight * (len(truth) / max(weight.sum(), np.finfo(np.float64).tiny)))


def fit_weights(
    log_joint: Array,
    truth: npt.NDArray[np.intp],
    expected: Array,
    scale: Array,
    sample_weight: Array,
    offset: Array,
    max_weight: Array | float = np.inf,
) -> Array:
    """Return the weights of members that maximise the likelihood of held-out labels.

    A ridge penalty holds them to the expected ones.

    Parameters
    ----------
    log_joint : ndarray of shape (n, K, C)
        Out-of-fold log p_c(x, y), or log p_c(x | y).
    truth : ndarray of shape (n,)
        The true classes.
    expected : ndarray of shape (C,)
        Expected weights, in units of 1 / `scale`: the result if there are no rows.
    scale : ndarray of shape (C,)
        The scale of each member's log-odds (`log_odds_scale`).
    sample_weight : ndarray of shape (n,)
        Weights of the rows (`balanced_weight`).
    offset : ndarray of shape (n, K) or (K,)
        What is added to the stacked log p(x, y).
    max_weight : float or ndarray of shape (C,), default=inf
        Upper bounds of the weights.

    Returns
    -------
    ndarray of shape (C,)
        The factors of `log_joint`.
    """
    n, scaled = len(truth), log_joint / scale
    true_scaled = scaled[np.arange(n), truth]
    true_offset = np.broadcast_to(offset, log_joint.shape[:2])[np.arange(n), truth]

    def loss(w: Array) -> tuple[float, Array]:
        p, log_sum = normalize(np.einsum("nkc,c->nk", scaled, w) + offset)
        surprise = log_sum - np.einsum("nc,c->n", true_scaled, w) - true_offset
        value = (sample_weight * surprise).sum()
        gradient = np.einsum("nk,nkc,n->c", p, scaled, sample_weight)
        gradient = gradient - np.einsum("nc,n->c", true_scaled, sample_weight)
        away = w - expected
        return float(value + PENALTY / 2 * (away**2).sum()), gradient + PENALTY * away

    lower = MIN_WEIGHT * expected
    bounds = list(zip(lower, np.maximum(max_weight * scale, lower), strict=True))
    result = minimize(loss, expected, jac=True, bounds=bounds, method="L-BFGS-B")
    return np.asarray(result.x / scale)


@dataclass(frozen=True)
class _PriorStatistics(em.Statistics):
    """Log-likelihood and expected class counts."""

    counts: Array


@dataclass(frozen=True)
class _PriorModel:
    """A mixture of fixed components whose class prior alone is unknown: a model for `tacit.em`."""

    def expect(self, log_prior: Array, log_ratios: Array) -> _PriorStatistics:
        p, log_p = normalize(log_ratios + log_prior)
        return _PriorStatistics(float(log_p.sum()), p.sum(axis=0))

    def maximize(self, statistics: _PriorStatistics) -> Array:
        return log(statistics.counts / statistics.counts.sum())

    def log_prior(self, log_prior: Array) -> float:
        return 0.0

    def log_joint(self, log_prior: Array, statistics: _PriorStatistics) -> float:
        return expected_log(statistics.counts, log_prior)


def estimate_class_prior(posterior: Array, class_prior: Array) -> Array:
    """Return the class prior of new rows, by EM (Saerens, Latinne and Decaestecker 2002).

    Parameters
    ----------
    posterior : ndarray of shape (n, K)
        p(y | x) of the new rows, under the old class prior.
    class_prior : ndarray of shape (K,)
        The old class prior.

    Returns
    -------
    ndarray of shape (K,)

    Examples
    --------
    >>> rows = np.array([[0.9, 0.1]] * 3 + [[0.1, 0.9]])
    >>> estimate_class_prior(rows, np.array([0.5, 0.5])).round(3)
    array([0.812, 0.188])
    """
    possible = class_prior > 0  # the posterior of the other classes says nothing of p(x | y)
    log_old = log(np.where(possible, class_prior, 1.0))
    log_ratios = np.where(possible, log(posterior) - log_old, -np.inf)
    model, start = _PriorModel(), log(class_prior)
    result = em.fit(model, [log_ratios], start, max_iter=1000, tol=1e-8 * len(posterior))
    return np.asarray(np.exp(result.params))
