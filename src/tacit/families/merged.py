"""Words that no round of EM can tell apart, as one: half of the words of a text occur only once.

A fit runs on the merged words; what comes of it is spread to all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.rows import Rows
from tacit.data.sparse import Bags
from tacit.families import multinomial
from tacit.families.base import Expected, check_shares
from tacit.families.linear import Logs
from tacit.families.multinomial import Counts, Multinomial
from tacit.numerics import Array, expected_log, log, ratio

__all__ = ["Merged", "merge"]

# So many entries make it worth while to look for words to merge.
LEAST = 1 << 17


@dataclass(frozen=True)
class Params(multinomial.Params):
    """p(t | y) of one of the words that each column stands for: exp(log_sizes) of them."""

    log_sizes: Array

    @cached_property
    def logs(self) -> Logs:
        """Log of the smoothed ratios of counts, of one word each."""
        sizes, totals = np.exp(self.log_sizes), np.exp(self.log_totals)[:, None]
        shares = ratio(self.counts + self.alpha, totals, sizes / sizes.sum())
        return Logs(log(shares) - self.log_sizes)

    @property
    def density(self) -> float | None:
        """The log density of the smoothing, if a kernel has come across it."""
        if self.noted is None:
            return None
        return self.noted - len(self.counts) * _dot(self.alpha, self.log_sizes)


@dataclass(frozen=True)
class Merged(Multinomial):
    """Words of which some are merged: column `which[t]` has all entries of word t.

    A column of m words has m times the counts of each, and m times its alpha: thus m times its
    probability, in all classes, which changes log p(x | y) by the same for all of them.
    """

    which: Any = None
    log_sizes: Any = None

    def expect(self, params: Any, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Expect the words one by one: the kernels take a column for one word."""
        rows = rows if rows.memory is not None else rows.fresh()
        found = super().expect(params, rows, log_prior, hard)
        if found is None:
            return None
        assert rows.memory is not None
        too_much = _dot(rows.memory.all_columns, self.log_sizes)
        return found._replace(log_likelihood=found.log_likelihood - too_much)

    def maximize(self, statistics: Counts) -> Params:
        """Return the smoothed ratios of counts."""
        return Params(statistics.words, self.alpha, statistics.totals, self.log_sizes)

    def log_joint(self, params: Any, statistics: Counts) -> float:
        """Return the expected log-likelihood of the words."""
        return expected_log(statistics.words, params.log_p)

    def check_params(self, params: Any) -> None:
        """Check that the words of the vocabulary are all there is."""
        check_shares("p(word | y)", np.exp(params.log_p + self.log_sizes).sum(axis=1))

    def spread(self, statistics: Counts) -> Counts:
        """Return the statistics of all words."""
        each = statistics.words.T / np.exp(self.log_sizes)[:, None]
        return replace(statistics, words=each.take(self.which, axis=0).T)


def _dot(a: Array, b: Array) -> float:
    """Return a · b without BLAS, whose threads change the bits, and spin."""
    return float((a * b).sum())


def merge(family: Any, features: Any) -> tuple[Merged, Bags] | None:
    """Merge words that cannot come apart; None if there are few, or it is not worth while.

    They have their only entry in the same row, with the same value, and the same alpha. Labels do
    not matter: whatever the row counts for, it counts for all of its words.
    """
    native = kernels.native()
    if native is None or type(family) is not Multinomial or not isinstance(features, Bags):
        return None
    table, d = features.table, features.width
    if len(table.data) < LEAST or features.rows is not None:
        return None
    found = native.alike(*kernels.csr_arrays(table), d)
    if found is None:
        return None
    which, kinds = found
    sizes = np.bincount(which, minlength=kinds)
    alpha = np.bincount(which, np.broadcast_to(family.alpha, d), kinds)
    if family.alpha.ndim and (alpha[which] != sizes[which] * family.alpha).any():
        return None
    columns: npt.NDArray[np.int32] = which.take(table.indices)
    places = columns.astype(table.indices.dtype, copy=False), table.indptr
    merged = type(table)((table.data, *places), shape=(len(features), kinds), copy=False)
    return Merged(alpha, which, np.log(sizes)), Bags(merged)
