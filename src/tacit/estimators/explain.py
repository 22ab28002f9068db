"""Explanations: the log-odds that each word and each value contributes, which add up exactly.

Shared by the classifiers of `tacit.text` and `tacit.frames`, which name the terms. Printing here is
one explanation as text; reports are `tacit.report`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp

from tacit.families import Family
from tacit.numerics import Array

__all__ = ["Explanation", "Feature", "Term", "class_index", "explanation", "terms"]


# Terms that are printed; the others are summed.
SHOWN = 30


class Term(NamedTuple):
    """Log-odds that one value, or one word of a text, contributes."""

    column: str
    value: str
    log_odds: float


@dataclass(frozen=True)
class Explanation:
    """Log-odds of one class against another, as a sum of the prior and a term per word or value.

    Attributes
    ----------
    label, against
        The two classes.
    probability : float
        p(label | row).
    prior : float
        The log-odds of the two classes before the row is seen: log p(label) - log p(against).
    terms : tuple of Term
        The log-odds that each value and each word adds, largest magnitude first.
    log_odds : float
        The total, log p(label | row) - log p(against | row): the prior plus all terms. (The prior
        alone for a row that is impossible in both classes, which needs alpha = 0.)
    """

    label: Any
    against: Any
    probability: float
    prior: float
    terms: tuple[Term, ...]
    log_odds: float

    def __str__(self) -> str:
        lines = [f"{self.label} (probability {self.probability:.3g}) rather than {self.against}"]
        rows = [("prior", "", self.prior), *self.terms[:SHOWN]]
        left = [term.log_odds for term in self.terms[SHOWN:]]
        rows += [(f"{len(left)} others", "", sum(left))] if left else []
        rows += [("total", "", self.log_odds)]
        width = max(len(f"{column} {value}") for column, value, _ in rows)
        return "\n".join(
            [*lines, *(f"  {f'{c} {v}':<{width}} {odds:+z9.3f}" for c, v, odds in rows)]
        )


def class_index(label: Any, names: list[Any]) -> int:
    """Return the index of a class; ValueError if there is no such class."""
    if label not in names:
        raise ValueError(f"There is no class {label!r}: expected one of {names}.")
    return names.index(label)


def explanation(
    names: list[Any],
    log_prior: Array,
    log_terms: list[tuple[str, str, Array]],
    label: Any = None,
    against: Any = None,
) -> Explanation:
    """Return the explanation of a row from log p(y) and (column, value, log p(value | y)) terms.

    Without `label` it is about the most probable class, without `against` about the next one.

    Examples
    --------
    >>> found = explanation(["a", "b"], np.log([0.5, 0.5]), [("x", "1", np.log([0.8, 0.2]))])
    >>> found.label, round(found.probability, 3), round(found.log_odds, 3)
    ('a', 0.8, 1.386)
    """
    if len(names) < 2:
        raise ValueError("There is one class only: nothing to compare it with.")
    joint = log_prior + sum(logs for _, _, logs in log_terms)
    possible = log_prior if np.isneginf(joint).all() else joint
    order = np.argsort(-possible, kind="stable")
    k = int(order[0]) if label is None else class_index(label, names)
    other = int(order[order != k][0]) if against is None else class_index(against, names)
    if other == k:
        raise ValueError(f"The class {names[k]!r} cannot be compared with itself.")
    found = [Term(column, value, _less(logs[k], logs[other])) for column, value, logs in log_terms]
    found.sort(key=lambda term: -abs(term.log_odds))
    prior = _less(log_prior[k], log_prior[other])
    probability = float(np.exp(possible[k] - logsumexp(possible)))
    total = prior + sum(term.log_odds for term in found)
    if np.isneginf(joint[[k, other]]).all():  # impossible in both
        total = prior
    return Explanation(names[k], names[other], probability, prior, tuple(found), total)


def _less(a: float, b: float) -> float:
    """Return a - b, and 0 where both are -inf."""
    return 0.0 if a == b else float(a - b)


class Feature(NamedTuple):
    """A word, category or number that is characteristic of a class.

    `log_odds` is for the class against all others; `strength` is its square times the frequency in
    the class, so that common features of small log-odds come late.
    """

    column: str
    value: str
    log_odds: float
    strength: float


def terms(family: Family, params: Any, block: Any) -> tuple[npt.NDArray[np.intp], Array]:
    """Return the observed columns of one row, and log p(value | y) of each, shape (m, K).

    For families of independent features: the term of a value is the score of a row that has this
    value alone. Sparse rows must be counts, whose zeros contribute nothing.
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
