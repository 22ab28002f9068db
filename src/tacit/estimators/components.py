"""Classes that are several topics in one: each is a mixture of components, found by EM.

A label says of which class a row is, and leaves open of which of its components: it is evidence for
all of them alike. So a model with M components a class is a model of K M classes, of which M at a
time have one name.
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
from tacit.models.starts import cut
from tacit.numerics import Array, ratio
from tacit.selection.candidates import Stacked, evaluate_candidate
from tacit.selection.cross_validation import detached_clone

__all__ = ["MOST_PARTS", "ComponentClassifier", "joined"]

# Components that "auto" tries at most.
MOST_PARTS = 5


def joined(table: Array, components: int, wanted: kernels.Wanted = "joint") -> Array:
    """Return what is said of classes, from what is said of components, of shape (n, K M).

    Examples
    --------
    >>> joined(np.array([[0.1, 0.2, 0.3, 0.4]]), 2, "posterior")
    array([[0.3, 0.7]])
    """
    if components == 1:
        return table
    each = table.reshape(len(table), -1, components)
    return np.asarray(each.sum(axis=2) if wanted == "posterior" else logsumexp(each, axis=2))


@dataclass(eq=False, repr=False, kw_only=True)
class ComponentClassifier(Classifier):
    """A classifier whose classes may have several components."""

    components_per_class: Any = 1

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "components_per_class": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }
    _saved: ClassVar[dict[str, Any]] = {**Classifier._saved, "components_per_class_": int}

    def _spread(
        self, X: Any, labels: Labels, weight: Array, prior: Array | None
    ) -> tuple[Labels, Array | None, Any]:
        M = self.components_per_class
        self.components_per_class_ = M = self._found(X, labels, weight) if M == "auto" else int(M)
        if M == 1:
            return super()._spread(X, labels, weight, prior)
        numbers = np.arange(M * len(labels.classes))
        evidence = np.repeat(labels.log_evidence(), M, axis=1)
        parts = Labels(numbers, np.full(len(weight), -1), evidence)
        given = None if prior is None else np.repeat(prior / M, M)
        return parts, given, self._split(X, labels, weight)

    def _distributions(
        self, labels: Labels, others: Rows, which: npt.NDArray[np.intp] | None
    ) -> Array:
        found = joined(super()._distributions(labels, others, which), self._parts, "posterior")
        # What is known is known exactly, whatever the rounding of a sum.
        return found if self._parts == 1 else ratio(found, found.sum(axis=1, keepdims=True), 0.0)

    def _found(self, X: Any, labels: Labels, weight: Array) -> int:
        """Return the number of components under which hidden labels are most probable."""
        best: Stacked | None = None
        for M in range(1, MOST_PARTS + 1):
            model = self._whole(labels).set_params(components_per_class=M)
            found = evaluate_candidate(model, X, labels, weight)
            if found is None or (best is not None and not found.beats(best)):
                return max(M - 1, 1)
            best = found
        return MOST_PARTS

    def _split(
        self, X: Any, labels: Labels, weight: Array
    ) -> Callable[[Any, int, np.random.RandomState], Array]:
        """Return a start: each class, as the model of one component finds it, is cut in parts."""
        if (labels.codes >= 0).all():
            posterior: Array = np.eye(len(labels.classes)).take(labels.codes, axis=0)
        else:
            whole = self._whole(labels)
            try:
                posterior = whole.fit(X, labels.known, sample_weight=weight).label_distributions_
            except KeyboardInterrupt:  # what the copy has found is of no use to anybody
                raise KeyboardInterrupt from None

        def start(rows: Any, parts: int, rng: np.random.RandomState) -> Array:
            return cut(rows, posterior, weight, parts // posterior.shape[1], rng)

        return start

    def _whole(self, labels: Labels) -> Any:
        """Return a copy in which a class has one component; weights are those of rows already."""
        return detached_clone(self, labels).set_params(components_per_class=1, unlabeled_weight=1.0)

    def _look(self, X: Any, wanted: kernels.Wanted) -> tuple[Array, Array]:
        table, log_p = super()._look(X, wanted)
        return joined(table, self._parts, wanted), log_p

    @property
    def _parts(self) -> int:
        return getattr(self, "components_per_class_", 1)

    @property
    def _log_prior(self) -> Array:
        """Log p(y), of shape (K,)."""
        return np.asarray(joined(self._params.class_log_prior[None, :], self._parts)[0])

    def _check_batches(self) -> None:
        if self.components_per_class != 1 or self._parts != 1:
            raise ValueError("partial_fit needs components_per_class=1: use fit on all rows.")
