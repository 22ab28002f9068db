"""Groups of rows that are alike, found without labels, and the classes that each leans to.

    p(y | x) = sum_g p(g | x) p(y | g)

Columns that hang together make such groups, which naive Bayes within a class cannot see. Mixtures
of all rows find them (`tacit.TableMixture`); of which classes they are, the labelled rows tell. As
columns say the same several ways, log p(x, g) is divided by the root of their number: a row belongs
a little to every group that is like it, and few labels reach far.

One mixture is a matter of chance, so there are several, and p(g | x) is the mean of theirs. Half of
them see numbers in bins, which do not mind how these are distributed, half as they lie in their
range, which knows how far apart they are.

Clusters of texts are in `tacit.text.clusters`; what both share in `tacit.selection.clusters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacit.families import Gaussian
from tacit.frames.base import Group, Prepared
from tacit.frames.columns import BESIDE, Column
from tacit.frames.mixture import TableMixture
from tacit.numerics import Array
from tacit.selection.clusters import Leaning, fitted, seeds

__all__ = ["Alike", "Groups", "find", "how_many"]

# So many groups, times the root of the number of rows, but no more than this.
BY_ROOT = 2.0
MOST_GROUPS = 80
# So many mixtures, and rounds of EM for each: enough to tell rows apart by.
MIXTURES = 4
ROUNDS = 25


@dataclass(eq=False, repr=False, kw_only=True)
class Alike(TableMixture):
    """A mixture that sees bins of numbers as tables do, or numbers by range.

    Yes and no are two categories, which is the same, but in one pass of the kernel with the others.
    """

    _beside: ClassVar[float] = BESIDE

    def _seen_as(self, column: Column) -> str:
        return "category" if column.kind == "yes/no" else super()._seen_as(column)

    def _normal(self, columns: list[Column]) -> Iterator[Group]:
        if columns:
            yield Group("numbers", Gaussian(shared=True), columns, len(columns))


@dataclass(frozen=True)
class Groups(Leaning):
    """Groups of rows of a table, and the classes that they lean to.

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"leaf": ["long", "long", "round", "round"] * 5, "bark": ["a", "a", "b", "b"] * 5}
    >>> model = TableClassifier(random_state=0).fit(table, ["ash", None, "elm", None] * 5)
    >>> model.groups_.evidence(model.prepare(table))[:4].argmax(axis=1)  # ash, ash, elm, elm
    array([0, 0, 1, 1])
    """

    mixtures: tuple[Alike, ...]

    @property
    def doubt(self) -> float:
        """The root of the number of columns."""
        return float(np.sqrt(sum(column.kind != "out" for column in self.mixtures[0].columns_)))

    def posterior(self, X: Prepared, rows: Any = slice(None)) -> Array:
        """Return p(g | x) of rows of a table, of shape (n, M)."""
        used = [column.name for column in self.mixtures[0].columns_ if column.kind != "out"]
        cells = {name: X.cells[name][rows] for name in used}
        part = replace(X, cells=cells, texts={}, blocks=())
        seen = ((one, one._prepared(part, reset=False)) for one in self.mixtures)
        return self.averaged(one.predict_joint_log_proba(own) for one, own in seen)

    def terms(self, X: Prepared) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return what is said of each class before a row is seen, and by each of its cells."""
        said = [one._terms(one._prepared(X, reset=False)) for one in self.mixtures]
        before, each = self.blended(
            (prior, np.array([own for _, _, own in cells]).reshape(-1, len(prior)))
            for prior, cells in said
        )
        pairs = zip(said, each, strict=True)
        return before, [
            (column, value, own)
            for (_, cells), logs in pairs
            for (column, value, _), own in zip(cells, logs, strict=True)
        ]


def how_many(n: int) -> int:
    """Return how many groups n rows are taken for."""
    return min(int(np.ceil(BY_ROOT * np.sqrt(n))), MOST_GROUPS, n)


def find(
    X: Prepared, rows: npt.NDArray[np.intp], weight: Array, random_state: Any, n_jobs: int | None
) -> Groups:
    """Return groups of some rows of a table, which lean to no class yet; texts are left out."""
    # By name, since where a mixture begins depends on the order of the columns.
    columns = tuple(sorted((c for c in X.columns if c.vectorizer is None), key=lambda c: c.name))
    cells = {column.name: X.cells[column.name][rows] for column in columns if column.kind != "out"}
    table = replace(X, columns=columns, cells=cells, texts={}, blocks=())
    M = how_many(len(rows))
    numbers = [cells[column.name] for column in columns if column.kind == "number"]
    ways = ("bins", "normal") if any((~np.isnan(own)).any() for own in numbers) else ("bins",)
    found = []
    for i, seed in enumerate(seeds(random_state, MIXTURES)):
        settings: dict[str, Any] = {"max_iter": ROUNDS, "n_init": 1, "n_jobs": n_jobs}
        way = ways[i % len(ways)]
        mixture = Alike(M, alpha=0.1, numbers=way, tol=1e-3, random_state=seed, **settings)
        found.append(fitted(mixture, mixture._cut(table, mixture.numbers == "bins"), weight))
    return Groups(tuple(found), np.ones((M * len(found), 1)), 1.0)
