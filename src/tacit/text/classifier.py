"""`TextClassifier`: documents and a few labels in, labels out; the estimator of `tacit.text`.

No single naive Bayes is best for all texts, so a few are fitted and stacked, with weights learnt
from held-out labels. Members and their selection are in `tacit.text.ensemble`; this is
scikit-learn's side: parameters, prediction, explanation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from tacit import kernels
from tacit.data.labels import Labels, all_classes, encode
from tacit.data.validation import check_weight
from tacit.estimators.classifier import LabelScores
from tacit.estimators.components import MOST_PARTS
from tacit.estimators.explain import Explanation, Feature, class_index, explanation
from tacit.numerics import Array, log, log_normalize, normalize
from tacit.selection.candidates import MAX_LOG_ODDS
from tacit.selection.stacking import estimate_class_prior
from tacit.text.clusters import TextClusters
from tacit.text.ensemble import (
    WORD_LABEL_COUNT,
    EnsembleLearner,
    Member,
    TrainingData,
    ensemble_joint,
    label_distributions,
)
from tacit.text.residual import TextCorrection
from tacit.text.vectorizer import CountVectorizer

__all__ = ["Member", "TextClassifier"]


@dataclass(eq=False, repr=False, kw_only=True)
class TextClassifier(LabelScores, BaseEstimator):
    """Classify texts from few labels and many texts: a stacked ensemble of naive Bayes with EM.

    Words are weighted in three ways: as *topics* (rare words count more, and a long text for at
    most some ten words), as plain *words*, and as the 200 most informative words (by their mutual
    information with the labels). Each gives a naive Bayes that is fitted to all texts by EM. The
    ensemble is stacked: 5-fold out-of-fold predictions give the weights of the members' log-odds,
    `pool_`. If the same members fitted to labelled texts alone do better by more than a standard
    error, these are the result; `unlabeled_help_` has the figures.

    The weights also calibrate the probabilities; `evaluation_` says how well. The class prior need
    not be the class proportions of the labels: it is estimated from all texts where a chi-squared
    test says that it differs.

    If no class has two labels, none can be held out. Then the topics predict the labels of all
    texts, a second member is fitted to the words most informative of these (self-training), and
    both have the same weight.

    Parameters
    ----------
    vectorizer : CountVectorizer, default=None
        How words are counted: a :class:`tacit.text.CountVectorizer`; None for its defaults.
    word_labels : dict, default=None
        Words whose class is known, as ``{"hockey": "sport"}``. Each counts as a labelled text of
        nothing but this word.
    classes : array-like, default=None
        All class names; else those that occur in `y` and `word_labels`.
    missing_label : default=None
        What marks a missing label besides NaN, None and NA: a value or a list of values.
    components_per_class : int or "auto", default=1
        Components of each class, which is a mixture of so many in every member. "auto" takes more,
        up to 5, while the out-of-fold loss falls by more than a standard error.
    combination : {"pool", "pick"}, default="pool"
        Whether members are stacked, or the one with the least out-of-fold loss is picked.
    unlabeled_weight : float or "auto", default="auto"
        0 leaves unlabelled texts out; another number is a factor of their weight. "auto" is 1 if
        that helps, else 0.
    random_state : int, RandomState instance or None, default=None
        Seed of the clusters, and of classes without any label.
    n_jobs : int, default=None
        Threads, None for one a core. The result does not depend on their number.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The class names.
    vectorizer_ : CountVectorizer
        The vocabulary.
    members_ : tuple of Member
        The members of the ensemble.
    pool_ : Pool
        Their stacking weights.
    groups_ : TextClusters or None
        Clusters of texts, fitted without labels, and their class distributions.
    correction_ : TextCorrection or None
        The residual correction: what each word adds to the log-odds of all these, learnt from
        held-out labels. None if there are none, they are clearly against it, or with `combination`
        "pick". `top_features` leaves it and the clusters out.
    unlabeled_help_ : UnlabeledHelp
        Whether unlabelled texts helped: out-of-fold metrics without and with them.
    evaluation_ : Evaluation or None
        Out-of-fold accuracy, log-loss and calibration error. None if no class has two labels, so
        that none could be held out.
    class_shares_ : ndarray of shape (K,)
        The class proportions of the texts of the fit.
    label_distributions_ : ndarray of shape (n, K)
        p(y | text) of the texts of the fit; for labelled ones the label.
    transduction_ : ndarray of shape (n,)
        The most probable class of each.

    Examples
    --------
    >>> from tacit import TextClassifier
    >>> texts = ["the striker scored a late goal", "a goal in extra time won the cup",
    ...          "the cello and the violin", "a slow piece for cello and piano",
    ...          "extra time, and the cup was won", "the violin played, then the piano"]
    >>> model = TextClassifier().fit(texts, ["sport", None, "music", None, None, None])
    >>> model.transduction_
    array(['sport', 'sport', 'music', 'music', 'sport', 'music'], dtype='<U5')
    >>> model.predict(["the cup final", "piano and violin"])
    array(['sport', 'music'], dtype='<U5')
    """

    vectorizer: Any = None
    word_labels: Any = None
    classes: Any = None
    missing_label: Any = None
    components_per_class: Any = 1
    combination: str = "pool"
    unlabeled_weight: Any = "auto"
    random_state: Any = None
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "vectorizer": [CountVectorizer, None],
        "word_labels": [Mapping, None],
        "components_per_class": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "combination": [StrOptions({"pool", "pick"})],
        "unlabeled_weight": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to texts of which some are labelled.

        Parameters
        ----------
        X : iterable of str
            The texts: a list, an array, a column of pandas, polars or Arrow.
        y : array-like of shape (n,) or (n, K), default=None
            The labels, missing ones as NaN, None, NA or `missing_label`; or evidence. None if there
            are only `word_labels`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the texts.

        Returns
        -------
        self
        """
        self._validate_params()
        vectorizer = CountVectorizer() if self.vectorizer is None else clone(self.vectorizer)
        vectorizer.n_jobs = self.n_jobs
        counts = vectorizer.fit_transform(X)
        y = [None] * counts.shape[0] if y is None else y
        classes = all_classes(y, self.classes, self.missing_label, self.word_labels)
        labels = encode(y, classes, self.missing_label)
        check_consistent_length(labels.codes, counts)
        return self._fit(vectorizer, counts, labels, check_weight(sample_weight, counts))

    def _fit(
        self,
        vectorizer: CountVectorizer,
        counts: sparse.csr_array,
        labels: Labels,
        weight: Array,
        quick: bool = False,
        callback: Any = None,
    ) -> Self:
        """Fit to word counts; if `quick`, without held-out labels."""
        with kernels.one_blas_thread(), kernels.kernel_threads(self.n_jobs):
            used = weight > 0
            data = self._data(vectorizer, counts[used], labels.of(used), weight[used])
            M = 1 if self.components_per_class == "auto" else int(self.components_per_class)
            learner = EnsembleLearner(
                *(self.unlabeled_weight, M, self.combination),
                *(self.random_state, self.n_jobs, callback),
            )
            best = None if quick else learner.stacked(data)
            if self.components_per_class == "auto" and best is not None:
                for M in range(2, MOST_PARTS + 1):
                    other = replace(learner, components=M).stacked(data)
                    if other is None or not other.beats(best):
                        break
                    best = other
            best = learner.fallback(data) if best is None else best
            p = label_distributions(counts, labels, best)
        self.vectorizer_, self.classes_ = vectorizer, labels.classes
        self.members_, self.pool_ = best.members, best.pool
        self.groups_: TextClusters | None = best.clusters
        self.correction_: TextCorrection | None = best.correction
        self.unlabeled_help_, self.evaluation_ = best.unlabeled_help, best.evaluation
        held_out = best.held_out
        self._held_out = held_out and held_out._replace(rows=np.flatnonzero(used)[held_out.rows])
        self.components_per_class_ = self.members_[0].model._n_components
        self.label_distributions_ = p
        proportions = np.average(p, axis=0, weights=weight)
        self.class_shares_ = proportions / proportions.sum()
        self.transduction_ = self.classes_[p.argmax(axis=1)]
        return self

    def _data(
        self,
        vectorizer: CountVectorizer,
        counts: sparse.csr_array,
        labels: Labels,
        weight: Array,
    ) -> TrainingData:
        """Return the texts, followed by the labelled words as texts of their own."""
        n, word_labels = len(weight), dict(self.word_labels or {})
        if word_labels:
            words = list(word_labels)
            of_words = WORD_LABEL_COUNT * vectorizer.transform(words)
            unseen = [word for word, row in zip(words, of_words, strict=True) if not row.nnz]
            if unseen:
                raise ValueError(f"word_labels names {unseen}: expected words that texts have.")
            counts = sparse.vstack([counts, of_words], format="csr")
            codes = encode(list(word_labels.values()), labels.classes).codes
            # The labelled words of a class weigh one text together.
            each = 1.0 / np.bincount(codes, minlength=len(labels.classes))[codes]
            labels = replace(labels, codes=np.concatenate([labels.codes, codes]))
            weight = np.concatenate([weight, each])
        return TrainingData(counts, labels, labels.known, weight, n)

    def _joint(self, X: Any) -> Array:
        check_is_fitted(self, "pool_")
        with kernels.one_blas_thread(), kernels.kernel_threads(self.n_jobs):
            return self._joint_of_counts(self.vectorizer_.transform(X))

    def _joint_of_counts(self, counts: sparse.csr_array) -> Array:
        added = self.groups_, self.correction_
        return ensemble_joint(self.members_, self.pool_, added, counts)

    @property
    def _log_prior(self) -> Array:
        """Log p(y) of the ensemble, shape (K,)."""
        pairs = zip(self.pool_.weights, self.members_, strict=True)
        log_prior = sum((w * m.log_prior for w, m in pairs), self.pool_.shift)
        return np.asarray(np.maximum(log_normalize(log_prior[None, :])[0][0], -MAX_LOG_ODDS))

    def _evidence(self, counts: sparse.csr_array) -> Array:
        """Return log p(y | x) / p(y) of word counts, shape (n, K)."""
        log_p = log_normalize(self._joint_of_counts(counts))[0]
        return np.asarray(np.maximum(log_p, -MAX_LOG_ODDS) - self._log_prior)

    def predict_proba(self, X: Any) -> Array:
        """Return p(y | text) of each text and class.

        Parameters
        ----------
        X : iterable of str
            The texts.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return normalize(self._joint(X))[0]

    def predict_log_proba(self, X: Any) -> Array:
        """Return log p(y | text) of each text and class.

        Parameters
        ----------
        X : iterable of str
            The texts.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return log_normalize(self._joint(X))[0]

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each text.

        Parameters
        ----------
        X : iterable of str
            The texts.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.classes_[self._joint(X).argmax(axis=1)]

    def explain(self, text: str, label: Any = None, against: Any = None) -> Explanation:
        """Return the words' contributions to the log-odds of one class against another.

        They add up exactly.

        Parameters
        ----------
        text : str
            The text.
        label : optional
            The class to explain; by default the most probable.
        against : optional
            The class to compare it with; by default the most probable of the others.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from tacit import TextClassifier
        >>> texts = ["a goal", "a late goal", "a violin", "a slow violin"] * 5
        >>> model = TextClassifier().fit(texts, ["sport", "sport", "music", "music"] * 5)
        >>> print(model.explain("a late, late goal"))
        sport (probability 1) rather than music
          prior        +0.000
          text late    +4.967
          text goal    +2.850
          total        +7.817
        """
        check_is_fitted(self, "pool_")
        log_prior, terms = self._terms(self.vectorizer_.transform([text]))
        of_words = [("text", word, logs) for word, logs in terms]
        return explanation(self.classes_.tolist(), log_prior, of_words, label, against)

    def _sample_counts(self, labels: npt.NDArray[np.intp], rng: np.random.RandomState) -> Array:
        """Draw word counts of texts of these classes, by the member with the plainest weights."""
        member = max(self.members_, key=lambda member: member.weights.length_scale)
        model, parts = member.model, member.model._n_components
        cumulative = np.exp(model.class_log_prior_).reshape(-1, parts).cumsum(axis=1)[labels]
        uniform = cumulative[:, -1:] * rng.random_sample((len(labels), 1))
        component = (cumulative < uniform).sum(axis=1)
        drawn = model._model.family.sample(
            model._params.features, model._statistics.features, labels * parts + component, rng
        )
        counts = np.zeros((len(labels), member.weights.n_features_in_))
        once = np.log(2.0) * member.weights.weights_
        uniform = rng.random_sample(drawn.shape)  # rounds up or down
        rounded = np.floor(drawn / once + uniform)
        counts[:, member.weights.columns_] = np.where(drawn > 0, rounded, 0.0)
        return counts

    def _terms(self, counts: sparse.csr_array) -> tuple[Array, list[tuple[str, Array]]]:
        """Return log p(x, y) of one text as a constant and a term for each word, (K,) each."""
        constant, terms = self.pool_.shift.copy(), dict[int, Array]()
        each: list[tuple[Member | TextClusters | TextCorrection, float]] = list(
            zip(self.members_, self.pool_.weights.tolist(), strict=True)
        )
        each += [(one, 1.0) for one in (self.groups_, self.correction_) if one is not None]
        for part, weight in each:
            row = part.weights.transform(counts)
            own_constant, own = part.terms(row)
            constant += weight * own_constant
            for column, logs in zip(part.weights.columns_[row.indices], own, strict=True):
                terms[column] = terms.get(column, 0.0) + weight * logs
        words = self.vectorizer_.get_feature_names_out()
        return constant, [(str(words[column]), logs) for column, logs in terms.items()]

    def top_features(self, label: Any, n: int = 10) -> list[Feature]:
        """Return the words with the strongest log-odds for a class against all others.

        Parameters
        ----------
        label
            The class.
        n : int, default=10
            How many.

        Returns
        -------
        list of Feature
            The strongest first.

        Examples
        --------
        >>> from tacit import TextClassifier
        >>> texts = ["a goal", "a late goal", "a violin", "a slow violin"] * 5
        >>> model = TextClassifier().fit(texts, ["sport", "sport", "music", "music"] * 5)
        >>> [feature.value for feature in model.top_features("sport")]
        ['goal', 'late']
        """
        check_is_fitted(self, "pool_")
        names = self.classes_.tolist()
        k, words = class_index(label, names), self.vectorizer_.get_feature_names_out()
        log_odds, frequency = np.zeros(len(words)), np.zeros(len(words))
        others = np.arange(len(names)) != k
        prior = np.maximum(self.class_shares_, 1e-6) * others
        prior = prior / max(prior.sum(), 1e-6)
        for member, weight in zip(self.members_, self.pool_.weights, strict=True):
            columns, log_p = member.weights.columns_, member.log_p
            rest = logsumexp(log_p[others], axis=0, b=prior[others, None])
            own = member.weights.weights_ * (log_p[k] - rest)  # of 1.7 occurrences: log1p(1.7) = 1
            log_odds[columns] += weight * own
            frequency[columns] += np.exp(log_p[k])
        strength = np.where(log_odds > 0, log_odds**2 * frequency, 0.0)
        best = np.argsort(-strength, kind="stable")[:n]
        features = [
            Feature("text", str(words[j]), float(log_odds[j]), float(strength[j])) for j in best
        ]
        return [feature for feature in features if feature.strength > 0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, which `tacit.load` reads without running code.

        Parameters
        ----------
        path : str or path-like
            The file; it is replaced whole.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import tacit
        >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> model = tacit.TextClassifier().fit(["a goal", "a violin"] * 2, ["sport", "music"] * 2)
        >>> model.save(path)
        >>> tacit.load(path).predict(["the violin"])
        array(['music'], dtype='<U5')
        """
        import tacit  # `tacit.modelfile` knows every estimator: reached through the package alone

        tacit.save(self, path)

    def adapt_prior(self, X: Any) -> TextClassifier:
        """Return a copy with the class prior of new texts (prior shift).

        It is estimated by EM (Saerens, Latinne and Decaestecker 2002); p(word | class) stays.

        Parameters
        ----------
        X : iterable of str
            New texts, without labels.

        Returns
        -------
        TextClassifier
            With these `class_shares_`.

        Examples
        --------
        >>> from tacit import TextClassifier
        >>> texts = ["a goal", "a late goal", "a violin", "a slow violin"] * 5
        >>> model = TextClassifier().fit(texts, ["sport", "sport", "music", "music"] * 5)
        >>> model.class_shares_
        array([0.5, 0.5])
        >>> model.adapt_prior(["a goal", "late goal", "goal", "slow violin"]).class_shares_.round(2)
        array([0.25, 0.75])
        """
        other, old = copy(self), self._log_prior
        prior = estimate_class_prior(self.predict_proba(X), np.exp(old))
        shift = np.where(prior > 0, log(prior), -np.inf) - old
        other.pool_ = replace(self.pool_, shift=self.pool_.shift + shift)
        other.class_shares_ = prior
        return other
