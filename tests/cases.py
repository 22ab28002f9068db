"""One case for each family: data of its kind, its estimators, and its params in plain lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tacit
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

K = 3  # classes in every case
D = 5  # features in every case
MIXED = {"yes": [0], "kind": [1, 2], "size": [3, 4]}


@dataclass(frozen=True)
class Case:
    """What the tests need to know of a family.

    `draw(rng, y)` makes a row for each class in y; `family(alpha, noise)` the family;
    `lists(params)` the params of `tests/reference.py`, without the prior.
    """

    name: str
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    family: Callable[[float, float], Family]
    lists: Callable[[Family, Any], dict[str, Any]]
    classifier: Callable[..., Any]
    mixture: Callable[..., Any]
    smoothed: bool = True  # has alpha

    @property
    def discrete(self) -> bool:
        """Whether no part of it is a normal distribution."""
        return self.smoothed and self.name != "mixed"

    def data(self, seed: int, n: int = 40, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return rows, a share of their cells missing, and their classes; all classes occur."""
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(n) % K)
        X = self.draw(rng, y).astype(float)
        X[rng.random(X.shape) < missing] = np.nan
        return X, y


def _bernoulli(rng, y):
    return rng.random((len(y), D)) < rng.uniform(0.1, 0.9, (K, D))[y]


def _categorical(rng, y):
    tables = rng.dirichlet(np.ones(4), (K, D)).cumsum(axis=2)
    return (rng.random((len(y), D, 1)) > tables[y]).sum(axis=2).clip(0, 3)


def _multinomial(rng, y):
    return np.array(
        [rng.multinomial(rng.integers(3, 20), p) for p in rng.dirichlet(np.ones(D), K)[y]]
    )


def _normal(rng, y):
    mix = rng.normal(size=(D, D))
    return rng.normal(size=(K, D))[y] * 2 + rng.normal(size=(len(y), D)) @ mix + 10


def _mixed(rng, y):
    X = _normal(rng, y)
    X[:, MIXED["yes"]] = _bernoulli(rng, y)[:, :1]
    X[:, MIXED["kind"]] = _categorical(rng, y)[:, :2]
    return X


def _table(family, params):
    return {"theta": np.exp(params.log_p).tolist()}


def _tables(family, params):
    features = [np.exp(table) for table in family.split(params.log_p)]
    return {"theta": [[table[k].tolist() for table in features] for k in range(K)]}


def _mean_and(name, attribute, pick=lambda covariance: covariance):
    def lists(family, params):
        return {"mean": params.mean.tolist(), name: pick(getattr(params, attribute)).tolist()}

    return lists


def _parts(family, params):
    parts = []
    for part, own in zip(family.parts, params, strict=True):
        case = next(c for c in CASES if isinstance(part.family, type(c.family(0, 0))))
        lists = case.lists(part.family, own)
        settings = getattr(part.family, "alpha", 0.0), getattr(part.family, "noise", 0.0)
        parts.append((case.name, part.columns.tolist(), lists, *settings))
    return {"parts": parts}


def _mixed_family(alpha, noise):
    kinds = Bernoulli(alpha), Categorical(alpha), Gaussian(noise=noise)
    columns = map(np.array, MIXED.values())
    return Mixed(tuple(Part(*part) for part in zip(MIXED, kinds, columns, strict=True)))


def mixed_parts(alpha=1.0, var_smoothing=1e-9):
    """Return the parts of a mixed estimator for the data of the mixed case."""
    yes, kind = tacit.BernoulliNB(alpha=alpha), tacit.CategoricalNB(alpha=alpha)
    size = tacit.GaussianNB(var_smoothing=var_smoothing)
    return [
        ("yes", yes, MIXED["yes"]),
        ("kind", kind, MIXED["kind"]),
        ("size", size, MIXED["size"]),
    ]


def _mixed_nb(alpha=1.0, var_smoothing=1e-9, **settings):
    return tacit.MixedNB(mixed_parts(alpha, var_smoothing), **settings)


def _mixed_mixture(n_components=1, alpha=1.0, **settings):
    return tacit.MixedMixture(mixed_parts(alpha), n_components, **settings)


def _discriminant(covariance):
    def make(**settings):
        return tacit.GaussianDiscriminant(covariance=covariance, **settings)

    return make


def _gaussian_mixture(covariance):
    def make(n_components=1, **settings):
        return tacit.GaussianMixture(n_components, covariance_type=covariance, **settings)

    return make


CASES = [
    Case("bernoulli", _bernoulli, lambda a, e: Bernoulli(a), _table, tacit.BernoulliNB,
         tacit.BernoulliMixture),
    Case("categorical", _categorical, lambda a, e: Categorical(a), _tables, tacit.CategoricalNB,
         tacit.CategoricalMixture),
    Case("multinomial", _multinomial, lambda a, e: Multinomial(a), _table, tacit.MultinomialNB,
         tacit.MultinomialMixture),
    Case("gaussian", _normal, lambda a, e: Gaussian(noise=e), _mean_and("var", "variance"),
         tacit.GaussianNB, _gaussian_mixture("diag"), smoothed=False),
    Case("tied", _normal, lambda a, e: Discriminant(noise=e, tied=True),
         _mean_and("cov", "covariance", lambda c: c[0]), _discriminant("tied"),
         _gaussian_mixture("tied"), smoothed=False),
    Case("full", _normal, lambda a, e: Discriminant(noise=e, tied=False),
         _mean_and("cov", "covariance"), _discriminant("full"), _gaussian_mixture("full"),
         smoothed=False),
    Case("mixed", _mixed, _mixed_family, _parts, _mixed_nb, _mixed_mixture),
]  # fmt: skip


def hide(y: np.ndarray, share: float, seed: int = 0) -> list[Any]:
    """Return labels, a share of them None, one of each class at least kept."""
    rng = np.random.default_rng(seed)
    keep = rng.random(len(y)) >= share
    keep[[int(np.flatnonzero(y == k)[0]) for k in np.unique(y)]] = True
    return [label if kept else None for label, kept in zip(y.tolist(), keep, strict=True)]
