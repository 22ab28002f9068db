"""Clusters of the rows of a table: mixtures fitted without labels, with their class distributions.

    p(y | x) = sum_g p(g | x) p(y | g)

Dependent columns make clusters, which naive Bayes within a class cannot see. Mixtures of all rows
find them (`tacit.TableMixture`), labelled rows estimate p(y | g). As columns are redundant,
log p(x, g) is divided by the root of their number, the temperature: a row belongs a little to every
similar cluster, and few labels reach far.

One mixture is a matter of chance, so p(g | x) is the mean of several. Half of them bin numbers,
whatever their distribution, half scale them to their range, which keeps distances.

Clusters of texts are in `tacit.text.clusters`, what both share in `tacit.selection.clusters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacit.families import Gaussian
from tacit.frames.base import ColumnGroup, PreparedTable
from tacit.frames.columns import NEIGHBOUR_SMOOTHING, Column
from tacit.frames.mixture import TableMixture
from tacit.numerics import Array
from tacit.selection.clusters import Clusters, fit_mixture, mixture_seeds

__all__ = ["ClusterMixture", "TableClusters", "fit_clusters", "n_clusters"]

# Clusters of a mixture: this factor of the root of the number of rows, and a maximum.
CLUSTERS_BY_ROOT = 2.0
MAX_CLUSTERS = 80
# Mixtures, and rounds of EM for each: good enough to tell rows apart by.
N_MIXTURES = 4
MAX_ITER = 25


@dataclass(eq=False, repr=False, kw_only=True)
class ClusterMixture(TableMixture):
    """A mixture for clusters: numbers in smoothed bins, or all in one Gaussian of shared variance.

    Yes/no columns are two categories, which is the same in one pass of the kernel with the others.
    """

    _neighbour_smoothing: ClassVar[float] = NEIGHBOUR_SMOOTHING

    def _feature_type(self, column: Column) -> str:
        return "category" if column.kind == "yes/no" else super()._feature_type(column)

    def _normal(self, columns: list[Column]) -> Iterator[ColumnGroup]:
        if columns:
            yield ColumnGroup("numbers", Gaussian(shared=True), columns, len(columns))


@dataclass(frozen=True)
class TableClusters(Clusters):
    """Clusters of the rows of a table, and the class distribution of each.

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"leaf": ["long", "long", "round", "round"] * 5, "bark": ["a", "a", "b", "b"] * 5}
    >>> model = TableClassifier(random_state=0).fit(table, ["ash", None, "elm", None] * 5)
    >>> model.groups_.evidence(model.prepare(table))[:4].argmax(axis=1)  # ash, ash, elm, elm
    array([0, 0, 1, 1])
    """

    mixtures: tuple[ClusterMixture, ...]

    @property
    def temperature(self) -> float:
        """The root of the number of columns."""
        return float(np.sqrt(sum(column.kind != "out" for column in self.mixtures[0].columns_)))

    def posterior(self, X: PreparedTable, rows: Any = slice(None)) -> Array:
        """Return p(g | x), shape (n, M), of rows of a table."""
        used = [column.name for column in self.mixtures[0].columns_ if column.kind != "out"]
        encoded = {name: X.encoded[name][rows] for name in used}
        part = replace(X, encoded=encoded, texts={}, blocks=())
        prepared = ((one, one._prepared(part, reset=False)) for one in self.mixtures)
        return self.mean_posterior(one.predict_joint_log_proba(own) for one, own in prepared)

    def terms(self, X: PreparedTable) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return the log-odds of one row as a constant, (K,), and a named term for each value."""
        each = [one._terms(one._prepared(X, reset=False)) for one in self.mixtures]
        constant, log_odds = self.decompose(
            (log_prior, np.array([logs for _, _, logs in terms]).reshape(-1, len(log_prior)))
            for log_prior, terms in each
        )
        return constant, [
            (column, value, own)
            for (_, terms), logs in zip(each, log_odds, strict=True)
            for (column, value, _), own in zip(terms, logs, strict=True)
        ]


def n_clusters(n: int) -> int:
    """Return the number of clusters of each mixture of n rows."""
    return min(int(np.ceil(CLUSTERS_BY_ROOT * np.sqrt(n))), MAX_CLUSTERS, n)


def fit_clusters(
    X: PreparedTable,
    rows: npt.NDArray[np.intp],
    weight: Array,
    random_state: Any,
    n_jobs: int | None,
) -> TableClusters:
    """Return clusters of some rows by all columns but texts, without class distributions yet."""
    # In order of their names, since the start of a mixture depends on the order of columns.
    columns = tuple(sorted((c for c in X.columns if c.vectorizer is None), key=lambda c: c.name))
    encoded = {c.name: X.encoded[c.name][rows] for c in columns if c.kind != "out"}
    table = replace(X, columns=columns, encoded=encoded, texts={}, blocks=())
    M = n_clusters(len(rows))
    numbers = [encoded[column.name] for column in columns if column.kind == "number"]
    forms = ("bins", "normal") if any((~np.isnan(own)).any() for own in numbers) else ("bins",)
    mixtures = []
    for i, seed in enumerate(mixture_seeds(random_state, N_MIXTURES)):
        settings: dict[str, Any] = {"max_iter": MAX_ITER, "n_init": 1, "n_jobs": n_jobs}
        form = forms[i % len(forms)]
        mixture = ClusterMixture(
            M, alpha=0.1, numbers=form, tol=1e-3, random_state=seed, **settings
        )
        own = mixture._with_bins(table, form == "bins")
        mixtures.append(fit_mixture(mixture, own, weight))
    return TableClusters(tuple(mixtures), np.ones((M * len(mixtures), 1)), 1.0)
