"""Counts of words: the multinomial event model for documents of any length (S3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import kernels
from tacit.data.dense import DenseRows, dense_rows
from tacit.data.lazy import lazy
from tacit.data.sparse import SparseRows, sparse_rows
from tacit.em import Sums
from tacit.families.base import check_array, check_is, check_sums_to_one
from tacit.families.linear import Linear, Logs, Ratios, Smoothing
from tacit.io.records import plain
from tacit.numerics import Array, Matrix, column_sums, dot, expected_log, log, ratio

__all__ = ["RECORDS", "Multinomial"]

LARGEST = 1e290


@dataclass(frozen=True)
class Params(Ratios):
    """p(t | y): the counts of words and, of shape (K,), their totals, both smoothed by alpha."""

    totals: Array

    @lazy
    def log_totals(self) -> Array:
        """Log of the smoothed totals."""
        d, alpha = self.counts.shape[1], self.alpha
        return log(self.totals + (alpha.sum() if alpha.ndim else d * alpha))

    @lazy
    def logs(self) -> Logs:
        """Log of the smoothed ratios of counts (L, S11), (K, V); uniform where nothing was seen."""
        native, (K, d) = kernels.native(), self.counts.shape
        if native is None:
            totals = np.exp(self.log_totals)[:, None]
            return Logs(log(ratio(self.counts + self.alpha, totals, 1.0 / d)))
        table = np.empty((d, K))
        pieces = self.counts.T, np.atleast_1d(self.alpha), self.log_totals
        density, score = native.log_probabilities(*pieces, table, kernels.threads(16 * K * d))
        return Logs(table.T, None, density, score)

    @property
    def smoothing(self) -> Smoothing | None:
        """How the counts become log p(t | y); None if a class has no words: uniform."""
        return None if np.isinf(self.log_totals).any() else Smoothing(self.log_totals)


@dataclass(frozen=True)
class Counts(Sums):
    """Soft counts of words by class, of shape (K, V), their totals, and of rows, of shape (K,)."""

    words: Array
    totals: Array
    rows: Array

    @lazy
    def column_totals(self) -> Array:
        """Counts of words in all classes, of shape (V,)."""
        return np.asarray(self.words.sum(axis=0))

    def scaled(self, factor: float) -> Counts:
        """Return what rows that are this part as long would give."""
        return Counts(self.words * factor, self.totals * factor, self.rows)


@dataclass(frozen=True)
class Multinomial(Linear):
    """p(x | y) = prod_t p(t | y)^x_t, the words in sequence: no multinomial coefficient (L).

    Where the count of a word is missing, the other words of the row are taken as drawn from what
    is left of the vocabulary: p(t | y) / P, with P the share of the observed words. Fitting then
    expects N p(t | y) / P of the missing word, N being the row's observed words.

    Examples
    --------
    >>> family = Multinomial(alpha=1.0)
    >>> features = family.encode(np.array([[3.0, 0.0], [1.0, 2.0]]))
    >>> params = family.maximize(family.count(features, np.ones((2, 1))))
    >>> np.exp(params.log_p)
    array([[0.625, 0.375]])
    """

    def encode(self, X: Matrix) -> DenseRows | SparseRows:
        """Check that counts are not negative."""
        found = kernels.scan(X.data if sparse.issparse(X) else np.asarray(X))
        if found.most > LARGEST:
            raise ValueError(f"X holds counts beyond {LARGEST:g}, whose sums overflow: rescale it.")
        if found.least < 0:
            raise ValueError(
                "Negative values in data passed to Multinomial (input X): counts cannot be "
                "negative. Use BernoulliNB for presence and absence, GaussianNB for numbers."
            )
        return sparse_rows(X) if sparse.issparse(X) else dense_rows(X)

    def score(
        self, params: Params, features: DenseRows | SparseRows, fitting: bool = False
    ) -> Array:
        """Return sum_t x_t log p(t | y)."""
        scores = dot(features.values, params.log_p)
        if isinstance(features, DenseRows) and features.observed is not None:
            length, share = self._observed(params, features)
            log_share = np.where(length > 0, log(share), 0.0)
            scores -= np.where(np.isneginf(scores), 0.0, length * log_share)
        return scores

    def predict_rows(
        self, params: Params, X: Matrix, log_prior: Array, output: kernels.Output
    ) -> tuple[Array, Array] | None:
        """Score sparse rows as they come."""
        if not sparse.issparse(X):
            return None
        return kernels.score(X, params.log_p.T, log_prior, output, ones=False)

    def count(
        self, features: DenseRows | SparseRows, weights: Matrix, params: Params | None = None
    ) -> Counts:
        """Sum words by class (L), with what is expected of missing cells."""
        words, totals = self._sums(features, weights)
        if isinstance(features, DenseRows) and features.observed is not None and params is not None:
            length, share = self._observed(params, features)
            weights = weights.toarray() if sparse.issparse(weights) else weights
            expected = ratio(weights * length, share, 0.0)
            words = words + (expected.T @ ~features.observed) * np.exp(params.log_p)
            totals = words.sum(axis=1)
        classes = column_sums(weights)
        return self._counts(words, totals, classes)

    def _counts(self, words: Array, totals: Array, classes: Array) -> Counts:
        return Counts(words, totals, classes)

    def _observed(self, params: Params, features: DenseRows) -> tuple[Array, Array]:
        """Return each row's observed words, (n, 1), and their share of the vocabulary, (n, K)."""
        assert features.observed is not None
        share: Array = features.observed.astype(np.float64) @ np.exp(params.log_p).T
        share[features.complete] = 1.0
        return features.values.sum(axis=1, keepdims=True), share

    def complete(self, features: DenseRows | SparseRows) -> npt.NDArray[np.bool_]:
        """Return the rows without a missing cell."""
        return features.complete if isinstance(features, DenseRows) else super().complete(features)

    def maximize(self, statistics: Counts) -> Params:
        """Return the smoothed ratios of counts (L, S11)."""
        alpha = np.asarray(self.alpha)
        return self._with_weights(Params(statistics.words, alpha, statistics.totals))

    def log_prior(self, params: Params) -> float:
        """Return the log density of Dirichlet(alpha + 1) at the params, up to a constant (S13)."""
        density = self._density(params)
        return self.smoothing(params.log_p) if density is None else density

    def log_joint(self, params: Params, statistics: Counts) -> float:
        """Return the expected log-likelihood of the words."""
        if params.weights is not None:
            return params.weights.expected_score(statistics.words)
        own = params.logs.score if statistics.words is params.counts else None
        return expected_log(statistics.words, params.log_p) if own is None else own

    def sample(
        self,
        params: Params,
        statistics: Counts,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        """Draw counts; a document's length is Poisson around its class's mean length."""
        mean_length = ratio(statistics.totals, statistics.rows, 0.0)
        p = np.exp(params.log_p)
        p /= p.sum(axis=1, keepdims=True)
        lengths, below, d = rng.poisson(mean_length[labels]), np.cumsum(p, axis=1), p.shape[1]
        drawn = np.zeros((len(labels), d))
        for row, n, k in zip(drawn, lengths, labels, strict=True):
            words = np.searchsorted(below[k], rng.random_sample(n) * below[k, -1], side="right")
            row[:] = np.bincount(np.minimum(words, d - 1), minlength=d)
        return drawn

    def n_parameters(self, params: Params) -> int:
        """Return K (V - 1)."""
        return int(params.counts.shape[0] * (params.counts.shape[1] - 1))

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check the counts."""
        super().check(statistics, K, d)
        check_is(statistics, Counts)
        check_array("words", statistics.words, (K, d), least=0.0)
        check_array("totals", statistics.totals, (K,), least=0.0)
        check_array("rows", statistics.rows, (K,), least=0.0)

    def check_params(self, params: Params) -> None:
        """Check that the words of the vocabulary are all there is."""
        check_sums_to_one("p(word | y)", np.exp(params.log_p).sum(axis=1))


# As files name them.
RECORDS = {"Multinomial": plain(Multinomial), "MultinomialCounts": plain(Counts)}
