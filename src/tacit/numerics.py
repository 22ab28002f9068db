"""Arithmetic in log space in which exact zeros stay exact. No models here, only numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import entr

from tacit import kernels

__all__ = [
    "SINGLE_FROM",
    "Array",
    "Index",
    "Matrix",
    "column_sums",
    "component_mean",
    "dot",
    "expected_log",
    "log",
    "log_normalize",
    "mixture_log_constant",
    "normalize",
    "ratio",
    "times",
]

Array: TypeAlias = npt.NDArray[np.float64]
# A dense array or a CSR matrix of numbers. (SciPy has no types.)
Matrix: TypeAlias = Any
# Which rows: a slice, indices or a mask.
Index: TypeAlias = slice | npt.NDArray[np.intp] | npt.NDArray[np.bool_]

# Entries of the data from which on kernels score rows in float32, which takes half of the time.
# Scores and posteriors are then right to about 1e-7, far below what so much data can tell; the
# log-likelihood is right to the square of that (native/posterior.h).
SINGLE_FROM = 1 << 18


def log(values: npt.ArrayLike) -> Array:
    """Return the natural logarithm, with log 0 = -inf and no warning.

    Examples
    --------
    >>> log([0.0, 1.0])
    array([-inf,   0.])
    """
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(values, dtype=np.float64))


def ratio(counts: Array, totals: Array, fallback: npt.ArrayLike) -> Array:
    """Return counts / totals, and `fallback` where the total is zero (nothing was seen).

    Examples
    --------
    >>> ratio(np.array([1.0, 0.0]), np.array([4.0, 0.0]), 0.5)
    array([0.25, 0.5 ])
    """
    if np.all(totals > 0):
        return np.asarray(counts / totals)
    shape = np.broadcast_shapes(np.shape(counts), np.shape(totals))
    result = np.array(np.broadcast_to(fallback, shape), dtype=np.float64)
    return np.divide(counts, totals, out=result, where=np.broadcast_to(totals, shape) > 0)


def dot(X: Matrix, log_p: Array) -> Array:
    """Return X @ log_p.T where X >= 0 and 0 · -inf = 0 (S10): a count of zero asks nothing.

    A sparse X stores no zeros.

    Examples
    --------
    >>> dot(np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[-np.inf, -2.0]]))
    array([[ -2.],
           [-inf]])
    """
    kernel = sparse.issparse(X) and kernels.native() is not None  # it visits what is stored alone
    if kernel or log_p.min(initial=0.0) > -np.inf:
        return times(X, log_p.T)
    impossible = np.isneginf(log_p)
    result = times(X, np.where(impossible, 0.0, log_p).T)
    result[times(X, impossible.T.astype(np.float64)) > 0] = -np.inf
    return result


def times(X: Matrix, table: Array) -> Array:
    """Return X @ table, for X dense or CSR.

    Examples
    --------
    >>> times(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    return np.asarray(kernels.multiply(X, table) if sparse.issparse(X) else X @ table)


def column_sums(weights: Matrix) -> Array:
    """Return the sum of each column, dense or CSR.

    Examples
    --------
    >>> column_sums(sparse.csr_array([[0.0, 1.0], [2.0, 3.0]]))
    array([2., 4.])
    """
    if sparse.issparse(weights):
        return np.bincount(weights.indices, weights.data, weights.shape[1]).astype(np.float64)
    return np.asarray(weights.sum(axis=0), dtype=np.float64)


def expected_log(counts: Array, log_p: Array) -> float:
    """Return the sum of counts · log_p, with 0 · -inf = 0.

    Examples
    --------
    >>> expected_log(np.array([0.0, 2.0]), np.array([-np.inf, -1.0]))
    -2.0
    """
    alike = counts.ndim == 1 or counts.strides == log_p.strides  # not many are copied
    if counts.shape == log_p.shape and alike:
        with np.errstate(invalid="ignore"):
            total = float(np.vdot(counts.ravel("K"), log_p.ravel("K")))
        if not np.isnan(total):  # as 0 · -inf is
            return total
    if not counts.any():
        return 0.0
    if counts.shape != log_p.shape:
        counts, log_p = np.broadcast_arrays(counts, log_p)
    return float(np.multiply(counts, log_p, out=np.zeros(counts.shape), where=counts > 0).sum())


def normalize(log_joint: Array) -> tuple[Array, Array]:
    """Turn rows of log p(x, y) into p(y | x) and log p(x).

    A row that is impossible under every class (all -inf) has no posterior: it becomes zeros, and
    its log p(x) is -inf.

    Examples
    --------
    >>> responsibilities, log_p = normalize(np.log([[0.1, 0.3]]))
    >>> responsibilities.round(12), np.exp(log_p).round(12)
    (array([[0.25, 0.75]]), array([0.4]))
    """
    native = kernels.native()
    if native is not None:
        posterior, log_p = np.array(log_joint, order="C"), np.empty(len(log_joint))
        native.normalize(posterior, log_p, False, kernels.threads(8 * posterior.size))
        return posterior, log_p
    top = log_joint.max(axis=1)
    impossible = np.isneginf(top)
    responsibilities = np.exp(log_joint - np.where(impossible, 0.0, top)[:, None])
    total = responsibilities.sum(axis=1)
    total[impossible] = 1.0
    responsibilities /= total[:, None]
    return responsibilities, top + np.log(total)


def log_normalize(log_joint: Array) -> tuple[Array, Array]:
    """Return log p(y | x) and log p(x) of each row, given log p(x, y), which may be overwritten.

    A row that is impossible under every class stays as it is, and its log p(x) is -inf.

    Examples
    --------
    >>> log_posterior, log_p = log_normalize(np.log([[0.1, 0.3]]))
    >>> np.exp(log_posterior).round(12)
    array([[0.25, 0.75]])
    """
    native = kernels.native()
    if native is not None:
        log_posterior, log_p = np.ascontiguousarray(log_joint), np.empty(len(log_joint))
        native.normalize(log_posterior, log_p, True, kernels.threads(8 * log_posterior.size))
        return log_posterior, log_p
    log_p = normalize(log_joint)[1]
    return log_joint - np.where(np.isneginf(log_p), 0.0, log_p)[:, None], log_p


def component_mean(logs: Array, within: Array) -> Array:
    """Return means over the components of each class, of `logs` of shape (..., K M).

    `within` is p(component | class), of shape (K, M), and 0 · -inf = 0.

    Examples
    --------
    >>> component_mean(np.array([-1.0, -3.0, -2.0, -np.inf]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([-2., -2.])
    """
    each = logs.reshape(*logs.shape[:-1], *within.shape)
    parts = np.multiply(within, each, out=np.zeros(each.shape), where=within > 0)
    return np.asarray(parts.sum(axis=-1))


def mixture_log_constant(log_prior: Array, within: Array) -> Array:
    """Return the expected log prior of each class's components plus the entropy of `within`.

    log sum_m p_m is the mean of log p_m under w = p / sum p, plus the entropy of w. So log p of a
    class is a sum of such means over the cells, plus this constant.

    Examples
    --------
    >>> mixture_log_constant(np.log([0.2, 0.2, 0.6, 1e-300]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([-0.91629073, -0.51082562])
    """
    return np.asarray(component_mean(log_prior, within) + entr(within).sum(axis=1))
