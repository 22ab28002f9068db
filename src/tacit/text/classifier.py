"""Texts in, labels out: what to do with few labels and many texts, decided by the labels there are.

There is no one naive Bayes that is best for all texts. `TextClassifier` fits a handful, which
differ in how words are weighed and in how much texts without a label count, hides labels from them
to see which can be believed, and pools them (`tacit.selection.stacking`).
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
from tacit.estimators.classifier import Scores
from tacit.estimators.components import MOST_PARTS
from tacit.estimators.explain import Explanation, Feature, explanation, place
from tacit.numerics import Array, log, log_normalize, normalize
from tacit.selection.candidates import MOST
from tacit.selection.stacking import adapted_shares
from tacit.text.clusters import TextGroups
from tacit.text.ensemble import SAID, Learner, Member, Task, distributions, pooled_joint
from tacit.text.residual import TextCorrection
from tacit.text.vectorizer import CountVectorizer

__all__ = ["Member", "TextClassifier"]


@dataclass(eq=False, repr=False, kw_only=True)
class TextClassifier(Scores, BaseEstimator):
    """Label texts from few labels and many texts: naive Bayes with EM, several ways, pooled.

    Words are weighed in three ways: as *topics* (rare words count more, and a long text for no more
    than some ten words), as plain *words*, and as plain words of which only the 200 that tell most
    of the labels are left. Each makes a naive Bayes model with texts without a label and one
    without them. Then labels are hidden from all of them, 5 times a fifth, and their log-odds are
    weighed by what they say of the texts they did not see: `pool_`. If a pool of those that know
    labelled texts only does better, by more than a standard error, that is the result;
    `unlabeled_help_` has the figures.

    The probabilities are calibrated by the same weights; `evaluation_` says how well. Classes need
    not be as frequent among the labels as among the texts: where the pool finds other shares in all
    texts, and by more than chance would have it, these count.

    If no class has two labels, none can be hidden. Then the topics guess the labels of all texts,
    the words that tell most of the guesses make a second model, and both count alike.

    Parameters
    ----------
    vectorizer : CountVectorizer, default=None
        How words are counted: a :class:`tacit.text.CountVectorizer`; None for its defaults.
    word_labels : dict, default=None
        Words whose class is known, as ``{"hockey": "sport"}``. Each counts as a labelled text that
        says nothing but this word.
    classes : array-like, default=None
        All class names; else those that occur in `y` and `word_labels`.
    missing_label : default=None
        What marks a missing label besides NaN, None and NA: a value or a list of values.
    components_per_class : int or "auto", default=1
        Classes that are several topics in one: each is a mixture of so many in every model. "auto"
        takes more, up to 5, while that makes hidden labels more probable by more than chance.
    combination : {"pool", "pick"}, default="pool"
        Whether models are pooled, or the one with the least loss of hidden labels is picked.
    unlabeled_weight : float or "auto", default="auto"
        0 leaves texts without a label out; another number is a factor for their weight. "auto" is 1
        if that helps, else 0.
    random_state : int, RandomState instance or None, default=None
        Where classes without any label start.
    n_jobs : int, default=None
        Threads, None for one a core. The result does not depend on their number.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The class names.
    vectorizer_ : CountVectorizer
        The words.
    members_ : tuple of Member
        The models that are pooled.
    pool_ : Pool
        Their weights.
    groups_ : TextGroups or None
        Groups of texts that are alike, found without labels, and the classes that they lean to.
    correction_ : TextCorrection or None
        What each word adds to put right what all these get wrong, by hidden labels; None if none
        could be hidden, these are clearly against it, or with `combination` "pick". `top_features`
        leaves it and the groups out.
    unlabeled_help_ : UnlabeledHelp
        Whether texts without a label helped: hidden labels found without them and with them.
    evaluation_ : Evaluation or None
        How well hidden labels were found: accuracy, log-loss, calibration error. None if no class
        has two labels, so that none could be hidden.
    class_shares_ : ndarray of shape (K,)
        The share of each class in the texts of the fit.
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
        counts: Any,
        labels: Labels,
        weight: Array,
        quick: bool = False,
        callback: Any = None,
    ) -> Self:
        """Fit to counts of words; if it is to be quick, without hiding labels."""
        with kernels.one_blas_thread(), kernels.kernel_threads(self.n_jobs):
            used = weight > 0
            task = self._task(vectorizer, counts[used], labels.of(used), weight[used])
            M = 1 if self.components_per_class == "auto" else int(self.components_per_class)
            learner = Learner(
                *(self.unlabeled_weight, M, self.combination),
                *(self.random_state, self.n_jobs, callback),
            )
            found = None if quick else learner.pooled(task)
            if self.components_per_class == "auto" and found is not None:
                for M in range(2, MOST_PARTS + 1):
                    other = replace(learner, components=M).pooled(task)
                    if other is None or not other.beats(found):
                        break
                    found = other
            found = learner.chosen(task) if found is None else found
            p = distributions(counts, labels, found)
        self.vectorizer_, self.classes_ = vectorizer, labels.classes
        self.members_, self.pool_ = found.members, found.pool
        self.groups_: TextGroups | None = found.groups
        self.correction_: TextCorrection | None = found.correction
        self.unlabeled_help_, self.evaluation_ = found.unlabeled_help, found.evaluation
        hidden = found.hidden
        self._hidden = hidden and hidden._replace(rows=np.flatnonzero(used)[hidden.rows])
        self.components_per_class_ = self.members_[0].model._parts
        self.label_distributions_ = p
        share = np.average(p, axis=0, weights=weight)
        self.class_shares_ = share / share.sum()
        self.transduction_ = self.classes_[p.argmax(axis=1)]
        return self

    def _task(
        self, vectorizer: CountVectorizer, counts: Any, labels: Labels, weight: Array
    ) -> Task:
        """Put labelled words behind the texts."""
        n, said = len(weight), dict(self.word_labels or {})
        if said:
            of_words = SAID * vectorizer.transform(list(said))
            unseen = [word for word, row in zip(said, of_words, strict=True) if not row.nnz]
            if unseen:
                raise ValueError(f"word_labels names {unseen}: expected words that texts have.")
            counts = sparse.vstack([counts, of_words], format="csr")
            words = encode(list(said.values()), labels.classes).codes
            # The labelled words of a class are one text together.
            each = 1.0 / np.bincount(words, minlength=len(labels.classes))[words]
            labels = replace(labels, codes=np.concatenate([labels.codes, words]))
            weight = np.concatenate([weight, each])
        known = labels.known
        return Task(counts, labels, known, weight, n)

    def _joint(self, X: Any) -> Array:
        check_is_fitted(self, "pool_")
        with kernels.one_blas_thread(), kernels.kernel_threads(self.n_jobs):
            return self._pooled_joint(self.vectorizer_.transform(X))

    def _pooled_joint(self, counts: Any) -> Array:
        more = self.groups_, self.correction_
        return pooled_joint(self.members_, self.pool_, more, counts)

    @property
    def _log_shares(self) -> Array:
        """The log of the shares of the classes that are taken for granted before a text is seen."""
        pairs = zip(self.pool_.weights, self.members_, strict=True)
        log_prior = sum((w * m.log_shares for w, m in pairs), self.pool_.shift)
        return np.asarray(np.maximum(log_normalize(log_prior[None, :])[0][0], -MOST))

    def _evidence(self, counts: Any) -> Array:
        """Return what words say for each class beyond its share."""
        log_p = log_normalize(self._pooled_joint(counts))[0]
        return np.asarray(np.maximum(log_p, -MOST) - self._log_shares)

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
        """Say which words of a text speak for a class and against another, in log-odds that add up.

        Parameters
        ----------
        text : str
            The text.
        label : optional
            The class that is asked about; else the most probable.
        against : optional
            The class that it is compared with; else the most probable of the others.

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
          before       +0.000
          text late    +4.967
          text goal    +2.850
          together     +7.817
        """
        check_is_fitted(self, "pool_")
        log_prior, terms = self._terms(self.vectorizer_.transform([text]))
        said = [("text", word, logs) for word, logs in terms]
        return explanation(self.classes_.tolist(), log_prior, said, label, against)

    def _drawn(self, labels: npt.NDArray[np.intp], rng: np.random.RandomState) -> Array:
        """Draw how often each word is said in texts of these classes, by the plainest member."""
        member = max(self.members_, key=lambda member: member.weights.length_scale)
        model, parts = member.model, member.model._parts
        shares = np.exp(model.class_log_prior_).reshape(-1, parts).cumsum(axis=1)[labels]
        part = (shares < shares[:, -1:] * rng.random_sample((len(labels), 1))).sum(axis=1)
        drawn = model._model.family.sample(
            model._params.features, model._statistics.features, labels * parts + part, rng
        )
        counts = np.zeros((len(labels), member.weights.n_features_in_))
        once = np.log(2.0) * member.weights.weights_
        part = rng.random_sample(drawn.shape)  # of a word is one or none
        counts[:, member.weights.columns_] = np.where(drawn > 0, np.floor(drawn / once + part), 0.0)
        return counts

    def _terms(self, counts: Any) -> tuple[Array, list[tuple[str, Array]]]:
        """Return what is said of the classes before a text is seen, and what each word adds."""
        log_prior, said = self.pool_.shift.copy(), dict[int, Array]()
        each: list[tuple[Member | TextGroups | TextCorrection, float]] = list(
            zip(self.members_, self.pool_.weights.tolist(), strict=True)
        )
        each += [(one, 1.0) for one in (self.groups_, self.correction_) if one is not None]
        for part, weight in each:
            row = part.weights.transform(counts)
            before, own = part.terms(row)
            log_prior += weight * before
            for column, logs in zip(part.weights.columns_[row.indices], own, strict=True):
                said[column] = said.get(column, 0.0) + weight * logs
        words = self.vectorizer_.get_feature_names_out()
        return log_prior, [(str(words[column]), logs) for column, logs in said.items()]

    def top_features(self, label: Any, n: int = 10) -> list[Feature]:
        """Return the words that mark a class: those that speak most for it.

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
        k, words = place(label, names), self.vectorizer_.get_feature_names_out()
        odds, share = np.zeros(len(words)), np.zeros(len(words))
        others = np.arange(len(names)) != k
        shares = np.maximum(self.class_shares_, 1e-6) * others
        shares = shares / max(shares.sum(), 1e-6)
        for member, weight in zip(self.members_, self.pool_.weights, strict=True):
            columns, log_p = member.weights.columns_, member.log_p
            rest = logsumexp(log_p[others], axis=0, b=shares[others, None])
            said = member.weights.weights_ * (log_p[k] - rest)  # as log(1 + 1.7 times)
            odds[columns] += weight * said
            share[columns] += np.exp(log_p[k])
        strength = np.where(odds > 0, odds**2 * share, 0.0)
        best = np.argsort(-strength, kind="stable")[:n]
        found = [Feature("text", str(words[j]), float(odds[j]), float(strength[j])) for j in best]
        return [feature for feature in found if feature.strength > 0]

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
        """Return a copy for texts whose classes have other shares than those of the fit.

        The shares are found by EM on them alone (Saerens, Latinne and Decaestecker 2002); words
        keep the probabilities that they have in each class.

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
        other, old = copy(self), self._log_shares
        shares = adapted_shares(self.predict_proba(X), np.exp(old))
        shift = np.where(shares > 0, log(shares), -np.inf) - old
        other.pool_ = replace(self.pool_, shift=self.pool_.shift + shift)
        other.class_shares_ = shares
        return other
