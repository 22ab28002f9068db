"""The residual correction of texts: each word adds to the log-odds of the ensemble.

It is fitted by `tacit.selection.residual`; this is its features, the weighted words of a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize as unit_norm

from tacit.numerics import Array
from tacit.selection.residual import Correction
from tacit.text.weighting import TermWeights

__all__ = ["TextCorrection", "unit_norm"]


@dataclass(frozen=True)
class TextCorrection(Correction):
    """What each word adds to the log-odds of the classes.

    Attributes
    ----------
    weights : TermWeights
        Term weights, before texts are scaled to unit norm.

    Examples
    --------
    >>> from tacit import TextClassifier
    >>> texts = ["a goal", "a late goal", "the violin", "the slow violin"] * 5
    >>> model = TextClassifier().fit(texts, ["sport", "sport", "music", "music"] * 5)
    >>> counts = model.vectorizer_.transform(["a goal"])
    >>> model.classes_[model.correction_.evidence(counts).argmax(axis=1)]
    array(['sport'], dtype='<U5')
    """

    weights: TermWeights

    def features(self, X: sparse.csr_array, rows: Any = slice(None)) -> sparse.csr_array:
        """Return the weighted words of texts, scaled to unit norm, from word counts."""
        return unit_norm(self.weights.transform(X[rows]))

    def terms(self, row: sparse.csr_array) -> tuple[Array, Array]:
        """Return the log-odds of one row as a constant, 0, and a term for each word, (d, K)."""
        own = unit_norm(row)
        return np.zeros(self.logs.shape[1]), own.data[:, None] * self.logs[own.indices]
