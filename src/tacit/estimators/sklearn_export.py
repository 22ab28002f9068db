"""Export of fitted models to scikit-learn's own estimators, for where tacit is not installed.

Only for models that scikit-learn has; model files of tacit are `tacit.modelfile`'s.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sklearn.utils.validation import check_is_fitted

__all__ = ["SklearnExport"]

# Fitted attributes that have the same name and meaning in scikit-learn.
SHARED = [
    *("n_features_in_", "feature_names_in_", "classes_", "class_count_", "class_log_prior_"),
    *("class_prior_", "feature_count_", "feature_log_prob_", "category_count_", "n_categories_"),
    *("theta_", "var_", "epsilon_", "weights_", "means_", "covariances_", "precisions_"),
    *("precisions_cholesky_", "converged_", "n_iter_", "lower_bound_", "lower_bounds_"),
]


class SklearnExport:
    """Adds `to_sklearn` to estimators that scikit-learn has under the same name."""

    def to_sklearn(self) -> Any:
        """Return the fitted model as scikit-learn's estimator of the same name.

        It predicts the same, up to rounding, for rows that it accepts: those without missing values
        or unseen categories. It gets the parameters that it shares with this estimator, and copies
        of the fitted arrays.

        Returns
        -------
        estimator

        Examples
        --------
        >>> from tacit import MultinomialNB
        >>> nb = MultinomialNB().fit([[2, 0], [0, 3], [1, 0]], ["sport", "music", None])
        >>> nb.to_sklearn()
        MultinomialNB()
        >>> nb.to_sklearn().predict([[1, 0]])
        array(['sport'], dtype='<U5')
        """
        check_is_fitted(self)
        if getattr(self, "components_per_class_", 1) > 1:
            raise ValueError("scikit-learn has no classes of several components to export to.")
        from sklearn import mixture, naive_bayes  # of which mixture takes long to import

        here = type(self).__name__
        theirs = getattr(mixture if here == "GaussianMixture" else naive_bayes, here)
        mine, known = vars(self), theirs._get_param_names()
        twin = theirs(**{name: deepcopy(mine[name]) for name in known if name in mine})
        for name in SHARED:
            if name in mine:
                setattr(twin, name, deepcopy(mine[name]))
        if isinstance(mine.get("alpha"), str):  # scikit-learn has no such rule, and gets its result
            twin.alpha = mine["_model"].family.alpha.copy()
        return twin
