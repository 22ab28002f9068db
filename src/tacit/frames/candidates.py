"""Settings of a table on trial: labels are hidden, and what is said of their rows is weighed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.data.labels import Labels
from tacit.frames.base import Prepared
from tacit.frames.clusters import Groups, find
from tacit.frames.residual import TableCorrection
from tacit.numerics import Array, log
from tacit.selection.candidates import ENOUGH, MOST, Judged, Weighed, bounded
from tacit.selection.clusters import Lesson
from tacit.selection.cross_validation import N_FOLDS, alone, folds, without_rows
from tacit.selection.residual import learn

if TYPE_CHECKING:
    from tacit.frames.classifier import TableClassifier

__all__ = ["LEAD", "Setting", "Trial"]

# Of more rows without a label than this, some stand for all while something is tried.
MOST_ROWS = 20_000
# What groups of rows say is expected to count so much, in log-odds, beside the columns.
LEAD = 2.0
# How often labels are hidden, each time with others, where that is quickly done: without texts and
# with no more rows than this.
TIMES = 3
QUICK_ROWS = 5_000
# Where hidden labels are too few to weigh what is said, they only tell how far to trust all of it,
# and that is held to what is expected more firmly than weights are: by the square of this. A row
# that it is wrongly sure of costs so many nats at most: it must not decide alone.
FIRMER = 2.0
SUREST = 10.0


class Setting(NamedTuple):
    """What is settled: smoothing, bins or not, the weight of unlabelled rows, components."""

    alpha: float
    bins: bool
    unlabeled_weight: float
    components: int


class Trial:
    """Hide labels, fit without their rows, and weigh what is said of these."""

    def __init__(
        self,
        classifier: TableClassifier,
        tables: dict[bool, Prepared],
        labels: Labels,
        weight: Array,
        doubt: float,
        alphas: bool,
    ) -> None:
        self.doubt = doubt
        self.groups: Groups | None = None
        self.correction: TableCorrection | None = None
        self.quick = alone(classifier, labels).set_params(
            tol=max(classifier.tol, 1e-3), warm_start=False, word_labels=None, init="labels"
        )
        self.texts, rows = list(classifier.texts_.values()), np.arange(len(weight))
        unknown = np.flatnonzero(labels.unknown & (weight > 0))
        if len(unknown) > MOST_ROWS:
            some = unknown[np.linspace(0, len(unknown) - 1, MOST_ROWS).astype(np.intp)]
            rows = np.sort(np.append(np.flatnonzero(~labels.unknown), some))
            weight = np.where(labels.unknown, weight * len(unknown) / MOST_ROWS, weight)
            tables = {cut: table[rows] for cut, table in tables.items()}
        self.tables, self.known = tables, labels.known[rows]
        self.weight, self.codes = weight[rows], labels.codes[rows]
        counted = np.where(self.weight > 0, self.codes, -1)
        self.held = list(folds(counted, N_FOLDS))
        self.count = sum(map(len, self.held))
        self.few = bool(labels.unknown.any()) and not self.texts and self.count < ENOUGH
        quick = not self.texts and np.count_nonzero(self.weight) <= QUICK_ROWS
        each = max(map(len, self.held), default=0) == 1  # is hidden alone, whatever the parts
        times = TIMES if quick and not each else 1
        more = (list(folds(counted, N_FOLDS, seed)) for seed in range(1, times))
        self.foldings = [self.held, *more]
        self.rows, self.hidden = rows, [rows[held] for held in self.held]
        self.shares = np.full(len(labels.classes), 1.0 / len(labels.classes))
        self.judged: dict[Setting, Judged | None] = {}
        # Where several alphas are tried and no label is half known, labelled rows alone are counted
        # once for all of them: the fits to bins, or not, for each time that labels are hidden.
        whole = bool((labels.unknown | (labels.codes >= 0)).all())
        self.counts_once = alphas and whole and not self.few
        self.counted: dict[tuple[bool, int], list[tuple[TableClassifier, Prepared]]] = {}

    def tells(self, setting: Setting) -> bool:
        """Return whether hidden labels can decide, and note the shares of the classes."""
        judged = self._judge(setting)
        hidden = all(text._hidden is not None for text in self.texts)
        return judged is not None and hidden and judged.covers(self.shares)

    def __call__(
        self,
        setting: Setting,
        grouped: bool = False,
        supervised: bool = False,
    ) -> Weighed:
        """Return how good a setting is, beside what groups of rows say, if they do, and texts.

        If `supervised`, texts say what labelled ones alone have taught them. Where hidden labels
        are few, weights are those that are expected.
        """
        judged = self._judge(setting)
        assert judged is not None
        joints = [judged.joints]
        for text in self.texts:
            rows, without, found, _ = text._hidden
            assert np.array_equal(rows, np.concatenate(self.hidden))
            joints.append(np.maximum(without if supervised else found, -MOST)[:, :, None])
        if grouped:
            joints.append(self.led[:, :, None])
        one = np.ones(len(joints))
        scale = np.append(self.doubt, one[1:])
        if grouped:
            scale[-1] /= LEAD
        judged = replace(judged, joints=np.concatenate(joints, axis=2))
        most = np.append(1.0, np.full(len(one) - 1, np.inf))  # naive Bayes is never too modest
        return judged.pooled(one > 0, one, scale, self.shares, not self.few, most)

    def trusted(self, pool: Weighed) -> Weighed:
        """Return a pool with all weights less, if hidden labels say that it is too sure."""
        judged, firmly = next(iter(self.judged.values())), np.array([FIRMER])
        assert judged is not None
        said = np.maximum(log(pool.posterior), -SUREST)[:, :, None]
        given = firmly > 0, firmly, firmly, self.shares
        found = replace(judged, joints=said).pooled(*given, most=1.0)
        return found._replace(weights=found.weights * pool.weights)

    def look(self, X: Prepared) -> None:
        """Find groups of rows, what they say of hidden ones, and which classes they lean to.

        The cells of hidden rows take part, their labels do not.
        """
        some = np.flatnonzero(self.weight > 0)
        some = some[np.unique(np.linspace(0, len(some) - 1, MOST_ROWS).astype(np.intp))]
        settings = self.quick.random_state, self.quick.n_jobs
        found = find(X, self.rows[some], self.weight[some], *settings)
        K = len(self.shares)
        known = np.flatnonzero((self.codes >= 0) & (self.weight > 0))
        seen = found.posterior(X, self.rows[known])
        lesson = Lesson(found, known, self.codes[known], self.weight[known], seen, K)
        self.groups = lesson.taught()
        self.led = self._averaged(lambda held: map(lesson.said, held))

    def look_at_cells(self, X: Prepared) -> None:
        """Look at the cells of hidden rows for what puts right what is said of these."""
        used = (c for c in X.columns if c.vectorizer is None and c.kind != "out")
        columns = tuple(c for c in (c.cut(X.cells[c.name], True) for c in used) if c.values)
        if columns and self.hidden:
            self.correction = TableCorrection(np.empty((0, 0)), columns)
            self.cells = self.correction.seen(X, np.concatenate(self.hidden))

    def corrected(self, *pools: Weighed) -> tuple[TableCorrection | None, list[Weighed]]:
        """Return what puts right what the first pool says, and how good all are put right."""
        judged = next(iter(self.judged.values()))
        if self.correction is None or judged is None:
            return None, list(pools)
        logs, found = learn(self.cells, judged, *pools)
        return None if logs is None else replace(self.correction, logs=logs), found

    def _judge(self, setting: Setting) -> Judged | None:
        """Return what is said of hidden rows, apart from what texts say."""
        if setting in self.judged:
            return self.judged[setting]
        priors, shares = list[Array](), list[Array]()
        quick = self.quick.set_params(
            alpha=setting.alpha,
            unlabeled_weight=setting.unlabeled_weight,
            components_per_class=setting.components,
        )

        def said(folding: list[npt.NDArray[np.intp]]) -> Iterator[Array]:
            fits = self._fitted(quick, setting, folding)
            for held, (model, new) in zip(folding, fits, strict=True):
                before = np.maximum(model._before(model._model.family.encode(new).parts), -MOST)
                if self.texts:
                    priors.append(np.tile(np.maximum(model._log_prior, -MOST), (len(held), 1)))
                if not self.judged:
                    rest, told = np.delete(self.weight, held), model.label_distributions_
                    shares.append(np.average(told, axis=0, weights=rest))
                model.__dict__.pop(
                    "label_distributions_", None
                )  # fits may be kept, and these are large
                yield bounded(model.predict_joint_log_proba(new) - before)

        joints = self._averaged(said)[:, :, None]
        judged = Judged.of([joints], self.codes, self.weight, self.held)
        if judged is not None and priors:
            judged = replace(judged, before=np.concatenate(priors))
        if not self.judged and shares:
            self.shares = np.mean(shares, axis=0)
        self.judged[setting] = judged
        return judged

    def _fitted(
        self, quick: TableClassifier, setting: Setting, folding: list[npt.NDArray[np.intp]]
    ) -> Iterable[tuple[TableClassifier, Prepared]]:
        """Return copies that were fitted without the rows of each fold, and these rows."""
        alone = not setting.unlabeled_weight and setting.components == 1
        place = setting.bins, id(folding)
        if alone and place in self.counted:
            return ((model._smoothed(setting.alpha), new) for model, new in self.counted[place])
        fits = without_rows(quick, self.tables[setting.bins], self.known, self.weight, folding)
        if not (alone and self.counts_once):
            return fits
        self.counted[place] = list(fits)
        return self.counted[place]

    def _averaged(self, said: Callable[[list[npt.NDArray[np.intp]]], Iterable[Array]]) -> Array:
        """Return what is said of hidden rows, (n, K), on average over the times they are hidden.

        `said` tells it of the rows of each fold.
        """
        found = np.zeros((len(self.codes), len(self.shares)))
        for folding in self.foldings:
            for held, own in zip(folding, said(folding), strict=True):
                found[held] += own / len(self.foldings)
        return np.asarray(found[np.concatenate([np.empty(0, np.intp), *self.held])])
