"""How far to trust the labels: cross-validation on the rows whose label is known.

`cross_validate` hides a fold's labels, not its rows: they take part as rows without a label, as in
use. Where models are chosen and weighed (`tacit.selection.candidates`), its rows take no part at
all (`without_rows`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tacit.data.labels import Labels
from tacit.numerics import Array, ratio

__all__ = [
    "Evaluation",
    "UnlabeledHelp",
    "alone",
    "cross_validate",
    "folds",
    "judge_alone",
    "without_rows",
]

BINS = 15
# Into how many parts labels are cut, of which one is hidden at a time.
N_FOLDS = 5


@dataclass(frozen=True)
class Evaluation:
    """What a model said of rows whose label was hidden from it.

    Attributes
    ----------
    confusion : ndarray of shape (K, K)
        How many rows of each class (rows) were given each label (columns).
    log_loss : float
        Mean of -log p(label) in nats.
    calibration_error : float
        Expected calibration error: how far the probability of the label given is from the share of
        labels that are right, on average over 15 bins of it.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]])
    >>> found = Evaluation.of(p, np.array([0, 1, 1]))
    >>> found.confusion.tolist(), round(found.accuracy, 3)
    ([[1, 0], [1, 1]], 0.667)
    """

    confusion: npt.NDArray[np.int64]
    log_loss: float
    calibration_error: float

    @classmethod
    def of(cls, p: Array, truth: npt.NDArray[np.intp]) -> Evaluation:
        """Return what probabilities of shape (n, K) say of the true classes."""
        n, K = p.shape
        best, sure = p.argmax(axis=1), p.max(axis=1)
        confusion = np.bincount(truth * K + best, minlength=K * K).reshape(K, K)
        least = np.finfo(np.float64).tiny
        loss = -np.log(np.maximum(p[np.arange(n), truth], least)).mean()
        place = np.minimum((sure * BINS).astype(np.intp), BINS - 1)
        gap = np.bincount(place, sure - (best == truth), minlength=BINS)
        return cls(confusion.astype(np.int64), float(loss), float(np.abs(gap).sum() / n))

    @property
    def rows(self) -> int:
        """How many rows were judged."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The share of labels that are right."""
        return float(self.confusion.trace() / self.rows)

    @property
    def _right(self) -> Array:
        return self.confusion.diagonal().astype(np.float64)

    @property
    def precision(self) -> Array:
        """Of the rows that were given each label, the share that have it; NaN if there is none."""
        return ratio(self._right, self.confusion.sum(axis=0), np.nan)

    @property
    def recall(self) -> Array:
        """Of the rows that have each label, the share that were given it; NaN if there is none."""
        return ratio(self._right, self.confusion.sum(axis=1), np.nan)


@dataclass(frozen=True)
class UnlabeledHelp:
    """Whether rows without a label help: the model without them and with them, cross-validated.

    Attributes
    ----------
    supervised, em : Evaluation or None
        Without and with them; None if there are too few labels to tell, or Ctrl-C was in the way.
    weight : float
        The weight that rows without a label were given; 1 if they only tell which rows of a table
        are alike.
    """

    supervised: Evaluation | None
    em: Evaluation | None
    weight: float

    def __str__(self) -> str:
        if self.supervised is None or self.em is None:
            return f"not known; rows without a label were {'used' if self.weight else 'left out'}"
        without, with_them = (f"{e.accuracy:.1%}" for e in (self.supervised, self.em))
        done = "used" if self.weight else "left out"
        return (
            f"{without} of {self.em.rows} hidden labels found without them, {with_them} with them: "
            f"they were {done}"
        )


def folds(codes: npt.NDArray[np.intp], n: int, seed: int = 0) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows of each fold: those of a class are spread evenly, its only one never in it.

    Examples
    --------
    >>> [rows.tolist() for rows in folds(np.array([0, 1, 1, -1, 1, 2, 2]), 2)]
    [[2, 4, 5], [1, 6]]
    """
    rng = np.random.default_rng(seed)
    fold = np.full(len(codes), -1)
    first = 0
    for k in range(int(codes.max(initial=-1)) + 1):
        rows = rng.permutation(np.flatnonzero(codes == k))
        if len(rows) > 1:
            fold[rows] = (first + np.arange(len(rows))) % n
            first += len(rows)
    for i in range(n):
        held = np.flatnonzero(fold == i)
        if len(held):
            yield held


def alone(classifier: Any, labels: Labels) -> Any:
    """Return a copy that takes class numbers, and leaves the user's files and functions alone."""
    mark = {"classes": np.arange(len(labels.classes)), "missing_label": -1}
    quiet: dict[str, Any] = {"callback": None, "checkpoint": None, "resume": False, "verbose": 0}
    said = getattr(classifier, "word_labels", None)
    if said:
        place = {name: k for k, name in enumerate(labels.classes.tolist())}
        quiet["word_labels"] = {word: place[name] for word, name in said.items()}
    return clone(classifier).set_params(**mark, **quiet)


def without_rows(
    classifier: Any,
    X: Any,
    known: npt.NDArray[Any],
    weight: Array,
    held: Iterable[npt.NDArray[np.intp]],
) -> Iterator[tuple[Any, Any]]:
    """Yield copies that were fitted without the rows of each fold, and these rows.

    Unlike in `cross_validate`, they take no part at all: what is said of them is what would be said
    of new rows.
    """
    for rows in held:
        rest, model = np.delete(np.arange(len(weight)), rows), clone(classifier)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to compare by
            model.fit(X[rest], known[rest], sample_weight=weight[rest])
        yield model, X[rows]


def judge_alone(
    classifier: Any, X: Any, labels: Labels, n_folds: int = N_FOLDS, seed: int = 0
) -> Evaluation | None:
    """Fit to rows with a label alone, without those of each fold, and judge what is said of these.

    What `cross_validate` says is compared with it; parameters and result are the same.

    Examples
    --------
    >>> import tacit
    >>> from tacit.data.labels import encode
    >>> X = np.array([[1.0], [1.1], [0.9], [3.0], [3.1], [2.9], [3.2]])
    >>> judge_alone(tacit.GaussianNB(), X, encode([0, 0, 0, 1, 1, 1, None])).accuracy
    1.0
    """
    rows = np.flatnonzero(labels.codes >= 0)
    codes, model = labels.codes[rows], alone(classifier, labels)
    held = list(folds(codes, n_folds, seed))
    if not held:
        return None
    fits = without_rows(model, X[rows], codes, np.ones(len(rows)), held)
    p = [model.predict_proba(new) for model, new in fits]
    return Evaluation.of(np.concatenate(p), codes[np.concatenate(held)])


def cross_validate(
    classifier: Any,
    X: Any,
    labels: Labels,
    weight: Array | None = None,
    n_folds: int = N_FOLDS,
    seed: int = 0,
) -> Evaluation | None:
    """Fit with the labels of each fold hidden, and judge what is said of its rows.

    Parameters
    ----------
    classifier : Classifier
        The model; clones of it are fitted.
    X
        The rows.
    labels : Labels
        What is known of their labels.
    weight : ndarray of shape (n,), optional
        Weights of the rows.
    n_folds : int
        Number of folds.
    seed : int
        Which labels go together.

    Returns
    -------
    Evaluation or None
        None if no label can be hidden, because each is the only one of its class.

    Examples
    --------
    >>> import tacit
    >>> from tacit.data.labels import encode
    >>> X = np.array([[1.0], [1.1], [0.9], [3.0], [3.1], [2.9], [3.2]])
    >>> cross_validate(tacit.GaussianNB(), X, encode([0, 0, 0, 1, 1, 1, None])).accuracy
    1.0
    """
    p, truth = [], []
    known = labels.known
    counted = labels.codes if weight is None else np.where(weight > 0, labels.codes, -1)
    for held in folds(counted, n_folds, seed):
        hidden = known.copy()
        hidden[held] = -1 if hidden.ndim == 1 else 1.0
        model = alone(classifier, labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to compare by
            model.fit(X, hidden, sample_weight=weight)
        p.append(model.label_distributions_[held])
        truth.append(labels.codes[held])
    if not p:
        return None
    return Evaluation.of(np.concatenate(p), np.concatenate(truth))
