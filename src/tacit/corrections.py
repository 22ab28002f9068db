"""What models get wrong, by labels that were hidden from them, and what puts it right.

    log p(y | x) = log p_models(y | x) + sum_j x_j b_jy + constant

Naive Bayes takes words and cells for independent of each other, so what several of them say
together counts too much or too little. b is what some rounds of logistic regression find for hidden
rows if it begins with what the models say of them. It is held to 0: few labels change little, many
change what they must. As it is a sum over words or cells, it can be explained exactly.
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
from sklearn.preprocessing import normalize as to_length_1

from tacit.columns import Column
from tacit.judging import ENOUGH, MOST, Judged, Weighed
from tacit.numerics import Array, log, normalize
from tacit.rows import in_parts
from tacit.tabular import Prepared
from tacit.weighting import TermWeights

__all__ = ["Correction", "TableCorrection", "TextCorrection", "learn", "to_length_1"]

# How firmly it is held to 0: the first, or the next while hidden labels get more probable.
FIRMNESS = (1.0, 0.1, 0.01)
# Standard errors by which hidden labels must speak against all of it.
CLEARLY = 3.0
# Rounds for each: what comes later tells noise.
ROUNDS = 6
# Numbers that a round looks at, at most, and of how many an entry of a sparse row takes the time.
# Of more rows some stand for all.
WORK = 1.5e7
SPARSE = 20
# Numbers from which on they are float32, which takes half of the time.
LARGE = 1e6
# What is added to squared lengths, so that equal rows do no harm.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Correction(ABC):
    """What is added to the log-odds of models.

    Attributes
    ----------
    logs : ndarray of shape (d, K)
        What each word or cell adds for each class.
    """

    logs: Array

    @abstractmethod
    def seen(self, X: Any, rows: Any = slice(None)) -> Any:
        """Return rows as a CSR array of shape (n, d); none is longer than 1."""

    def evidence(self, X: Any) -> Array:
        """Return what is added for each class, of shape (n, K)."""
        return in_parts(lambda part: np.asarray(self.seen(X, part) @ self.logs), X.shape[0])


@dataclass(frozen=True)
class TextCorrection(Correction):
    """What words add.

    Attributes
    ----------
    weights : TermWeights
        How words are weighed, before texts are brought to length 1.

    Examples
    --------
    >>> from tacit import TextClassifier
    >>> texts = ["a goal", "a late goal", "the violin", "the slow violin"] * 5
    >>> model = TextClassifier().fit(texts, ["sport", "sport", "music", "music"] * 5)
    >>> counts = model.vectorizer_.transform(["a goal"])
    >>> model.classes_[model.correction_.evidence(counts).argmax(axis=1)]
    array(['sport'], dtype='<U5')
    """

    weights: TermWeights

    def seen(self, X: Any, rows: Any = slice(None)) -> Any:
        """Return the words of texts, from their counts."""
        return to_length_1(self.weights.transform(X[rows]))

    def terms(self, row: Any) -> tuple[Array, Array]:
        """Return what is added before words are seen, which is nothing, and by each word."""
        own = to_length_1(row)
        return np.zeros(self.logs.shape[1]), own.data[:, None] * self.logs[own.indices]


@dataclass(frozen=True)
class TableCorrection(Correction):
    """What the cells of a table add.

    Attributes
    ----------
    columns : tuple of Column
        The columns, numbers cut into bins; each has a row of `logs` for each of its values.

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"leaf": ["long", "round"] * 5, "bark": ["a", "b"] * 5}
    >>> model = TableClassifier().fit(table, ["ash", "elm"] * 5)
    >>> model.correction_.evidence(model.prepare(table))[:2].argmax(axis=1)  # ash, elm
    array([0, 1])
    """

    columns: tuple[Column, ...]

    def _places(self, X: Prepared, rows: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the row of `logs` of each cell, and which cells have one."""
        each = [column.shaped(X.cells[column.name][rows])[:, 0] for column in self.columns]
        codes, sizes = np.stack(each, axis=1), np.array([len(c.values) for c in self.columns])
        return codes + np.cumsum(sizes) - sizes, (codes >= 0) & (codes < sizes)

    def seen(self, X: Prepared, rows: Any = slice(None)) -> Any:
        """Return which values the cells of a table have."""
        places, there = self._places(X, rows)
        ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        each = np.full(ends[-1], len(self.columns) ** -0.5)
        shape = len(places), sum(len(column.values) for column in self.columns)
        return sparse.csr_array((each, places[there].astype(np.intp), ends), shape=shape)

    def terms(self, X: Prepared) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return what is added before cells are seen, which is nothing, and by each cell."""
        places, there = self._places(X, slice(1))
        values = [value for column in self.columns for value in column.values]
        by, found = len(self.columns) ** -0.5, []
        for j in np.flatnonzero(there[0]):
            at = int(places[0, j])
            found.append((self.columns[j].name, values[at], by * self.logs[at]))
        return np.zeros(self.logs.shape[1]), found


def learn(
    X: Any, judged: Judged, found: Weighed, *others: Weighed
) -> tuple[Array | None, list[Weighed]]:
    """Return what puts right what a pool says of hidden rows, and how good both are together.

    That is judged by rows that had no part in it, but those that had were themselves judged by
    models that know the former: so it is judged too hard. Thus it takes much to speak against it,
    and where a pool seems better as it is, that is what is said of both.

    Parameters
    ----------
    X : CSR array of shape (n, d)
        The hidden rows, none longer than 1.
    judged : Judged
        Their classes, and with which others each was hidden.
    found : Weighed
        What the pool says of them.
    *others : Weighed
        What other pools say, to compare with: they are put right as firmly, at once.

    Returns
    -------
    logs : ndarray of shape (d, K), or None
        What each column adds for each class; None if hidden labels are clearly against it.
    weighed : list of Weighed
        How good each pool is.
    """
    n, K = found.posterior.shape
    wide = max(min(X.shape[1], SPARSE * X.nnz / n), 1)
    most = min(n, int(max((WORK / K) ** 0.5, WORK / (K * wide))))
    some = np.linspace(0, n - 1, most).astype(np.intp)
    own, back = _turned(X[some])
    if own.size * K > LARGE:
        own = own.astype(np.float32)
    hidden = [judged.fold == i for i in range(int(judged.fold.max()) + 2)]  # the last is none

    def tried(pool: Weighed, each: Sequence[float]) -> Iterator[tuple[Array, Weighed]]:
        before, p = np.maximum(log(pool.posterior), -MOST), np.empty((n, K))
        fits = [np.zeros((own.shape[1], K))] * len(hidden)
        for firmness in each:
            for i, held in enumerate(hidden):
                rest = ~held[some]
                known = before[some][rest], judged.truth[some][rest], pool.counts[some][rest]
                fits[i] = _fitted(own[rest], *known, firmness, fits[i])
                logs = back(fits[i])
                p[held] = normalize(before[held] + X[held] @ logs)[0]
            yield logs, Weighed.of(pool.weights, p.copy(), judged.truth, pool.counts)

    each = FIRMNESS if n >= ENOUGH else FIRMNESS[:1]
    best: list[tuple[Array, Weighed]] = []
    for one in tried(found, each):
        if best and one[1].loss >= best[-1][1].loss:
            break
        best.append(one)
    logs, weighed = best[-1]
    if found.beats(weighed, errors=CLEARLY):
        return None, [found, *others]
    last = each[len(best) - 1 : len(best)]
    put_right = [weighed, *(next(tried(other, last))[1] for other in others)]
    pairs = zip(put_right, (found, *others), strict=True)
    return logs, [min(pair, key=lambda one: one.loss) for pair in pairs]


def _turned(X: Any) -> tuple[Any, Callable[[Array], Array]]:
    """Return rows as they are quickest to look at, and the way back for what they teach.

    In no more dimensions than there are rows, lengths and angles stay, so that what is found is
    the same.
    """
    n, d = X.shape
    if SPARSE * X.nnz <= n * min(n, d):
        return X, lambda found: found
    if d <= n:
        return X.toarray(), lambda found: found
    own = cholesky((X @ X.T).toarray() + ROUNDING * np.eye(n), lower=True)
    return own, lambda found: X.T @ solve_triangular(own, found, lower=True, trans="T")


def _fitted(
    X: Any,
    before: Array,
    truth: npt.NDArray[np.intp],
    counts: Array,
    firmness: float,
    start: Array,
) -> Array:
    """Return logistic regression after some rounds, for rows of which something is said before."""
    rows = np.arange(len(truth))
    # Of classes that no row has, nothing is learnt: not that they never are right, either.
    before = np.where(np.bincount(truth, minlength=before.shape[1]) > 0, before, -np.inf)

    def loss(logs: Array) -> tuple[float, Array]:
        joint = before + X @ logs.reshape(start.shape).astype(X.dtype)
        p, log_sum = normalize(joint)
        value = counts @ (log_sum - joint[rows, truth]) + firmness / 2 * (logs @ logs)
        p[rows, truth] -= 1.0
        slope = X.T @ (counts[:, None] * p).astype(X.dtype)
        return float(value), slope.ravel() + firmness * logs

    options = {"maxiter": ROUNDS}
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x.reshape(start.shape))
