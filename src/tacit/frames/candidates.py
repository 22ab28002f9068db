"""Candidate settings of a table classifier, and their out-of-fold predictions.

`tacit.frames.selection` says which candidates there are and takes the best; folds, stacking and the
residual correction are those of `tacit.selection`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.data.labels import Labels
from tacit.frames.base import PreparedTable
from tacit.frames.clusters import TableClusters, fit_clusters
from tacit.frames.residual import TableCorrection
from tacit.numerics import Array, log
from tacit.selection.candidates import (
    MAX_LOG_ODDS,
    MIN_HELD_OUT,
    OutOfFold,
    Stacked,
    clipped,
    evaluate_new_rows,
)
from tacit.selection.clusters import LabelledClusters
from tacit.selection.cross_validation import (
    N_FOLDS,
    Evaluation,
    detached_clone,
    fit_folds,
    folds,
)
from tacit.selection.residual import fit_residual

if TYPE_CHECKING:
    from tacit.frames.classifier import TableClassifier

__all__ = ["CLUSTER_WEIGHT", "Candidate", "CandidateEvaluator"]

# Unlabelled rows that candidates are fitted to; of more an even sample stands for all.
MAX_UNLABELED = 20_000
# The expected weight of the clusters' log-odds beside the columns.
CLUSTER_WEIGHT = 2.0
# Where held-out labels are too few for stacking weights, they only set one temperature for all
# log-odds, whose penalty is larger by the square of this factor. Log-odds are clipped to so many
# nats first, so that a single confident error does not decide.
TEMPERATURE_PENALTY = 2.0
MAX_NATS = 10.0

Folds = list[npt.NDArray[np.intp]]


class Candidate(NamedTuple):
    """A candidate setting: smoothing, binned numbers or not, unlabelled weight, components."""

    alpha: float
    bins: bool
    unlabeled_weight: float
    components: int


class CandidateEvaluator:
    """Cross-validates candidates on the same folds; `tables` has the rows binned and not."""

    def __init__(
        self,
        classifier: TableClassifier,
        tables: dict[bool, PreparedTable],
        labels: Labels,
        weight: Array,
        temperature: float,
        several_alphas: bool,
    ) -> None:
        self.temperature = temperature
        self.clusters: TableClusters | None = None
        self.correction: TableCorrection | None = None
        self.model = detached_clone(classifier, labels).set_params(
            tol=max(classifier.tol, 1e-3), warm_start=False, word_labels=None, init="labels"
        )
        self.texts, rows = list(classifier.texts_.values()), np.arange(len(weight))
        unknown = np.flatnonzero(labels.unknown & (weight > 0))
        if len(unknown) > MAX_UNLABELED:
            sample = unknown[np.linspace(0, len(unknown) - 1, MAX_UNLABELED).astype(np.intp)]
            rows = np.sort(np.append(np.flatnonzero(~labels.unknown), sample))
            weight = np.where(labels.unknown, weight * len(unknown) / MAX_UNLABELED, weight)
            tables = {bins: table[rows] for bins, table in tables.items()}
        self.tables, self.known = tables, labels.known[rows]
        self.weight, self.codes = weight[rows], labels.codes[rows]
        codes = np.where(self.weight > 0, self.codes, -1)
        self.folds = list(folds(codes, N_FOLDS))
        self.n_held_out = sum(map(len, self.folds))
        self.few = bool(labels.unknown.any()) and not self.texts and self.n_held_out < MIN_HELD_OUT
        self.rows, self.held_out = rows, [rows[fold] for fold in self.folds]
        self.class_prior = np.full(len(labels.classes), 1.0 / len(labels.classes))
        self.predictions: dict[Candidate, OutOfFold | None] = {}
        # Supervised counts do not depend on alpha: if several are tried, and no label is uncertain,
        # the fits are kept, by binned or not.
        certain = bool((labels.unknown | (labels.codes >= 0)).all())
        self.reuse_counts = several_alphas and certain and not self.few
        self.kept_fits: dict[bool, list[tuple[TableClassifier, PreparedTable]]] = {}

    def can_decide(self, candidate: Candidate) -> bool:
        """Return whether held-out labels can decide; this also estimates the class prior."""
        predictions = self._out_of_fold(candidate)
        held_out = all(text._held_out is not None for text in self.texts)
        return predictions is not None and held_out and predictions.covers(self.class_prior)

    def evaluate(
        self, candidate: Candidate, clusters: bool = False, supervised: bool = False
    ) -> Stacked:
        """Return a candidate stacked with the texts, and with the clusters if these are used.

        If `supervised`, texts are those fitted to labelled rows only. Where held-out labels are
        few, weights are the expected ones.
        """
        predictions = self._out_of_fold(candidate)
        assert predictions is not None
        joints = [predictions.log_joint]
        for text in self.texts:
            rows, alone, selected = text._held_out
            assert np.array_equal(rows, np.concatenate(self.held_out))
            log_odds = np.maximum(alone if supervised else selected, -MAX_LOG_ODDS)
            joints.append(log_odds[:, :, None])
        if clusters:
            joints.append(self.cluster_log_odds[:, :, None])
        ones = np.ones(len(joints))
        scale = np.append(self.temperature, ones[1:])
        if clusters:
            scale[-1] /= CLUSTER_WEIGHT
        predictions = replace(predictions, log_joint=np.concatenate(joints, axis=2))
        upper = np.append(1.0, np.full(len(ones) - 1, np.inf))  # naive Bayes is never too modest
        return predictions.stack(ones > 0, ones, scale, self.class_prior, not self.few, upper)

    def tempered(self, stacked: Stacked) -> Stacked:
        """Return an ensemble with all weights divided by the temperature that calibrates it."""
        predictions, factor = next(iter(self.predictions.values())), np.array([TEMPERATURE_PENALTY])
        assert predictions is not None
        log_p = np.maximum(log(stacked.posterior), -MAX_NATS)[:, :, None]
        given = factor > 0, factor, factor, self.class_prior
        result = replace(predictions, log_joint=log_p).stack(*given, max_weight=1.0)
        return result._replace(weights=result.weights * stacked.weights)

    def evaluation(self, stacked: Stacked) -> Evaluation:
        """Return what the out-of-fold predictions of an ensemble tell of new rows."""
        codes, rows = np.where(self.weight > 0, self.codes, -1), np.concatenate(self.folds)
        return evaluate_new_rows(stacked.posterior, rows, self.class_prior, codes, self.weight)

    def fit_clusters(self, X: PreparedTable) -> None:
        """Fit clusters of rows, their class distributions, and their out-of-fold log-odds.

        The values of held-out rows take part, their labels do not.
        """
        sample = np.flatnonzero(self.weight > 0)
        sample = sample[np.unique(np.linspace(0, len(sample) - 1, MAX_UNLABELED).astype(np.intp))]
        settings = self.model.random_state, self.model.n_jobs
        clusters = fit_clusters(X, self.rows[sample], self.weight[sample], *settings)
        rows = np.flatnonzero((self.codes >= 0) & (self.weight > 0))
        posterior, K = clusters.posterior(X, self.rows[rows]), len(self.class_prior)
        known = rows, self.codes[rows], self.weight[rows]
        labelled = LabelledClusters(clusters, *known, posterior, K)
        self.clusters = labelled.fit()
        none = np.empty((0, K))
        self.cluster_log_odds = np.concatenate([none, *map(labelled.out_of_fold, self.folds)])

    def encode_residual_features(self, X: PreparedTable) -> None:
        """Encode the held-out rows as features of the residual correction."""
        used = (c for c in X.columns if c.vectorizer is None and c.kind != "out")
        columns = tuple(c for c in (c.with_bins(X.encoded[c.name], True) for c in used) if c.values)
        if columns and self.held_out:
            self.correction = TableCorrection(np.empty((0, 0)), columns)
            self.features = self.correction.features(X, np.concatenate(self.held_out))

    def corrected(self, *ensembles: Stacked) -> tuple[TableCorrection | None, list[Stacked]]:
        """Return the residual correction of the first ensemble, and all ensembles, corrected."""
        predictions = next(iter(self.predictions.values()))
        if self.correction is None or predictions is None:
            return None, list(ensembles)
        logs, stacked = fit_residual(self.features, predictions, *ensembles)
        return None if logs is None else replace(self.correction, logs=logs), stacked

    def _out_of_fold(self, candidate: Candidate) -> OutOfFold | None:
        """Return the out-of-fold predictions of all columns but texts."""
        if candidate in self.predictions:
            return self.predictions[candidate]
        log_priors, class_priors = list[Array](), list[Array]()
        model = self.model.set_params(
            alpha=candidate.alpha,
            unlabeled_weight=candidate.unlabeled_weight,
            components_per_class=candidate.components,
        )

        def log_joints() -> Iterator[Array]:
            fits = self._fold_fits(model, candidate)
            for fold, (fitted, new) in zip(self.folds, fits, strict=True):
                fixed = fitted._untempered(fitted._model.family.encode(new).parts)
                if self.texts:
                    log_prior = np.maximum(fitted._log_prior, -MAX_LOG_ODDS)
                    log_priors.append(np.tile(log_prior, (len(fold), 1)))
                if not self.predictions:
                    rest, p = np.delete(self.weight, fold), fitted.label_distributions_
                    class_priors.append(np.average(p, axis=0, weights=rest))
                fitted.__dict__.pop("label_distributions_", None)  # large, and fits may be kept
                joint = fitted.predict_joint_log_proba(new)
                yield clipped(joint - np.maximum(fixed, -MAX_LOG_ODDS))[:, :, None]

        predictions = OutOfFold.of(list(log_joints()), self.codes, self.weight, self.folds)
        if predictions is not None and log_priors:
            predictions = replace(predictions, offset=np.concatenate(log_priors))
        if not self.predictions and class_priors:
            self.class_prior = np.mean(class_priors, axis=0)
        self.predictions[candidate] = predictions
        return predictions

    def _fold_fits(
        self, model: TableClassifier, candidate: Candidate
    ) -> Iterable[tuple[TableClassifier, PreparedTable]]:
        """Return clones fitted without each fold, and the rows of the fold."""
        supervised = not candidate.unlabeled_weight and candidate.components == 1
        kept, bins = self.kept_fits, candidate.bins
        if supervised and bins in kept:
            return ((fit._with_alpha(candidate.alpha), new) for fit, new in kept[bins])
        fits = fit_folds(model, self.tables[bins], self.known, self.weight, self.folds)
        if not (supervised and self.reuse_counts):
            return fits
        kept[bins] = list(fits)
        return kept[bins]
