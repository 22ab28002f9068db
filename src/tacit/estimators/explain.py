"""Why a row has its label: what each word and each cell says, in log-odds that add up exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp

from tacit.families import Family
from tacit.numerics import Array

__all__ = ["Explanation", "Feature", "Term", "explanation", "place", "terms"]


# Terms that a person is shown.
SHOWN = 30


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
        rows = [("before", "", self.prior), *self.terms[:SHOWN]]
        left = [term.log_odds for term in self.terms[SHOWN:]]
        rows += [(f"{len(left)} others", "", sum(left))] if left else []
        rows += [("together", "", self.log_odds)]
        width = max(len(f"{column} {value}") for column, value, _ in rows)
        return "\n".join(
            [*lines, *(f"  {f'{c} {v}':<{width}} {odds:+9.3f}" for c, v, odds in rows)]
        )


def place(label: Any, names: list[Any]) -> int:
    """Return which of the classes one is."""
    if label not in names:
        raise ValueError(f"There is no class {label!r}: expected one of {names}.")
    return names.index(label)


def explanation(
    names: list[Any],
    log_prior: Array,
    said: list[tuple[str, str, Array]],
    label: Any = None,
    against: Any = None,
) -> Explanation:
    """Return why a row is of a class: from log p(y), and columns, values and their log p(. | y).

    Examples
    --------
    >>> found = explanation(["a", "b"], np.log([0.5, 0.5]), [("x", "1", np.log([0.8, 0.2]))])
    >>> found.label, round(found.probability, 3), round(found.log_odds, 3)
    ('a', 0.8, 1.386)
    """
    if len(names) < 2:
        raise ValueError("There is one class only: nothing to compare it with.")
    joint = log_prior + sum(logs for _, _, logs in said)
    possible = log_prior if np.isneginf(joint).all() else joint
    order = np.argsort(-possible, kind="stable")
    k = int(order[0]) if label is None else place(label, names)
    other = int(order[order != k][0]) if against is None else place(against, names)
    if other == k:
        raise ValueError(f"The class {names[k]!r} cannot be compared with itself.")
    found = [Term(column, value, _less(logs[k], logs[other])) for column, value, logs in said]
    found.sort(key=lambda term: -abs(term.log_odds))
    prior = _less(log_prior[k], log_prior[other])
    probability = float(np.exp(possible[k] - logsumexp(possible)))
    together = prior + sum(term.log_odds for term in found)
    if np.isneginf(joint[[k, other]]).all():  # impossible in both: it is left to the prior
        together = prior
    return Explanation(names[k], names[other], probability, prior, tuple(found), together)


def _less(a: float, b: float) -> float:
    """Return a - b, nothing where both are the same impossible thing."""
    return 0.0 if a == b else float(a - b)


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
