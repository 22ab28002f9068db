"""Cross-validation splits for scikit-learn's tools where labels are missing.

For users (`tacit.tuning`); the estimators' own folds are `tacit.selection.cross_validation.folds`,
which this makes a scikit-learn splitter of. Nothing is fitted or scored here.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator

from tacit.data.labels import encode
from tacit.selection.cross_validation import folds

__all__ = ["SemiSupervisedSplit", "check_count"]


class SemiSupervisedSplit(BaseCrossValidator):
    """Cross-validation splits where labels are missing: for `cv` of `GridSearchCV` and the like.

    Test folds hold labelled rows only. All other rows are for training, labelled or not, as in use.
    The labelled rows of a class are spread evenly over the folds; the only one of a class is never
    held out.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    random_state : int, default=0
        Seed of the assignment of labels to folds.
    missing_label : optional
        Marks a missing label besides NaN, None and NA: a value or a list of values. That of
        the classifier, if it has one.

    Notes
    -----
    - Unless told otherwise, scikit-learn takes `score` of tacit's classifiers, which knows labels
      of any type. Its own scorers (``scoring="f1_macro"``) refuse numbers and truth values in an
      array of objects, which ``np.array([0, None, 1])`` is. For them use a list, NaN, pandas'
      Int64, a column of polars, or -1 with ``missing_label=-1``. Text may be given in any way.
    - ``cross_val_predict`` wants each row in exactly one test fold, which unlabelled rows are
      not. Loop over the folds as below.
    - Tables may be data frames; scikit-learn takes a dict of lists for its columns.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV, cross_val_score
    >>> from tacit import GaussianNB
    >>> X = np.array([[1.0], [1.2], [0.8], [1.1], [3.0], [3.3], [2.9], [3.2]])
    >>> y = ["a", "a", None, None, "b", "b", None, None]
    >>> cv = SemiSupervisedSplit(2)
    >>> cross_val_score(GaussianNB(), X, y, cv=cv)
    array([1., 1.])
    >>> grid = {"unlabeled_weight": [0.0, 0.1, 1.0]}
    >>> GridSearchCV(GaussianNB(), grid, cv=cv).fit(X, y).best_score_
    np.float64(1.0)
    >>> for train, test in cv.split(X, y):
    ...     model = GaussianNB().fit(X[train], [y[i] for i in train])
    ...     print(test, model.predict(X[test]))
    [0 4] ['a' 'b']
    [1 5] ['a' 'b']
    """

    def __init__(
        self, n_splits: int = 5, *, random_state: int = 0, missing_label: Any = None
    ) -> None:
        check_count("n_splits", n_splits, 2)
        self.n_splits = n_splits
        self.random_state = random_state
        self.missing_label = missing_label

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def _iter_test_indices(
        self, X: Any = None, y: Any = None, groups: Any = None
    ) -> Iterator[npt.NDArray[np.intp]]:
        if y is None:
            raise ValueError("The 'y' parameter should not be None: folds are made of its labels.")
        codes = encode(y, None, self.missing_label).codes
        held = list(folds(codes, self.n_splits, self.random_state))
        if len(held) < self.n_splits:  # a row in each
            raise ValueError(
                f"n_splits={self.n_splits} folds need as many labelled rows that are not the only "
                f"one of their class; found {len(held)}. Label more rows, or set n_splits lower."
            )
        yield from held


def check_count(name: str, count: Any, least: int) -> None:
    """Raise ValueError unless a parameter is a whole number that is large enough."""
    if not isinstance(count, Integral) or count < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {count!r}.")
