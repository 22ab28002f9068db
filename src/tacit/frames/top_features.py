"""The strongest features of each class of a table: words, categories and numbers, by log-odds.

It ranks what a fitted model has learnt; single rows are explained in `tacit.estimators.explain`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.estimators.explain import Feature
from tacit.families import Bernoulli, Categorical, Family, Gaussian, Multinomial
from tacit.frames.columns import Column
from tacit.numerics import Array, log, ratio

__all__ = ["top_features"]


class OneVsRest:
    """Log-odds of each class against all others together, by the class prior."""

    def __init__(self, log_p: Array, prior: Array) -> None:
        self.p, self.log_p, self.prior = np.exp(log_p), log_p, prior
        self.marginal = prior @ self.p

    def __call__(self, k: int) -> Array:
        """Return the log-odds of class k, for each feature."""
        rest = np.maximum(self.marginal - self.prior[k] * self.p[k], 0.0)
        return np.asarray(self.log_p[k] - log(rest / (1.0 - self.prior[k])))


def top_features(
    family: Family,
    params: Any,
    statistics: Any,
    columns: list[Column],
    prior: Array,
    n: int,
    parts: int = 1,
) -> list[list[Feature]]:
    """Return the features of each class in the columns of one family: the n strongest, or more.

    `prior` is that of the components, of which each class has `parts`, which are averaged.
    """
    within = prior.reshape(-1, parts)
    prior = within.sum(axis=1)
    within = ratio(within, prior[:, None], 1.0 / parts)
    classes = range(len(prior))
    prior = np.minimum(prior, 1.0 - 1e-12)  # a single class has no rest

    def mean(values: Array) -> Array:
        return np.asarray(np.einsum("km,km...->k...", within, _by_component(values, parts)))

    def logs(log_p: Array) -> Array:
        return log_p if parts == 1 else log(mean(np.exp(log_p)))

    if isinstance(family, Multinomial):
        (column,) = columns
        assert column.vectorizer is not None
        words = column.vectorizer.get_feature_names_out()
        sums = statistics.totals, statistics.rows
        totals, rows = (_by_component(own, parts).sum(axis=1) for own in sums)
        lengths, log_odds = ratio(totals, rows, 0.0), OneVsRest(logs(params.log_p), prior)
        features = []
        for k in classes:
            odds, frequency = log_odds(k), lengths[k] * log_odds.p[k]
            best = _largest(odds * np.abs(odds) * frequency, n)
            features.append([_feature(column, words[j], odds[j], frequency[j]) for j in best])
        return features
    if isinstance(family, Categorical):
        tables = zip(columns, *map(family.split, (params.cell_log_p, params.log_p)), strict=True)
        triples = [(c, OneVsRest(logs(own), prior), np.exp(logs(p))) for c, own, p in tables]
        return [
            [
                _feature(column, name, odds, frequency)
                for column, log_odds, p in triples
                for name, odds, frequency in zip(column.values, log_odds(k), p[k], strict=False)
            ]
            for k in classes
        ]
    if isinstance(family, Bernoulli):
        both = [OneVsRest(logs(own), prior) for own in (params.log_not, params.log_p)]
        return [
            [
                _feature(column, column.values[value], odds, p)
                for value, log_odds in enumerate(both)
                for column, odds, p in zip(columns, log_odds(k), log_odds.p[k], strict=True)
            ]
            for k in classes
        ]
    assert isinstance(family, Gaussian)
    (column,) = columns
    each = params.mean[:, 0]
    means = mean(each)
    variances = mean(params.variance[:, 0] + (each - np.repeat(means, parts)) ** 2)
    return [[_of_number(column, means, variances, prior, k)] for k in classes]


def _by_component(values: Array, parts: int) -> Array:
    return values.reshape(-1, parts, *values.shape[1:])


def _of_number(column: Column, mean: Array, variance: Array, prior: Array, k: int) -> Feature:
    """Return the feature of a number: the Kullback-Leibler divergence of class k from the rest."""
    weight = np.where(np.arange(len(prior)) == k, 0.0, prior)
    weight = ratio(weight, weight.sum(), 1.0 / len(weight))
    rest_mean = float(weight @ mean)
    rest_variance = float(weight @ (variance + (mean - rest_mean) ** 2))
    square = (variance[k] + (mean[k] - rest_mean) ** 2) / rest_variance
    odds = 0.5 * (np.log(rest_variance / variance[k]) + square - 1.0)
    return _feature(column, f"{mean[k]:.4g} on average, others {rest_mean:.4g}", odds, 1.0)


def _largest(scores: Array, n: int) -> npt.NDArray[np.intp]:
    """Return the indices of the n largest scores in descending order, ties by index."""
    if n < len(scores):
        scores = np.where(scores >= np.partition(scores, -n)[-n], scores, -np.inf)
    return np.argsort(-scores, kind="stable")[:n]


def _feature(column: Column, value: str, odds: float, frequency: float) -> Feature:
    strength = float(odds * abs(odds) * frequency) if frequency else 0.0
    return Feature(column.name, str(value), float(odds), strength)
