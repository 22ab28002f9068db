"""What marks a class of a table: its words, categories and numbers, the strongest first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.estimators.explain import Feature
from tacit.families import Bernoulli, Categorical, Family, Gaussian, Multinomial
from tacit.frames.columns import Column
from tacit.numerics import Array, log, ratio

__all__ = ["marks"]


class Against:
    """Log-odds of each class against all others together, by their shares."""

    def __init__(self, log_p: Array, share: Array) -> None:
        self.p, self.log_p, self.share = np.exp(log_p), log_p, share
        self.mixed = share @ self.p

    def __call__(self, k: int) -> Array:
        """Return the log-odds of class k, for each column."""
        others = np.maximum(self.mixed - self.share[k] * self.p[k], 0.0)
        return np.asarray(self.log_p[k] - log(others / (1.0 - self.share[k])))


def marks(
    family: Family,
    params: Any,
    statistics: Any,
    columns: list[Column],
    share: Array,
    n: int,
    parts: int = 1,
) -> list[list[Feature]]:
    """Return what marks each class in the columns of one part: the n strongest, or a few more.

    `share` is that of each of the `parts` components of the classes, which are taken together.
    """
    within = share.reshape(-1, parts)
    share = within.sum(axis=1)
    within = ratio(within, share[:, None], 1.0 / parts)
    classes = range(len(share))
    share = np.minimum(share, 1.0 - 1e-12)  # against nothing there are no odds

    def joined(values: Array) -> Array:
        return np.asarray(np.einsum("km,km...->k...", within, _by_part(values, parts)))

    def logs(log_p: Array) -> Array:
        return log_p if parts == 1 else log(joined(np.exp(log_p)))

    if isinstance(family, Multinomial):
        (column,) = columns
        assert column.vectorizer is not None
        words = column.vectorizer.get_feature_names_out()
        sums = statistics.totals, statistics.rows
        totals, rows = (_by_part(own, parts).sum(axis=1) for own in sums)
        lengths, against = ratio(totals, rows, 0.0), Against(logs(params.log_p), share)
        found = []
        for k in classes:
            odds, often = against(k), lengths[k] * against.p[k]
            best = _largest(odds * np.abs(odds) * often, n)
            found.append([_feature(column, words[j], odds[j], often[j]) for j in best])
        return found
    if isinstance(family, Categorical):
        tables = zip(columns, *map(family.split, (params.said, params.log_p)), strict=True)
        triples = [(c, Against(logs(said), share), np.exp(logs(own))) for c, said, own in tables]
        return [
            [
                _feature(column, name, odds, often)
                for column, against, p in triples
                for name, odds, often in zip(column.values, against(k), p[k], strict=False)
            ]
            for k in classes
        ]
    if isinstance(family, Bernoulli):
        both = [Against(logs(own), share) for own in (params.log_not, params.log_p)]
        return [
            [
                _feature(column, column.values[value], odds, often)
                for value, against in enumerate(both)
                for column, odds, often in zip(columns, against(k), against.p[k], strict=True)
            ]
            for k in classes
        ]
    assert isinstance(family, Gaussian)
    (column,) = columns
    each = params.mean[:, 0]
    mean = joined(each)
    variance = joined(params.variance[:, 0] + (each - np.repeat(mean, parts)) ** 2)
    return [[_of_number(column, mean, variance, share, k)] for k in classes]


def _by_part(values: Array, parts: int) -> Array:
    return values.reshape(-1, parts, *values.shape[1:])


def _of_number(column: Column, mean: Array, variance: Array, share: Array, k: int) -> Feature:
    weight = np.where(np.arange(len(share)) == k, 0.0, share)
    weight = ratio(weight, weight.sum(), 1.0 / len(weight))
    middle = float(weight @ mean)
    spread = float(weight @ (variance + (mean - middle) ** 2))
    square = (variance[k] + (mean[k] - middle) ** 2) / spread
    odds = 0.5 * (np.log(spread / variance[k]) + square - 1.0)  # of its values, on average
    return _feature(column, f"{mean[k]:.4g} on average, others {middle:.4g}", odds, 1.0)


def _largest(scores: Array, n: int) -> npt.NDArray[np.intp]:
    """Return where the n largest are, the largest first, the first of equals first."""
    if n < len(scores):
        scores = np.where(scores >= np.partition(scores, -n)[-n], scores, -np.inf)
    return np.argsort(-scores, kind="stable")[:n]


def _feature(column: Column, value: str, odds: float, often: float) -> Feature:
    strength = float(odds * abs(odds) * often) if often else 0.0
    return Feature(column.name, str(value), float(odds), strength)
