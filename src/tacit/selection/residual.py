"""The residual correction: penalised logistic regression on what an ensemble gets wrong.

    log p(y | x) = log p_ensemble(y | x) + sum_j x_j b_jy + constant

Naive Bayes takes features for independent, so that the joint evidence of several is over- or
underestimated. b is fitted to held-out rows with the ensemble's out-of-fold log-posterior as the
offset. The penalty holds it to 0: few labels change little, many as much as they must. As it is
linear in the features, it is explained exactly. How words and table values become features is in
`tacit.frames.residual`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from tacit.data.rows import in_parts
from tacit.numerics import Array, log, normalize
from tacit.selection.candidates import MAX_LOG_ODDS, MIN_HELD_OUT, OutOfFold, Stacked

__all__ = ["Correction", "fit_residual"]

# Ridge penalties: the first, or the next while the out-of-fold loss falls.
PENALTIES = (1.0, 0.1, 0.01)
# Standard errors by which the ensemble must be better without any correction to go without.
STANDARD_ERRORS = 3.0
# Iterations of L-BFGS for each penalty: later ones fit noise.
MAX_ITER = 6
# Numbers that an iteration reads at most, and the cost of a stored entry of a sparse row in units
# of a dense one. Of more rows an even sample is used.
MAX_WORK = 1.5e7
SPARSE_COST = 20
# Numbers from which on features are float32, which takes half of the time.
FLOAT32_FROM = 1e6
# Added to the diagonal of the Gram matrix, which duplicate rows make singular.
JITTER = 1e-9


@dataclass(frozen=True)
class Correction(ABC):
    """A linear term that is added to the log-odds of an ensemble.

    Attributes
    ----------
    logs : ndarray of shape (d, K)
        The coefficients b of each feature and class.
    """

    logs: Array

    @abstractmethod
    def features(self, X: Any, rows: Any = slice(None)) -> sparse.csr_array:
        """Return the features of rows, shape (n, d), with norms of at most 1."""

    def evidence(self, X: Any) -> Array:
        """Return the log-odds added to each class, shape (n, K)."""
        return in_parts(lambda part: np.asarray(self.features(X, part) @ self.logs), X.shape[0])


def fit_residual(
    X: sparse.csr_array, predictions: OutOfFold, ensemble: Stacked, *others: Stacked
) -> tuple[Array | None, list[Stacked]]:
    """Return the coefficients that correct an ensemble, and the metrics of the corrected one.

    Metrics are out-of-fold, but pessimistic: the predictions that the coefficients are fitted to
    come from models that know the fold left out. So only a clear loss (`STANDARD_ERRORS`) speaks
    against the correction, and where the ensemble seems better without it, the metrics of that are
    returned.

    Parameters
    ----------
    X : CSR array of shape (n, d)
        Features of the held-out rows, with norms of at most 1.
    predictions : OutOfFold
        Their classes and folds.
    ensemble : Stacked
        The ensemble to correct.
    *others : Stacked
        Other ensembles to compare with, corrected with the same penalty.

    Returns
    -------
    logs : ndarray of shape (d, K), or None
        The coefficients; None if held-out labels are clearly against a correction.
    stacked : list of Stacked
        The metrics of each ensemble.
    """
    n, K = ensemble.posterior.shape
    truth = predictions.truth
    row_cost = max(min(X.shape[1], SPARSE_COST * X.nnz / n), 1)
    n_rows = min(n, int(max((MAX_WORK / K) ** 0.5, MAX_WORK / (K * row_cost))))
    sample = np.linspace(0, n - 1, n_rows).astype(np.intp)
    own, back = _reduced(X[sample])
    if own.size * K > FLOAT32_FROM:
        own = own.astype(np.float32)
    # The last fold is empty: it is the fit to all rows.
    folds = [predictions.fold == i for i in range(int(predictions.fold.max()) + 2)]

    def corrected(stacked: Stacked, penalties: Sequence[float]) -> Iterator[tuple[Array, Stacked]]:
        offset, p = np.maximum(log(stacked.posterior), -MAX_LOG_ODDS), np.empty((n, K))
        fits = [np.zeros((own.shape[1], K))] * len(folds)
        for penalty in penalties:
            for i, held_out in enumerate(folds):
                rest = ~held_out[sample]
                weight = stacked.sample_weight[sample][rest]
                known = offset[sample][rest], truth[sample][rest], weight
                fits[i] = _logistic_regression(own[rest], *known, penalty, fits[i])
                logs = back(fits[i])
                p[held_out] = normalize(offset[held_out] + X[held_out] @ logs)[0]
            yield logs, Stacked.of(stacked.weights, p.copy(), truth, stacked.sample_weight)

    penalties = PENALTIES if n >= MIN_HELD_OUT else PENALTIES[:1]
    path: list[tuple[Array, Stacked]] = []
    for step in corrected(ensemble, penalties):
        if path and step[1].loss >= path[-1][1].loss:
            break
        path.append(step)
    logs, best = path[-1]
    if ensemble.beats(best, standard_errors=STANDARD_ERRORS):
        return None, [ensemble, *others]
    penalty = penalties[len(path) - 1 : len(path)]
    after = [best, *(next(corrected(other, penalty))[1] for other in others)]
    pairs = zip(after, (ensemble, *others), strict=True)
    return logs, [min(pair, key=lambda stacked: stacked.loss) for pair in pairs]


def _reduced(X: sparse.csr_array) -> tuple[Any, Callable[[Array], Array]]:
    """Return the features in the cheapest form, and the map of its coefficients to those of X.

    Wide features become the Cholesky factor of their Gram matrix: the solution is the same, since
    the penalty depends on inner products only.
    """
    n, d = X.shape
    if SPARSE_COST * X.nnz <= n * min(n, d):
        return X, lambda coefficients: coefficients
    if d <= n:
        return X.toarray(), lambda coefficients: coefficients
    factor = cholesky((X @ X.T).toarray() + JITTER * np.eye(n), lower=True)
    return (
        factor,
        lambda coefficients: X.T @ solve_triangular(factor, coefficients, lower=True, trans="T"),
    )


def _logistic_regression(
    X: Any,
    offset: Array,
    truth: npt.NDArray[np.intp],
    sample_weight: Array,
    penalty: float,
    start: Array,
) -> Array:
    """Return the coefficients, (d, K), of multinomial logistic regression after a few steps."""
    rows = np.arange(len(truth))
    # Classes without a row are left out: nothing shows that they are never right, either.
    offset = np.where(np.bincount(truth, minlength=offset.shape[1]) > 0, offset, -np.inf)

    def loss(logs: Array) -> tuple[float, Array]:
        joint = offset + X @ logs.reshape(start.shape).astype(X.dtype)
        p, log_sum = normalize(joint)
        value = sample_weight @ (log_sum - joint[rows, truth]) + penalty / 2 * (logs @ logs)
        p[rows, truth] -= 1.0
        gradient = X.T @ (sample_weight[:, None] * p).astype(X.dtype)
        return float(value), gradient.ravel() + penalty * logs

    options = {"maxiter": MAX_ITER}
    result = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x.reshape(start.shape))
