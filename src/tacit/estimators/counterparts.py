"""The plain scikit-learn estimator of a fitted one, for where tacit is not installed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sklearn.utils.validation import check_is_fitted

__all__ = ["HasCounterpart"]

# Fitted attributes that have the same name and meaning there.
SHARED = [
    *("n_features_in_", "feature_names_in_", "classes_", "class_count_", "class_log_prior_"),
    *("class_prior_", "feature_count_", "feature_log_prob_", "category_count_", "n_categories_"),
    *("theta_", "var_", "epsilon_", "weights_", "means_", "covariances_", "precisions_"),
    *("precisions_cholesky_", "converged_", "n_iter_", "lower_bound_", "lower_bounds_"),
]


class HasCounterpart:
    """An estimator whose fitted form scikit-learn has as well."""

    def to_sklearn(self) -> Any:
        """Return the fitted model as scikit-learn's estimator of the same name.

        It predicts the same, up to rounding, for rows that it takes: those without missing cells
        or categories that training did not have. Its parameters are those of this estimator that
        it knows; it has arrays of its own.

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
            raise ValueError("scikit-learn has no classes of several components: there is no twin.")
        from sklearn import mixture, naive_bayes  # of which mixture takes long to import

        here = type(self).__name__
        theirs = getattr(mixture if here == "GaussianMixture" else naive_bayes, here)
        mine, known = vars(self), theirs._get_param_names()
        twin = theirs(**{name: deepcopy(mine[name]) for name in known if name in mine})
        for name in SHARED:
            if name in mine:
                setattr(twin, name, deepcopy(mine[name]))
        if isinstance(mine.get("alpha"), str):  # a rule of ours: theirs is what came of it
            twin.alpha = mine["_model"].family.alpha.copy()
        return twin
