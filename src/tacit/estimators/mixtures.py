"""The public mixtures: clustering and latent class analysis, one class for each family.

Each joins `Mixture` with a feature type; the fit is in `base`, the families in `tacit.families`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tacit.data.rows import Rows
from tacit.estimators.feature_types import (
    BernoulliFeatures,
    CategoricalFeatures,
    MixedFeatures,
    MultinomialFeatures,
    normal_family,
)
from tacit.estimators.mixture import Mixture
from tacit.estimators.sklearn_export import SklearnExport
from tacit.families import Family
from tacit.families.discriminant import whiten
from tacit.models.naive_bayes import NaiveBayes, Params
from tacit.numerics import Array, log

__all__ = [
    "BernoulliMixture",
    "CategoricalMixture",
    "GaussianMixture",
    "MixedMixture",
    "MultinomialMixture",
]


@dataclass(eq=False, repr=False, kw_only=True)
class BernoulliMixture(Mixture, BernoulliFeatures):
    """Mixture of independent binary features: latent class analysis of binary data.

    Parameters
    ----------
    %(mixture_parameters)s
    alpha : float or array of shape (d,), default=0.0
        Smoothing: added to the count of ones and of zeros. 0, the default, is maximum likelihood,
        as in latent class analysis.
    %(force_alpha)s
    %(binarize)s
    %(em_parameters)s

    Attributes
    ----------
    %(mixture_attributes)s
    feature_count_ : ndarray of shape (K, d)
        Weight of the ones of each feature in each component.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(x_j = 1 | component).
    %(em_attributes)s

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import BernoulliMixture
    >>> X = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    >>> mixture = BernoulliMixture(2, random_state=0).fit(X)
    >>> mixture.weights_.round(6), np.exp(mixture.feature_log_prob_).round(6)
    (array([0.6, 0.4]), array([[0., 0., 1., 1.],
           [1., 1., 0., 0.]]))
    """

    alpha: Any = 0.0


@dataclass(eq=False, repr=False, kw_only=True)
class CategoricalMixture(Mixture, CategoricalFeatures):
    """Mixture of independent categories: latent class analysis.

    Parameters
    ----------
    %(mixture_parameters)s
    alpha : float or array of shape (d,), default=0.0
        Smoothing: added to the count of each category. 0, the default, is maximum likelihood, as
        in latent class analysis.
    %(force_alpha)s
    %(category_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    %(mixture_attributes)s
    category_count_ : list of ndarray of shape (K, v_j)
        Weight of each category of each feature in each component.
    feature_log_prob_ : list of ndarray of shape (K, v_j)
        log p(x_j | component).
    n_categories_ : ndarray of shape (d,)
        v_j, the number of categories of each feature.
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import CategoricalMixture
    >>> X = [[0, 2], [0, 2], [1, 0], [1, 1], [1, 0], [0, 2], [1, 0]]
    >>> CategoricalMixture(2, random_state=0).fit_predict(X)
    array([1, 1, 0, 0, 0, 1, 0])
    """

    alpha: Any = 0.0


@dataclass(eq=False, repr=False, kw_only=True)
class MultinomialMixture(Mixture, MultinomialFeatures):
    """Mixture of multinomials: clusters of texts by their word counts.

    Parameters
    ----------
    %(mixture_parameters)s
    alpha : float or array of shape (d,), default=1.0
        Smoothing: added to the count of each word. 0 is maximum likelihood.
    %(force_alpha)s
    %(em_parameters)s

    Attributes
    ----------
    %(mixture_attributes)s
    feature_count_ : ndarray of shape (K, d)
        Weight of each word in each component.
    feature_log_prob_ : ndarray of shape (K, d)
        log p(word | component).
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import MultinomialMixture
    >>> X = [[3, 0, 1], [2, 1, 0], [0, 3, 2], [0, 2, 3], [1, 3, 3], [4, 0, 0], [0, 4, 2]]
    >>> MultinomialMixture(2, random_state=0).fit_predict(X)
    array([1, 1, 0, 0, 0, 1, 0])
    """


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianMixture(SklearnExport, Mixture):
    """Mixture of normal distributions.

    scikit-learn's class of this name for covariances "full", "tied" and "diag", with missing
    values and weights. `init` takes the place of its `init_params` (the default start is the same:
    k-means); `tol` is stricter and `max_iter` larger than there.

    Each value counts as known up to noise of variance `reg_covar`: `objective_` and
    `lower_bounds_` are the expected log-likelihood under it, which never falls. Where the variances
    of the data are not far above `reg_covar`, the estimates differ from scikit-learn's: lower it.

    Parameters
    ----------
    %(mixture_parameters)s
    covariance_type : {"full", "tied", "diag"}, default="full"
        One covariance for each component, one for all, or variances alone.
    reg_covar : float, default=1e-6
        Added to the variances.
    weights_init, means_init, precisions_init : array-like, default=None
        Given parts of the start, in the shape of `weights_`, `means_`, `precisions_`.
    %(em_parameters)s

    Attributes
    ----------
    %(mixture_attributes)s
    means_ : ndarray of shape (K, d)
        Mean of each component.
    covariances_ : ndarray of shape (K, d, d), (d, d) or (K, d)
        The covariances: full, tied or diag.
    precisions_ : ndarray
        Their inverses.
    precisions_cholesky_ : ndarray
        The factors of the inverses, upper triangular.
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import GaussianMixture
    >>> X = [[1.0, 2.1], [1.2, 1.9], [0.9, 2.0], [3.0, 0.1], [3.2, 0.3], [2.9, 0.2], [3.1, 0.1]]
    >>> GaussianMixture(2, random_state=0).fit_predict(X)
    array([1, 1, 1, 0, 0, 0, 0])
    """

    covariance_type: str = "full"
    reg_covar: float = 1e-6
    weights_init: Any = None
    means_init: Any = None
    precisions_init: Any = None
    n_init: int = 1
    init: Any = "kmeans"

    _inits: ClassVar[dict[str, str]] = {"kmeans": "the clusters of k-means.", **Mixture._inits}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "covariance_type": [StrOptions({"full", "tied", "diag"})],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", None],
    }

    def _exchangeable(self) -> bool:
        given = (self.weights_init, self.means_init, self.precisions_init)
        return super()._exchangeable() and all(part is None for part in given)

    def _family(self) -> Family:
        return normal_family(self.covariance_type, noise=self.reg_covar)

    def _start(self, model: NaiveBayes, rows: Rows, responsibilities: Array) -> Params:
        start = super()._start(model, rows, responsibilities)
        shape = start.features.mean.shape
        K, d = shape
        if self.weights_init is not None:
            weights = _check_init(self.weights_init, (K,), "weights_init")
            if not ((weights >= 0).all() and np.isclose(weights.sum(), 1.0)):
                raise ValueError("weights_init must be non-negative and sum to 1.")
            start = replace(start, class_log_prior=log(weights))
        features = start.features
        if self.means_init is not None:
            features = replace(features, mean=_check_init(self.means_init, shape, "means_init"))
        if self.precisions_init is not None:
            if self.covariance_type == "diag":
                precisions = _check_init(self.precisions_init, shape, "precisions_init")
                if not (precisions > 0).all():
                    raise ValueError("precisions_init must be positive.")
                features = replace(features, variance=1.0 / precisions)
            else:
                own = (d, d) if self.covariance_type == "tied" else (K, d, d)
                precisions = _check_init(self.precisions_init, own, "precisions_init")
                precisions = precisions.reshape(-1, d, d)
                symmetric = np.allclose(precisions, np.swapaxes(precisions, 1, 2))
                if not symmetric or not (np.linalg.eigvalsh(precisions) > 0).all():
                    raise ValueError("precisions_init must be symmetric and positive-definite.")
                features = replace(features, covariance=np.linalg.inv(precisions))
        return replace(start, features=features)

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        if self.covariance_type == "diag":
            covariances, factors = params.variance, 1.0 / np.sqrt(params.variance)
            precisions = factors**2
        else:
            covariances = params.covariance
            inverse, _ = whiten(covariances)
            factors = np.swapaxes(inverse, 1, 2)
            precisions = factors @ inverse
            if self.covariance_type == "tied":
                covariances, factors, precisions = covariances[0], factors[0], precisions[0]
        return {
            "means_": params.mean,
            "covariances_": covariances,
            "precisions_": precisions,
            "precisions_cholesky_": factors,
        }


def _check_init(values: Any, shape: tuple[int, ...], name: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(
            f"The parameter '{name}' should have the shape of {shape}, got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"The parameter '{name}' must be finite.")
    return array


@dataclass(eq=False, repr=False, kw_only=True)
class MixedMixture(Mixture, MixedFeatures):
    """Mixture over columns of different feature types: counts, categories and numbers.

    Parameters
    ----------
    parts : list of (name, mixture, classifier or family, columns)
        The distribution of each set of columns. Of an estimator only its family is used (alpha,
        binarize, var_smoothing, ...); EM is set here. Columns are a name, a number, a list of
        them, a slice or a mask. Columns in no part are left out.
    %(mixture_parameters)s
    %(em_parameters)s

    Attributes
    ----------
    %(mixture_attributes)s
    named_params_ : dict
        The estimated parameters of each part, by its name.
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import CategoricalNB, GaussianNB, MixedMixture
    >>> X = [[0, 1.0], [0, 1.2], [1, 3.0], [1, 3.3], [0, 0.9], [1, 3.1], [1, 3.2]]
    >>> parts = [("colour", CategoricalNB(), [0]), ("size", GaussianNB(var_smoothing=0.1), [1])]
    >>> MixedMixture(parts, 2, random_state=0).fit_predict(X)
    array([1, 1, 0, 0, 1, 0, 0])
    """
