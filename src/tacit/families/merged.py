"""Words that no round of EM can tell apart, as one: half of the words of a text occur only once.

A fit runs on the merged words; its statistics are expanded to all of them at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.rows import Rows
from tacit.data.sparse import SparseRows
from tacit.families.base import Expected, Family
from tacit.families.linear import column_sums
from tacit.families.multinomial import Counts, Multinomial, Params
from tacit.numerics import Array

__all__ = ["Merged", "merge_words"]

# So many entries make it worth while to look for words to merge.
LEAST = 1 << 17


@dataclass(frozen=True)
class Merged(Multinomial):
    """Words of which some are merged: column `which[t]` has all entries of word t.

    A column of m words has m times the counts of each, and m times its alpha: thus m times its
    probability, in all classes. So posteriors are the same, and log-densities less by log m for
    each entry.
    """

    which: npt.NDArray[np.intp] = field(kw_only=True)
    log_sizes: Array = field(kw_only=True)

    def expect(self, params: Any, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Expect the words one by one."""
        result = super().expect(params, rows, log_prior, hard)
        if result is None:
            return None
        excess = float((column_sums(rows) * self.log_sizes).sum())
        return result._replace(log_likelihood=result.log_likelihood - excess)

    def log_prior(self, params: Params) -> float:
        """Return the log density of the smoothing of all words."""
        excess = float((self.alpha * self.log_sizes).sum())
        return super().log_prior(params) - len(params.counts) * excess

    def log_joint(self, params: Params, statistics: Counts) -> float:
        """Return the expected log-likelihood of all words."""
        excess = float((statistics.column_totals * self.log_sizes).sum())
        return super().log_joint(params, statistics) - excess

    def expand(self, statistics: Counts) -> Counts:
        """Return the statistics of all words."""
        each = statistics.words.T / np.exp(self.log_sizes)[:, None]
        return replace(statistics, words=each.take(self.which, axis=0).T)


def merge_words(family: Family, features: Any) -> tuple[Merged, SparseRows] | None:
    """Merge words that cannot come apart; None if there are few, or it is not worth while.

    They have their only entry in the same row, with the same value, and the same alpha above 0.
    Labels do not matter: whatever the row counts for, it counts for all of its words.
    """
    native = kernels.native()
    if native is None or type(family) is not Multinomial or not isinstance(features, SparseRows):
        return None
    matrix, d = features.matrix, features.width
    if len(matrix.data) < LEAST or features.rows is not None:
        return None
    alpha = np.broadcast_to(family.alpha, d)
    found = native.alike(*kernels.csr_arrays(matrix), d) if (alpha > 0).all() else None
    if found is None:
        return None
    which, kinds = found
    sizes, of_column = np.bincount(which, minlength=kinds), np.empty(kinds)
    of_column[which] = alpha
    if (of_column[which] != alpha).any():
        return None
    columns = which.take(matrix.indices).astype(matrix.indices.dtype, copy=False)
    shape = matrix.shape[0], kinds
    fewer = type(matrix)((matrix.data, columns, matrix.indptr), shape=shape, copy=False)
    merged = Merged(sizes * of_column, which=which, log_sizes=np.log(sizes))
    return merged, replace(features, matrix=fewer)
