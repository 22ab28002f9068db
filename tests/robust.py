"""What the tests of input and edge cases share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases import CASES
from tacit import BernoulliNB, MultinomialNB

NAN, INF = np.nan, np.inf
DISCRETE = ["bernoulli", "categorical", "multinomial"]

every_family = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_discrete = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in DISCRETE], ids=lambda case: case.name
)
every_sparse = pytest.mark.parametrize("make", [BernoulliNB, MultinomialNB])
few_rounds = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Four documents of three words, and labels; B is the same as zeros and ones.
X = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
Y = np.array([0, 1, 0, 1])
B = (X > 0).astype(float)


def wrong(match: str) -> Any:
    """Expect an error that a user can act on."""
    return pytest.raises((ValueError, TypeError), match=match)


def arrays(value: Any) -> list[np.ndarray]:
    """Return every array and number in a fitted estimator or a part of it."""
    if isinstance(value, np.ndarray | float | int):
        return [np.asarray(value)]
    if isinstance(value, dict):
        return [array for part in value.values() for array in arrays(part)]
    if isinstance(value, list | tuple):
        return [array for part in value for array in arrays(part)]
    if type(value).__module__.startswith("tacit"):
        return arrays(vars(value))
    return []


def check_sane(estimator: Any, *tables: Any) -> None:
    """No NaN in what was fitted nor in what is predicted, and probabilities sum to one."""
    for array in arrays(estimator):
        assert array.dtype.kind != "f" or not np.isnan(array).any()
    for table in tables:
        proba = estimator.predict_proba(table)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)
        assert not np.isnan(estimator.predict_joint_log_proba(table)).any()
        assert not np.isnan(estimator.score_samples(table)).any()


def same_bits(a: Any, b: Any, *tables: Any) -> None:
    for table in tables:
        np.testing.assert_array_equal(a.predict_proba(table), b.predict_proba(table))
        np.testing.assert_array_equal(a.score_samples(table), b.score_samples(table))
    np.testing.assert_array_equal(a.trace_, b.trace_)
