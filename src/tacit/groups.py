"""Groups of rows that are alike, found without labels, and the classes that each leans to.

    p(y | x) = sum_g p(g | x) p(y | g)

Columns that hang together make such groups, which naive Bayes within a class cannot see. Mixtures
of all rows find them (`tacit.TableMixture`); of which classes they are, the labelled rows tell. As
columns say the same several ways, log p(x, g) is divided by the root of their number: a row belongs
a little to every group that is like it, and few labels reach far.

One mixture is a matter of chance, so there are several, and p(g | x) is the mean of theirs. Half of
them see numbers in bins, which do not mind how these are distributed, half as they lie in their
range, which knows how far apart they are.

What groups of texts are is said in `tacit.textgroups`; what both share is here.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from tacit.columns import BESIDE, Column
from tacit.components import log_of_parts
from tacit.families import Gaussian
from tacit.mixtures import TableMixture
from tacit.numerics import Array, log, normalize
from tacit.rows import in_parts
from tacit.tabular import Group, Prepared

__all__ = [
    "UNLABELED",
    "Alike",
    "Groups",
    "Leaning",
    "Lesson",
    "find",
    "fitted",
    "how_many",
    "seeds",
]

# The share of rows without a label from which on groups are looked for.
UNLABELED = 0.1
# So many groups, times the root of the number of rows, but no more than this.
BY_ROOT = 2.0
MOST_GROUPS = 80
# So many mixtures, and rounds of EM for each: enough to tell rows apart by.
MIXTURES = 4
ROUNDS = 25
# Rows of the classes as they are labelled that each group has before any of its own is seen.
PRIOR_ROWS = 0.1


@dataclass(frozen=True)
class Leaning(ABC):
    """Groups of rows that lean to classes.

    Attributes
    ----------
    mixtures : tuple
        What groups there are, M in all.
    shares : ndarray of shape (M, K)
        p(y | g) / p(y).
    weight : float
        By which what they say is multiplied, in log-odds.
    """

    mixtures: tuple[Any, ...]
    shares: Array
    weight: float

    @property
    @abstractmethod
    def doubt(self) -> float:
        """By what log p(x, g) is divided."""

    @abstractmethod
    def posterior(self, X: Any, rows: Any = slice(None)) -> Array:
        """Return p(g | x) of rows, of shape (n, M)."""

    def averaged(self, joints: Iterable[Array]) -> Array:
        """Return p(g | x) from log p(x, g) in each mixture."""
        by = len(self.mixtures)
        return np.hstack([normalize(joint / self.doubt)[0] / by for joint in joints])

    def said(self, posterior: Array) -> Array:
        """Return what p(g | x) says for each class beyond its share, of shape (n, K)."""
        p = np.zeros((len(posterior), self.shares.shape[1]))
        for own, shares in zip(posterior.T, self.shares, strict=True):
            p += own[:, None] * shares  # not by BLAS, whose sums depend on how many rows there are
        return self.weight * log(p)

    def evidence(self, X: Any) -> Array:
        """Return what the groups of rows say for each class beyond its share, of shape (n, K)."""
        return in_parts(lambda part: self.said(self.posterior(X, part)), X.shape[0])

    def blended(self, terms: Iterable[tuple[Array, Array]]) -> tuple[Array, list[Array]]:
        """Return what is said of each class before a row is seen, and by its cells.

        `terms` are log p(g) and what each cell of one row adds, of shape (cells, groups), of each
        mixture. The log of a sum over groups is a mean of logs, and an entropy (`log_of_parts`): so
        it is the sum of what each cell says. What p(x) is in each mixture is no cell's.
        """
        before, joints, cells = [], [], []
        for log_prior, said in terms:
            joint = (log_prior + said.sum(axis=0)) / self.doubt
            constant = logsumexp(joint) + np.log(len(self.mixtures))
            before.append(log_prior / self.doubt - constant)
            joints.append(joint - constant)
            cells.append(said)
        lean = log(self.shares.T)
        within = normalize(np.concatenate(joints) + lean)[0]
        each = np.split(within, np.cumsum([len(joint) for joint in joints])[:-1], axis=1)
        by = self.weight / self.doubt
        found = [by * (said @ own.T) for said, own in zip(cells, each, strict=True)]
        start = log_of_parts((np.concatenate(before) + lean).ravel(), within)
        return self.weight * start, found

    def taught(self, posterior: Array, codes: npt.NDArray[np.intp], weight: Array, K: int) -> Self:
        """Return the groups with shares by rows of known classes."""
        given = np.eye(K)[codes] * weight[:, None]
        prior = given.sum(axis=0) + 1.0
        prior /= prior.sum()
        counts = posterior.T @ given + PRIOR_ROWS / len(self.mixtures) * prior
        return replace(self, shares=counts / counts.sum(axis=1, keepdims=True) / prior)


G = TypeVar("G", bound=Leaning)


@dataclass(frozen=True)
class Lesson(Generic[G]):
    """Rows of known classes, by which groups are taught.

    Attributes
    ----------
    groups : Leaning
        Groups that lean to no class yet.
    rows, codes, weight
        The rows, in order, their classes and weights.
    posterior : ndarray of shape (rows, M)
        p(g | x) of these.
    K : int
        The number of classes.
    """

    groups: G
    rows: npt.NDArray[np.intp]
    codes: npt.NDArray[np.intp]
    weight: Array
    posterior: Array
    K: int

    def taught(self, without: Sequence[int] | npt.NDArray[np.intp] = ()) -> G:
        """Return the groups as all rows but some teach them."""
        rest = ~np.isin(self.rows, without)
        return self.groups.taught(self.posterior[rest], self.codes[rest], self.weight[rest], self.K)

    def said(self, held: npt.NDArray[np.intp]) -> Array:
        """Return what groups say of some of the rows, in order, that had no part in the lesson."""
        return self.taught(held).said(self.posterior[np.isin(self.rows, held)])


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


def seeds(random_state: Any, n: int) -> list[int]:
    """Return where n mixtures begin, always the same unless a state is given."""
    state = check_random_state(0 if random_state is None else random_state)
    found: list[int] = state.randint(2**31 - 1, size=n).tolist()
    return found


def fitted(mixture: Any, X: Any, weight: Array) -> Any:
    """Return a mixture that is good enough to tell rows apart by, if not at the end of EM."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(X, sample_weight=weight)


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
