"""Classifiers whose classes are mixtures of M components each, estimated by EM.

A label gives the class of a row and leaves its component open: it is equal evidence for all
components of the class. So this is a model of K M classes, M of which share a name. Everything else
is `classifier`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions

from tacit import kernels
from tacit.data.labels import Labels
from tacit.data.rows import Rows
from tacit.estimators.classifier import Classifier
from tacit.models.starts import split_classes
from tacit.numerics import Array, ratio
from tacit.selection.candidates import Stacked, evaluate_candidate
from tacit.selection.cross_validation import detached_clone

__all__ = ["MOST_PARTS", "ComponentClassifier", "sum_components"]

# The largest number of components that "auto" tries.
MOST_PARTS = 5


def sum_components(table: Array, components: int, output: kernels.Output = "joint") -> Array:
    """Return the scores of classes, shape (n, K), from those of components, (n, K M).

    Examples
    --------
    >>> sum_components(np.array([[0.1, 0.2, 0.3, 0.4]]), 2, "posterior")
    array([[0.3, 0.7]])
    """
    if components == 1:
        return table
    each = table.reshape(len(table), -1, components)
    return np.asarray(each.sum(axis=2) if output == "posterior" else logsumexp(each, axis=2))


@dataclass(eq=False, repr=False, kw_only=True)
class ComponentClassifier(Classifier):
    """Base of classifiers whose classes may have several components."""

    components_per_class: Any = 1

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "components_per_class": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }
    _saved: ClassVar[dict[str, Any]] = {**Classifier._saved, "components_per_class_": int}

    def _expand_components(
        self, X: Any, labels: Labels, weight: Array, prior: Array | None
    ) -> tuple[Labels, Array | None, Any]:
        M = self.components_per_class
        self.components_per_class_ = M = (
            self._choose_components(X, labels, weight) if M == "auto" else int(M)
        )
        if M == 1:
            return super()._expand_components(X, labels, weight, prior)
        numbers = np.arange(M * len(labels.classes))
        evidence = np.repeat(labels.log_evidence(), M, axis=1)
        parts = Labels(numbers, np.full(len(weight), -1), evidence)
        given = None if prior is None else np.repeat(prior / M, M)
        return parts, given, self._component_start(X, labels, weight)

    def _distributions(
        self, labels: Labels, others: Rows, which: npt.NDArray[np.intp] | None
    ) -> Array:
        found = sum_components(
            super()._distributions(labels, others, which), self._n_components, "posterior"
        )
        # The posterior of a known label is exactly 1, whatever the rounding of a sum.
        return (
            found
            if self._n_components == 1
            else ratio(found, found.sum(axis=1, keepdims=True), 0.0)
        )

    def _choose_components(self, X: Any, labels: Labels, weight: Array) -> int:
        """Return the number of components under which held-out labels are most probable."""
        best: Stacked | None = None
        for M in range(1, MOST_PARTS + 1):
            model = self._single_component(labels).set_params(components_per_class=M)
            found = evaluate_candidate(model, X, labels, weight)
            if found is None or (best is not None and not found.beats(best)):
                return max(M - 1, 1)
            best = found
        return MOST_PARTS

    def _component_start(
        self, X: Any, labels: Labels, weight: Array
    ) -> Callable[[Any, int, np.random.RandomState], Array]:
        """Return a start for EM: each class of the one-component model, split into M components."""
        if (labels.codes >= 0).all():
            posterior: Array = np.eye(len(labels.classes)).take(labels.codes, axis=0)
        else:
            whole = self._single_component(labels)
            try:
                posterior = whole.fit(X, labels.known, sample_weight=weight).label_distributions_
            except KeyboardInterrupt:  # without the message about the copy's parameters
                raise KeyboardInterrupt from None

        def start(rows: Any, parts: int, rng: np.random.RandomState) -> Array:
            return split_classes(rows, posterior, weight, parts // posterior.shape[1], rng)

        return start

    def _single_component(self, labels: Labels) -> Any:
        """Return an unfitted copy with one component a class, for rows weighted already."""
        return detached_clone(self, labels).set_params(components_per_class=1, unlabeled_weight=1.0)

    def _predict_rows(self, X: Any, output: kernels.Output) -> tuple[Array, Array]:
        table, log_p = super()._predict_rows(X, output)
        return sum_components(table, self._n_components, output), log_p

    @property
    def _n_components(self) -> int:
        return getattr(self, "components_per_class_", 1)

    @property
    def _log_prior(self) -> Array:
        """Log p(y), of shape (K,)."""
        return np.asarray(
            sum_components(self._params.class_log_prior[None, :], self._n_components)[0]
        )

    def _check_batches(self) -> None:
        if self.components_per_class != 1 or self._n_components != 1:
            raise ValueError("partial_fit needs components_per_class=1: use fit on all rows.")
