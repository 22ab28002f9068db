"""Term weighting: word counts in, weights out, by sublinear counts, idf and text length.

Naive Bayes takes every word for independent evidence. In texts it is not: words come in bursts,
common words carry little information, and long texts are redundant. `TermWeights` turns counts into
what the evidence is worth; `informative_words` selects words by mutual information. Nothing here
knows models.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import xlogy
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from tacit import kernels
from tacit.data.labels import encode
from tacit.numerics import Array, log

__all__ = ["TermWeights", "informative_words"]


class TermWeights(TransformerMixin, BaseEstimator):
    """Turn word counts into weights: log(1 + count) · idf^power, less in long texts.

    A text of L words (after weighting, in units in which the mean weight is 1) counts for
    L / (1 + L / length_scale) ^ (1 - length_exponent): short texts for their length, long ones for
    `length_scale` times a power of it, with `length_exponent` 0 for no more than that.

    Words that occur in one row only are left out, since no other row can confirm what they say of
    a class; but not where a row would be left empty.

    Parameters
    ----------
    idf : float, default=0.75
        Power of log((1 + rows) / rows with the word), by which common words count less.
    length_scale : float, default=10.0
        Length from which on texts count for less than their length; inf for never.
    length_exponent : float, default=0.0
        The power of its length with which the weight of a long text grows.
    words : int or None, default=None
        If given, the number of words that are kept: the most informative (`informative_words`).

    Attributes
    ----------
    columns_ : ndarray of shape (m,)
        The columns of the words that are kept, in order.
    weights_ : ndarray of shape (m,)
        The factor of log(1 + count) of each.

    Examples
    --------
    >>> from tacit.text.weighting import TermWeights
    >>> X = sparse.csr_array([[1, 1, 0], [3, 0, 1], [1, 0, 1], [1, 1, 0]])
    >>> TermWeights(idf=1.0, length_scale=np.inf).fit_transform(X).toarray().round(2)
    array([[0.37, 1.53, 0.  ],
           [0.75, 0.  , 1.53],
           [0.37, 0.  , 1.53],
           [0.37, 1.53, 0.  ]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "idf": [Interval(Real, 0, None, closed="left")],
        "length_scale": [Interval(Real, 0, None, closed="right")],
        "length_exponent": [Interval(Real, 0, 1, closed="both")],
        "words": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        *,
        idf: float = 0.75,
        length_scale: float = 10.0,
        length_exponent: float = 0.0,
        words: int | None = None,
    ) -> None:
        self.idf = idf
        self.length_scale = length_scale
        self.length_exponent = length_exponent
        self.words = words

    def __sklearn_tags__(self) -> Any:
        """Describe the transformer to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = self.words is not None
        return tags

    def _check(self, X: Any, reset: bool) -> sparse.csr_array:
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric")
        X = X if sparse.issparse(X) else sparse.csr_array(X)
        if X.nnz and X.data.min() < 0:
            raise ValueError("Negative values in data passed to TermWeights: counts are expected.")
        if kernels.has_duplicates(X) or (X.nnz and not X.data.all()):
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        return X

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the weight of each word.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Word counts, labelled or not.
        y : array-like of shape (n,), default=None
            Labels, missing ones as NaN or None; needed with `words`.

        Returns
        -------
        self
        """
        self._validate_params()
        X = self._check(X, reset=True)
        n, d = X.shape
        rows = np.bincount(X.indices, minlength=d)
        if self.words is not None:
            if y is None:
                raise ValueError("TermWeights(words=...) needs labels: pass y.")
            columns = informative_words(X, encode(y).codes, self.words)
        else:
            kept = rows > 1
            n_kept = np.bincount(_row_of(X)[kept[X.indices]], minlength=n)
            kept[X.indices[(n_kept == 0)[_row_of(X)]]] = True
            columns = np.flatnonzero(kept)
        columns = columns if len(columns) else np.arange(d)  # no row has a word
        weights = np.zeros(d)
        weights[columns] = np.log((1.0 + n) / np.maximum(rows[columns], 1)) ** self.idf
        each = weights[X.indices]
        counted = np.flatnonzero(each > 0)
        each = np.log1p(X.data[counted]) * each[counted]
        self.columns_ = columns
        self.weights_ = weights[columns] * (len(each) / each.sum() if len(each) else 1.0)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Return the names of the words that are kept.

        Parameters
        ----------
        input_features : array-like of str, default=None
            The names of all words.

        Returns
        -------
        ndarray of shape (m,)
        """
        check_is_fitted(self)
        names: npt.NDArray[Any] = _check_feature_names_in(self, input_features)
        return names[self.columns_]

    def transform(self, X: Any) -> sparse.csr_array:
        """Return the weights of the words of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Word counts.

        Returns
        -------
        CSR array of shape (n, m)
        """
        check_is_fitted(self)
        X = self._check(X, reset=False)
        place = np.full(X.shape[1], -1, dtype=X.indices.dtype)
        place[self.columns_] = np.arange(len(self.columns_))
        indices = place[X.indices]
        kept = np.flatnonzero(indices >= 0)
        ends = np.searchsorted(kept, X.indptr)
        indices = indices[kept]
        data = np.log1p(X.data[kept]) * self.weights_[indices]
        if self.length_scale < np.inf:
            length = np.add.reduceat(np.append(data, 0.0), np.minimum(ends[:-1], len(data)))
            length[ends[1:] == ends[:-1]] = 0.0
            factor = (1.0 + length / self.length_scale) ** (self.length_exponent - 1.0)
            data = data * np.repeat(factor, np.diff(ends))
        shape = X.shape[0], len(self.columns_)
        return sparse.csr_array((data, indices, ends.astype(X.indptr.dtype)), shape=shape)


def _row_of(X: sparse.csr_array) -> npt.NDArray[np.intp]:
    """Return the row of each entry of a CSR array."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def informative_words(
    X: sparse.csr_array, codes: npt.NDArray[np.intp], n: int
) -> npt.NDArray[np.intp]:
    """Return the n words whose presence has most mutual information with the class.

    Parameters
    ----------
    X : CSR array of shape (rows, d)
        Word counts.
    codes : ndarray of shape (rows,)
        The classes, -1 for none.
    n : int
        How many.

    Returns
    -------
    ndarray of shape (at most n,)
        Their columns, in order.

    Examples
    --------
    >>> X = sparse.csr_array([[1, 1, 0], [1, 1, 0], [1, 0, 2], [1, 0, 1]])
    >>> informative_words(X, np.array([0, 0, 1, 1]), 2)
    array([1, 2])
    """
    known = np.flatnonzero(codes >= 0)
    own, classes = X[known], codes[known]
    rows = np.bincount(own.indices, minlength=X.shape[1])
    for least in (2, 1):  # words of a single row only if there are too few others
        columns = np.flatnonzero(rows >= least)
        if len(columns) >= n:
            break
    K, place = int(codes.max()) + 1, np.full(X.shape[1], -1)
    place[columns] = np.arange(len(columns)) * K
    cells = place[own.indices] + np.repeat(classes, np.diff(own.indptr))
    cells = cells[place[own.indices] >= 0]
    present = np.bincount(cells, minlength=len(columns) * K).reshape(-1, K).astype(np.float64)
    size = np.bincount(classes, minlength=K).astype(np.float64)
    best = np.argsort(-_mutual_information(present, size), kind="stable")[:n]
    return np.sort(columns[best])


def _mutual_information(present: Array, size: Array) -> Array:
    """Return n times the mutual information, (d,), from class counts of each word, (d, K)."""
    absent, log_size = size - present, log(size / size.sum())
    log_size[size == 0] = 0.0
    information = np.zeros(len(present))
    for counts in (present, absent):
        total = counts.sum(axis=1)
        terms = (xlogy(counts, counts) - counts * log_size).sum(axis=1)
        information += terms - xlogy(total, total)
    return information
