"""The residual correction of texts: what each word adds to the log-odds of the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize as to_length_1

from tacit.numerics import Array
from tacit.selection.residual import Correction
from tacit.text.weighting import TermWeights

__all__ = ["TextCorrection", "to_length_1"]


@dataclass(frozen=True)
class TextCorrection(Correction):
    """What words add.

    Attributes
    ----------
    weights : TermWeights
        How words are weighed, before texts are brought to length 1.

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

    def seen(self, X: Any, rows: Any = slice(None)) -> Any:
        """Return the words of texts, from their counts."""
        return to_length_1(self.weights.transform(X[rows]))

    def terms(self, row: Any) -> tuple[Array, Array]:
        """Return what is added before words are seen, which is nothing, and by each word."""
        own = to_length_1(row)
        return np.zeros(self.logs.shape[1]), own.data[:, None] * self.logs[own.indices]
