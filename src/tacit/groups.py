"""Groups of rows that are alike, found without labels, and the classes that each leans to.

    p(y | x) = sum_g p(g | x) p(y | g)

Columns that hang together make such groups, which naive Bayes within a class cannot see. Mixtures
of all rows find them (`tacit.TableMixture`); of which classes they are, the labelled rows tell. As
columns say the same several ways, log p(x, g) is divided by the root of their number: a row belongs
a little to every group that is like it, and few labels reach far.

One mixture is a matter of chance, so there are several, and p(g | x) is that of each by turns. Half
of them see numbers in bins, which do not mind how these are distributed, half as they lie in their
range, which knows how far apart they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

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
from tacit.tabular import Group, Prepared

__all__ = ["Alike", "Groups", "find"]

# So many groups, times the root of the number of rows, but no more than this.
BY_ROOT = 2.0
MOST_GROUPS = 80
# So many mixtures, and rounds of EM for each: enough to tell rows apart by.
MIXTURES = 4
ROUNDS = 25
# Rows of the classes as they are labelled that each group has before any of its own is seen.
PRIOR_ROWS = 0.1
# Rows whose p(g | x) are held at once.
AT_ONCE = 10_000


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
class Groups:
    """Groups of rows, and the shares of the classes in each.

    Attributes
    ----------
    mixtures : tuple of Alike
        What groups there are, M in all.
    shares : ndarray of shape (M, K)
        p(y | g) / p(y).
    weight : float
        By which what they say is multiplied, in log-odds.

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"leaf": ["long", "long", "round", "round"] * 5, "bark": ["a", "a", "b", "b"] * 5}
    >>> model = TableClassifier(random_state=0).fit(table, ["ash", None, "elm", None] * 5)
    >>> model.groups_.evidence(model.prepare(table))[:4].argmax(axis=1)  # ash, ash, elm, elm
    array([0, 0, 1, 1])
    """

    mixtures: tuple[Alike, ...]
    shares: Array
    weight: float = 1.0

    @property
    def doubt(self) -> float:
        """By what log p(x, g) is divided."""
        return float(np.sqrt(sum(column.kind != "out" for column in self.mixtures[0].columns_)))

    def posterior(self, X: Prepared, rows: Any = slice(None)) -> Array:
        """Return p(g | x) of rows of a table, of shape (n, M)."""
        found = []
        for mixture in self.mixtures:
            seen = mixture._prepared(X, reset=False)[rows]
            joint = mixture.predict_joint_log_proba(seen) / self.doubt
            found.append(normalize(joint)[0] / len(self.mixtures))
        return np.hstack(found)

    def said(self, posterior: Array) -> Array:
        """Return what p(g | x) says for each class beyond its share, of shape (n, K)."""
        p = np.zeros((len(posterior), self.shares.shape[1]))
        for own, shares in zip(posterior.T, self.shares, strict=True):
            p += own[:, None] * shares  # not by BLAS: the same bits for any number of rows
        return self.weight * log(p)

    def evidence(self, X: Prepared) -> Array:
        """Return what the groups of rows say for each class beyond its share, of shape (n, K)."""
        parts = (slice(start, start + AT_ONCE) for start in range(0, X.shape[0], AT_ONCE))
        return np.concatenate([self.said(self.posterior(X, part)) for part in parts])

    def terms(self, X: Prepared) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return what is said of each class before a row is seen, and by each of its cells.

        The log of a sum over groups is a mean of logs, and an entropy (`log_of_parts`): so it is
        the sum of what each cell says. What p(x) is in each mixture is no cell's.
        """
        by, before, cells, joints = self.weight / self.doubt, [], [], []
        for mixture in self.mixtures:
            log_prior, said = mixture._terms(mixture._prepared(X, reset=False))
            joint = (log_prior + sum(logs for _, _, logs in said)) / self.doubt
            before.append(log_prior / self.doubt - logsumexp(joint) - np.log(len(self.mixtures)))
            joints.append(joint + before[-1] - log_prior / self.doubt)
            cells.append(said)
        lean = log(self.shares.T)
        within = normalize(np.concatenate(joints) + lean)[0]
        start, found = 0, list[tuple[str, str, Array]]()
        for said, joint in zip(cells, joints, strict=True):
            own, start = within[:, start : start + len(joint)], start + len(joint)
            found += [(column, value, by * (own @ logs)) for column, value, logs in said]
        log_before = (np.concatenate(before) + lean).ravel()
        return self.weight * log_of_parts(log_before, within), found

    def taught(
        self, posterior: Array, codes: npt.NDArray[np.intp], weight: Array, K: int
    ) -> Groups:
        """Return the groups with shares by rows of known classes."""
        given = np.eye(K)[codes] * weight[:, None]
        prior = given.sum(axis=0) + 1.0
        prior /= prior.sum()
        counts = posterior.T @ given + PRIOR_ROWS / len(self.mixtures) * prior
        return replace(self, shares=counts / counts.sum(axis=1, keepdims=True) / prior)


def find(
    X: Prepared, rows: npt.NDArray[np.intp], weight: Array, random_state: Any, n_jobs: int | None
) -> Groups:
    """Return groups of some rows of a table, which lean to no class yet; texts are left out."""
    # By name, since where a mixture begins depends on the order of the columns.
    columns = tuple(sorted((c for c in X.columns if c.vectorizer is None), key=lambda c: c.name))
    cells = {column.name: X.cells[column.name][rows] for column in columns if column.kind != "out"}
    table = replace(X, columns=columns, cells=cells, texts={}, blocks=())
    M = min(int(np.ceil(BY_ROOT * np.sqrt(len(rows)))), MOST_GROUPS, len(rows))
    ways = ("bins", "normal") if any(c.kind == "number" for c in columns) else ("bins",)
    seeds, found = check_random_state(random_state).randint(2**31 - 1, size=MIXTURES), []
    for i, seed in enumerate(seeds.tolist()):
        settings = {"numbers": ways[i % len(ways)], "random_state": seed, "n_jobs": n_jobs}
        mixture = Alike(M, alpha=0.1, tol=1e-3, max_iter=ROUNDS, n_init=1, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to tell rows apart by
            mixture.fit(mixture._cut(table, mixture.numbers == "bins"), sample_weight=weight)
        found.append(mixture)
    return Groups(tuple(found), np.ones((M * len(found), 1)))
