"""The public naive Bayes classifiers: scikit-learn's, with `y` that may have missing entries.

Each joins `ComponentClassifier` with a prior and a feature type; the fit is in `base`, the families
in `tacit.families`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, cast

from sklearn.utils._param_validation import Interval, StrOptions

from tacit import em
from tacit.estimators.classifier import DiscreteClassifier, NormalClassifier
from tacit.estimators.components import ComponentClassifier
from tacit.estimators.feature_types import (
    BernoulliFeatures,
    CategoricalFeatures,
    GaussianFeatures,
    MixedFeatures,
    MultinomialFeatures,
    normal_family,
)
from tacit.estimators.sklearn_export import SklearnExport
from tacit.families import Family, Multinomial
from tacit.models.naive_bayes import Params
from tacit.models.split import Split

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "GaussianDiscriminant",
    "GaussianNB",
    "MixedNB",
    "MultinomialNB",
]

# Tempered rounds at most, and the expected rise in nats a row below which they end.
ANNEALING_ROUNDS = 8
ANNEALING_TOL = 1e-2


@dataclass(eq=False, repr=False, kw_only=True)
class BernoulliNB(SklearnExport, ComponentClassifier, DiscreteClassifier, BernoulliFeatures):
    """Naive Bayes for binary features, absent ones included.

    %(drop_in)s

    Parameters
    ----------
    alpha : float or array of shape (d,), default=1.0
        Smoothing: added to the count of ones and of zeros. 0 is maximum likelihood.
    %(force_alpha)s
    %(binarize)s
    %(prior_parameters)s
    %(label_parameters)s
    %(component_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    feature_count_ : ndarray of shape (K, d)
        Weight of the ones of each feature in each class.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(x_j = 1 | y).
    %(label_attributes)s
    %(component_attributes)s
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
class CategoricalNB(SklearnExport, ComponentClassifier, DiscreteClassifier, CategoricalFeatures):
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
    %(component_parameters)s
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
    %(component_attributes)s
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
class MultinomialNB(SklearnExport, ComponentClassifier, DiscreteClassifier, MultinomialFeatures):
    """Naive Bayes for counts, such as those of the words of a text.

    %(drop_in)s

    Parameters
    ----------
    alpha : float, array of shape (d,), "auto" or "background", default=1.0
        Smoothing: added to the count of each word. 0 is maximum likelihood. "auto" adds
        pseudo-counts of a fifth of the average number of words in a class, spread evenly over the
        vocabulary; "background" spreads half of them as words are distributed in all rows. Neither
        depends on the length of rows or the weight of unlabelled ones; the supervised start is
        smoothed relative to the labelled words alone.
    %(force_alpha)s
    %(prior_parameters)s
    %(label_parameters)s
    %(component_parameters)s
    tempering : float, default=1.0
        Below 1, EM begins with up to 8 rounds in which the log-likelihood of a row is multiplied by
        this and the class prior is held near uniform, so that posteriors stay soft at first
        (deterministic annealing). Those rounds are not in `trace_`.
    %(em_parameters)s

    Attributes
    ----------
    feature_count_ : ndarray of shape (K, d)
        Weight of each word in each class.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(word | y).
    %(label_attributes)s
    %(component_attributes)s
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

    def _annealed(self, split: Split, start: Params | None) -> Params | None:
        if self.tempering == 1 or start is None:
            return start
        model, chunks, fixed = split.model, split.chunks, split.fixed
        size = sum(len(rows) if rows.weight is None else rows.weight.sum() for rows in chunks)
        if fixed is not None:
            size += fixed.classes.sum()
            fixed = replace(fixed, features=fixed.features.scaled(self.tempering))
        K = len(start.class_log_prior)
        family = cast(Multinomial, model.family)
        family = replace(family, alpha=self.tempering * family.alpha)
        held = replace(model, family=family, class_alpha=model.class_alpha + size / K)
        short = [rows.scaled(self.tempering) for rows in chunks]
        tol = ANNEALING_TOL * size
        settings: dict[str, Any] = {"max_iter": ANNEALING_ROUNDS, "tol": tol, "n_jobs": self.n_jobs}
        fit = em.fit(held, short, start, fixed=fixed, **settings)
        if fit.interrupted:
            raise KeyboardInterrupt
        counts = fit.statistics
        full = counts.features.scaled(1.0 / self.tempering)
        return model.maximize(replace(counts, features=full))


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianNB(SklearnExport, ComponentClassifier, NormalClassifier, GaussianFeatures):
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
    %(component_parameters)s
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
    %(component_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import GaussianNB
    >>> X = [[1.0, 2.1], [1.2, 1.9], [0.9, 2.0], [3.0, 0.1], [3.2, 0.3], [2.9, 0.2]]
    >>> GaussianNB().fit(X, [0, None, None, 1, None, None]).transduction_
    array([0, 0, 0, 1, 1, 1])
    """


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianDiscriminant(ComponentClassifier, NormalClassifier):
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
    %(component_parameters)s
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
    %(component_attributes)s
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
class MixedNB(ComponentClassifier, DiscreteClassifier, MixedFeatures):
    """Naive Bayes for columns of different feature types: counts, categories and numbers.

    Parameters
    ----------
    parts : list of (name, classifier or family, columns)
        The distribution of each set of columns. Of a classifier only its family is used (alpha,
        binarize, var_smoothing, ...); the class prior and EM are set here. Columns are a name, a
        number, a list of them, a slice or a mask. Columns in no part are left out.
    %(prior_parameters)s
    %(label_parameters)s
    %(component_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    named_params_ : dict
        The estimated parameters of each part, by its name.
    %(label_attributes)s
    %(component_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import CategoricalNB, GaussianNB, MixedNB
    >>> X = [[0, 1.0], [0, 1.2], [1, 3.0], [1, 3.3], [0, 0.9], [1, 3.1]]
    >>> nb = MixedNB([("colour", CategoricalNB(), [0]), ("size", GaussianNB(), [1])])
    >>> nb.fit(X, ["a", None, "b", None, None, None]).transduction_
    array(['a', 'a', 'b', 'b', 'a', 'b'], dtype='<U1')
    """
