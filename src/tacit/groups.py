"""Groups of rows that are alike, found without labels, and the classes that each leans to.

    p(y | x) = sum_g p(g | x) p(y | g)

Columns that hang together make such groups, which naive Bayes within a class cannot see. A mixture
of all rows finds them (`tacit.TableMixture`); of which classes they are, the labelled rows tell.
As columns say the same several ways, log p(x, g) is divided by the root of their number: a row
belongs a little to every group that is like it, and few labels reach far.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from tacit.columns import BESIDE, Column
from tacit.components import log_of_parts
from tacit.mixtures import TableMixture
from tacit.numerics import Array, log, normalize
from tacit.tabular import Prepared

__all__ = ["Alike", "Groups", "find"]

# So many groups, times the root of the number of rows, but no more than this.
BY_ROOT = 2.0
MOST_GROUPS = 80
# Rounds of EM that find them: enough to tell rows apart by.
ROUNDS = 25
# Rows of the classes as they are labelled that each group has before any of its own is seen.
PRIOR_ROWS = 0.1
# Rows whose p(g | x) are held at once.
AT_ONCE = 10_000


@dataclass(eq=False, repr=False, kw_only=True)
class Alike(TableMixture):
    """A mixture that sees bins of numbers as a classifier of tables does.

    Yes and no are two categories, which is the same, but in one pass of the kernel with the others.
    """

    _beside: ClassVar[float] = BESIDE

    def _seen_as(self, column: Column) -> str:
        return "category" if column.kind == "yes/no" else super()._seen_as(column)


@dataclass(frozen=True)
class Groups:
    """Groups of rows, and the shares of the classes in each.

    Attributes
    ----------
    mixture : Alike
        What groups there are.
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

    mixture: Alike
    shares: Array
    weight: float = 1.0

    @property
    def doubt(self) -> float:
        """By what log p(x, g) is divided."""
        return float(np.sqrt(sum(column.kind != "out" for column in self.mixture.columns_)))

    def posterior(self, X: Prepared, rows: Any = slice(None)) -> Array:
        """Return p(g | x) of rows of a table, of shape (n, M)."""
        seen = self.mixture._prepared(X, reset=False)[rows]
        return normalize(self.mixture.predict_joint_log_proba(seen) / self.doubt)[0]

    def said(self, posterior: Array) -> Array:
        """Return what p(g | x) says for each class beyond its share, of shape (n, K)."""
        p = np.zeros((len(posterior), self.shares.shape[1]))
        for own, shares in zip(posterior.T, self.shares, strict=True):
            p += own[:, None] * shares  # not by BLAS: the same bits for any number of rows
        return self.weight * log(p)

    def evidence(self, X: Prepared) -> Array:
        """Return what the groups of rows say for each class beyond its share, of shape (n, K)."""
        seen = self.mixture._prepared(X, reset=False)
        parts = (slice(start, start + AT_ONCE) for start in range(0, X.shape[0], AT_ONCE))
        return np.concatenate([self.said(self.posterior(seen, part)) for part in parts])

    def terms(self, X: Prepared) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return what is said of each class before a row is seen, and by each of its cells.

        The log of a sum over groups is a mean of logs, and an entropy (`log_of_parts`): so it is
        the sum of what each cell says.
        """
        seen, by = self.mixture._prepared(X, reset=False), self.weight / self.doubt
        log_prior, cells = self.mixture._terms(seen)
        joint = (log_prior + sum(logs for _, _, logs in cells)) / self.doubt
        lean = log(self.shares.T)
        within = normalize(joint + lean)[0]
        before = self.weight * log_of_parts((log_prior / self.doubt + lean).ravel(), within)
        return before, [(column, value, by * (within @ logs)) for column, value, logs in cells]

    def taught(
        self, posterior: Array, codes: npt.NDArray[np.intp], weight: Array, K: int
    ) -> Groups:
        """Return the groups with shares by rows of known classes."""
        given = np.eye(K)[codes] * weight[:, None]
        prior = given.sum(axis=0) + 1.0
        prior /= prior.sum()
        counts = posterior.T @ given + PRIOR_ROWS * prior
        return replace(self, shares=counts / counts.sum(axis=1, keepdims=True) / prior)


def find(X: Prepared, rows: npt.NDArray[np.intp], weight: Array, **settings: Any) -> Groups:
    """Return groups of some rows of a table, which lean to no class yet; texts are left out."""
    # By name, since where a mixture begins depends on the order of the columns.
    columns = tuple(sorted((c for c in X.columns if c.vectorizer is None), key=lambda c: c.name))
    cells = {column.name: X.cells[column.name][rows] for column in columns if column.kind != "out"}
    M = min(int(np.ceil(BY_ROOT * np.sqrt(len(rows)))), MOST_GROUPS, len(rows))
    mixture = Alike(M, alpha=0.1, numbers="bins", tol=1e-3, max_iter=ROUNDS, **settings)
    table = mixture._cut(replace(X, columns=columns, cells=cells, texts={}, blocks=()), True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # good enough to tell rows apart by
        mixture.fit(table, sample_weight=weight)
    return Groups(mixture, np.ones((M, 1)))
