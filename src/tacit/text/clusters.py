"""Groups of texts that are alike, found without labels, and the classes that each leans to.

Mixtures of some of the texts, whose words are weighed as topics are (`tacit.text.ensemble`). A text
counts for no more than some ten words there, and log p(x, g) is divided by the root of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.estimators.mixtures import MultinomialMixture
from tacit.numerics import Array
from tacit.selection.clusters import Leaning, fitted, seeds
from tacit.text.weighting import TermWeights

__all__ = ["GROUPS", "TextGroups", "find"]

# So many groups in each of so many mixtures, which are fitted to so many texts at most, in so many
# rounds of EM.
GROUPS = 40
MIXTURES = 4
TEXTS = 4000
ROUNDS = 12


@dataclass(frozen=True)
class TextGroups(Leaning):
    """Groups of texts, and the classes that they lean to.

    Attributes
    ----------
    weights : TermWeights
        How words are weighed.

    Examples
    --------
    >>> from tacit import TextClassifier
    >>> texts = ["a goal", "a late goal", "the violin", "the slow violin"] * 5
    >>> model = TextClassifier(random_state=0).fit(texts, ["sport", None, "music", None] * 5)
    >>> counts = model.vectorizer_.transform(texts[:4])
    >>> model.classes_[model.groups_.evidence(counts).argmax(axis=1)]
    array(['sport', 'sport', 'music', 'music'], dtype='<U5')
    """

    mixtures: tuple[MultinomialMixture, ...]
    weights: TermWeights

    @property
    def doubt(self) -> float:
        """The root of the number of words that a long text counts for."""
        return float(np.sqrt(self.weights.length_scale))

    def posterior(self, X: Any, rows: Any = slice(None)) -> Array:
        """Return p(g | x) from counts of words, of shape (n, M)."""
        seen = self.weights.transform(X[rows])
        return self.averaged(one.predict_joint_log_proba(seen) for one in self.mixtures)

    def terms(self, row: Any) -> tuple[Array, Array]:
        """Return what is said of each class before a row is seen, and by each of its words."""
        before, each = self.blended(
            (one._params.class_log_prior, row.data[:, None] * one.feature_log_prob_.T[row.indices])
            for one in self.mixtures
        )
        return before, np.sum(each, axis=0)


def find(
    weights: TermWeights, X: Any, weight: Array, random_state: Any, n_jobs: int | None
) -> TextGroups:
    """Return groups of weighed texts, which lean to no class yet."""
    some = np.flatnonzero(weight > 0)
    some = some[np.unique(np.linspace(0, len(some) - 1, TEXTS).astype(np.intp))]
    X, weight, M = X[some], weight[some], min(GROUPS, len(some))
    settings: dict[str, Any] = {"alpha": "auto", "max_iter": ROUNDS, "tol": 1e-3, "n_init": 1}
    found = tuple(
        fitted(MultinomialMixture(M, random_state=seed, n_jobs=n_jobs, **settings), X, weight)
        for seed in seeds(random_state, MIXTURES)
    )
    return TextGroups(found, np.ones((M * len(found), 1)), 1.0, weights)
