"""The members of a text ensemble: how each is specified and fitted, and how they are stacked.

It works on word counts and knows no documents: `tacit.text.classifier` has the estimator,
`tacit.selection` the out-of-fold predictions, stacking weights and the residual correction.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from tacit.data.labels import Labels
from tacit.estimators.classifiers import MultinomialNB
from tacit.numerics import Array, component_mean, log, mixture_log_constant, normalize
from tacit.selection.candidates import OutOfFold, Stacked
from tacit.selection.clusters import MIN_UNLABELED, LabelledClusters
from tacit.selection.cross_validation import N_FOLDS, Evaluation, UnlabeledHelp, folds
from tacit.selection.residual import fit_residual
from tacit.selection.stacking import Pool, log_odds_scale
from tacit.text.clusters import N_CLUSTERS, TextClusters, fit_clusters
from tacit.text.residual import TextCorrection, unit_norm
from tacit.text.weighting import TermWeights

__all__ = [
    "WORD_LABEL_COUNT",
    "EnsembleLearner",
    "FittedEnsemble",
    "HeldOut",
    "Member",
    "TrainingData",
    "ensemble_joint",
    "label_distributions",
]


class MemberSpec(NamedTuple):
    """The specification of a member: parameters of its term weights and of its naive Bayes.

    `unlabeled_weight` is that of its semi-supervised version, and `expected` its stacking weight
    before any label is held out.
    """

    weights: dict[str, Any]
    model: dict[str, Any]
    unlabeled_weight: float
    expected: float


# The names are `Member.view` and part of model files; "telling words" are the informative ones.
INFORMATIVE = "telling words"
MEMBERS = {
    "topics": MemberSpec(
        {"idf": 0.75, "length_scale": 10.0},
        {"alpha": "background", "tempering": 0.5, "max_iter": 6},
        unlabeled_weight=1.0,
        expected=0.7,
    ),
    "words": MemberSpec(
        {"idf": 0.25, "length_scale": np.inf},
        {"alpha": "auto", "max_iter": 8},
        unlabeled_weight=0.05,
        expected=0.35,
    ),
    INFORMATIVE: MemberSpec(
        {"idf": 0.0, "length_scale": np.inf, "words": 200},
        {"alpha": "auto", "max_iter": 8},
        unlabeled_weight=0.1,
        expected=0.0,  # few labels choose them by chance
    ),
}
# The expected stacking weight of the clusters.
CLUSTER_WEIGHT = 0.7
# The same where no label can be held out, relative to that of each member.
CLUSTER_WEIGHT_UNTESTED = 0.25
# Clusters per class below which there are none: fewer say little, and more take too long.
CLUSTERS_PER_CLASS = 4
# Tolerance of a member's EM, in nats a text.
TOL = 0.01
# Texts from which the scale of log-odds and the class prior are estimated.
SAMPLE = 3000
# A labelled word is a labelled text in which it occurs so often.
WORD_LABEL_COUNT = 10


@dataclass(frozen=True)
class Member:
    """One model of the ensemble.

    Attributes
    ----------
    view : str
        The name of its specification, in `MEMBERS`.
    weights : TermWeights
        Its term weights.
    model : MultinomialNB
        The model of the weighted counts; its classes are numbers.
    """

    view: str
    weights: TermWeights
    model: MultinomialNB

    @property
    def supervised(self) -> bool:
        """Whether it was fitted to labelled texts only."""
        return bool(self.model.unlabeled_weight == 0)

    def joint(self, counts: sparse.csr_array) -> Array:
        """Return log p(x, y), shape (n, K), of word counts."""
        return self.model.predict_joint_log_proba(self.weights.transform(counts))

    @property
    def log_prior(self) -> Array:
        """Log p(y), shape (K,)."""
        return self.model._log_prior

    def terms(self, row: sparse.csr_array) -> tuple[Array, Array]:
        """Return log p(x, y) of one row as a constant, (K,), and a term for each word, (d, K)."""
        log_p = row.data[:, None] * self.model.feature_log_prob_.T[row.indices]
        log_prior, K = self.model.class_log_prior_, len(self.model.classes_)
        if self.model._n_components == 1:
            return log_prior, log_p
        within = normalize((log_prior + log_p.sum(axis=0)).reshape(K, -1))[0]
        return mixture_log_constant(log_prior, within), component_mean(log_p, within)

    @property
    def log_p(self) -> Array:
        """Log p(word | y), shape (K, V)."""
        if self.model._n_components == 1:
            return np.asarray(self.model.feature_log_prob_)
        K, prior = len(self.model.classes_), self.model.class_log_prior_[:, None]
        joint = (self.model.feature_log_prob_ + prior).reshape(K, -1, len(self.weights.columns_))
        return np.asarray(logsumexp(joint, axis=1) - self.log_prior[:, None])


@dataclass(frozen=True)
class TrainingData:
    """Word counts and what is known of their labels.

    `known` are class numbers with -1 for none, or evidence. Rows from `n_texts` on stand for
    labelled words, and are never held out.
    """

    counts: sparse.csr_array
    labels: Labels
    known: npt.NDArray[Any]
    weight: Array
    n_texts: int
    cache: dict[str, Any] = field(default_factory=dict)

    def weighted(self, name: str, spec: MemberSpec) -> tuple[TermWeights, sparse.csr_array]:
        """Return term weights that do not depend on labels, and the weighted counts."""
        if name not in self.cache:
            weights = TermWeights(**spec.weights).fit(self.counts)
            self.cache[name] = weights, weights.transform(self.counts)
        weighted: tuple[TermWeights, sparse.csr_array] = self.cache[name]
        return weighted

    def clusters(self, random_state: Any, n_jobs: int | None) -> LabelledClusters[TextClusters]:
        """Return clusters of the texts, with the labelled texts."""
        if "clusters" not in self.cache:
            weights, X = self.weighted("topics", MEMBERS["topics"])
            texts = slice(self.n_texts)
            clusters = fit_clusters(weights, X[texts], self.weight[texts], random_state, n_jobs)
            rows = np.flatnonzero(self.codes >= 0)
            posterior = clusters.posterior(self.counts, rows)
            known = rows, self.codes[rows], self.weight[rows]
            self.cache["clusters"] = LabelledClusters(clusters, *known, posterior, self.n_classes)
        labelled: LabelledClusters[TextClusters] = self.cache["clusters"]
        return labelled

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.labels.classes)

    @property
    def codes(self) -> npt.NDArray[np.intp]:
        """The class numbers of rows that have a label and a weight, -1 elsewhere."""
        return np.where(self.weight > 0, self.labels.codes, -1)

    @property
    def text_codes(self) -> npt.NDArray[np.intp]:
        """The same with -1 for labelled words: the labels that can be held out."""
        codes = self.codes
        codes[self.n_texts :] = -1
        return codes

    @property
    def sample(self) -> sparse.csr_array:
        """The word counts of an even sample of the texts."""
        return self.counts[np.unique(np.linspace(0, self.n_texts - 1, SAMPLE).astype(np.intp))]


class FittedEnsemble(NamedTuple):
    """The result of a fit: members, their stacking weights and what is added to them."""

    members: tuple[Member, ...]
    pool: Pool
    unlabeled_help: UnlabeledHelp
    evaluation: Evaluation | None
    held_out: HeldOut | None
    clusters: TextClusters | None = None
    correction: TextCorrection | None = None

    def joint(self, counts: sparse.csr_array) -> Array:
        """Return log p(x, y), shape (n, K), up to a constant."""
        return ensemble_joint(self.members, self.pool, (self.clusters, self.correction), counts)

    def beats(self, other: FittedEnsemble) -> bool:
        """Return whether the out-of-fold loss is lower by more than a standard error."""
        assert self.held_out is not None
        assert other.held_out is not None
        return self.held_out.stacked.beats(other.held_out.stacked)


class HeldOut(NamedTuple):
    """The held-out rows and their out-of-fold log p(y | x) / p(y), shape (n, K).

    `supervised` is that of the supervised ensemble, `selected` that of the selected one, whose
    metrics are `stacked`.
    """

    rows: npt.NDArray[np.intp]
    supervised: Array
    selected: Array
    stacked: Stacked


@dataclass
class EnsembleLearner:
    """Fits and stacks the members of an ensemble; parameters are those of `TextClassifier`."""

    unlabeled_weight: Any
    components: int
    combination: str
    random_state: Any
    n_jobs: int | None
    callback: Any = None

    def _model(
        self, data: TrainingData, spec: MemberSpec, unlabeled_weight: float
    ) -> MultinomialNB:
        return MultinomialNB(
            **spec.model,
            class_alpha=0.005,
            tol=TOL,
            components_per_class=self.components,
            unlabeled_weight=unlabeled_weight,
            classes=np.arange(data.n_classes),
            missing_label=-1,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _fits(
        self,
        data: TrainingData,
        specs: dict[str, MemberSpec],
        held_out: npt.NDArray[np.intp] | None = None,
    ) -> Iterator[tuple[Member, Array]]:
        """Yield members fitted without the held-out rows, and log p(x, y) of these."""
        rest = np.ones(len(data.weight), bool)
        held_out = np.empty(0, dtype=np.intp) if held_out is None else held_out
        rest[held_out] = False
        labelled = rest & ~data.labels.unknown
        factor = 1.0 if self.unlabeled_weight == "auto" else float(self.unlabeled_weight)
        semi_supervised = factor > 0 and bool(data.labels.unknown.any())
        codes = np.where(rest & (data.codes >= 0), data.codes, np.nan)
        for name, spec in specs.items():
            if "words" in spec.weights:
                weights = TermWeights(**spec.weights).fit(data.counts, codes)
                X = weights.transform(data.counts)
            else:
                weights, X = data.weighted(name, spec)
            for weight in [factor * spec.unlabeled_weight, 0.0] if semi_supervised else [0.0]:
                rows = rest if weight else labelled
                own = X[rows]
                if semi_supervised and not weight and "words" not in spec.weights:
                    # A supervised member knows nothing of unlabelled texts, not even their words.
                    weights = TermWeights(**spec.weights).fit(data.counts[rows])
                    own = weights.transform(data.counts[rows])
                model = self._model(data, spec, weight).set_params(callback=self.callback)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)  # few rounds are enough
                    model.fit(own, data.known[rows], sample_weight=data.weight[rows])
                member = Member(name, weights, model.set_params(callback=None))
                predicted = (
                    member.joint(data.counts[held_out]) if len(held_out) else np.empty((0, 0))
                )
                yield member, predicted

    def stacked(self, data: TrainingData) -> FittedEnsemble | None:
        """Return an ensemble whose weights are learnt from held-out labels; None if there are none.

        That is also if the held-out labels are of too few classes.
        """
        predictions = self._out_of_fold(data)
        return None if predictions is None else self._stacked(data, predictions)

    def _clusters(self, data: TrainingData) -> LabelledClusters[TextClusters] | None:
        """Return clusters of the texts; None if few are unlabelled, or clusters are not wanted."""
        unlabeled = data.weight[data.labels.unknown].sum() / data.weight.sum()
        used = self.unlabeled_weight != 0 and self.combination != "pick"
        if (
            not used
            or unlabeled < MIN_UNLABELED
            or CLUSTERS_PER_CLASS * data.n_classes > N_CLUSTERS
        ):
            return None
        return data.clusters(self.random_state, self.n_jobs)

    def _out_of_fold(self, data: TrainingData) -> OutOfFold | None:
        """Return out-of-fold log p(x | y) of all members; None if no label can be held out."""
        codes, log_p, held_out = data.text_codes, [], list(folds(data.text_codes, N_FOLDS))
        for rows in held_out:
            fits = self._fits(data, MEMBERS, rows)
            each = [np.asarray(joint - member.log_prior) for member, joint in fits]
            clusters = self._clusters(data)
            each += [] if clusters is None else [clusters.out_of_fold(rows)]
            log_p.append(np.stack(each, axis=2))
        return OutOfFold.of(log_p, codes, data.weight, held_out)

    def fallback(self, data: TrainingData) -> FittedEnsemble:
        """Return an ensemble without held-out labels: a member, and one trained on its labels."""
        known = data.codes >= 0
        member, _ = next(self._fits(data, {"topics": MEMBERS["topics"]}))
        report = UnlabeledHelp(None, None, float(not member.supervised))
        clusters = None if member.supervised or not known.any() else self._clusters(data)
        single = _equally_weighted((member,), data, report, clusters)
        if member.supervised or not known.any():
            return single
        texts = slice(data.n_texts)
        p = label_distributions(data.counts[texts], data.labels.of(texts), single)
        labels = p.argmax(axis=1)
        if len(np.unique(labels[data.weight[texts] > 0])) < 2:
            return single
        members = member, self._self_trained(data, labels)
        return _equally_weighted(members, data, report, clusters)

    def _self_trained(self, data: TrainingData, labels: npt.NDArray[np.intp]) -> Member:
        """Return a member fitted to predicted labels: its few words average their errors out."""
        spec, texts = MEMBERS[INFORMATIVE], slice(data.n_texts)
        counts, weight = data.counts[texts], data.weight[texts]
        weights = TermWeights(**spec.weights).fit(counts, np.where(weight > 0, labels, np.nan))
        model = self._model(data, spec, spec.unlabeled_weight)
        model.fit(weights.transform(counts), labels, sample_weight=weight)
        return Member(INFORMATIVE, weights, model)

    def _stacked(self, data: TrainingData, predictions: OutOfFold) -> FittedEnsemble | None:
        """Return the stacked ensemble; None if held-out labels are of too few classes."""
        members = tuple(member for member, _ in self._fits(data, MEMBERS))
        supervised = np.array([member.supervised for member in members])
        only_supervised = bool(supervised.all())
        labelled = self._clusters(data)
        clusters = None if labelled is None else labelled.fit()
        joints = member_joints(members, data.sample, clusters)
        log_priors = np.stack([member.log_prior for member in members], axis=1)
        usual = np.array([MEMBERS[member.view].expected for member in members])
        if clusters is not None:  # one more member, without a class prior
            log_priors = np.append(log_priors, np.zeros((data.n_classes, 1)), axis=1)
            usual, supervised = np.append(usual, CLUSTER_WEIGHT), np.append(supervised, False)
        scale = log_odds_scale(joints, log_priors)
        expected = usual * (only_supervised | ~supervised)
        pool = Pool(expected / scale, np.zeros(data.n_classes))
        if not predictions.covers(pool.posterior(joints).mean(axis=0)):
            return None
        pick = self.combination == "pick"

        def best(which: npt.NDArray[np.bool_], expected: Array) -> Stacked:
            if not pick:
                return predictions.stack(which, expected, scale)
            ones = np.ones(len(supervised))
            each = np.eye(len(supervised), dtype=bool)[which]
            candidates = [predictions.stack(one, ones, scale) for one in each]
            return min(candidates, key=lambda candidate: candidate.loss)

        ensembles, used = [best(only_supervised | ~supervised, expected)], False
        if not only_supervised:
            ensembles.append(best(supervised, usual))
            used = self.unlabeled_weight != "auto" or not ensembles[1].beats(ensembles[0])
            ensembles = ensembles if used else ensembles[::-1]
        rows, correction = np.concatenate(list(folds(data.text_codes, N_FOLDS))), None
        if not pick:
            term_weights, X = data.weighted("topics", MEMBERS["topics"])
            logs, ensembles = fit_residual(unit_norm(X[rows]), predictions, *ensembles)
            correction = None if logs is None else TextCorrection(logs, term_weights)
        selected, without = ensembles[0], ensembles[int(used)]
        with_them = None if only_supervised else ensembles[int(not used)].evaluation
        report = UnlabeledHelp(without.evaluation, with_them, float(used))
        # The class prior counts once, not once for each member.
        weights, class_prior = selected.weights, predictions.class_proportions
        if not only_supervised:
            joint = Pool(weights, log(class_prior) - log_priors @ weights).joint(joints)
            if correction is not None:  # the prior is that of the corrected ensemble
                joint += correction.evidence(data.sample)
            mean = normalize(joint)[0].mean(axis=0)
            class_prior = mean if predictions.contradicts(mean) else class_prior
        shift, each = log(class_prior) - log_priors @ weights, weights[: len(members)]
        pool = Pool(each[each > 0], shift)
        kept = tuple(m for m, w in zip(members, each, strict=True) if w > 0)
        if clusters is not None:
            clusters = replace(clusters, weight=float(weights[-1])) if weights[-1] > 0 else None
        log_prior = log(predictions.class_proportions)
        supervised_odds, odds = (log(one.posterior) - log_prior for one in (without, selected))
        held_out = HeldOut(rows, supervised_odds, odds, selected)
        return FittedEnsemble(
            kept, pool, report, selected.evaluation, held_out, clusters, correction
        )


def member_joints(
    members: tuple[Member, ...], counts: sparse.csr_array, clusters: TextClusters | None = None
) -> Array:
    """Return log p(x, y) by each member, (n, K, C), and last the log-odds of clusters, if any."""
    joints = [member.joint(counts) for member in members]
    return np.stack(joints if clusters is None else [*joints, clusters.evidence(counts)], axis=2)


def ensemble_joint(
    members: tuple[Member, ...],
    pool: Pool,
    added: tuple[TextClusters | None, TextCorrection | None],
    counts: sparse.csr_array,
) -> Array:
    """Return log p(x, y), (n, K), up to a constant: stacked members, clusters and correction."""
    joint = pool.joint(member_joints(members, counts))
    return np.asarray(sum((one.evidence(counts) for one in added if one is not None), joint))


def _equally_weighted(
    members: tuple[Member, ...],
    data: TrainingData,
    report: UnlabeledHelp,
    labelled: LabelledClusters[TextClusters] | None,
) -> FittedEnsemble:
    """Return members with equal weights, since nothing tells them apart, and clusters with less."""
    clusters = None if labelled is None else labelled.fit()
    joints = member_joints(members, data.sample, clusters)
    relative = np.append(np.ones(len(members)), [] if clusters is None else CLUSTER_WEIGHT_UNTESTED)
    weights = relative / (relative.sum() * log_odds_scale(joints))
    pool = Pool(weights[: len(members)], np.zeros(data.n_classes))
    if clusters is not None:
        clusters = replace(clusters, weight=float(weights[-1]))
    return FittedEnsemble(members, pool, report, None, None, clusters)


def label_distributions(
    counts: sparse.csr_array, labels: Labels, ensemble: FittedEnsemble
) -> Array:
    """Return p(y | text), (n, K), of the texts of a fit, given what is known of their labels."""
    joint = ensemble.joint(counts)
    if labels.evidence is not None:
        joint = joint + labels.evidence
    p, known = normalize(joint)[0], labels.codes >= 0
    p[known] = np.eye(len(labels.classes))[labels.codes[known]]
    return p
