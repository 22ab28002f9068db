"""Out-of-fold predictions of candidate models, and the loss by which candidates are compared.

Folds come from `tacit.selection.cross_validation`, weights of members from
`tacit.selection.stacking`. Which candidates there are is up to `tacit.text` and `tacit.frames`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.data.labels import Labels
from tacit.numerics import Array, normalize
from tacit.selection import stacking
from tacit.selection.cross_validation import N_FOLDS, Evaluation, fit_folds, folds

__all__ = [
    "OutOfFold",
    "Stacked",
    "class_counts",
    "clipped",
    "contradict",
    "evaluate_candidate",
    "evaluate_new_rows",
]

# Log-odds are clipped to so many nats: beyond them a class is impossible for all purposes.
MAX_LOG_ODDS = 700.0
# Candidates are compared by the log-loss of p mixed with so much of the uniform distribution, so
# that a single confident error does not decide.
UNIFORM = 0.05
# Held-out labels decide only if their classes have at least this much of the class prior.
MIN_COVERAGE = 0.8
# Held-out labels below which only robust choices are left to them: with fewer, the apparent best of
# several candidates is mostly chance.
MIN_HELD_OUT = 40


def clipped(log_joint: Array) -> Array:
    """Return log p(x, y) of shape (n, K, ...) less its maximum over classes, clipped from below.

    Examples
    --------
    >>> clipped(np.array([[-3.0, -5.0, -np.inf]]))
    array([[   0.,   -2., -700.]])
    """
    top = log_joint.max(axis=1, keepdims=True)
    return np.maximum(log_joint - np.where(np.isneginf(top), 0.0, top), -MAX_LOG_ODDS)


def class_counts(codes: npt.NDArray[np.intp], weight: Array, K: int) -> Array:
    """Return the weight of the labels of each class; all weigh as much as there are labels.

    `codes` are class numbers, -1 for rows without a label.

    Examples
    --------
    >>> class_counts(np.array([0, -1, 1]), np.array([3.0, 5.0, 1.0]), 2)
    array([1.5, 0.5])
    """
    known = codes >= 0
    counts = np.bincount(codes[known], weight[known], minlength=K)
    return np.asarray(counts * (known.sum() / max(counts.sum(), np.finfo(np.float64).tiny)))


def contradict(counts: Array, class_prior: Array) -> bool:
    """Return whether class counts of labels are inconsistent with a class prior.

    They are if the chi-squared statistic exceeds its expected value.

    Examples
    --------
    >>> prior = np.array([0.5, 0.5])
    >>> contradict(np.array([11.0, 9.0]), prior), contradict(np.array([16.0, 4.0]), prior)
    (False, True)
    """
    expected, least = counts.sum() * class_prior, np.finfo(np.float64).tiny
    statistic = ((counts - expected) ** 2 / np.maximum(expected, least)).sum()
    return bool(statistic > len(class_prior) - 1)


def evaluate_new_rows(
    p: Array,
    rows: npt.NDArray[np.intp],
    class_prior: Array,
    codes: npt.NDArray[np.intp],
    weight: Array,
) -> Evaluation:
    """Return what out-of-fold probabilities, (n, K), tell of new rows with this class prior.

    `rows` are the held-out ones among all, `codes` the labels of all, -1 for none, and `weight`
    their weights. Labels that are the only one of their class count as errors: from the other
    labels nobody could have told them. Of labels drawn at random they estimate how many rows have
    a class without any label (Good and Turing). Where the labels are inconsistent with the class
    prior, they are reweighted to it and tell as much as fewer rows (Kish); the class prior of
    classes without any label then counts as errors.

    Examples
    --------
    >>> codes = np.array([0, 0, 0, 1, 1, 1, 2])
    >>> p, prior = np.eye(3)[codes[:6]], np.array([3, 3, 1]) / 7
    >>> metrics = evaluate_new_rows(p, np.arange(6), prior, codes, np.ones(7))
    >>> round(metrics.accuracy, 3)  # the label that is the only one of its class is an error
    0.857
    """
    known = codes >= 0
    counts, n = class_counts(codes, weight, len(class_prior)), int(known.sum())
    own = weight * known * (n / max(weight[known].sum(), np.finfo(np.float64).tiny))
    if contradict(counts, class_prior):
        own[known] *= (n * class_prior / np.where(counts > 0, counts, 1.0))[codes[known]]
    effective = own.sum() ** 2 / (own**2).sum()
    return Evaluation.of(p, codes[rows], own[rows], n, float(effective))


class Stacked(NamedTuple):
    """Weights of the members of an ensemble, with its out-of-fold metrics.

    Attributes
    ----------
    weights : ndarray of shape (C,)
        The weight of each member, 0 for those that are not in the ensemble.
    evaluation : Evaluation
        Metrics of the out-of-fold predictions.
    losses : ndarray of shape (n,)
        The loss of each held-out row, by which ensembles are compared.
    posterior : ndarray of shape (n, K)
        p(y | x) of the held-out rows, by weights that were learnt without their fold.
    sample_weight : ndarray of shape (n,)
        Weights of the held-out rows.
    """

    weights: Array
    evaluation: Evaluation
    losses: Array
    posterior: Array
    sample_weight: Array

    @classmethod
    def of(
        cls, weights: Array, p: Array, truth: npt.NDArray[np.intp], sample_weight: Array
    ) -> Stacked:
        """Return the weights with the metrics of their out-of-fold probabilities p, (n, K)."""
        likelihood = (1 - UNIFORM) * p[np.arange(len(p)), truth] + UNIFORM / p.shape[1]
        losses = -sample_weight * np.log(likelihood)
        return cls(weights, Evaluation.of(p, truth), losses, p, sample_weight)

    @property
    def loss(self) -> float:
        """The total loss of the held-out rows, in nats."""
        return float(self.losses.sum())

    def beats(self, other: Stacked, margin: float = 0.0, standard_errors: float = 1.0) -> bool:
        """Return whether the loss is lower by a margin and by so many (paired) standard errors."""
        gain = other.losses - self.losses
        return bool(gain.sum() > max(margin, standard_errors * np.sqrt(len(gain)) * gain.std()))


@dataclass(frozen=True)
class OutOfFold:
    """Out-of-fold predictions of C candidate members, and the labels they are compared with.

    Attributes
    ----------
    log_joint : ndarray of shape (n, K, C)
        log p(x, y) of each row and class by each member; or log p(x | y) (see `stack`).
    truth : ndarray of shape (n,)
        The true classes.
    fold : ndarray of shape (n,)
        The fold of each row.
    weight : ndarray of shape (n,)
        Sample weights, 1 on average.
    offset : ndarray of shape (n, K), or None
        What is added to the stacked log p(x, y), if it is not for `stack` to choose.
    """

    log_joint: Array
    truth: npt.NDArray[np.intp]
    fold: npt.NDArray[np.intp]
    weight: Array
    offset: Array | None = None

    @classmethod
    def of(
        cls,
        log_joints: list[Array],
        codes: npt.NDArray[np.intp],
        weight: Array,
        held_out: Sequence[npt.NDArray[np.intp]],
    ) -> OutOfFold | None:
        """Return the predictions of all folds; None unless two classes have held-out labels.

        `codes` and `weight` are those of all rows, `held_out` has the rows of each fold.
        """
        rows = np.concatenate([np.empty(0, np.intp), *held_out])
        truth = codes[rows]
        fold = np.repeat(np.arange(len(held_out)), [len(own) for own in held_out])
        if len(np.unique(truth)) < 2:
            return None
        sample_weight = weight[rows] / weight[rows].mean()
        return cls(clipped(np.concatenate(log_joints)), truth, fold, sample_weight)

    def covers(self, class_prior: Array) -> bool:
        """Return whether the classes that were held out have most of the class prior."""
        return bool(class_prior[np.unique(self.truth)].sum() >= MIN_COVERAGE)

    @property
    def class_proportions(self) -> Array:
        """Class proportions of the held-out labels, with add-one smoothing."""
        counts = np.bincount(self.truth, self.weight, minlength=self.log_joint.shape[1]) + 1.0
        return np.asarray(counts / counts.sum())

    def stack(
        self,
        members: npt.NDArray[np.bool_],
        expected: Array,
        scale: Array,
        class_prior: Array | None = None,
        learn: bool = True,
        max_weight: Array | float = np.inf,
    ) -> Stacked:
        """Return an ensemble of some members (see `stacking.fit_weights`), cross-validated.

        Without `class_prior` rows have their own weights, and `log_joint` is log p(x | y), to which
        the log of the class proportions is added. Otherwise rows are reweighted to the class prior.
        Out-of-fold probabilities come from weights that were learnt without the fold; or from the
        `expected` ones, unless weights are to be learnt.
        """
        log_joint, K = self.log_joint[:, :, members], self.log_joint.shape[1]
        sample_weight, offset = self.weight, np.log(self.class_proportions)
        if class_prior is not None:
            balanced = stacking.balanced_weight(self.truth, class_prior)
            sample_weight, offset = sample_weight * balanced, np.zeros(K)
        offset = offset if self.offset is None else self.offset
        offset = np.broadcast_to(offset, log_joint.shape[:2])

        def fit_weights(rows: npt.NDArray[np.bool_]) -> Array:
            if not learn:
                return np.asarray((expected / scale)[members])
            given = expected[members], scale[members], sample_weight[rows], offset[rows]
            upper = np.broadcast_to(max_weight, expected.shape)[members]
            return stacking.fit_weights(log_joint[rows], self.truth[rows], *given, upper)

        weights = np.zeros(len(members))
        weights[members] = fit_weights(np.ones(len(log_joint), bool))
        p = np.empty(log_joint.shape[:2])
        for fold in range(int(self.fold.max()) + 1):
            held_out = self.fold == fold
            stacked = np.einsum("nkc,c->nk", log_joint[held_out], fit_weights(~held_out))
            p[held_out] = normalize(stacked + offset[held_out])[0]
        return Stacked.of(weights, p, self.truth, sample_weight)


def evaluate_candidate(classifier: Any, X: Any, labels: Labels, weight: Array) -> Stacked | None:
    """Return the out-of-fold metrics of one classifier; None if no label can be held out.

    It is an ensemble of one member, whose weight is an inverse temperature. Its classes are numbers
    (`detached_clone`).
    """
    held_out = list(folds(np.where(weight > 0, labels.codes, -1), N_FOLDS))
    fits = fit_folds(classifier, X, labels.known, weight, held_out)
    log_joints = [model.predict_joint_log_proba(new)[:, :, None] for model, new in fits]
    predictions, one = OutOfFold.of(log_joints, labels.codes, weight, held_out), np.ones(1)
    if predictions is None:
        return None
    return predictions.stack(one > 0, one, one, predictions.class_proportions)
