"""Base class of the mixtures: unlabelled rows, components, information criteria.

A mixture is the same model as a classifier, fitted without labels; the public classes are in
`mixtures`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import entr
from sklearn.base import DensityMixin
from sklearn.utils import ClassifierTags
from sklearn.utils._param_validation import Interval

from tacit.data.labels import Labels
from tacit.data.validation import check_weight
from tacit.estimators.base import EMEstimator, fit_context
from tacit.models.naive_bayes import ClassCounts, Params

__all__ = ["Mixture"]


@dataclass(eq=False, repr=False, kw_only=True)
class Mixture(DensityMixin, EMEstimator):
    """Base of the mixtures: fits K components to unlabelled rows."""

    n_components: int = field(default=1, kw_only=False)
    max_iter: int = 5000  # latent class models take many rounds, and each is quick
    n_init: int = 10
    init: Any = "random"

    _inits: ClassVar[dict[str, str]] = {
        "random": "each component halfway between all rows and a row drawn at random.",
        "uniform": "all components equal, which is refused: EM would keep them equal.",
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        # Not a classifier; but scikit-learn's checks of sparse input read this of every estimator
        # that has predict_proba.
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _exchangeable(self) -> bool:
        return isinstance(self.init, str) and not self.warm_start

    def _class_attributes(self, params: Params, statistics: ClassCounts) -> dict[str, Any]:
        return {"weights_": np.exp(params.class_log_prior)}

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows without labels.

        Components are ordered by their weight, largest first, unless `init` gives the start.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.
        y : Ignored
            Not used.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        checked = self._check_features(X, reset=True)
        weight = check_weight(sample_weight, checked)
        labels = Labels(np.arange(self.n_components), np.full(checked.shape[0], -1))
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        data = {"X": X, "y": y, "metadata": metadata}
        self._fit_em(checked, labels, weight, None, data, self.init)
        self.lower_bound_ = float(self.lower_bounds_[-1])
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> npt.NDArray[np.intp]:
        """Fit, and return the most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.
        y : Ignored
            Not used.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        p = self.fit(X, sample_weight=sample_weight).label_distributions_
        return np.asarray(p.argmax(axis=1))

    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Return the most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._most_probable(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log-likelihood of the rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.
        y : Ignored
            Not used.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        total, n = self._log_likelihood(X, sample_weight)
        return total / n

    def _log_likelihood(self, X: Any, sample_weight: Any) -> tuple[float, float]:
        """Return the weighted log-likelihood of the rows, and their total weight."""
        scores = self.score_samples(X)
        weight = check_weight(sample_weight, scores)
        return float(scores @ weight), float(weight.sum())

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Return Akaike's information criterion on `X`; lower is better.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        total, _ = self._log_likelihood(X, sample_weight)
        return -2.0 * total + 2.0 * self.n_parameters()

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Return the Bayesian information criterion on `X`; lower is better.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        total, n = self._log_likelihood(X, sample_weight)
        return float(-2.0 * total + self.n_parameters() * np.log(n))

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """Return the integrated completed likelihood: BIC + twice the entropy of the labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        entropy = entr(self.predict_proba(X)).sum(axis=1)
        weight = check_weight(sample_weight, entropy)
        return float(self.bic(X, sample_weight) + 2.0 * entropy @ weight)

    def sample(self, n_samples: int = 1) -> tuple[Any, npt.NDArray[np.intp]]:
        """Draw rows from the model, and the component of each.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of shape (n_samples, d); for tables a dict of lists
        y : ndarray of shape (n_samples,)
        """
        return self._sample_rows(n_samples)
