"""Where EM begins: responsibilities for every row, which one M-step turns into parameters (S20)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tacit.data.labels import Labels
from tacit.data.rows import Joined
from tacit.numerics import Array, Matrix, ratio

__all__ = ["from_labels_alone", "is_random", "responsibilities", "split_classes"]


def is_random(init: Any, labels: Labels, weight: Array) -> bool:
    """Return whether a start differs from draw to draw, so that restarts make sense."""
    if isinstance(init, str):
        unnamed = len(_unnamed(labels, weight)) > 0
        return init in ("random", "kmeans") or (init == "labels" and unnamed)
    return callable(init)


def from_labels_alone(
    init: Any, labels: Labels, weight: Array, loop: npt.NDArray[np.bool_]
) -> bool:
    """Return whether the start is the estimate from the labelled rows alone."""
    by_labels = isinstance(init, str) and init == "labels" and not len(_unnamed(labels, weight))
    return bool(by_labels and labels.unknown[loop].all())


def _unnamed(labels: Labels, weight: Array) -> npt.NDArray[np.intp]:
    """Return the classes that no known label of any weight names, and no evidence favours."""
    named, used = labels.codes[weight > 0], (labels.codes < 0) & (weight > 0)
    if labels.evidence is not None and used.any():
        evidence = labels.evidence[used]
        most = evidence.max(axis=1, keepdims=True)
        favours = (evidence == most).sum(axis=1) == 1
        named = np.append(named, evidence[favours].argmax(axis=1))
    return np.setdiff1d(np.arange(len(labels.classes)), named)


def responsibilities(
    init: Any,
    X: Matrix,
    labels: Labels,
    weight: Array,
    rng: np.random.RandomState,
    hard: bool = False,
) -> Array:
    """Return weights of shape (n, K) that say how much of each row each class starts with.

    Known labels are one-hot, whatever `init` says, and rows with evidence follow it; `init` is
    about the other rows. The exception is "uniform", which starts every class alike (W Fig. 2);
    but `hard` assignment could not choose between equal classes, and begins with the round after.
    """
    n, K = len(labels.codes), len(labels.classes)
    unnamed, unknown = _unnamed(labels, weight), labels.unknown
    if unknown.all() and not isinstance(init, str):
        start = _given(init, X, n, K, rng)
        _refuse_symmetry(start, weight > 0, labels.classes)
        return start
    start = np.exp(labels.log_evidence())
    if isinstance(init, str) and init == "uniform":
        _refuse_symmetry(start[:, unnamed], weight > 0, labels.classes[unnamed])
        return start / start.sum(axis=1, keepdims=True) if hard else np.full((n, K), 1.0 / K)
    if len(unnamed):  # candidates alone may be symmetric too
        soft = (labels.codes < 0) & ~unknown
        start[soft] *= rng.uniform(0.9, 1.1, size=(int(soft.sum()), K))
    if not isinstance(init, str):
        start *= _given(init, X, n, K, rng)
        ruled_out = ~start.any(axis=1)  # by the two together: the evidence holds
        start[ruled_out] = np.exp(labels.log_evidence())[ruled_out]
    start /= start.sum(axis=1, keepdims=True)
    if not isinstance(init, str):
        used = weight > 0
        ever = np.isfinite(labels.log_evidence()[used]).sum(axis=0)  # rows that can be theirs
        unnamed = unnamed[ever[unnamed] > 0]
        _refuse_symmetry(start[:, unnamed], used, labels.classes[unnamed])
        return start
    start[unknown] = 0.0
    if not weight[unknown].any():
        return start
    if init == "kmeans":
        start[unknown] = _kmeans(X, weight * unknown, K, rng)[unknown]
    elif init == "random":
        start[unknown] = _seeds(X, weight * unknown, K, rng)[unknown]
    elif len(unnamed):
        seeds = _seeds(X, weight * unknown, len(unnamed), rng)
        start[np.ix_(unknown, unnamed)] = seeds[unknown]
    return start


def _refuse_symmetry(start: Array, used: npt.NDArray[np.bool_], names: npt.NDArray[Any]) -> None:
    """Refuse a start symmetric in classes that no label tells apart: EM would keep it so."""
    for rows in (slice(100), slice(None)):  # a few rows mostly tell
        columns = start[rows][used[rows]].round(6).T + 0.0  # -0 is 0
        if len({column.tobytes() for column in columns}) == len(names):
            return
    if len(names) > 1:
        raise ValueError(
            f"init gives some of the classes {names.tolist()} the same parameters, and without "
            "labels EM never tells them apart. Use init='random', or label a row of each class."
        )


# What a class has of each row at the start if none belongs to it.
LITTLE = 1e-3


def split_classes(
    X: Matrix, posterior: Array, weight: Array, parts: int, rng: np.random.RandomState
) -> Array:
    """Return responsibilities of parts of classes, cut by the place of rows on a random line.

    Most of a row goes to the part that it lies in, and no part is without any row: a class that no
    row belongs to has next to nothing of all of them.

    Examples
    --------
    >>> X, rng = np.array([[1.0], [2.0], [8.0], [9.0]]), np.random.RandomState(0)
    >>> split_classes(X, np.ones((4, 1)), np.ones(4), 2, rng).round(2).tolist()
    [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]
    """
    order = np.argsort(_places(X, rng), kind="stable")
    belongs = posterior[weight > 0].max(axis=0) > LITTLE
    posterior = np.where(belongs, posterior, LITTLE)
    mass = posterior[order] * weight[order, None]
    below = np.cumsum(mass, axis=0) - mass / 2
    part = np.empty(posterior.shape)
    part[order] = np.minimum(parts * below / mass.sum(axis=0), parts - 1)
    own = part.astype(np.intp)[:, :, None] == np.arange(parts)
    share = np.where(own, 0.9, 0.1 / (parts - 1))
    return np.asarray((posterior[:, :, None] * share).reshape(len(posterior), -1))


def _places(X: Matrix, rng: np.random.RandomState) -> Array:
    """Return the place of each row on a random line."""
    blocks = X.blocks if isinstance(X, Joined) else (X,)
    return np.asarray(np.sum([_projected(block, rng) for block in blocks], axis=0))


def _distinct(
    X: Matrix, weight: Array, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array]:
    """Return an index of each distinct row, which of them each row is, and their weights.

    Rows are told apart, and ordered, by a random projection: neither their order nor whether a
    row is repeated or weighted makes a difference to what is drawn from them.
    """
    place = _places(X, rng)
    used = np.flatnonzero(weight)
    _, index, which = np.unique(place[used], return_index=True, return_inverse=True)
    of_all = np.full(len(weight), -1)
    of_all[used] = which
    share: Array = np.bincount(which, weight[used]).astype(np.float64)
    return used[index], of_all, share


def _projected(X: Matrix, rng: np.random.RandomState) -> Array:
    """Return the place of each row on a random line; a missing cell is a value like any other."""
    along = rng.standard_normal(X.shape[1])
    if sparse.issparse(X):
        return np.asarray(X @ along)
    missing = np.isnan(X)
    place = (np.where(missing, 0.0, X) * along).sum(axis=1)
    return np.asarray(place + (missing * rng.standard_normal(X.shape[1])).sum(axis=1))


def _seeds(X: Matrix, weight: Array, K: int, rng: np.random.RandomState) -> Array:
    """Start each class halfway between all rows and one row of its own, drawn at random.

    Nothing that was seen gets probability zero, and the rows drawn differ if enough do.
    """
    index, which, share = _distinct(X, weight, rng)
    total = share.sum()
    p = np.maximum(share / total, np.finfo(np.float64).tiny)
    drawn = rng.choice(len(index), size=K, replace=len(index) < K, p=p / p.sum())
    with np.errstate(over="ignore"):  # a row of next to no weight may be drawn if others are few
        factor = np.minimum(total / share[drawn], 1e15)
    return np.where(which[:, None] == drawn, 1.0 + factor, 1.0)


def _kmeans(X: Matrix, weight: Array, K: int, rng: np.random.RandomState) -> Array:
    """Return the clusters that k-means finds, missing cells at the mean of their column."""
    from sklearn.cluster import KMeans  # takes as long to import as all the rest

    index, which, share = _distinct(X, weight, rng)
    points, missing = X[index], np.isnan(X[index])
    seen = ~missing * share[:, None]
    means = ratio((np.where(missing, 0.0, points) * seen).sum(axis=0), seen.sum(axis=0), 0.0)
    filled = np.where(missing, means, points)
    clusters = min(K, len(np.unique(filled, axis=0)))
    method = KMeans(clusters, n_init=1, random_state=rng)
    with warnings.catch_warnings():  # fewer clusters than asked for will do for a start
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = method.fit_predict(filled, sample_weight=share)
    return np.asarray(np.eye(K)[found[which]])


def _given(init: Any, X: Matrix, n: int, K: int, rng: np.random.RandomState) -> Array:
    given = np.asarray(init(X, K, rng) if callable(init) else init, dtype=np.float64)
    if given.shape != (n, K):
        raise ValueError(
            f"init has shape {given.shape}: expected responsibilities for {n} rows and {K} classes."
        )
    sums = given @ np.ones(K)  # which is many times as fast as sum(axis=1) for few columns
    if not (np.isfinite(sums).all() and given.min(initial=0.0) >= 0 and (sums > 0).all()):
        raise ValueError("init must be finite and non-negative, and no row of it all zero.")
    normalized: Array = given / sums[:, None]
    return normalized
