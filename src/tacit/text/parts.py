"""The parts of a text ensemble: naive Bayes on words weighted in three ways, clusters, regression.

All take word counts. How their log-odds become one, with weights that held-out labels teach, is in
`tacit.selection.ensemble`; documents and scikit-learn's side in `tacit.text.classifier`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize as unit_norm

from tacit.data.labels import Labels
from tacit.data.rows import in_parts
from tacit.estimators.classifiers import MultinomialNB
from tacit.numerics import Array, component_mean, mixture_log_constant, normalize
from tacit.selection.clusters import MIN_UNLABELED, LabelledClusters
from tacit.selection.ensemble import Learner
from tacit.selection.logistic import fit_logistic
from tacit.text.clusters import N_CLUSTERS, TextClusters, fit_clusters
from tacit.text.weighting import TermWeights

__all__ = ["MEMBERS", "Settings", "TextLogistic", "TextRows", "WordModel", "learners"]


class MemberSpec(NamedTuple):
    """Parameters of the term weights and of the naive Bayes of a part, and its expected weight."""

    weights: dict[str, Any]
    model: dict[str, Any]
    expected: float


# Term weights and rounds were chosen as docs/choosing-defaults.md says, from those of the LingPipe
# tutorial on EM (texts scaled to a length of 9, class smoothing of .005, few rounds) on.
# Expected weights matter with one label a class, where none can be held out: equal weights of
# topics, words and clusters cost 1.2 points there, topics alone 2.8 (make bench-parts). With more
# labels weights are learnt, and it hardly matters.
MEMBERS = {
    "topics": MemberSpec(
        {"idf": 0.75, "length_scale": 10.0},
        {"alpha": "background", "tempering": 0.5, "max_iter": 6, "unlabeled_weight": 1.0},
        expected=0.6,
    ),
    "words": MemberSpec(
        {"idf": 0.25, "length_scale": np.inf},
        {"alpha": "auto", "max_iter": 8, "unlabeled_weight": 0.05},
        expected=0.2,
    ),
    "informative words": MemberSpec(
        {"idf": 0.0, "length_scale": np.inf, "words": 200},
        {"alpha": "auto", "max_iter": 8, "unlabeled_weight": 0.1},
        expected=0.0,  # few labels choose them by chance
    ),
}
CLASS_ALPHA = 0.005
CLUSTER_WEIGHT = 0.2
# Clusters per class below which there are none: fewer say little, and more take too long.
CLUSTERS_PER_CLASS = 4
# Tolerance of a member's EM, in nats a text.
TOL = 0.01


class Settings(NamedTuple):
    """What a `TextClassifier` tells its parts."""

    unlabeled_weight: float
    random_state: Any
    n_jobs: int | None
    callback: Any = None


@dataclass(frozen=True)
class TextRows:
    """Word counts and what is known of their labels; from `n_rows` on they stand for words."""

    features: sparse.csr_array
    labels: Labels
    weight: Array
    n_rows: int
    cache: dict[str, Any] = field(default_factory=dict)

    def labelled(self) -> TextRows:
        """Return the rows of whose label something is known."""
        rows = np.flatnonzero(~self.labels.unknown)
        n = int(np.searchsorted(rows, self.n_rows))
        return TextRows(self.features[rows], self.labels.of(rows), self.weight[rows], n)

    def weighted(self, name: str, weight: Array) -> tuple[TermWeights, sparse.csr_array]:
        """Return term weights that do not depend on labels, and the weighted counts.

        They are of all texts, whose words are known beforehand. Where all are labelled, new texts
        have words of their own: then held-out texts must not tell which words count.
        """
        rows = slice(None) if len(self.unlabelled) else np.flatnonzero(weight > 0)
        key = None if len(self.unlabelled) else weight.tobytes()
        if name not in self.cache or self.cache[name][0] != key:
            weights = TermWeights(**MEMBERS[name].weights).fit(self.features[rows])
            self.cache[name] = key, weights, weights.transform(self.features)
        _, weights, X = self.cache[name]
        return weights, X

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.labels.classes)

    @property
    def unlabelled(self) -> npt.NDArray[np.intp]:
        """The texts of whose label nothing is known."""
        return np.flatnonzero(self.labels.unknown & (self.weight > 0))

    @property
    def codes(self) -> npt.NDArray[np.intp]:
        """The class numbers of texts that have a label and a weight, else -1; so for words."""
        codes = np.where(self.weight > 0, self.labels.codes, -1)
        codes[self.n_rows :] = -1
        return codes


def learners(settings: Settings, data: TextRows, components: int) -> list[Learner]:
    """Return the learners of all parts of an ensemble, for so many components per class."""
    found: list[Learner] = [_WordLearner(data, settings, name, components) for name in MEMBERS]
    if not ((data.labels.codes >= 0) & (data.weight > 0)).any():  # there is evidence alone
        return found
    unlabeled = data.weight[data.labels.unknown].sum() / data.weight.sum()
    if unlabeled >= MIN_UNLABELED and CLUSTERS_PER_CLASS * data.n_classes <= N_CLUSTERS:
        found.append(_ClusterLearner(data, settings))
    return [*found, _LogisticLearner(data)]


@dataclass(frozen=True)
class WordModel:
    """Naive Bayes on weighted words.

    Attributes
    ----------
    name : str
        How words are weighted: the name of its specification, in `MEMBERS`.
    weights : TermWeights
        Its term weights.
    model : MultinomialNB
        The model of the weighted counts; its classes are numbers.
    """

    name: str
    weights: TermWeights
    model: MultinomialNB

    def evidence(self, X: sparse.csr_array) -> Array:
        """Return log p(x | y), shape (n, K), of word counts."""
        joint = self.model.predict_joint_log_proba(self.weights.transform(X))
        return np.asarray(joint - self.model._log_prior)

    def terms(self, row: sparse.csr_array) -> tuple[Array, list[tuple[int, Array]]]:
        """Return the evidence of one row as a constant, (K,), and a term for each word."""
        row = self.weights.transform(row)
        log_p = row.data[:, None] * self.model.feature_log_prob_.T[row.indices]
        log_prior, constant = self.model.class_log_prior_, np.zeros(len(self.model.classes_))
        if self.model._n_components > 1:
            joint = (log_prior + log_p.sum(axis=0)).reshape(len(constant), -1)
            within = normalize(joint)[0]
            constant = mixture_log_constant(log_prior, within) - self.model._log_prior
            log_p = component_mean(log_p, within)
        return constant, list(zip(self.weights.columns_[row.indices].tolist(), log_p, strict=True))

    @property
    def log_p(self) -> Array:
        """Log p(word | y), shape (K, V)."""
        if self.model._n_components == 1:
            return np.asarray(self.model.feature_log_prob_)
        K, prior = len(self.model.classes_), self.model.class_log_prior_[:, None]
        joint = (self.model.feature_log_prob_ + prior).reshape(K, -1, len(self.weights.columns_))
        return np.asarray(logsumexp(joint, axis=1) - self.model._log_prior[:, None])


@dataclass(frozen=True)
class _WordLearner:
    """Fits a `WordModel` by EM."""

    data: TextRows
    settings: Settings
    name: str
    components: int

    @property
    def expected(self) -> float:
        return MEMBERS[self.name].expected

    def fit(self, weight: Array) -> WordModel:
        data, spec, rows = self.data, MEMBERS[self.name], np.flatnonzero(weight > 0)
        if "words" in spec.weights:
            codes = np.where((data.labels.codes >= 0) & (weight > 0), data.labels.codes, np.nan)
            weights = TermWeights(**spec.weights).fit(data.features, codes)
            X = weights.transform(data.features[rows])
        else:
            weights, X = data.weighted(self.name, weight)
            X = X[rows]
        settings = self.settings
        parameters = spec.model | {
            "unlabeled_weight": settings.unlabeled_weight * spec.model["unlabeled_weight"]
        }
        model = MultinomialNB(
            **parameters,
            class_alpha=CLASS_ALPHA,
            tol=TOL,
            components_per_class=self.components,
            classes=np.arange(data.n_classes),
            missing_label=-1,
            random_state=settings.random_state,
            n_jobs=settings.n_jobs,
            callback=settings.callback,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # few rounds are enough
            model.fit(X, data.labels.known[rows], sample_weight=weight[rows])
        return WordModel(self.name, weights, model.set_params(callback=None))


@dataclass(frozen=True)
class _ClusterLearner:
    """Estimates the class distributions of clusters, which all texts of the fit have made."""

    data: TextRows
    settings: Settings
    expected = CLUSTER_WEIGHT

    def fit(self, weight: Array) -> TextClusters:
        cache, data = self.data.cache, self.data
        if "clusters" not in cache:
            (weights, X), texts = data.weighted("topics", weight), slice(data.n_rows)
            seed, n_jobs = self.settings.random_state, self.settings.n_jobs
            clusters = fit_clusters(weights, X[texts], data.weight[texts], seed, n_jobs)
            rows = np.flatnonzero((data.labels.codes >= 0) & (data.weight > 0))
            known = rows, data.labels.codes[rows], data.weight[rows]
            posterior = clusters.posterior(data.features, rows)
            cache["clusters"] = LabelledClusters(clusters, *known, posterior, data.n_classes)
        fitted: TextClusters = cache["clusters"].fit(np.flatnonzero(weight == 0))
        return fitted


@dataclass(frozen=True)
class TextLogistic:
    """Logistic regression on the words of a text.

    Attributes
    ----------
    logs : ndarray of shape (d, K)
        The coefficients of each word and class.
    intercepts : ndarray of shape (K,)
        The intercept of each class.
    weights : TermWeights
        Term weights, before texts are scaled to unit norm.
    """

    logs: Array
    intercepts: Array
    weights: TermWeights
    name = "logistic regression"

    def evidence(self, X: sparse.csr_array) -> Array:
        """Return log p(y | x) / p(y), shape (n, K), up to a constant, of word counts."""

        def look(part: slice) -> Array:
            return np.asarray(unit_norm(self.weights.transform(X[part])) @ self.logs)

        return in_parts(look, X.shape[0]) + self.intercepts

    def terms(self, row: sparse.csr_array) -> tuple[Array, list[tuple[int, Array]]]:
        """Return the evidence of one row as a constant, (K,), and a term for each word."""
        row = unit_norm(self.weights.transform(row))
        logs = row.data[:, None] * self.logs[row.indices]
        return self.intercepts, list(
            zip(self.weights.columns_[row.indices].tolist(), logs, strict=True)
        )


@dataclass(frozen=True)
class _LogisticLearner:
    """Fits a `TextLogistic` to the labelled texts."""

    data: TextRows
    expected = 0.0

    def fit(self, weight: Array) -> TextLogistic:
        (weights, X), codes = self.data.weighted("topics", weight), self.data.labels.codes
        rows = np.flatnonzero((codes >= 0) & (weight > 0))
        fitted = fit_logistic(unit_norm(X[rows]), codes[rows], weight[rows], self.data.n_classes)
        return TextLogistic(*fitted, weights)
