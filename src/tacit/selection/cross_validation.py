"""Cross-validation on the labelled rows: folds, metrics, and whether unlabelled rows help.

`cross_validate` withholds the labels of a fold but not its rows, which stay in the fit as
unlabelled rows, as in use. Model selection (`tacit.selection.candidates`) withholds the rows as
well (`fit_folds`), so that its predictions are those of new rows. No model is chosen here.
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
    "cross_validate",
    "cross_validate_supervised",
    "detached_clone",
    "fit_folds",
    "folds",
]

# Bins of the expected calibration error.
BINS = 15
N_FOLDS = 5
# Quantile of the normal distribution for intervals of 95 %.
Z = 1.96
# The variance of an accuracy by cross-validation, relative to that of as many independent rows:
# folds share training rows, and the model that is used had others (Nadeau and Bengio 2003).
VARIANCE = 1.0 + N_FOLDS / (N_FOLDS - 1)


@dataclass(frozen=True)
class Evaluation:
    """Metrics of predictions for held-out labels.

    Attributes
    ----------
    confusion : ndarray of shape (K, K)
        Confusion matrix: counts by true class (rows) and predicted class (columns).
    log_loss : float
        Mean of -log p(label) of the held-out rows, in nats.
    calibration_error : float
        Expected calibration error of the held-out rows: the distance between the probability of the
        predicted class and its accuracy, averaged over 15 bins of that probability.
    expected_accuracy : float or None
        The accuracy to expect on new rows, where this is not the fraction of right predictions:
        labels that could not be held out count as errors, and labels whose class proportions are
        not those of all rows are reweighted.
    effective_rows : float or None
        So many rows without weights tell as much of the accuracy.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]])
    >>> metrics = Evaluation.of(p, np.array([0, 1, 1]))
    >>> metrics.confusion.tolist(), round(metrics.accuracy, 3)
    ([[1, 0], [1, 1]], 0.667)
    >>> [round(bound, 2) for bound in metrics.interval]
    [0.12, 0.97]
    """

    confusion: npt.NDArray[np.int64]
    log_loss: float
    calibration_error: float
    expected_accuracy: float | None = None
    effective_rows: float | None = None

    @classmethod
    def of(
        cls,
        p: Array,
        truth: npt.NDArray[np.intp],
        weight: Array | None = None,
        total: float | None = None,
        effective: float | None = None,
    ) -> Evaluation:
        """Return the metrics of predicted probabilities, shape (n, K), given the true classes.

        `weight` are those of the rows, of `total` weight if there are others beside them.
        """
        (n, K), weighted = p.shape, weight is not None
        weight = np.ones(n) if weight is None else weight
        predicted, confidence = p.argmax(axis=1), p.max(axis=1)
        confusion = np.bincount(truth * K + predicted, minlength=K * K).reshape(K, K)
        losses = -np.log(np.maximum(p[np.arange(n), truth], np.finfo(np.float64).tiny))
        bins = np.minimum((confidence * BINS).astype(np.intp), BINS - 1)
        gap = np.bincount(bins, weight * (confidence - (predicted == truth)), minlength=BINS)
        all_rows = max(weight.sum(), np.finfo(np.float64).tiny)
        right = float(weight @ (predicted == truth))
        return cls(
            confusion.astype(np.int64),
            float(weight @ losses / all_rows),
            float(np.abs(gap).sum() / all_rows),
            right / (all_rows if total is None else total) if weighted else None,
            effective,
        )

    @property
    def rows(self) -> int:
        """The number of held-out rows."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The accuracy to expect on new rows, by what was found for the held-out ones."""
        if self.expected_accuracy is not None:
            return self.expected_accuracy
        return float(self.confusion.trace() / self.rows)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % confidence interval of the accuracy, with the variance of folds."""
        p, n = self.accuracy, (self.effective_rows or self.rows) / VARIANCE
        middle, scale = p + Z * Z / (2 * n), 1 + Z * Z / n
        half = Z * np.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        return float(max(0.0, (middle - half) / scale)), float(min(1.0, (middle + half) / scale))

    @property
    def _true_positives(self) -> Array:
        return self.confusion.diagonal().astype(np.float64)

    @property
    def precision(self) -> Array:
        """Precision of each class; NaN if it is never predicted."""
        return ratio(self._true_positives, self.confusion.sum(axis=0), np.nan)

    @property
    def recall(self) -> Array:
        """Recall of each class; NaN if it never occurs."""
        return ratio(self._true_positives, self.confusion.sum(axis=1), np.nan)


@dataclass(frozen=True)
class UnlabeledHelp:
    """Whether unlabelled rows help: the model without them and with them, cross-validated.

    Attributes
    ----------
    supervised, em : Evaluation or None
        Without and with unlabelled rows; None if there are too few labels to tell, or the fit was
        interrupted.
    weight : float
        The weight that unlabelled rows were given; 1 if they are used for clusters only.
    """

    supervised: Evaluation | None
    em: Evaluation | None
    weight: float

    def __str__(self) -> str:
        done = "used" if self.weight else "left out"
        if self.supervised is None or self.em is None:
            return f"not known; unlabelled rows were {done}"
        without, with_them = (f"{e.accuracy:.1%}" for e in (self.supervised, self.em))
        return (
            f"expected accuracy by {self.em.rows} held-out labels: {without} without unlabelled "
            f"rows, {with_them} with them; they were {done}"
        )


def folds(codes: npt.NDArray[np.intp], n: int, seed: int = 0) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows of each stratified fold; the only row of a class is in none.

    `codes` are class numbers, -1 for rows that are in no fold.

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
        held_out = np.flatnonzero(fold == i)
        if len(held_out):
            yield held_out


def detached_clone(classifier: Any, labels: Labels) -> Any:
    """Return an unfitted clone that takes class numbers, without callbacks and checkpoints."""
    numbers = {"classes": np.arange(len(labels.classes)), "missing_label": -1}
    quiet: dict[str, Any] = {"callback": None, "checkpoint": None, "resume": False, "verbose": 0}
    word_labels = getattr(classifier, "word_labels", None)
    if word_labels:
        code = {name: k for k, name in enumerate(labels.classes.tolist())}
        quiet["word_labels"] = {word: code[name] for word, name in word_labels.items()}
    return clone(classifier).set_params(**numbers, **quiet)


def fit_folds(
    classifier: Any,
    X: Any,
    known: npt.NDArray[Any],
    weight: Array,
    held_out: Iterable[npt.NDArray[np.intp]],
) -> Iterator[tuple[Any, Any]]:
    """Yield, for each fold, a clone fitted to the other rows, and the rows of the fold.

    Unlike in `cross_validate` these take no part in the fit, not even without their labels.
    """
    for rows in held_out:
        rest, model = np.delete(np.arange(len(weight)), rows), clone(classifier)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to compare by
            model.fit(X[rest], known[rest], sample_weight=weight[rest])
        yield model, X[rows]


def cross_validate_supervised(
    classifier: Any, X: Any, labels: Labels, n_folds: int = N_FOLDS, seed: int = 0
) -> Evaluation | None:
    """Cross-validate a classifier that is fitted to the labelled rows only.

    The baseline of `cross_validate`; parameters and result are the same.

    Examples
    --------
    >>> import tacit
    >>> from tacit.data.labels import encode
    >>> X = np.array([[1.0], [1.1], [0.9], [3.0], [3.1], [2.9], [3.2]])
    >>> labels = encode([0, 0, 0, 1, 1, 1, None])
    >>> cross_validate_supervised(tacit.GaussianNB(), X, labels).accuracy
    1.0
    """
    rows = np.flatnonzero(labels.codes >= 0)
    codes, model = labels.codes[rows], detached_clone(classifier, labels)
    held_out = list(folds(codes, n_folds, seed))
    if not held_out:
        return None
    fits = fit_folds(model, X[rows], codes, np.ones(len(rows)), held_out)
    p = [model.predict_proba(new) for model, new in fits]
    return Evaluation.of(np.concatenate(p), codes[np.concatenate(held_out)])


def cross_validate(
    classifier: Any,
    X: Any,
    labels: Labels,
    weight: Array | None = None,
    n_folds: int = N_FOLDS,
    seed: int = 0,
) -> Evaluation | None:
    """Cross-validate a classifier that is fitted to all rows, without the labels of each fold.

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
        Seed of the assignment to folds.

    Returns
    -------
    Evaluation or None
        None if no label can be held out, because each is the only one of its class.

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
    codes = labels.codes if weight is None else np.where(weight > 0, labels.codes, -1)
    for held_out in folds(codes, n_folds, seed):
        remaining = known.copy()
        remaining[held_out] = -1 if remaining.ndim == 1 else 1.0
        model = detached_clone(classifier, labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to compare by
            model.fit(X, remaining, sample_weight=weight)
        p.append(model.label_distributions_[held_out])
        truth.append(labels.codes[held_out])
    if not p:
        return None
    return Evaluation.of(np.concatenate(p), np.concatenate(truth))
