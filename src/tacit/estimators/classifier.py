"""Base classes of the classifiers: labels that may be missing, priors, batches, prior shift.

`Classifier` encodes labels and chooses the weight of unlabelled rows; the fit itself is `base`'s.
Classes that are mixtures are in `components`, the public classes in `classifiers`.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length

from tacit.data.labels import Labels, encode, given_labels
from tacit.data.rows import Rows
from tacit.data.validation import check_weight
from tacit.estimators.base import EMEstimator, fit_context
from tacit.models.naive_bayes import ClassCounts, NaiveBayes, Params
from tacit.models.split import count_labelled, select
from tacit.numerics import Array, ratio
from tacit.selection.candidates import Stacked, evaluate_candidate
from tacit.selection.cross_validation import UnlabeledHelp, detached_clone
from tacit.selection.stacking import estimate_class_prior

__all__ = ["Classifier", "DiscreteClassifier", "LabelScores", "NormalClassifier"]

# Candidate weights of unlabelled rows for unlabeled_weight="auto".
WEIGHTS = (0.0, 0.1, 1.0)
# Attributes of one fit, which partial_fit invalidates.
FIT_ONLY = [
    *("trace_", "lower_bounds_", "objective_", "log_likelihood_", "n_iter_", "converged_"),
    *("start_objectives_", "n_best_starts_", "label_distributions_", "transduction_"),
    "_known_labels",
]


class LabelScores(ClassifierMixin):
    """Adds `score`, the accuracy on the rows that have a label."""

    missing_label: Any

    @abstractmethod
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict` on the labelled rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing value.
        y : array-like of shape (n,)
            The labels. Rows whose label is missing do not count.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score  # here, as it takes long to import

        truth, known = given_labels(y, self.missing_label)
        if not len(truth):
            raise ValueError("Every label is missing: there is nothing to compare with.")
        found = self.predict(X)
        check_consistent_length(found, known, sample_weight)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(truth, found[known], sample_weight=weight))


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(LabelScores, EMEstimator):
    """Base of the classifiers: fits to labels of which some may be missing."""

    classes: Any = None
    missing_label: Any = None
    unlabeled_weight: Any = 1.0

    _saved: ClassVar[dict[str, Any]] = {"unlabeled_help_": UnlabeledHelp}
    _inits: ClassVar[dict[str, str]] = {
        "labels": "the supervised estimate; classes that no label names and no evidence favours "
        "start at random.",
        "uniform": "every class alike (needs labels to tell them apart).",
        "random": "each class halfway between all rows and a row drawn at random.",
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "unlabeled_weight": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    }

    @abstractmethod
    def _given_prior(self, K: int) -> Array | None:
        """Return the class prior if it is given, None if it is to be estimated."""

    def _check_prior(self, labels: Labels) -> Array | None:
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
        possible = prior[labels.codes[labels.codes >= 0]]
        if labels.evidence is not None:
            possible = np.exp(labels.evidence) @ prior
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
                "is None. To find clusters without labels, use a mixture."
            )
        X = self._check_features(X, reset)
        labels = encode(y, classes, self.missing_label)
        check_consistent_length(X, labels.codes)
        weight = check_weight(sample_weight, X)
        X, unlabeled = self._weigh_unlabelled(X, labels, weight, reset)
        if unlabeled != 1.0:
            weight = np.where(labels.unknown, weight * unlabeled, weight)
        return X, labels, weight

    def _weigh_unlabelled(
        self, X: Any, labels: Labels, weight: Array, first: bool
    ) -> tuple[Any, float]:
        """Return the rows as the model takes them, and the weight of an unlabelled row."""
        if self.unlabeled_weight != "auto":
            return X, float(self.unlabeled_weight)
        if not first:  # a further batch
            return X, self.unlabeled_help_.weight
        self.unlabeled_help_: UnlabeledHelp = self._measure_unlabeled_help(X, labels, weight)
        return X, self.unlabeled_help_.weight

    def _measure_unlabeled_help(self, X: Any, labels: Labels, weight: Array) -> UnlabeledHelp:
        """Return which weight of unlabelled rows predicts held-out labels best, and how well."""
        tried: list[Stacked] = []
        for given in WEIGHTS if labels.unknown.any() else ():
            model = detached_clone(self, labels).set_params(
                unlabeled_weight=given, warm_start=False
            )
            found = evaluate_candidate(model, X, labels, weight)
            if found is None:
                break
            tried.append(found)
        if not tried:
            return UnlabeledHelp(None, None, 1.0)
        place = 1 + int(np.argmin([other.loss for other in tried[1:]]))
        used = tried[place].beats(tried[0])
        pair = tried[0].evaluation, tried[place].evaluation
        return UnlabeledHelp(*pair, WEIGHTS[place] if used else 0.0)

    @fit_context
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which all, some or none are labelled.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing value.
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
        prior = self._check_prior(labels)
        self.classes_ = labels.classes
        self._named_classes = labels.classes if self.classes is None else self.classes
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        data = {"X": X, "y": y, "metadata": metadata}
        parts, prior, init = self._expand_components(checked, labels, weight, prior)
        self._fit_em(checked, parts, weight, prior, data, init)
        known = labels.codes >= 0
        best = labels.codes if known.all() else self.label_distributions_.argmax(axis=1)
        self.transduction_ = self.classes_[best]
        return self

    def _expand_components(
        self, X: Any, labels: Labels, weight: Array, prior: Array | None
    ) -> tuple[Labels, Array | None, Any]:
        """Return labels, class prior and start for EM; components expand them."""
        return labels, prior, self.init

    def _check_batches(self) -> None:
        """Raise ValueError if rows cannot be added in batches."""

    @fit_context
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Update the model with a batch: labelled rows by their counts, others by expected counts.

        The labelled rows of a batch are added first; the expected counts of the others are taken
        under the parameters after that.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing value.
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
        self._check_batches()
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
            named = named if named is not None else self._named_classes
        checked, labels, weight = self._check(X, y, sample_weight, named, reset=first)
        prior = self._check_prior(labels)
        if first:
            every = np.ones(len(weight))
            family, counts = self._bound(checked, every, len(labels.classes)), None
        else:
            family = self._family().adopt(self._model.family)
            family, features = family.extend(checked, self._statistics.features)
            counts = replace(self._statistics, features=features)
        model = NaiveBayes(family, self.class_alpha, prior, self.assignment == "hard")
        rows = Rows(family.encode(checked), None, weight)
        if counts is not None:
            now = model.maximize(counts)
        elif weight[~labels.unknown].any():  # start from labels and evidence
            evidence = np.exp(labels.log_evidence()) * ~labels.unknown[:, None]
            now = model.start(rows, evidence / np.maximum(evidence.sum(axis=1, keepdims=True), 1.0))
        else:
            raise ValueError("The first call to partial_fit needs rows with labels.")
        known = (labels.codes >= 0) & family.complete(rows.features)
        if weight[known].any():
            new = count_labelled(model, rows, known, labels)
            counts = new if counts is None else model.recentre(counts, new) + new
            now = model.maximize(counts)
        if weight[~known].any():
            for chunk in select(rows, ~known, labels).chunks():
                new = model.expect(now, chunk)
                counts = new if counts is None else model.recentre(counts, new) + new
        assert counts is not None
        self.classes_, self._named_classes = labels.classes, named
        self._fitted_on = labels.classes.tolist(), checked.shape[1]
        self._set(self._attributes(model, model.maximize(counts), counts))
        for name in FIT_ONLY:  # of an earlier fit
            self.__dict__.pop(name, None)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            The rows; NaN is a missing value.

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
            The rows; NaN is a missing value.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._predict_rows(X, "log_posterior")[0]

    def adapt_prior(self, X: Any) -> Self:
        """Return a copy whose class prior is adapted to new rows (prior shift).

        The prior is estimated by EM on the new rows (Saerens, Latinne and Decaestecker 2002); the
        distributions of features in each class stay.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            New rows, without labels; NaN is a missing value.

        Returns
        -------
        classifier
            With the estimated class prior.

        Examples
        --------
        >>> from tacit import BernoulliNB
        >>> nb = BernoulliNB().fit([[1, 0], [1, 1], [0, 1], [0, 0]], ["spam", "spam", "ham", "ham"])
        >>> new = nb.adapt_prior([[1, 0], [1, 1], [1, 0], [0, 1]])
        >>> np.exp(new.class_log_prior_).round(2)
        array([0., 1.])
        """
        posterior, model = self.predict_proba(X), self._model
        parts = np.exp(self._params.class_log_prior).reshape(posterior.shape[1], -1)
        old = parts.sum(axis=1)
        shares = estimate_class_prior(posterior, self._prior_of_posteriors(old))
        prior = parts * ratio(shares, old, 0.0)[:, None]
        model, other = replace(model, class_prior=prior.ravel() / prior.sum()), copy(self)
        other._set(self._attributes(model, model.maximize(self._statistics), self._statistics))
        return other

    def _prior_of_posteriors(self, prior: Array) -> Array:
        """Return the class prior that is part of p(y | x)."""
        return prior

    def sample(self, n_samples: int = 1) -> tuple[Any, npt.NDArray[Any]]:
        """Draw rows and labels from the model.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of shape (n_samples, d); for tables a dict of lists
        y : ndarray of shape (n_samples,)
        """
        X, drawn = self._sample_rows(n_samples)
        return X, self.classes_[drawn // (len(self._params.class_log_prior) // len(self.classes_))]


@dataclass(eq=False, repr=False, kw_only=True)
class DiscreteClassifier(Classifier):
    """Base of the classifiers that have scikit-learn's `fit_prior` and `class_prior`."""

    fit_prior: bool = True
    class_prior: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "fit_prior": ["boolean"],
        "class_prior": ["array-like", None],
    }

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, whose discrete ones score poorly on blobs too."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

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
