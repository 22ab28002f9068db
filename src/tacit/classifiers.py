"""Naive Bayes classifiers as scikit-learn has them, whose `y` may have missing entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from tacit import em, engine
from tacit.counterparts import HasCounterpart
from tacit.evaluation import Judged, UnlabeledHelp, judge
from tacit.families import Family, Multinomial
from tacit.kinds import (
    BernoulliKind,
    CategoricalKind,
    GaussianKind,
    MixedKind,
    MultinomialKind,
    normal_family,
)
from tacit.labels import Labels
from tacit.naivebayes import NaiveBayes, Params
from tacit.numerics import Array, log_normalize, normalize
from tacit.rows import Rows
from tacit.supervision import DiscreteClassifier, NormalClassifier
from tacit.tabular import Prepared, TableKind

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "GaussianDiscriminant",
    "GaussianNB",
    "MixedNB",
    "MultinomialNB",
    "TableClassifier",
]

# What a table's classifier tries: smoothing, and weights of rows without a label; and the weight
# where nothing can be tried.
ALPHAS = (1.0, 0.1, 0.01, 0.001)
WEIGHTS = (0.1, 1.0)
UNTRIED = 0.1
# Nats by which hidden labels must speak for less smoothing, or for rows without a label.
MARGIN = 1.0
# Rounds with short rows, and the rise in nats a row that ends them.
WARM_UP = 8
WARM_UP_TOL = 1e-3


@dataclass(eq=False, repr=False, kw_only=True)
class BernoulliNB(HasCounterpart, DiscreteClassifier, BernoulliKind):
    """Naive Bayes for features that are there or not; absence counts too.

    %(drop_in)s

    Parameters
    ----------
    alpha : float or array of shape (d,), default=1.0
        Smoothing: added to the count of ones and of zeros. 0 is maximum likelihood.
    %(force_alpha)s
    %(binarize)s
    %(prior_parameters)s
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    feature_count_ : ndarray of shape (K, d)
        Weight of the ones of each feature in each class.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(x_j = 1 | y).
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import BernoulliNB
    >>> X = [[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1], [0, 1, 1], [1, 1, 0]]
    >>> nb = BernoulliNB().fit(X, ["spam", None, "ham", None, None, None])
    >>> nb.transduction_
    array(['spam', 'spam', 'ham', 'ham', 'ham', 'spam'], dtype='<U4')
    """


@dataclass(eq=False, repr=False, kw_only=True)
class CategoricalNB(HasCounterpart, DiscreteClassifier, CategoricalKind):
    """Naive Bayes for features that are one of several categories, coded 0, 1, 2, ...

    %(drop_in)s

    Parameters
    ----------
    alpha : float or array of shape (d,), default=1.0
        Smoothing: added to the count of each category. 0 is maximum likelihood.
    %(force_alpha)s
    %(prior_parameters)s
    %(category_parameters)s
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    category_count_ : list of ndarray of shape (K, v_j)
        Weight of each category of each feature in each class.
    feature_log_prob_ : list of ndarray of shape (K, v_j)
        log p(x_j | y).
    n_categories_ : ndarray of shape (d,)
        v_j, the number of categories of each feature.
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import CategoricalNB
    >>> X = [[0, 2], [0, 2], [1, 0], [1, 1], [1, 0], [0, 2]]
    >>> nb = CategoricalNB().fit(X, [0, None, 1, None, None, None])
    >>> nb.transduction_
    array([0, 0, 1, 1, 1, 0])
    """


@dataclass(eq=False, repr=False, kw_only=True)
class MultinomialNB(HasCounterpart, DiscreteClassifier, MultinomialKind):
    """Naive Bayes for counts, such as those of the words of a text.

    %(drop_in)s

    Parameters
    ----------
    alpha : float, array of shape (d,), "auto" or "background", default=1.0
        Smoothing: added to the count of each word. 0 is maximum likelihood. "auto" adds to each
        class a fifth of the words that a class has on average, spread evenly over the vocabulary;
        "background" spreads half of it as words occur in all rows. Neither depends on how long
        rows are, or what rows without a label weigh; a first model, from labelled rows alone, is
        smoothed by their words alone.
    %(force_alpha)s
    %(prior_parameters)s
    %(label_parameters)s
    tempering : float, default=1.0
        Below 1, EM begins with up to 8 rounds in which rows count for this part of their length and
        the classes are held to similar sizes: labels then reach further before rows are sure of
        their class. Those rounds are not in `trace_`.
    %(em_parameters)s

    Attributes
    ----------
    feature_count_ : ndarray of shape (K, d)
        Weight of each word in each class.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(word | y).
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import MultinomialNB
    >>> X = [[3, 0, 1], [2, 1, 0], [0, 3, 2], [0, 2, 3], [1, 3, 3], [4, 0, 0]]
    >>> nb = MultinomialNB().fit(X, ["sport", None, "music", None, None, None])
    >>> nb.transduction_
    array(['sport', 'sport', 'music', 'music', 'music', 'sport'], dtype='<U5')
    """

    tempering: float = 1.0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "tempering": [Interval(Real, 0, 1, closed="right")],
    }

    def _warmed(self, model: NaiveBayes, chunks: list[Rows], start: Params | None) -> Params | None:
        if self.tempering == 1 or start is None:
            return start
        size = sum(len(rows) if rows.weight is None else rows.weight.sum() for rows in chunks)
        size += sum(rows.known.classes.sum() for rows in chunks if rows.known is not None)
        K = len(start.class_log_prior)
        family = cast(Multinomial, model.family)
        family = replace(family, alpha=self.tempering * family.alpha)
        held = replace(model, family=family, class_alpha=model.class_alpha + size / K)
        short = [rows.scaled(self.tempering) for rows in chunks]
        tol = WARM_UP_TOL * size
        fit = em.fit(held, short, start, max_iter=WARM_UP, tol=tol, n_jobs=self.n_jobs)
        if fit.interrupted:
            raise KeyboardInterrupt
        counts = fit.statistics
        full = counts.features.scaled(1.0 / self.tempering)
        return model.maximize(replace(counts, features=full))


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianNB(HasCounterpart, NormalClassifier, GaussianKind):
    """Naive Bayes for numbers: a mean and a variance for each feature and class.

    %(drop_in)s

    Each value counts as known up to noise of variance `epsilon_`: that is what smoothing of the
    variance is, and `objective_` is the expected log-likelihood under it.

    Parameters
    ----------
    priors : array-like of shape (K,), default=None
        The class prior, if it is known.
    var_smoothing : float, default=1e-9
        Part of the largest variance of all features that is added to all variances.
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    theta_ : ndarray of shape (K, d)
        Mean of each feature in each class.
    var_ : ndarray of shape (K, d)
        Variance of each feature in each class.
    epsilon_ : float
        What was added to the variances. `partial_fit` keeps that of the first batch.
    class_prior_ : ndarray of shape (K,)
        p(y).
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import GaussianNB
    >>> X = [[1.0, 2.1], [1.2, 1.9], [0.9, 2.0], [3.0, 0.1], [3.2, 0.3], [2.9, 0.2]]
    >>> GaussianNB().fit(X, [0, None, None, 1, None, None]).transduction_
    array([0, 0, 0, 1, 1, 1])
    """


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianDiscriminant(NormalClassifier):
    """Gaussian discriminant analysis: normal classes whose features vary together.

    Parameters
    ----------
    covariance : {"tied", "full", "diag"}, default="tied"
        One covariance for all classes (linear boundaries), one for each (quadratic ones), or one
        for each without correlations (naive Bayes).
    priors : array-like of shape (K,), default=None
        The class prior, if it is known.
    var_smoothing : float, default=1e-9
        Part of the largest variance of all features that is added to all variances.
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    means_ : ndarray of shape (K, d)
        Mean of each class.
    covariance_ : ndarray of shape (d, d), (K, d, d) or (K, d)
        The covariance: tied, full or diag.
    epsilon_ : float
        What was added to the variances.
    class_prior_ : ndarray of shape (K,)
        p(y).
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import GaussianDiscriminant
    >>> X = [[1.0, 2.1], [1.2, 1.9], [0.9, 2.0], [3.0, 0.1], [3.2, 0.3], [2.9, 0.2]]
    >>> GaussianDiscriminant().fit(X, [0, 0, None, 1, 1, None]).transduction_
    array([0, 0, 0, 1, 1, 1])
    """

    covariance: str = "tied"
    var_smoothing: float = 1e-9

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "covariance": [StrOptions({"tied", "full", "diag"})],
        "var_smoothing": [Interval(Real, 0, None, closed="left")],
    }

    def _family(self) -> Family:
        return normal_family(self.covariance, var_smoothing=self.var_smoothing)

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        covariance = params.variance if self.covariance == "diag" else params.covariance
        return {
            "means_": params.mean,
            "covariance_": covariance[0] if self.covariance == "tied" else covariance,
            "epsilon_": family.noise,
        }


@dataclass(eq=False, repr=False, kw_only=True)
class MixedNB(DiscreteClassifier, MixedKind):
    """Naive Bayes for columns of different kinds: counts, categories and numbers side by side.

    Parameters
    ----------
    parts : list of (name, classifier or family, columns)
        What each group of columns is. Of a classifier only its family counts (alpha, binarize,
        var_smoothing, ...); the class prior and EM are settled here. Columns are a name, a
        number, a list of them, a slice or a mask. Columns in no part are left out.
    %(prior_parameters)s
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    named_params_ : dict
        The estimated parameters of each part, by its name.
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import CategoricalNB, GaussianNB, MixedNB
    >>> X = [[0, 1.0], [0, 1.2], [1, 3.0], [1, 3.3], [0, 0.9], [1, 3.1]]
    >>> nb = MixedNB([("colour", CategoricalNB(), [0]), ("size", GaussianNB(), [1])])
    >>> nb.fit(X, ["a", None, "b", None, None, None]).transduction_
    array(['a', 'a', 'b', 'b', 'a', 'b'], dtype='<U1')
    """


@dataclass(eq=False, repr=False, kw_only=True)
class TableClassifier(DiscreteClassifier, TableKind):
    """Naive Bayes for a table as it is: texts, categories, numbers and gaps side by side.

    `X` is a data frame of pandas or polars, an Arrow table or a dict of lists. What each column is,
    is inferred by the rules of :func:`tacit.columns.infer` and shown in `columns_`: words of a text
    are counted (multinomial), categories, yes/no (Bernoulli) and numbers (Gaussian) each have a
    distribution of their own in each class, and dates and identifiers are left out. Cells that are
    empty, NA, N/A, NaN, null or ? are missing, and so is, when predicting, a category that is new.

    Rows without a label are used if that helps: by default the model is cross-validated on the
    labelled rows without and with them, and `unlabeled_help_` says what came of it.

    Parameters
    ----------
    %(table_parameters)s
    %(prior_parameters)s
    %(class_parameters)s
    unlabeled_weight : float or "auto", default="auto"
        Weight of each row of whose label nothing is known; 0 leaves them out of the fit. "auto" is
        that of 0, 0.1 and 1 with the least log-loss where labels were hidden, 5 times a fifth.
        Where no class has two labels, none can be hidden, and it is 0.1. "auto" also sets
        `temperature_` and, with alpha="auto", `alpha_`.
    %(em_parameters)s

    Attributes
    ----------
    %(table_attributes)s
    unlabeled_help_ : UnlabeledHelp
        Of "auto": what the model finds without and with rows that have no label, and the weight.
    temperature_ : float
        By which log-odds are divided, so that probabilities are right where labels were hidden:
        naive Bayes is too sure of itself where columns hang together. 1 unless "auto".
    alpha_ : float
        The smoothing of categories: that of 1, 0.1, 0.01 and 0.001 with the least log-loss where
        labels were hidden, if `alpha` and `unlabeled_weight` are "auto".
    label_name_ : str or None
        The name of `y`, if it had one.
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"text": ["a late goal won it", "the violin and the cello", "goal in extra time",
    ...                   "cello and piano, played slowly"], "minutes": [90, 50, 100, None]}
    >>> model = TableClassifier().fit(table, ["sport", "music", None, None])
    >>> [(column.name, column.kind) for column in model.columns_]
    [('text', 'text'), ('minutes', 'number')]
    >>> model.transduction_.tolist()
    ['sport', 'music', 'sport', 'music']
    >>> print(model.explain({"text": "a goal for the violin", "minutes": None}, "music"))
    music (probability 0.99) rather than sport
      before       -0.000
      text the     +5.086
      text goal    -4.926
      text violin  +4.398
      together     +4.558
    """

    alpha: Any = "auto"
    unlabeled_weight: Any = "auto"

    _saved: ClassVar[dict[str, Any]] = {
        **TableKind._saved,
        "label_name_": str | None,
        "unlabeled_help_": UnlabeledHelp,
        "temperature_": float,
        "alpha_": float,
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "unlabeled_weight": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    }

    def _smoothing(self) -> float:
        return getattr(self, "alpha_", 1.0) if self.alpha == "auto" else float(self.alpha)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which all, some or none are labelled.

        Parameters
        ----------
        X : table
            A data frame of pandas or polars, an Arrow table or a dict of lists.
        y : array-like of shape (n,) or (n, K)
            The labels, missing ones as NaN, None, NA or `missing_label`; or evidence.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        name = getattr(y, "name", None)
        self.label_name_ = None if name is None else str(name)
        return super().fit(X, y, sample_weight)

    def _weight_of_unlabeled(self, X: Any, labels: Labels, weight: Array, first: bool) -> float:
        if not first and self.unlabeled_weight == "auto":  # a further batch
            told: UnlabeledHelp | None = getattr(self, "unlabeled_help_", None)
            return 1.0 if told is None else told.weight
        for name in ("unlabeled_help_", "_cut_short"):  # what a fit before left
            self.__dict__.pop(name, None)
        self.temperature_ = 1.0
        self.alpha_ = 1.0 if self.alpha == "auto" else float(self.alpha)
        if self.unlabeled_weight != "auto":
            return float(self.unlabeled_weight)
        if (labels.codes < 0).all():
            return 1.0
        try:
            return self._settle(X, labels, weight)
        except KeyboardInterrupt:  # what is found at once is better than nothing
            self._cut_short = True
            self.unlabeled_help_ = UnlabeledHelp(None, None, 0.0)
            return 0.0

    def _settle(self, X: Any, labels: Labels, weight: Array) -> float:
        """Settle alpha, the temperature and what rows without a label weigh, by hidden labels."""
        table = Prepared(self._columns, self.feature_names_in_, X)
        quick = clone(self).set_params(tol=max(self.tol, 1e-3), warm_start=False)

        def tried(alphas: Sequence[Any], weights: Sequence[float]) -> tuple[Judged | None, Array]:
            pairs = product(alphas, weights)
            each = [clone(quick).set_params(alpha=a, unlabeled_weight=w) for a, w in pairs]
            return judge(each, table, labels, weight)

        counted = any(column.kind in ("category", "yes/no") for column in self._columns)
        alphas = ALPHAS if self.alpha == "auto" and counted else [self.alpha_]
        judged, shares = tried(alphas, [0.0])
        unknown = bool(labels.unknown.any())
        if judged is None or not judged.covers(shares):
            if unknown:
                self.unlabeled_help_ = UnlabeledHelp(None, None, UNTRIED)
            return UNTRIED if unknown else 0.0
        alone = judged.each(shares)
        first = int(np.argmin([alone[0].loss - MARGIN, *(one.loss for one in alone[1:])]))
        best, used, self.alpha_ = alone[first], 0.0, float(alphas[first])
        if unknown:
            judged, _ = tried([self.alpha_], WEIGHTS)
            assert judged is not None
            found = judged.each(shares)
            place = int(np.argmin([one.loss for one in found]))
            other, without = found[place], best.evaluation
            if other.loss < best.loss - MARGIN:
                best, used = other, WEIGHTS[place]
            self.unlabeled_help_ = UnlabeledHelp(without, other.evaluation, used)
        # Naive Bayes is too sure of itself, never too modest.
        self.temperature_ = 1.0 / min(float(best.weights.max()), 1.0)
        return used

    @property
    def _sharpness(self) -> float:
        return 1.0 / getattr(self, "temperature_", 1.0)

    def _look(self, X: Any, wanted: engine.Wanted) -> tuple[Array, Array]:
        if wanted == "joint" or self._sharpness == 1.0:
            return super()._look(X, wanted)
        joint, _ = super()._look(X, "joint")
        found = (normalize if wanted == "posterior" else log_normalize)(joint * self._sharpness)[0]
        prior, log_p = self._params.class_log_prior, log_normalize(joint)[1]
        found[np.isneginf(log_p)] = prior if wanted == "log_posterior" else np.exp(prior)
        return found, log_p

    def _distributions(
        self, labels: Labels, others: Rows, which: npt.NDArray[np.intp] | None
    ) -> Array:
        if self._sharpness == 1.0:
            return super()._distributions(labels, others, which)
        found = super()._distributions(labels, Rows(others.features), which) ** self._sharpness
        if labels.evidence is not None:
            found *= np.exp(labels.log_evidence())
        return np.asarray(found / found.sum(axis=1, keepdims=True))
