"""Which models to believe: how good they are, alone and pooled, by labels hidden from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.data.labels import Labels
from tacit.numerics import Array, normalize
from tacit.selection import stacking
from tacit.selection.cross_validation import N_FOLDS, Evaluation, folds, without_rows

__all__ = ["Judged", "Weighed", "bounded", "weighed"]

# Nats beyond which a class is impossible, and how far beyond does not matter.
MOST = 700.0
# What is compared is the log-loss with so much of every probability spread evenly, so that a single
# row that a model is wrongly sure of does not decide.
DOUBT = 0.05
# Hidden labels decide if their classes make up so much of all rows.
COVERED = 0.8
# Hidden labels from which on they decide what changes much: of fewer, what they speak for is more
# often chance than not.
ENOUGH = 40


def bounded(joints: Array) -> Array:
    """Return log p(x, y) of shape (n, K, ...), 0 for the most probable class, none impossible.

    Examples
    --------
    >>> bounded(np.array([[-3.0, -5.0, -np.inf]]))
    array([[   0.,   -2., -700.]])
    """
    top = joints.max(axis=1, keepdims=True)
    return np.maximum(joints - np.where(np.isneginf(top), 0.0, top), -MOST)


class Weighed(NamedTuple):
    """The weights of pooled models, how good they are, and by what loss of rows they compare.

    `posterior` is what the pool says of each hidden row, with weights that do not know its fold,
    and `counts` is what each counts.
    """

    weights: Array
    evaluation: Evaluation
    losses: Array
    posterior: Array
    counts: Array

    @classmethod
    def of(cls, weights: Array, p: Array, truth: npt.NDArray[np.intp], counts: Array) -> Weighed:
        """Return how good weights are by which hidden rows have these probabilities."""
        right = (1 - DOUBT) * p[np.arange(len(p)), truth] + DOUBT / p.shape[1]
        return cls(weights, Evaluation.of(p, truth), -counts * np.log(right), p, counts)

    @property
    def loss(self) -> float:
        """The loss of all rows."""
        return float(self.losses.sum())

    def beats(self, other: Weighed, margin: float = 0.0, errors: float = 1.0) -> bool:
        """Return whether the loss is less by a margin, and by more than some standard errors."""
        less = other.losses - self.losses
        return bool(less.sum() > max(margin, errors * np.sqrt(len(less)) * less.std()))


@dataclass(frozen=True)
class Judged:
    """What C models said of rows that were hidden from them, fold by fold.

    Attributes
    ----------
    joints : ndarray of shape (n, K, C)
        log p(x, y) of each row and class by each model; or log p(x | y) (see `pooled`).
    truth : ndarray of shape (n,)
        The true classes.
    fold : ndarray of shape (n,)
        With which others each row was hidden, the first time.
    weight : ndarray of shape (n,)
        The weights of the rows, 1 on average.
    before : ndarray of shape (n, K), or None
        What is added to the pooled log p(x, y), if it is known.
    """

    joints: Array
    truth: npt.NDArray[np.intp]
    fold: npt.NDArray[np.intp]
    weight: Array
    before: Array | None = None

    @classmethod
    def of(
        cls, joints: list[Array], codes: npt.NDArray[np.intp], weight: Array, held: list[Any]
    ) -> Judged | None:
        """Return what was said of the rows of each fold; None unless two classes were hidden.

        `codes` and `weight` are those of all rows.
        """
        rows = np.concatenate([np.empty(0, np.intp), *held])
        truth, fold = codes[rows], np.repeat(np.arange(len(held)), [len(own) for own in held])
        if len(np.unique(truth)) < 2:
            return None
        own = weight[rows] / weight[rows].mean()
        return cls(bounded(np.concatenate(joints)), truth, fold, own)

    def covers(self, shares: Array) -> bool:
        """Return whether the classes of hidden rows are most of all rows, by their shares."""
        return bool(shares[np.unique(self.truth)].sum() >= COVERED)

    @property
    def shares(self) -> Array:
        """The shares of the classes among the hidden labels, with one more of each."""
        counts = np.bincount(self.truth, minlength=self.joints.shape[1]) + 1.0
        return np.asarray(counts / counts.sum())

    def contradicts(self, shares: Array) -> bool:
        """Return whether hidden labels of classes with these shares would be other ones.

        That is if chi-squared is more than what is expected of labels drawn at random.
        """
        n, seen = len(self.truth), np.bincount(self.truth, minlength=len(shares))
        least = np.finfo(np.float64).tiny
        return bool(
            ((seen - n * shares) ** 2 / np.maximum(n * shares, least)).sum() > len(shares) - 1
        )

    def pooled(
        self,
        chosen: npt.NDArray[np.bool_],
        expected: Array,
        scale: Array,
        shares: Array | None = None,
        learn: bool = True,
        most: Array | float = np.inf,
    ) -> Weighed:
        """Return a pool of some models (see `stacking.learn`), with weights of at most `most`.

        Without `shares` rows count alike, and what the models say is log p(x | y), to which the
        shares of the hidden labels are added. How good the pool is, is said by weights that were
        learnt without the rows they are used on; or by those expected, if none are to `learn`.
        """
        said, K = self.joints[:, :, chosen], self.joints.shape[1]
        counts, before = self.weight, np.log(self.shares)
        if shares is not None:
            counts, before = counts * stacking.even_out(self.truth, shares), np.zeros(K)
        before = np.broadcast_to(before if self.before is None else self.before, said.shape[:2])

        def learnt(rows: npt.NDArray[np.bool_]) -> Array:
            if not learn:
                return np.asarray((expected / scale)[chosen])
            given = expected[chosen], scale[chosen], counts[rows], before[rows]
            upper = np.broadcast_to(most, expected.shape)[chosen]
            return stacking.learn(said[rows], self.truth[rows], *given, upper)

        weights = np.zeros(len(chosen))
        weights[chosen] = learnt(np.ones(len(said), bool))
        p = np.empty(said.shape[:2])
        for fold in range(int(self.fold.max()) + 1):
            held = self.fold == fold
            p[held] = normalize(np.einsum("nkc,c->nk", said[held], learnt(~held)) + before[held])[0]
        return Weighed.of(weights, p, self.truth, counts)


def weighed(classifier: Any, X: Any, labels: Labels, weight: Array) -> Weighed | None:
    """Return how good a classifier is, by labels hidden from it; None if none can be hidden.

    Its classes are numbers (`alone`). It has the temperature that is best for it.
    """
    held = list(folds(np.where(weight > 0, labels.codes, -1), N_FOLDS))
    known = labels.known
    fits = without_rows(classifier, X, known, weight, held)
    joints = [model.predict_joint_log_proba(new)[:, :, None] for model, new in fits]
    judged, one = Judged.of(joints, labels.codes, weight, held), np.ones(1)
    return None if judged is None else judged.pooled(one > 0, one, one, judged.shares)
