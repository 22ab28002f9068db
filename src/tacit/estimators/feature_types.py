"""Feature types: what classifiers and mixtures of one family have in common.

Each mixin adds a family's parameters and fitted attributes to `EMEstimator`. None is an estimator
by itself, and the mathematics of the families is in `tacit.families`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import _BaseComposition

from tacit import kernels
from tacit.estimators.base import EMEstimator
from tacit.families import (
    Bernoulli,
    Categorical,
    Discriminant,
    Family,
    Gaussian,
    Mixed,
    Multinomial,
)
from tacit.families.mixed import Part
from tacit.io.suggestions import did_you_mean
from tacit.models.naive_bayes import ClassCounts, NaiveBayes, Params
from tacit.numerics import Array, ratio

__all__ = [
    "BernoulliFeatures",
    "CategoricalFeatures",
    "GaussianFeatures",
    "MixedFeatures",
    "MultinomialFeatures",
    "SmoothedFeatures",
    "normal_family",
]


@dataclass(eq=False, repr=False, kw_only=True)
class SmoothedFeatures(EMEstimator):
    """Features whose probabilities are smoothed ratios of counts (S11)."""

    alpha: Any = 1.0
    force_alpha: bool = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "force_alpha": ["boolean"],
    }

    def _alpha(self) -> Any:
        """Return alpha, at least 1e-10 unless `force_alpha`."""
        least = 1e-10
        if self.force_alpha or np.min(self.alpha) >= least:
            return self.alpha
        warnings.warn(
            f"alpha too small will result in numeric errors, setting alpha = {least:.1e}. Use "
            "`force_alpha=True` to keep alpha unchanged.",
            UserWarning,
            stacklevel=2,
        )
        return np.maximum(self.alpha, least)


@dataclass(eq=False, repr=False, kw_only=True)
class SparseFeatures(SmoothedFeatures):
    """Features that may be sparse; the kernels of sparse rows use no BLAS."""

    def _accepts_sparse(self) -> bool:
        return True

    def _needs_blas(self, X: Any) -> bool:
        return not sparse.issparse(X) or kernels.native() is None


@dataclass(eq=False, repr=False, kw_only=True)
class BernoulliFeatures(SparseFeatures):
    """Binary features."""

    binarize: float | None = 0.0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "binarize": [None, Interval(Real, None, None, closed="neither")]
    }

    def _family(self) -> Family:
        return Bernoulli(self._alpha(), self.binarize)

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        return {"feature_count_": statistics.ones, "feature_log_prob_": params.log_p}


# With alpha "auto", the pseudo-counts of a class are this fraction of an average class's words.
RELATIVE = 0.2


@dataclass(eq=False, repr=False, kw_only=True)
class MultinomialFeatures(SparseFeatures):
    """Counts, such as those of words."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alpha": [
            Interval(Real, 0, None, closed="left"),
            "array-like",
            StrOptions({"auto", "background"}),
        ],
    }

    def _family(self) -> Family:
        return Multinomial(self._alpha())

    def _alpha(self) -> Any:
        if not isinstance(self.alpha, str):
            return super()._alpha()
        # In further batches and warm starts, smoothing stays that of the first fit.
        return cast(Multinomial, self._model.family).alpha if hasattr(self, "_model") else 1.0

    def _bound(self, X: Any, weight: Array, K: int) -> Family:
        if not isinstance(self.alpha, str):
            return super()._bound(X, weight, K)
        words = _column_sums(X, weight)
        prior = np.full(len(words), 1.0 / len(words))
        if self.alpha == "background":
            prior = (prior + ratio(words, words.sum(), prior)) / 2
        return Multinomial(RELATIVE * float(words.sum()) / K * prior).bind(X)

    def _first(self, model: NaiveBayes, known: ClassCounts) -> Params:
        """Return the supervised estimate, smoothed by a fraction of the labelled words alone."""
        if not isinstance(self.alpha, str):
            return super()._first(model, known)
        family, totals = cast(Multinomial, model.family), known.features.totals
        all_words = len(totals) * family.alpha.sum() / RELATIVE
        alpha = family.alpha * ratio(totals.sum(), all_words, 1.0)
        return replace(model, family=replace(family, alpha=alpha)).maximize(known)

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        return {"feature_count_": statistics.words, "feature_log_prob_": params.log_p}


def _column_sums(X: Any, weight: Array) -> Array:
    """Return the weighted sum of each column; missing values count as 0."""
    return np.asarray(X.T @ weight if sparse.issparse(X) else weight @ np.nan_to_num(X))


@dataclass(eq=False, repr=False, kw_only=True)
class CategoricalFeatures(SmoothedFeatures):
    """Categorical features."""

    min_categories: Any = None
    handle_unknown: str = "missing"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "min_categories": [None, "array-like", Interval(Real, 1, None, closed="left")],
        "handle_unknown": [StrOptions({"missing", "error"})],
    }

    def _family(self) -> Family:
        return Categorical(self._alpha(), self.min_categories, self.handle_unknown)

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        return tags

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        return {
            "n_categories_": np.array(family.sizes),
            "category_count_": family.split(statistics.counts),
            "feature_log_prob_": family.split(params.log_p),
        }


def normal_family(covariance: str, **settings: Any) -> Family:
    """Return the normal family of a covariance type: "diag", "tied" or "full"."""
    if covariance == "diag":
        return Gaussian(**settings)
    return Discriminant(**settings, tied=covariance == "tied")


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianFeatures(EMEstimator):
    """Normal features, independent within a class."""

    var_smoothing: float = 1e-9

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "var_smoothing": [Interval(Real, 0, None, closed="left")],
    }

    def _family(self) -> Family:
        return normal_family("diag", var_smoothing=self.var_smoothing)

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        return {"theta_": params.mean, "var_": params.variance, "epsilon_": family.noise}


@dataclass(eq=False, repr=False, kw_only=True)
class MixedFeatures(_BaseComposition, EMEstimator):
    """Columns of different feature types."""

    parts: Sequence[tuple[str, Any, Any]] = field(default=(), kw_only=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {"parts": [list, tuple]}

    # get_params and set_params reach into the parts, as in scikit-learn's ColumnTransformer.

    @property
    def _named(self) -> Any:
        try:
            return [(name, model) for name, model, _ in self.parts]
        except (TypeError, ValueError):  # not checked yet; fit will
            return self.parts

    @_named.setter
    def _named(self, value: Any) -> None:
        columns = [part[2] for part in self.parts]
        self.parts = [(name, model, c) for (name, model), c in zip(value, columns, strict=True)]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and with `deep` those of the parts as ``name__parameter``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to go into the parts.

        Returns
        -------
        dict
        """
        params: dict[str, Any] = self._get_params("_named", deep=deep)
        return params

    def set_params(self, **kwargs: Any) -> Any:
        """Set parameters, those of the parts as ``name__parameter``.

        Parameters
        ----------
        **kwargs : dict
            The parameters.

        Returns
        -------
        self
        """
        self._set_params("_named", **kwargs)
        return self

    def _accepts_sparse(self) -> bool:
        return True

    def _family(self) -> Family:
        d, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        if not len(self.parts):
            raise ValueError("parts is empty: expected a list of (name, classifier, columns).")
        parts = []
        for entry in self.parts:
            if not isinstance(entry, tuple | list) or len(entry) != 3:
                raise ValueError(
                    f"A part must be (name, classifier or family, columns): {entry!r}."
                )
            name, model, columns = entry
            if not isinstance(name, str):
                raise TypeError(f"The name of a part must be text, not {name!r}.")
            if not isinstance(model, EMEstimator | Family) or isinstance(
                model, MixedFeatures | Mixed
            ):
                raise TypeError(
                    f"Part {name!r} is {model!r}: expected one of tacit's classifiers, mixtures or "
                    "families, and no mixed one."
                )
            if isinstance(model, EMEstimator):
                model._validate_params()
            alpha = getattr(model, "alpha", None)
            if isinstance(alpha, str):
                raise ValueError(f"Part {name!r} has alpha={alpha!r}: expected a number in a part.")
            family = model._family() if isinstance(model, EMEstimator) else model
            parts.append(Part(name, family, _columns(columns, d, names)))
        self._validate_names([part.name for part in parts])
        used = np.concatenate([part.columns for part in parts])
        twice = np.flatnonzero(np.bincount(used) > 1)
        if len(twice):
            raise ValueError(f"Column {twice[0]} is in more than one part: it would count twice.")
        return Mixed(tuple(parts))

    def _kind(self) -> tuple[Any, ...]:
        kinds = ((n, m._kind() if isinstance(m, EMEstimator) else m.kind) for n, m, _ in self.parts)
        return (Mixed, *kinds)

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        return {"named_params_": {p.name: own for p, own in zip(family.parts, params, strict=True)}}


def _columns(columns: Any, d: int, names: Any) -> npt.NDArray[np.intp]:
    """Return the indices of columns that are given by name, number, slice or mask."""
    wanted: Any = [columns] if isinstance(columns, str) else columns
    if not isinstance(wanted, slice | int | np.integer) or isinstance(wanted, bool):
        wanted = list(wanted) if hasattr(wanted, "__iter__") else [wanted]
        if any(isinstance(c, list | tuple | np.ndarray) or c is None for c in wanted):
            raise ValueError(f"Columns {columns!r}: expected names, numbers, a slice or a mask.")
    if isinstance(wanted, list) and any(isinstance(c, str) for c in wanted):
        if names is None:
            raise ValueError(
                f"Columns {list(wanted)} are given by name, but X has no column names."
            )
        place = {name: j for j, name in enumerate(names)}
        for name in wanted:
            if name not in place:
                raise ValueError(f"X has no column {name!r}{did_you_mean(str(name), place)}")
        return np.array([place[name] for name in wanted], dtype=np.intp)
    try:
        chosen = np.atleast_1d(np.arange(d)[wanted])
    except IndexError as error:
        raise ValueError(f"Columns {columns!r} do not fit X with {d} features: {error}.") from None
    if not len(chosen):
        raise ValueError(f"Columns {columns!r} choose nothing out of {d} features.")
    return chosen.astype(np.intp)
