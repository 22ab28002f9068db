"""Clusters of texts: multinomial mixtures fitted without labels, with their class distributions.

Words are weighted as in the "topics" member (`tacit.text.parts`), where a text counts for at
most some ten words; the temperature is the root of that. What clusters of texts and of tables share
is in `tacit.selection.clusters`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from tacit.estimators.mixtures import MultinomialMixture
from tacit.numerics import Array
from tacit.selection.clusters import Clusters, fit_mixture, mixture_seeds
from tacit.text.weighting import TermWeights

__all__ = ["N_CLUSTERS", "TextClusters", "fit_clusters"]

# Clusters of a mixture, mixtures, texts that these are fitted to at most, and rounds of EM.
N_CLUSTERS = 40
N_MIXTURES = 4
MAX_TEXTS = 4000
MAX_ITER = 12


@dataclass(frozen=True)
class TextClusters(Clusters):
    """Clusters of texts, and the class distribution of each.

    Attributes
    ----------
    weights : TermWeights
        Term weights.

    Examples
    --------
    >>> from tacit import TextClassifier
    >>> texts = ["a goal", "a late goal", "the violin", "the slow violin"] * 5
    >>> model = TextClassifier(random_state=0).fit(texts, ["sport", None, "music", None] * 5)
    >>> clusters = next(part for part in model.ensemble_.parts if part.name == "clusters")
    >>> counts = model.vectorizer_.transform(texts[:4])
    >>> model.classes_[clusters.evidence(counts).argmax(axis=1)]
    array(['sport', 'sport', 'music', 'music'], dtype='<U5')
    """

    mixtures: tuple[MultinomialMixture, ...]
    weights: TermWeights
    name = "clusters"

    @property
    def temperature(self) -> float:
        """The root of the number of words that a long text counts for."""
        return float(np.sqrt(self.weights.length_scale))

    def posterior(self, X: sparse.csr_array, rows: Any = slice(None)) -> Array:
        """Return p(g | x), shape (n, M), from word counts."""
        weighted = self.weights.transform(X[rows])
        return self.mean_posterior(one.predict_joint_log_proba(weighted) for one in self.mixtures)

    def terms(self, row: sparse.csr_array) -> tuple[Array, list[tuple[int, Array]]]:
        """Return the log-odds of one row as a constant, (K,), and a term for each word."""
        row = self.weights.transform(row)
        constant, each = self.decompose(
            (one._params.class_log_prior, row.data[:, None] * one.feature_log_prob_.T[row.indices])
            for one in self.mixtures
        )
        words = self.weights.columns_[row.indices].tolist()
        return constant, list(zip(words, np.sum(each, axis=0), strict=True))


def fit_clusters(
    weights: TermWeights,
    X: sparse.csr_array,
    weight: Array,
    random_state: Any,
    n_jobs: int | None,
) -> TextClusters:
    """Return clusters of an even sample of weighted texts, without class distributions yet."""
    sample = np.flatnonzero(weight > 0)
    sample = sample[np.unique(np.linspace(0, len(sample) - 1, MAX_TEXTS).astype(np.intp))]
    X, weight, M = X[sample], weight[sample], min(N_CLUSTERS, len(sample))
    settings: dict[str, Any] = {"alpha": "auto", "max_iter": MAX_ITER, "tol": 1e-3, "n_init": 1}
    mixtures = tuple(
        fit_mixture(MultinomialMixture(M, random_state=seed, n_jobs=n_jobs, **settings), X, weight)
        for seed in mixture_seeds(random_state, N_MIXTURES)
    )
    return TextClusters(mixtures, np.ones((M * len(mixtures), 1)), 1.0, weights)
