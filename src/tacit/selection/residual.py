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
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from tacit.data.rows import in_parts
from tacit.numerics import Array, log, normalize
from tacit.selection.candidates import ENOUGH, MOST, Judged, Weighed

__all__ = ["Correction", "learn"]

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
