"""Logistic regression on the labelled rows: the discriminative part of an ensemble.

Naive Bayes takes features for independent, so that the joint evidence of several is over- or
underestimated. Logistic regression makes no such assumption, but needs labels: its expected weight
in an ensemble is 0, and held-out labels raise it where it is worth it. It is linear in the
features, so that it is explained exactly. How words become features is in `tacit.text.parts`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from sklearn.exceptions import ConvergenceWarning

from tacit.numerics import Array

__all__ = ["fit_logistic"]

# The inverse of the ridge penalty, for rows of norm 1, and iterations of L-BFGS. Neither matters
# much: the stacking weight makes up for either, and was tried with C of 10 and 100.
C = 30.0
MAX_ITER = 20
# Numbers that an iteration reads at most: rows by rows or, of sparse rows, entries at SPARSE_COST
# each, times classes. Of more rows an even sample is used. It bounds the time of a fit at about a
# quarter of a second.
MAX_WORK = 1e7
SPARSE_COST = 20
# Added to the diagonal of the Gram matrix, which duplicate rows make singular.
JITTER = 1e-9


def fit_logistic(
    X: sparse.csr_array, codes: npt.NDArray[np.intp], weight: Array, K: int
) -> tuple[Array, Array]:
    """Return coefficients, (d, K), and intercepts, (K,), of log p(y | x) / p(y).

    Classes without a row have the mean of the others: nothing is known of them.

    Examples
    --------
    >>> X = sparse.csr_array([[1.0, 0.0], [0.0, 1.0]] * 5)
    >>> logs, intercepts = fit_logistic(X, np.array([0, 1] * 5), np.ones(10), 2)
    >>> (X[:2] @ logs + intercepts).argmax(axis=1)
    array([0, 1])
    """
    logs, intercepts, n = np.zeros((X.shape[1], K)), np.zeros(K), X.shape[0]
    by_entries = MAX_WORK * n / max(SPARSE_COST * X.nnz * K, 1)
    kept = int(min(n, max((MAX_WORK / K) ** 0.5, by_entries)))
    sample = np.unique(np.linspace(0, n - 1, kept).astype(np.intp))
    X, weight = X[sample], weight[sample]
    present, y = np.unique(codes[sample], return_inverse=True)
    if len(present) < 2 or not X.nnz:
        return logs, intercepts
    from sklearn.linear_model import LogisticRegression  # here, as it takes long to import

    columns = np.unique(X.indices)  # the coefficients of others are 0
    features, back = _reduced(X[:, columns])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # later iterations fit noise
        model = LogisticRegression(C=C, max_iter=MAX_ITER).fit(features, y, weight)
    own, constant = back(model.coef_.T), model.intercept_
    if len(present) == 2:
        own, constant = np.hstack([-own / 2, own / 2]), np.array([-constant[0], constant[0]]) / 2
    prior = np.bincount(y, weight) + 1.0
    constant = constant - np.log(prior / prior.sum())
    logs[columns], intercepts[:] = own.mean(axis=1, keepdims=True), constant.mean()
    logs[np.ix_(columns, present)], intercepts[present] = own, constant
    return logs, intercepts


def _reduced(X: sparse.csr_array) -> tuple[Any, Callable[[Array], Array]]:
    """Return features of as few columns as rows, and the map of coefficients back to those of X.

    Few rows of many columns become the Cholesky factor of their Gram matrix: the solution is the
    same, as the penalty depends on inner products only.
    """
    n, d = X.shape
    if n * n >= SPARSE_COST * (X.nnz + 2 * d):  # and as L-BFGS keeps twenty vectors
        return X, lambda coefficients: coefficients
    factor = cholesky((X @ X.T).toarray() + JITTER * np.eye(n), lower=True)

    def back(coefficients: Array) -> Array:
        return np.asarray(
            X.T @ solve_triangular(factor, np.float64(coefficients), lower=True, trans="T")
        )

    return factor.astype(np.float32), back  # which takes half of the time
