"""`TextClassifier`: documents and a few labels in, labels out; the estimator of `tacit.text`.

No single model is best for all texts, so a few are fitted and their log-odds added up, with weights
that held-out labels teach. The parts are in `tacit.text.parts`, the weights are learnt in
`tacit.selection.ensemble`; this is scikit-learn's side: parameters, prediction, explanation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

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
from tacit.selection.ensemble import select
from tacit.selection.stacking import estimate_class_prior
from tacit.text.parts import Settings, TextRows, WordModel, learners
from tacit.text.vectorizer import CountVectorizer

__all__ = ["HeldOut", "TextClassifier"]

# A labelled word is a labelled text in which it occurs so often: about as much as a text says.
WORD_LABEL_COUNT = 10


class HeldOut(NamedTuple):
    """The held-out rows and their out-of-fold log p(y | x) / p(y), shape (n, K).

    `supervised` is that of the ensemble of labelled texts alone, `selected` that of the fit.
    """

    rows: npt.NDArray[np.intp]
    supervised: Array
    selected: Array


@dataclass(eq=False, repr=False, kw_only=True)
class TextClassifier(LabelScores, BaseEstimator):
    """Classify texts from few labels and many texts: a stacked ensemble of naive Bayes with EM.

    The log-odds of up to five parts are added up. Words are weighted in three ways: as *topics*
    (rare words count more, and a long text for at most some ten words), as plain *words*, and as
    the 200 most *informative words* (by their mutual information with the labels). Each gives a
    naive Bayes that is fitted to all texts by EM. The others are *clusters* of texts, fitted
    without labels, with the class distribution of each; and *logistic regression* on the labelled
    texts. The ensemble is stacked: 5-fold out-of-fold predictions give the weights of the parts. If
    the same parts fitted to labelled texts alone do better by more than a standard error, these are
    the result; `unlabeled_help_` has the figures.

    The weights also calibrate the probabilities; `evaluation_` says how well. The class prior need
    not be the class proportions of the labels: it is estimated from all texts where a chi-squared
    test says that it differs.

    Unless two classes have two labels, none can be held out to any purpose, and parts have their
    expected weights: three fifths for the topics, a fifth each for words and clusters if any.

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
    ensemble_ : Ensemble
        The parts, their stacking weights, and the class prior.
    unlabeled_help_ : UnlabeledHelp
        Whether unlabelled texts helped: out-of-fold metrics without and with them.
    evaluation_ : Evaluation or None
        Out-of-fold accuracy, log-loss and calibration error of the fit, for new texts with its
        class prior. None unless two classes have two labels that can be held out.
    components_per_class_ : int
        The number of components that each class has.
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
    unlabeled_weight: Any = "auto"
    random_state: Any = None
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "vectorizer": [CountVectorizer, None],
        "word_labels": [Mapping, None],
        "components_per_class": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
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
            used = np.flatnonzero(weight > 0)
            data = self._data(vectorizer, counts[used], labels.of(used), weight[used])
            given, M = self.unlabeled_weight, self.components_per_class
            settings = Settings(
                1.0 if given == "auto" else float(given), self.random_state, self.n_jobs, callback
            )
            found = select(
                partial(learners, settings),
                data,
                None if given == "auto" else float(given),
                range(1, MOST_PARTS + 1) if M == "auto" else [int(M)],
                hold_out=not quick,
            )
            joint, best = found.ensemble.joint(counts), found.selected
        if best is not None and not found.alone:
            unlabelled = used[best.unlabelled]
            joint /= best.temperature(joint[unlabelled], found.ensemble.log_prior)
        if labels.evidence is not None:
            joint += labels.evidence
        p, known = normalize(joint)[0], labels.codes >= 0
        p[known] = np.eye(len(labels.classes))[labels.codes[known]]
        self.vectorizer_, self.classes_, self.ensemble_ = vectorizer, labels.classes, found.ensemble
        self.unlabeled_help_, self.evaluation_ = found.unlabeled_help, found.evaluation
        self._held_out = None
        if best is not None and found.supervised is not None:
            log_p = (log(one.stacked.posterior) for one in (found.supervised, best))
            odds = (one - np.log(best.predictions.class_proportions) for one in log_p)
            rows = used[~labels.of(used).unknown] if found.alone else used
            self._held_out = HeldOut(rows[best.rows], *odds)
        self.components_per_class_ = found.components
        self.label_distributions_ = p
        self.class_shares_ = np.average(p, axis=0, weights=weight)
        self.transduction_ = self.classes_[p.argmax(axis=1)]
        return self

    def _data(
        self,
        vectorizer: CountVectorizer,
        counts: sparse.csr_array,
        labels: Labels,
        weight: Array,
    ) -> TextRows:
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
        return TextRows(counts, labels, weight, n)

    def _joint(self, X: Any) -> Array:
        check_is_fitted(self, "ensemble_")
        with kernels.one_blas_thread(), kernels.kernel_threads(self.n_jobs):
            return self.ensemble_.joint(self.vectorizer_.transform(X))

    @property
    def _log_prior(self) -> Array:
        """Log p(y), shape (K,)."""
        return np.asarray(np.maximum(self.ensemble_.log_prior, -MAX_LOG_ODDS))

    def _evidence(self, counts: sparse.csr_array) -> Array:
        """Return log p(y | x) / p(y) of word counts, shape (n, K)."""
        log_p = log_normalize(self.ensemble_.joint(counts))[0]
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
        sport (probability 0.999) rather than music
          prior        +0.000
          text late    +4.642
          text goal    +2.518
          total        +7.160
        """
        check_is_fitted(self, "ensemble_")
        constant, terms = self._terms(self.vectorizer_.transform([text]))
        of_words = [("text", word, logs) for word, logs in terms]
        return explanation(self.classes_.tolist(), constant, of_words, label, against)

    def _sample_counts(self, labels: npt.NDArray[np.intp], rng: np.random.RandomState) -> Array:
        """Draw word counts of texts of these classes, by the model with the plainest weights."""
        member = max(self._word_models, key=lambda pair: pair[1].weights.length_scale)[1]
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
        constant, terms = self.ensemble_.terms(counts)
        words = self.vectorizer_.get_feature_names_out()
        return constant, [(str(words[column]), logs) for column, logs in terms.items()]

    @property
    def _word_models(self) -> list[tuple[float, WordModel]]:
        """The parts that are naive Bayes, with their weights."""
        pairs = zip(self.ensemble_.weights.tolist(), self.ensemble_.parts, strict=True)
        return [(weight, part) for weight, part in pairs if isinstance(part, WordModel)]

    def top_features(self, label: Any, n: int = 10) -> list[Feature]:
        """Return the words with the strongest log-odds for a class, by the naive Bayes parts.

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
        check_is_fitted(self, "ensemble_")
        names = self.classes_.tolist()
        k, words = class_index(label, names), self.vectorizer_.get_feature_names_out()
        log_odds, frequency = np.zeros(len(words)), np.zeros(len(words))
        others = np.arange(len(names)) != k
        prior = np.maximum(self.class_shares_, 1e-6) * others
        prior = prior / max(prior.sum(), 1e-6)
        for weight, member in self._word_models:
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
        other, old = copy(self), np.exp(self._log_prior)
        other.class_shares_ = estimate_class_prior(self.predict_proba(X), old)
        other.ensemble_ = self.ensemble_.with_prior(other.class_shares_)
        return other
