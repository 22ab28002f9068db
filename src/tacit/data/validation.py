"""What estimators take: numbers in a table of the right shape, and weights. No labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, validate_data

from tacit import kernels
from tacit.data.rows import Joined
from tacit.data.sparse import canonical
from tacit.numerics import Array

__all__ = ["check_numbers", "check_shape", "check_weight"]


def check_shape(estimator: Any, X: Any, reset: bool, accept_sparse: bool) -> Any:
    """Return X as an array or CSR matrix of the right width; its numbers are not looked at."""
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if accept_sparse else False,
            dtype="numeric",
            ensure_all_finite=False,
        )
    except ValueError as error:
        if "convert string" in str(error):
            raise ValueError(
                f"X holds text where numbers belong ({error}). Turn categories into numbers "
                "with sklearn.preprocessing.OrdinalEncoder, and texts with CountVectorizer."
            ) from None
        raise


def check_numbers(X: Any) -> Any:
    """Return X with each column at most once in a row; ValueError if it holds no numbers."""
    if isinstance(X, Joined):  # whose blocks we have made
        return X
    numbers = X.data if sparse.issparse(X) else X
    if numbers.dtype.kind == "f" and not kernels.scan(numbers).finite:
        if sparse.issparse(X):
            raise ValueError(
                "X is sparse and contains NaN or infinity. Missing cells need a dense X, where "
                "they are NaN."
            )
        if np.isinf(numbers).any():
            raise ValueError("Input X contains infinity. Missing cells are NaN.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {X.dtype}: expected numbers.")
    return canonical(X) if sparse.issparse(X) else X


def check_weight(sample_weight: Any, X: Any) -> Array:
    """Return weights as an array; they must be non-negative and not all zero."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(f"sample_weight must not be negative. Found {weight.min()}.")
    if not np.isfinite(weight.sum()):
        raise ValueError("The sum of sample_weight overflows: scale the weights down.")
    weight = np.where(weight < np.finfo(np.float64).tiny, 0.0, weight)  # no digits, no weight
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    return weight
