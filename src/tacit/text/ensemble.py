"""Ways to look at words, the models that each makes, and which of them hidden labels speak for.

Nothing here knows of texts: it is about counts of words. `tacit.text.classifier` has the estimator.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from tacit.data.labels import Labels
from tacit.estimators.classifiers import MultinomialNB
from tacit.numerics import Array, log, log_of_parts, mean_of_parts, normalize
from tacit.selection.candidates import Judged, Weighed
from tacit.selection.clusters import UNLABELED, Lesson
from tacit.selection.cross_validation import N_FOLDS, Evaluation, UnlabeledHelp, folds
from tacit.selection.residual import learn
from tacit.selection.stacking import Pool, spreads
from tacit.text.clusters import GROUPS, TextGroups, find
from tacit.text.residual import TextCorrection, to_length_1
from tacit.text.weighting import TermWeights

__all__ = ["SAID", "Found", "Hidden", "Learner", "Member", "Task", "distributions", "pooled_joint"]


class View(NamedTuple):
    """A way to look at words: how they are weighed and smoothed, and what unlabelled texts weigh.

    `expected` is how much it counts in the pool before anything is known.
    """

    weights: dict[str, Any]
    settings: dict[str, Any]
    unlabeled_weight: float
    expected: float


AT_ONCE = View(
    {"idf": 0.75, "length_scale": 10.0},
    {"alpha": "background", "max_iter": 8},
    unlabeled_weight=1.0,
    expected=1.0,
)
VIEWS = {
    "topics": View(
        {"idf": 0.75, "length_scale": 10.0},
        {"alpha": "background", "tempering": 0.5, "max_iter": 6},
        unlabeled_weight=1.0,
        expected=0.7,
    ),
    "words": View(
        {"idf": 0.25, "length_scale": np.inf},
        {"alpha": "auto", "max_iter": 8},
        unlabeled_weight=0.05,
        expected=0.35,
    ),
    "telling words": View(
        {"idf": 0.0, "length_scale": np.inf, "words": 200},
        {"alpha": "auto", "max_iter": 8},
        unlabeled_weight=0.1,
        expected=0.0,  # few labels choose them by chance
    ),
}
# How much groups of texts count in the pool before anything is known.
GROUPED = 0.7
# The same where nothing can be hidden, as a part of what each of the models counts.
UNTAUGHT = 0.25
# Groups that there must be for each class. Fewer say little, and more take too long.
PER_CLASS = 4
# With one label a class nothing can be hidden. Then one view guesses: the first in which the
# labelled texts, read as if they had no label, get their label, up to so many nats on average.
ALONE = {"topics": VIEWS["topics"], "topics at once": AT_ONCE, "words": VIEWS["words"]}
BELIEVED = 0.5
# Nats a text still to come that end a fit before its last round.
TO_COME = 0.01
# Rows that tell how far apart a model holds the classes.
SAMPLE = 3000
# A labelled word is a labelled text that says it so often.
SAID = 10


@dataclass(frozen=True)
class Member:
    """One of the pooled models.

    Attributes
    ----------
    view : str
        How it looks at words.
    weights : TermWeights
        How they are weighed.
    model : MultinomialNB
        What was fitted to them; its classes are numbers.
    """

    view: str
    weights: TermWeights
    model: MultinomialNB

    @property
    def supervised(self) -> bool:
        """Whether it was fitted to labelled texts only."""
        return bool(self.model.unlabeled_weight == 0)

    def joint(self, counts: Any) -> Array:
        """Return log p(x, y) of counts of words."""
        return self.model.predict_joint_log_proba(self.weights.transform(counts))

    def told(self, joint: Array) -> Array:
        """Return log p(x | y), what words alone say, from log p(x, y)."""
        return np.asarray(joint - self.log_shares)

    @property
    def log_shares(self) -> Array:
        """The log of the shares of the classes, (K,)."""
        return self.model._log_prior

    def terms(self, row: Any) -> tuple[Array, Array]:
        """Return what is said of each class before a row is seen, and by each of its words."""
        said = row.data[:, None] * self.model.feature_log_prob_.T[row.indices]
        before, K = self.model.class_log_prior_, len(self.model.classes_)
        if self.model._parts == 1:
            return before, said
        within = normalize((before + said.sum(axis=0)).reshape(K, -1))[0]
        return log_of_parts(before, within), mean_of_parts(said, within)

    @property
    def log_p(self) -> Array:
        """Log p(word | y), (K, V)."""
        if self.model._parts == 1:
            return np.asarray(self.model.feature_log_prob_)
        K, prior = len(self.model.classes_), self.model.class_log_prior_[:, None]
        joint = (self.model.feature_log_prob_ + prior).reshape(K, -1, len(self.weights.columns_))
        return np.asarray(logsumexp(joint, axis=1) - self.log_shares[:, None])


@dataclass(frozen=True)
class Task:
    """Counts of words and what is known of their labels.

    `known` are class numbers with -1 for none, or evidence; of the rows from `texts` on, which
    stand for labelled words, none is ever hidden.
    """

    counts: Any
    labels: Labels
    known: npt.NDArray[Any]
    weight: Array
    texts: int
    cache: dict[str, Any] = field(default_factory=dict)

    def weighted(self, name: str, view: View) -> tuple[TermWeights, Any]:
        """Return the weights of a view that does not depend on labels, and the rows with them."""
        if name not in self.cache:
            weights = TermWeights(**view.weights).fit(self.counts)
            self.cache[name] = weights, weights.transform(self.counts)
        found: tuple[TermWeights, Any] = self.cache[name]
        return found

    def lesson(self, random_state: Any, n_jobs: int | None) -> Lesson[TextGroups]:
        """Find groups of texts, and what is known of the classes of some."""
        if "lesson" not in self.cache:
            weights, X = self.weighted("topics", VIEWS["topics"])
            own = slice(self.texts)
            groups = find(weights, X[own], self.weight[own], random_state, n_jobs)
            rows = np.flatnonzero(self.codes >= 0)
            posterior = groups.posterior(self.counts, rows)
            known = rows, self.codes[rows], self.weight[rows]
            self.cache["lesson"] = Lesson(groups, *known, posterior, self.n_classes)
        found: Lesson[TextGroups] = self.cache["lesson"]
        return found

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.labels.classes)

    @property
    def codes(self) -> npt.NDArray[np.intp]:
        """The classes of rows that have a label and a weight, -1 elsewhere."""
        return np.where(self.weight > 0, self.labels.codes, -1)

    @property
    def hideable(self) -> npt.NDArray[np.intp]:
        """The same without those of labelled words."""
        codes = self.codes
        codes[self.texts :] = -1
        return codes

    @property
    def sample(self) -> Any:
        """The words of some of the texts."""
        return self.counts[np.unique(np.linspace(0, self.texts - 1, SAMPLE).astype(np.intp))]


class Found(NamedTuple):
    """What a fit finds."""

    members: tuple[Member, ...]
    pool: Pool
    unlabeled_help: UnlabeledHelp
    evaluation: Evaluation | None
    hidden: Hidden | None
    groups: TextGroups | None = None
    correction: TextCorrection | None = None

    def joint(self, counts: Any) -> Array:
        """Return the pooled log p(x, y), up to a constant."""
        return pooled_joint(self.members, self.pool, (self.groups, self.correction), counts)

    def beats(self, other: Found) -> bool:
        """Return whether hidden labels are clearly more probable than another finds."""
        assert self.hidden is not None
        assert other.hidden is not None
        return self.hidden.weighed.beats(other.hidden.weighed)


class Hidden(NamedTuple):
    """Rows whose label was hidden, and the evidence of the supervised pool and of that found.

    `weighed` is how good the latter is.
    """

    rows: npt.NDArray[np.intp]
    without: Array
    found: Array
    weighed: Weighed


@dataclass
class Learner:
    """Fit members to a task, and weigh them; see `tacit.TextClassifier` for the settings."""

    unlabeled_weight: Any
    components: int
    combination: str
    random_state: Any
    n_jobs: int | None
    callback: Any = None

    def _model(self, task: Task, view: View, unlabeled_weight: float) -> MultinomialNB:
        return MultinomialNB(
            **view.settings,
            class_alpha=0.005,
            tol=TO_COME,
            components_per_class=self.components,
            unlabeled_weight=unlabeled_weight,
            classes=np.arange(task.n_classes),
            missing_label=-1,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _fits(
        self, task: Task, views: dict[str, View], held: npt.NDArray[np.intp] | None = None
    ) -> Iterator[tuple[Member, Array]]:
        """Fit members without the rows that are held out, and yield what they say of these."""
        rest = np.ones(len(task.weight), bool)
        held = np.empty(0, dtype=np.intp) if held is None else held
        rest[held] = False
        labelled = rest & ~task.labels.unknown
        factor = 1.0 if self.unlabeled_weight == "auto" else float(self.unlabeled_weight)
        use_all = factor > 0 and bool(task.labels.unknown.any())
        codes = np.where(rest & (task.codes >= 0), task.codes, np.nan)
        for name, view in views.items():
            if "words" in view.weights:
                weights = TermWeights(**view.weights).fit(task.counts, codes)
                X = weights.transform(task.counts)
            else:
                weights, X = task.weighted(name, view)
            for weight in [factor * view.unlabeled_weight, 0.0] if use_all else [0.0]:
                rows = rest if weight else labelled
                own = X[rows]
                if use_all and not weight and "words" not in view.weights:
                    # It knows nothing of unlabelled texts, not even their words.
                    weights = TermWeights(**view.weights).fit(task.counts[rows])
                    own = weights.transform(task.counts[rows])
                model = self._model(task, view, weight).set_params(callback=self.callback)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)  # few rounds are enough
                    model.fit(own, task.known[rows], sample_weight=task.weight[rows])
                member = Member(name, weights, model.set_params(callback=None))
                said = member.joint(task.counts[held]) if len(held) else np.empty((0, 0))
                yield member, said

    def pooled(self, task: Task) -> Found | None:
        """Fit, hide labels and weigh; None if no label can be hidden."""
        judged = self._judged(task)
        return None if judged is None else self._pooled(task, judged)

    def _lesson(self, task: Task) -> Lesson[TextGroups] | None:
        """Find groups of texts, if there are enough without a label, and they are to be used."""
        without = task.weight[task.labels.unknown].sum() / task.weight.sum()
        used = self.unlabeled_weight != 0 and self.combination != "pick" and without >= UNLABELED
        if not used or PER_CLASS * task.n_classes > GROUPS:
            return None
        return task.lesson(self.random_state, self.n_jobs)

    def _judged(self, task: Task) -> Judged | None:
        """Hide labels, fold by fold; None if no label can be hidden."""
        codes, joints, all_held = task.hideable, [], list(folds(task.hideable, N_FOLDS))
        for held in all_held:
            said = [member.told(joint) for member, joint in self._fits(task, VIEWS, held)]
            lesson = self._lesson(task)
            said += [] if lesson is None else [lesson.said(held)]
            joints.append(np.stack(said, axis=2))
        return Judged.of(joints, codes, task.weight, all_held)

    def chosen(self, task: Task) -> Found:
        """Fit a member whose view the labels do not contradict, and one to what it guesses."""
        known = task.codes >= 0
        for member, _ in self._fits(task, ALONE):
            if member.supervised and member.view != "words":
                continue
            if not known.any():
                break
            p, _ = normalize(member.joint(task.counts[known]))
            right = p[np.arange(len(p)), task.codes[known]]
            if -log(np.maximum(right, 1e-300)).mean() <= BELIEVED:
                break
        told = UnlabeledHelp(None, None, float(not member.supervised))
        lesson = None if member.supervised or not known.any() else self._lesson(task)
        alone = _evenly((member,), task, told, lesson)
        if member.supervised or not known.any():
            return alone
        texts = slice(task.texts)
        guess = distributions(task.counts[texts], task.labels.of(texts), alone).argmax(axis=1)
        if len(np.unique(guess[task.weight[: task.texts] > 0])) < 2:
            return alone
        return _evenly((member, self._taught(task, guess)), task, told, lesson)

    def _taught(self, task: Task, guess: npt.NDArray[np.intp]) -> Member:
        """Fit a member to guessed labels of the texts: few words, so that guesses even out."""
        view, counts, weight = VIEWS["telling words"], task.counts[: task.texts], task.weight
        codes = np.where(weight[: task.texts] > 0, guess, np.nan)
        weights = TermWeights(**view.weights).fit(counts, codes)
        model = self._model(task, view, view.unlabeled_weight)
        model.fit(weights.transform(counts), guess, sample_weight=weight[: task.texts])
        return Member("telling words", weights, model)

    def _pooled(self, task: Task, judged: Judged) -> Found | None:
        """Weigh the members by what they say of hidden labels; None if these are of few classes."""
        members = tuple(member for member, _ in self._fits(task, VIEWS))
        own = np.array([member.supervised for member in members])
        alone = bool(own.all())
        lesson = self._lesson(task)
        groups = None if lesson is None else lesson.taught()
        joints = joints_of(members, task.sample, groups)
        priors = np.stack([member.log_shares for member in members], axis=1)
        likely = np.array([VIEWS[member.view].expected for member in members])
        if groups is not None:  # one more in the pool, which says nothing of shares
            priors = np.append(priors, np.zeros((task.n_classes, 1)), axis=1)
            likely, own = np.append(likely, GROUPED), np.append(own, False)
        scale = spreads(joints, priors)
        expected = likely * (alone | ~own)
        shares = Pool(expected / scale, np.zeros(task.n_classes)).posterior(joints).mean(axis=0)
        if not judged.covers(shares):
            return None
        pick = self.combination == "pick"

        def best(which: npt.NDArray[np.bool_], expected: Array) -> Weighed:
            if not pick:
                return judged.pooled(which, expected, scale)
            each = np.eye(len(own), dtype=bool)[which]
            tried = [judged.pooled(one, np.ones(len(own)), scale) for one in each]
            return min(tried, key=lambda one: one.loss)

        pools, used = [best(alone | ~own if pick else np.ones(len(own), bool), expected)], False
        if not alone:
            pools.append(best(own, likely))
            used = self.unlabeled_weight != "auto" or not pools[1].beats(pools[0])
            pools = pools if used else pools[::-1]
        rows, correction = np.concatenate(list(folds(task.hideable, N_FOLDS))), None
        if not pick:
            weighing, X = task.weighted("topics", VIEWS["topics"])
            logs, pools = learn(to_length_1(X[rows]), judged, *pools)
            correction = None if logs is None else TextCorrection(logs, weighing)
        chosen, without = pools[0], pools[int(used)]
        with_them = None if alone else pools[int(not used)].evaluation
        told = UnlabeledHelp(without.evaluation, with_them, float(used))
        # Shares of classes count once, not once for each member.
        weights, shares = chosen.weights, judged.shares
        if not alone:
            joint = Pool(weights, log(shares) - priors @ weights).joint(joints)
            if correction is not None:  # what is used says the shares, not what it began with
                joint += correction.evidence(task.sample)
            found = normalize(joint)[0].mean(axis=0)
            shares = found if judged.contradicts(found) else shares
        shift, each = log(shares) - priors @ weights, weights[: len(members)]
        pool = Pool(each[each > 0], shift)
        kept = tuple(m for m, w in zip(members, each, strict=True) if w > 0)
        if groups is not None:
            groups = replace(groups, weight=float(weights[-1])) if weights[-1] > 0 else None
        before, after = (log(one.posterior) - log(judged.shares) for one in (without, chosen))
        hidden = Hidden(rows, before, after, chosen)
        return Found(kept, pool, told, chosen.evaluation, hidden, groups, correction)


def joints_of(members: tuple[Member, ...], counts: Any, groups: TextGroups | None = None) -> Array:
    """Return log p(x, y) by each member, (n, K, C), and behind them what groups say, if any do."""
    joints = [member.joint(counts) for member in members]
    return np.stack(joints if groups is None else [*joints, groups.evidence(counts)], axis=2)


def pooled_joint(
    members: tuple[Member, ...],
    pool: Pool,
    more: tuple[TextGroups | None, TextCorrection | None],
    counts: Any,
) -> Array:
    """Return the pooled log p(x, y), up to a constant, with what is said beside the members."""
    joint = pool.joint(joints_of(members, counts))
    return np.asarray(sum((one.evidence(counts) for one in more if one is not None), joint))


def _evenly(
    members: tuple[Member, ...],
    task: Task,
    told: UnlabeledHelp,
    lesson: Lesson[TextGroups] | None,
) -> Found:
    """Pool members alike, of which nothing else is known, and groups, which count for less."""
    groups = None if lesson is None else lesson.taught()
    joints = joints_of(members, task.sample, groups)
    part = np.append(np.ones(len(members)), [] if groups is None else UNTAUGHT)
    weights = part / (part.sum() * spreads(joints))
    pool = Pool(weights[: len(members)], np.zeros(task.n_classes))
    if groups is not None:
        groups = replace(groups, weight=float(weights[-1]))
    return Found(members, pool, told, None, None, groups)


def distributions(counts: Any, labels: Labels, found: Found) -> Array:
    """Return p(y | text) of the texts of a fit, with what is known of their labels."""
    joint = found.joint(counts)
    if labels.evidence is not None:
        joint = joint + labels.evidence
    p, known = normalize(joint)[0], labels.codes >= 0
    p[known] = np.eye(len(labels.classes))[labels.codes[known]]
    return p
