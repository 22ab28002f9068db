"""Naive Bayes classifiers as scikit-learn has them, whose `y` may have missing entries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_consistent_length

from tacit.base import EMEstimator, count_known, fit_context, select
from tacit.families import Family
from tacit.kinds import (
    BernoulliKind,
    CategoricalKind,
    GaussianKind,
    MixedKind,
    MultinomialKind,
    normal_family,
)
from tacit.labels import Labels, encode
from tacit.naivebayes import ClassCounts, NaiveBayes, Params
from tacit.numerics import Array, log
from tacit.rows import Rows

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "GaussianDiscriminant",
    "GaussianNB",
    "MixedNB",
    "MultinomialNB",
]

LABEL_PARAMETERS = """
    classes : array-like, default=None
        The class names, including ones that no label names; None: those in `y`.
    missing_label : scalar or list, default=None
        A value of `y` (or several) that means: missing. NaN, None and pandas' NA always do.
    unlabeled_weight : float, default=1.0
        Weight of each row of whose label nothing is known; 0 leaves them out of the fit.
""".strip("\n")

LABEL_ATTRIBUTES = """
    classes_ : ndarray of shape (K,)
        The class names, sorted.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class, those without label by their probabilities.
    transduction_ : ndarray of shape (n,)
        The label of each training row: the given one, or the most probable.
""".strip("\n")


def check_weight(sample_weight: Any, X: Any) -> Array:
    """Return weights as an array; they must be non-negative and not all zero."""
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(f"sample_weight must not be negative. Found {weight.min()}.")
    if not np.isfinite(weight.sum()):
        raise ValueError("The sum of sample_weight overflows: scale the weights down.")
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    return weight


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, EMEstimator):
    """Base of the classifiers: labels in, labels out."""

    classes: Any = None
    missing_label: Any = None
    unlabeled_weight: float = 1.0

    _inits: ClassVar[dict[str, str]] = {
        "labels": "the supervised estimate; classes without labels start at random.",
        "uniform": "every class alike (needs labels to tell them apart).",
        "random": "each class halfway between all rows and a row drawn at random.",
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "unlabeled_weight": [Interval(Real, 0, None, closed="left")],
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fill the shared part of the docstring in."""
        if cls.__doc__:
            doc = cls.__doc__.replace("    %(label_parameters)s", LABEL_PARAMETERS)
            cls.__doc__ = doc.replace("    %(label_attributes)s", LABEL_ATTRIBUTES)
        super().__init_subclass__(**kwargs)

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _given_prior(self, K: int) -> Array | None:
        """Return the class prior if it is not to be estimated."""
        raise NotImplementedError

    def _checked_prior(self, labels: Labels) -> Array | None:
        prior = self._given_prior(len(labels.classes))
        if prior is None:
            return None
        if prior.shape != labels.classes.shape:
            raise ValueError(
                f"Number of priors must match number of classes. Got shape {prior.shape} for "
                f"{len(labels.classes)} classes."
            )
        if not (prior >= 0).all():
            raise ValueError("Priors must be non-negative.")
        if not np.isclose(prior.sum(), 1.0):
            raise ValueError(f"The sum of the priors should be 1. Got {prior.sum()}.")
        with_label = labels.codes >= 0 if labels.evidence is None else slice(None)
        possible = np.exp(labels.log_evidence()[with_label]) @ prior
        if not possible.all():
            names = labels.classes[prior == 0].tolist()
            raise ValueError(f"The prior of {names} is 0, but rows can have no other class.")
        return prior

    def _class_attributes(self, params: Params, statistics: ClassCounts) -> dict[str, Any]:
        return {
            "class_count_": statistics.classes,
            "class_log_prior_": params.class_log_prior,
        }

    def _check(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, reset: bool
    ) -> tuple[Any, Labels, Array]:
        """Return checked features, labels and weights."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None. To find groups without labels, use a mixture."
            )
        X = self._check_features(X, reset)
        labels = encode(y, classes, self.missing_label)
        check_consistent_length(X, labels.codes)
        weight = check_weight(sample_weight, X)
        weight = np.where(labels.unknown, weight * self.unlabeled_weight, weight)
        return X, labels, weight

    @fit_context
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which all, some or none are labelled.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing cell.
        y : array-like of shape (n,) or (n, K)
            The labels, missing ones as NaN, None, NA or `missing_label`. With two dimensions,
            evidence: y[i, k] >= 0 says how well row i goes with class k (columns as `classes`,
            else 0 .. K-1): one-hot is a label, all equal is a missing one, zeros and ones are
            candidates. A row's scale does not matter.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        checked, labels, weight = self._check(X, y, sample_weight, self.classes, reset=True)
        if not weight.any():
            raise ValueError(
                "No row has both a label and a weight: label some rows, or set unlabeled_weight "
                "above 0."
            )
        prior = self._checked_prior(labels)
        self.classes_ = labels.classes
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        data = {"X": X, "y": y, "metadata": metadata}
        self._fit_em(checked, labels, weight, prior, data)
        best = self.label_distributions_.argmax(axis=1)
        self.transduction_ = self.classes_[best]
        return self

    @fit_context
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add a batch of rows: labelled ones by their counts, others by their expected counts.

        The labelled rows of a batch are added first; what is expected of the others follows from
        the parameters then.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing cell.
        y : array-like of shape (n,) or (n, K)
            The labels, as in `fit`.
        classes : array-like, default=None
            All class names; needed in the first call if the constructor did not name them.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        first = not hasattr(self, "_model")
        named = classes if classes is not None else self.classes
        if first and named is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if not first:
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(
                    f"`classes={classes!r}` is not the same as on last call to partial_fit, was: "
                    f"{self.classes_!r}"
                )
            named = self.classes_
        checked, labels, weight = self._check(X, y, sample_weight, named, reset=first)
        prior = self._checked_prior(labels)
        if first:
            family, counts = self._family().bind(checked), None
        else:
            family = self._family().adopt(self._model.family)
            family, features = family.extend(checked, self._statistics.features)
            counts = replace(self._statistics, features=features)
        model = NaiveBayes(family, self.class_alpha, prior, self.assignment == "hard")
        rows = Rows(family.encode(checked), None, weight)
        labelled = labels.codes >= 0
        if counts is not None:
            now = model.maximize(counts)
        elif weight[labelled].any():
            now = model.maximize(count_known(model, rows, labelled, labels))
        else:
            raise ValueError("The first call to partial_fit needs rows with labels.")
        known = labelled & family.complete(rows.features)
        if weight[known].any():
            new = count_known(model, rows, known, labels, now)
            counts = new if counts is None else counts + new
            now = model.maximize(counts)
        if weight[~known].any():
            for chunk in select(rows, ~known, labels).chunks():
                new = model.expect(now, chunk)
                counts = new if counts is None else counts + new
        assert counts is not None
        self.classes_ = labels.classes
        self._fitted_on = labels.classes.tolist(), checked.shape[1]
        self._set(self._attributes(model, model.maximize(counts), counts))
        return self

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing cell.

        Returns
        -------
        ndarray of shape (n,)
        """
        best = self._most_probable(X)
        return self.classes_[best]

    def predict_log_proba(self, X: Any) -> Array:
        """Return log p(y | x) of each row and class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing cell.

        Returns
        -------
        ndarray of shape (n, K)
        """
        posterior, log_p, joint = self._posterior(X)
        impossible = np.isneginf(log_p)
        result = joint - np.where(impossible, 0.0, log_p)[:, None]
        result[impossible] = log(posterior[impossible])
        return result

    def sample(self, n_samples: int = 1) -> tuple[Array, Any]:
        """Draw rows and labels that look like the data.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of shape (n_samples, d)
        y : ndarray of shape (n_samples,)
        """
        X, drawn = self._draw(n_samples)
        return X, self.classes_[drawn]


@dataclass(eq=False, repr=False, kw_only=True)
class DiscreteClassifier(Classifier):
    """Base of the classifiers that have scikit-learn's `fit_prior` and `class_prior`."""

    fit_prior: bool = True
    class_prior: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "fit_prior": ["boolean"],
        "class_prior": ["array-like", None],
    }

    def _given_prior(self, K: int) -> Array | None:
        if self.class_prior is not None:
            return np.asarray(self.class_prior, dtype=np.float64)
        return None if self.fit_prior else np.full(K, 1.0 / K)


@dataclass(eq=False, repr=False, kw_only=True)
class NormalClassifier(Classifier):
    """Base of the classifiers that have scikit-learn's `priors`."""

    priors: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {"priors": ["array-like", None]}

    def _given_prior(self, K: int) -> Array | None:
        return None if self.priors is None else np.asarray(self.priors, dtype=np.float64)

    def _class_attributes(self, params: Params, statistics: ClassCounts) -> dict[str, Any]:
        shared = super()._class_attributes(params, statistics)
        return {**shared, "class_prior_": np.exp(params.class_log_prior)}


@dataclass(eq=False, repr=False, kw_only=True)
class BernoulliNB(DiscreteClassifier, BernoulliKind):
    """Naive Bayes for features that are there or not; absence counts too.

    scikit-learn's class of this name, whose `y` may have missing entries: the rows without label
    take part by EM. With complete labels the numbers are the same.

    Parameters
    ----------
    alpha : float or array of shape (d,), default=1.0
        Smoothing: added to the count of ones and of zeros. 0 is maximum likelihood.
    force_alpha : bool, default=True
        If False, alpha is at least 1e-10.
    binarize : float or None, default=0.0
        Values above it are 1, others 0. None: they are 0 and 1, or -1 and +1, already.
    fit_prior : bool, default=True
        Whether to estimate the class prior; else it is uniform.
    class_prior : array-like of shape (K,), default=None
        The class prior, if it is known.
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    feature_count_ : ndarray of shape (K, d)
        Weight of the ones of each feature in each class.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(x_j = 1 | y).
    class_log_prior_ : ndarray of shape (K,)
        log p(y).
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
class CategoricalNB(DiscreteClassifier, CategoricalKind):
    """Naive Bayes for features that are one of several categories, coded 0, 1, 2, ...

    scikit-learn's class of this name, whose `y` may have missing entries: the rows without label
    take part by EM. With complete labels the numbers are the same.

    Parameters
    ----------
    alpha : float or array of shape (d,), default=1.0
        Smoothing: added to the count of each category. 0 is maximum likelihood.
    force_alpha : bool, default=True
        If False, alpha is at least 1e-10.
    fit_prior : bool, default=True
        Whether to estimate the class prior; else it is uniform.
    class_prior : array-like of shape (K,), default=None
        The class prior, if it is known.
    min_categories : int or array-like of shape (d,), default=None
        Least number of categories of each feature; else as many as the data show.
    handle_unknown : {"missing", "error"}, default="missing"
        What a category is, when predicting, that the training rows did not have.
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
    class_log_prior_ : ndarray of shape (K,)
        log p(y).
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
class MultinomialNB(DiscreteClassifier, MultinomialKind):
    """Naive Bayes for counts, such as those of the words of a text.

    scikit-learn's class of this name, whose `y` may have missing entries: the rows without label
    take part by EM. With complete labels the numbers are the same.

    Parameters
    ----------
    alpha : float or array of shape (d,), default=1.0
        Smoothing: added to the count of each word. 0 is maximum likelihood.
    force_alpha : bool, default=True
        If False, alpha is at least 1e-10.
    fit_prior : bool, default=True
        Whether to estimate the class prior; else it is uniform.
    class_prior : array-like of shape (K,), default=None
        The class prior, if it is known.
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    feature_count_ : ndarray of shape (K, d)
        Weight of each word in each class.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(word | y).
    class_log_prior_ : ndarray of shape (K,)
        log p(y).
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


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianNB(NormalClassifier, GaussianKind):
    """Naive Bayes for numbers: a mean and a variance for each feature and class.

    scikit-learn's class of this name, whose `y` may have missing entries: the rows without label
    take part by EM. With complete labels the numbers are the same.

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
    fit_prior : bool, default=True
        Whether to estimate the class prior; else it is uniform.
    class_prior : array-like of shape (K,), default=None
        The class prior, if it is known.
    %(label_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    named_params_ : dict
        The estimated parameters of each part, by its name.
    class_log_prior_ : ndarray of shape (K,)
        log p(y).
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
