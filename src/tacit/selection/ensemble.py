"""An ensemble of parts: log-odds that add up, with weights that held-out labels teach (stacking).

    log p(y | x) = log p(y) + sum_c w_c log p_c(x | y) + constant,   w_c >= 0

A part is any model that tells the evidence of a row for each class, and splits it among the row's
features. A learner fits one; which learners there are is up to `tacit.text`. Weights below 1 also
calibrate: naive Bayes is overconfident where features are dependent. How predictions for held-out
labels become weights is in `tacit.selection.candidates` and `tacit.selection.stacking`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from tacit.numerics import Array, log, normalize
from tacit.selection.candidates import (
    OutOfFold,
    Stacked,
    class_counts,
    clipped,
    contradict,
    evaluate_new_rows,
)
from tacit.selection.cross_validation import N_FOLDS, Evaluation, UnlabeledHelp, folds
from tacit.selection.stacking import log_odds_scale

__all__ = [
    "Ensemble",
    "Fit",
    "Learner",
    "Part",
    "Selected",
    "TrainingRows",
    "cross_validate",
    "fit",
    "select",
]

# Rows from which means over all rows are estimated: to a percent of their standard deviation.
SAMPLE = 3000
# The highest temperature: log-odds of any size are then next to nothing.
HOTTEST = 1e6


class Part(Protocol):
    """A model that is added to an ensemble."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def evidence(self, X: Any) -> Array:
        """Return log p(x | y) of rows, shape (n, K), up to a constant for each row."""

    def terms(self, row: Any) -> tuple[Array, Sequence[tuple[Any, Array]]]:
        """Return the evidence of one row as a constant, (K,), and a term for each feature."""


class Learner(Protocol):
    """Fits a part to training rows that it knows."""

    @property
    def expected(self) -> float:
        """The expected weight of the part, relative to others, before any label is held out."""

    def fit(self, weight: Array) -> Part:
        """Return the part fitted to the rows of positive weight."""


class TrainingRows(Protocol):
    """The rows of a fit and their labels."""

    @property
    def features(self) -> Any:
        """The features of the rows, as parts take them."""

    @property
    def codes(self) -> npt.NDArray[np.intp]:
        """Class numbers, -1 for rows whose label is not known or is never held out."""

    @property
    def weight(self) -> Array:
        """Weights of the rows, shape (n,)."""

    @property
    def unlabelled(self) -> npt.NDArray[np.intp]:
        """The rows of whose label nothing is known."""

    @property
    def n_rows(self) -> int:
        """The number of rows; those from there on stand for labelled words."""

    @property
    def n_classes(self) -> int:
        """The number of classes."""

    def labelled(self) -> Self:
        """Return the rows of whose label something is known."""


R = TypeVar("R", bound=TrainingRows)


@dataclass(frozen=True)
class Ensemble:
    """Parts whose weighted evidence adds up to log-odds.

    Attributes
    ----------
    parts : tuple of Part
        The parts.
    weights : ndarray of shape (C,)
        The factor of the evidence of each.
    log_prior : ndarray of shape (K,)
        Log p(y).
    """

    parts: tuple[Any, ...]
    weights: Array
    log_prior: Array

    def evidence(self, X: Any) -> Array:
        """Return log p(x | y) of rows, shape (n, K), up to a constant for each row."""
        total = np.zeros((X.shape[0], len(self.log_prior)))
        for weight, part in zip(self.weights, self.parts, strict=True):
            total += weight * part.evidence(X)
        return total

    def joint(self, X: Any) -> Array:
        """Return log p(x, y) of rows, shape (n, K), up to a constant for each row."""
        return self.log_prior + self.evidence(X)

    def terms(self, row: Any) -> tuple[Array, dict[Any, Array]]:
        """Return log p(x, y) of one row as a constant, (K,), and the terms of its features."""
        constant, terms = self.log_prior.copy(), dict[Any, Array]()
        for weight, part in zip(self.weights, self.parts, strict=True):
            own, of_features = part.terms(row)
            constant += weight * own
            for feature, logs in of_features:
                terms[feature] = terms.get(feature, 0.0) + weight * logs
        return constant, terms

    def with_prior(self, class_prior: Array) -> Self:
        """Return the ensemble with another class prior."""
        return replace(self, log_prior=log(class_prior))


class Selected(NamedTuple):
    """Out-of-fold predictions of an ensemble, and the weights that they teach.

    `unlabelled` are rows without a label that were left out of a fold each, and `evidence` is what
    the parts then said of them, (m, K, C).
    """

    rows: npt.NDArray[np.intp]
    predictions: OutOfFold
    stacked: Stacked
    unlabelled: npt.NDArray[np.intp]
    evidence: Array

    def beats(self, other: Selected) -> bool:
        """Return whether the out-of-fold loss is lower by more than a standard error."""
        return self.stacked.beats(other.stacked)

    def evaluation(
        self, class_prior: Array, data: TrainingRows, knows_prior: bool = True
    ) -> Evaluation:
        """Return what the out-of-fold predictions tell of new rows with this class prior.

        Predictions are made with it, unless the ensemble does not know it, as it has seen no other
        rows.
        """
        p, proportions = self.stacked.posterior, self.predictions.class_proportions
        if knows_prior:
            p = normalize(log(p) + log(class_prior) - log(proportions))[0]
        return evaluate_new_rows(p, self.rows, class_prior, data.codes, data.weight)

    def temperature(self, joint: Array, log_prior: Array) -> float:
        """Return the divisor of log p(x, y) that makes the rows of a fit as sure as new ones.

        Unlabelled rows help to fit the model that then predicts them, so that it is too sure of
        them. `joint` is that of `unlabelled`; out of fold, they have the mean confidence to match.
        """
        if not len(joint):
            return 1.0
        left_out = np.einsum("nkc,c->nk", self.evidence, self.stacked.weights) + log_prior
        target = normalize(left_out)[0].max(axis=1).mean()

        def excess(log_t: float) -> float:
            return float(normalize(joint / np.exp(log_t))[0].max(axis=1).mean() - target)

        if excess(0.0) <= 0.0:
            return 1.0
        hottest = np.log(HOTTEST)
        return float(np.exp(brentq(excess, 0.0, hottest))) if excess(hottest) < 0 else HOTTEST


def cross_validate(learners: Sequence[Learner], data: TrainingRows) -> Selected | None:
    """Return an ensemble's out-of-fold predictions and weights; None if no label can be held out.

    Held-out rows take no part in the fit, so that predictions are those of new rows. Only what is
    made of all rows without labels (clusters, idf where some are unlabelled) has seen them.
    """
    held_out, log_p = list(folds(data.codes, N_FOLDS)), []
    others = data.unlabelled[_even(len(data.unlabelled), SAMPLE)]
    for i, rows in enumerate(held_out):
        left_out = np.concatenate([rows, others[i::N_FOLDS]])
        rest = data.weight.copy()
        rest[left_out] = 0.0
        parts, own = [one.fit(rest) for one in learners], data.features[left_out]
        log_p.append(np.stack([part.evidence(own) for part in parts], axis=2))
    labelled = [own[: len(rows)] for own, rows in zip(log_p, held_out, strict=True)]
    predictions = OutOfFold.of(labelled, data.codes, data.weight, held_out)
    if predictions is None:
        return None
    scale = log_odds_scale(predictions.log_joint)
    stacked = predictions.stack(np.ones(len(learners), bool), _expected(learners), scale)
    evidence = [clipped(own[len(rows) :]) for own, rows in zip(log_p, held_out, strict=True)]
    unlabelled = [others[i::N_FOLDS] for i in range(len(held_out))]
    rows = np.concatenate(held_out)
    return Selected(
        rows, predictions, stacked, np.concatenate(unlabelled), np.concatenate(evidence)
    )


class Fit(NamedTuple):
    """An ensemble fitted to all rows, or to the labelled ones if others do not help.

    Attributes
    ----------
    ensemble : Ensemble
        The ensemble.
    alone : bool
        Whether it was fitted to the labelled rows alone.
    components : int
        Components of each class.
    selected, supervised : Selected or None
        Its out-of-fold predictions, and those of labelled rows alone; None if no label can be held
        out.
    unlabeled_help : UnlabeledHelp
        Whether unlabelled rows help.
    evaluation : Evaluation or None
        What held-out labels tell of the ensemble.
    """

    ensemble: Ensemble
    alone: bool
    components: int
    selected: Selected | None
    supervised: Selected | None
    unlabeled_help: UnlabeledHelp
    evaluation: Evaluation | None


def select(
    learners: Callable[[R, int], Sequence[Learner]],
    data: R,
    unlabeled_weight: float | None,
    components: Sequence[int],
    hold_out: bool = True,
) -> Fit:
    """Return the ensemble that held-out labels prefer, by one standard error.

    Parameters
    ----------
    learners : callable
        Returns the learners for rows and a number of components per class.
    data : TrainingRows
        All rows.
    unlabeled_weight : float or None
        The weight of unlabelled rows, or None: 1 unless labelled rows alone do better, then 0.
    components : sequence of int
        Numbers of components per class: each is tried if the one before it was chosen.
    hold_out : bool, default=True
        Whether labels are held out; else weights are the expected ones.
    """
    alone, factor = data.labelled(), 1.0 if unlabeled_weight is None else unlabeled_weight
    whole = data if factor > 0 and len(alone.weight) < len(data.weight) else alone
    if not len(whole.weight):
        raise ValueError(
            "No row has both a label and a weight: label some rows, or set unlabeled_weight "
            "above 0."
        )
    first, *more = components
    best = all_rows = cross_validate(learners(whole, first), whole) if hold_out else None
    supervised, used = best, whole
    if best is not None and whole is not alone:
        supervised = cross_validate(learners(alone, first), alone)
        if unlabeled_weight is None and supervised is not None and supervised.beats(best):
            best, used = supervised, alone
    for number in more if best is not None else ():
        other = cross_validate(learners(used, number), used)
        if other is None or best is None or not other.beats(best):
            break
        best, first = other, number
    ensemble = fit(learners(used, first), used, best)
    prior = np.exp(ensemble.log_prior)
    without, with_them, chosen = (
        None if one is None else one.evaluation(prior, rows, knows_prior)
        for one, rows, knows_prior in (
            (supervised, alone, supervised is best),
            (all_rows, whole, True),
            (best, used, True),
        )
    )
    help_weight = factor * (used is not alone)
    report = UnlabeledHelp(without, None if whole is alone else with_them, help_weight)
    return Fit(ensemble, used is alone, first, best, supervised, report, chosen)


def _even(n: int, most: int) -> npt.NDArray[np.intp]:
    """Return an even sample of n places, `most` at most."""
    return np.unique(np.linspace(0, max(n - 1, 0), min(most, n)).astype(np.intp))


def _expected(learners: Sequence[Learner]) -> Array:
    """Return expected weights that add up to 1, in units of the scale of each part."""
    expected = np.array([one.expected for one in learners])
    return np.asarray(expected / expected.sum())


def fit(learners: Sequence[Learner], data: TrainingRows, selected: Selected | None) -> Ensemble:
    """Return an ensemble fitted to all rows, with the weights that were selected, or expected ones.

    The class prior is the class proportions of the labels, unless these contradict the mean
    posterior of all rows: then it is that; and uniform if no label can be held out.
    """
    weights = _expected(learners) if selected is None else selected.stacked.weights
    used = weights > 0
    parts = tuple(one.fit(data.weight) for one, own in zip(learners, used, strict=True) if own)
    some = _even(data.n_rows or len(data.weight), SAMPLE)
    sample = data.features[some]
    counts = class_counts(data.codes, data.weight, data.n_classes)
    class_prior = (counts + 1.0) / (counts + 1.0).sum()
    ensemble = Ensemble(parts, weights[used], log(class_prior))
    if selected is None:
        each = np.stack([clipped(part.evidence(sample)) for part in parts], axis=2)
        # So few labels tell nothing of the class prior.
        uniform = np.full(data.n_classes, -np.log(data.n_classes))
        return Ensemble(parts, ensemble.weights / log_odds_scale(each), uniform)
    mean = np.average(normalize(ensemble.joint(sample))[0], axis=0, weights=data.weight[some])
    return ensemble.with_prior(mean) if contradict(counts, mean) else ensemble
