"""Logistic regression on the labelled rows: the discriminative part of an ensemble.

Naive Bayes takes features for independent, so that the joint evidence of several is over- or
underestimated. Logistic regression makes no such assumption, but needs labels: its expected weight
in an ensemble is 0, and held-out labels raise it where it is worth it. It is linear in the
features, so that it is explained exactly. How words and table values become features is in
`tacit.text.logistic`.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tacit.numerics import Array

__all__ = ["fit_logistic"]

# The inverse of the ridge penalty, for rows of norm 1, and iterations of L-BFGS.
C = 30.0
MAX_ITER = 30
# Entries of all rows, times classes, that one fit reads at most; of more rows an even sample is
# used. It bounds the time at about a quarter of a second.
MAX_WORK = 4e6


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
    logs, intercepts = np.zeros((X.shape[1], K)), np.zeros(K)
    n = X.shape[0]
    kept = int(min(n, MAX_WORK * n / max(X.nnz * K, 1)))
    sample = np.unique(np.linspace(0, n - 1, kept).astype(np.intp))
    X, weight = X[sample], weight[sample]
    present, y = np.unique(codes[sample], return_inverse=True)
    if len(present) < 2 or not X.nnz:
        return logs, intercepts
    from sklearn.linear_model import LogisticRegression  # here, as it takes long to import

    columns = np.unique(X.indices)  # the coefficients of others are 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # later iterations fit noise
        model = LogisticRegression(C=C, max_iter=MAX_ITER).fit(X[:, columns], y, weight)
    own, constant = model.coef_.T, model.intercept_
    if len(present) == 2:
        own, constant = np.hstack([-own / 2, own / 2]), np.array([-constant[0], constant[0]]) / 2
    prior = np.bincount(y, weight) + 1.0
    constant = constant - np.log(prior / prior.sum())
    logs[columns], intercepts[:] = own.mean(axis=1, keepdims=True), constant.mean()
    logs[np.ix_(columns, present)], intercepts[present] = own, constant
    return logs, intercepts
