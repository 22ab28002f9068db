"""Why a row has its label: what each word and each cell says, in log-odds that add up exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp

from tacit.columns import Column
from tacit.families import Bernoulli, Categorical, Family, Gaussian, Multinomial
from tacit.numerics import Array, ratio

__all__ = ["Explanation", "Feature", "Term", "marks", "terms"]


class Term(NamedTuple):
    """What one cell, or one word of it, says."""

    column: str
    value: str
    log_odds: float


@dataclass(frozen=True)
class Explanation:
    """Why a row is rather of one class than of another.

    Attributes
    ----------
    label, against
        The two classes.
    probability : float
        p(label | row).
    prior : float
        The log-odds of the two before anything of the row is known.
    terms : tuple of Term
        What each cell and each word adds to them, the strongest first.
    log_odds : float
        log p(label | row) - log p(against | row): the prior and all terms, added up. (A row that is
        impossible in both classes, which needs alpha = 0, leaves it to the prior.)
    """

    label: Any
    against: Any
    probability: float
    prior: float
    terms: tuple[Term, ...]
    log_odds: float

    def __str__(self) -> str:
        lines = [f"{self.label} (probability {self.probability:.3g}) rather than {self.against}"]
        rows = [("before", "", self.prior), *self.terms]
        width = max(len(f"{column} {value}") for column, value, _ in rows)
        lines += [f"  {f'{c} {v}':<{width}} {odds:+9.3f}" for c, v, odds in rows]
        return "\n".join([*lines, f"  {'together':<{width}} {self.log_odds:+9.3f}"])


class Feature(NamedTuple):
    """A word, category or number that marks a class.

    `log_odds` is what it says for the class against all others; `strength` is its square times how
    often a row of the class has it, so that what is common but says little comes late.
    """

    column: str
    value: str
    log_odds: float
    strength: float


def terms(family: Family, params: Any, block: Any) -> tuple[npt.NDArray[np.intp], Array]:
    """Return the columns of one row that say something, and log p(cell | y) of each, (m, K).

    Families of independent features have the score of a row with one cell as the term of the cell;
    sparse rows must be words, whose absence says nothing.
    """
    if sparse.issparse(block):
        block = sparse.csr_array(block)
        columns = block.indices[block.data != 0]
        entries = block.data[block.data != 0]
        places = np.arange(len(columns))
        rows = sparse.csr_array((entries, (places, columns)), (len(columns), block.shape[1]))
    else:
        columns = np.flatnonzero(~np.isnan(block[0]))
        rows = np.full((len(columns), block.shape[1]), np.nan)
        rows[np.arange(len(columns)), columns] = block[0, columns]
    return columns, family.score(params, family.encode(rows))


def marks(
    family: Family, params: Any, statistics: Any, columns: list[Column], share: Array, k: int
) -> list[Feature]:
    """Return what marks class k in the columns of one part, against the others by their share."""
    others = np.where(np.arange(len(share)) == k, 0.0, share)
    others = np.log(ratio(others, others.sum(), 0.0)[:, None] + 1e-300)

    def against(log_p: Array) -> Array:
        """Return log p of the class less that of all others, for each column."""
        return np.asarray(log_p[k] - logsumexp(log_p + others, axis=0))

    if isinstance(family, Multinomial):
        (column,) = columns
        assert column.vectorizer is not None
        words = column.vectorizer.get_feature_names_out()
        length = float(ratio(statistics.totals, statistics.rows, 0.0)[k])
        odds, p = against(params.log_p), np.exp(params.log_p[k])
        best = np.argsort(-p * odds * np.abs(odds), kind="stable")[:1000]
        return [_feature(column, words[j], odds[j], length * p[j]) for j in best]
    if isinstance(family, Categorical):
        return [
            _feature(column, name, odds, p)
            for column, log_p in zip(columns, family.split(params.log_p), strict=True)
            for name, odds, p in zip(
                column.categories, against(log_p), np.exp(log_p[k]), strict=False
            )
        ]
    if isinstance(family, Bernoulli):
        found = []
        for value, log_p in enumerate((params.log_not, params.log_p)):
            odds, p = against(log_p), np.exp(log_p[k])
            triples = zip(columns, odds, p, strict=True)
            found += [_feature(c, c.categories[value], o, own) for c, o, own in triples]
        return found
    assert isinstance(family, Gaussian)
    (column,), (mean,), (variance,) = columns, params.mean.T, params.variance.T
    weight = np.exp(others[:, 0])
    middle = float(weight @ mean)
    spread = float(weight @ (variance + (mean - middle) ** 2))
    square = (variance[k] + (mean[k] - middle) ** 2) / spread
    odds = 0.5 * (np.log(spread / variance[k]) + square - 1.0)  # of its values, on average
    return [_feature(column, f"{mean[k]:.4g} on average, others {middle:.4g}", odds, 1.0)]


def _feature(column: Column, value: str, odds: float, often: float) -> Feature:
    strength = float(odds * abs(odds) * often) if often else 0.0
    return Feature(column.name, str(value), float(odds), strength)
