"""The rows of a fit as EM goes over them: labelled ones counted once, equal ones as one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import kernels
from tacit.data.labels import Labels
from tacit.data.rows import Rows
from tacit.families.merged import Merged, merge
from tacit.models.naive_bayes import ClassCounts, NaiveBayes, Params
from tacit.numerics import Array

__all__ = ["Layout", "count_known", "lay_out", "select"]


@dataclass(frozen=True)
class Layout:
    """What the rounds of a fit go over, and what they begin with.

    Attributes
    ----------
    whole : NaiveBayes
        The model of the data.
    model : NaiveBayes
        That of the rounds: words that no round can tell apart are one.
    rows : Rows
        All rows, as the rounds see them.
    loop : ndarray of shape (n,)
        The rows that they go over.
    merged : Rows or None
        These, equal ones as one; None if there are none.
    which : ndarray, or None
        Which of the merged rows each is, where some are.
    fixed : ClassCounts or None
        The statistics of rows that are wholly known, which are counted once.
    """

    whole: NaiveBayes
    model: NaiveBayes
    rows: Rows
    loop: npt.NDArray[np.bool_]
    merged: Rows | None
    which: npt.NDArray[np.intp] | None
    fixed: ClassCounts | None

    @cached_property
    def chunks(self) -> list[Rows]:
        """The rows of the loop in chunks; statistics that are fixed go along with the first."""
        chunks = [] if self.merged is None else list(self.merged.chunks())
        if chunks:
            chunks[0] = replace(chunks[0], known=self.fixed)
        return chunks

    def width(self, d: int) -> int:
        """Return how many columns the rounds see of d."""
        family = self.model.family
        return len(family.log_sizes) if isinstance(family, Merged) else d

    def together(self, responsibilities: Array, weight: Array) -> tuple[Rows, Array]:
        """Return rows to begin with, and their responsibilities, given those of all rows.

        Merged rows have the mean of those that each stands for.
        """
        if self.merged is None or self.which is None or not self.loop.all():
            return self.rows, responsibilities
        assert self.merged.weight is not None
        size = len(self.merged)
        sums = [np.bincount(self.which, weight * column, size) for column in responsibilities.T]
        return self.merged, np.stack(sums, axis=1) / self.merged.weight[:, None]

    def spread(self, params: Params, statistics: ClassCounts) -> tuple[Params, ClassCounts]:
        """Return what a fit found, for all words."""
        if not isinstance(self.model.family, Merged):
            return params, statistics
        features = self.model.family.spread(statistics.features)
        statistics = replace(statistics, features=features)
        return self.whole.maximize(statistics), statistics

    def unlabelled(self, rows: Rows, labels: Labels) -> tuple[Rows, npt.NDArray[np.intp] | None]:
        """Return rows without a label, equal ones as one, and which of these each is, if so.

        `rows` are all rows as the model of the data sees them.
        """
        unlabelled = labels.codes < 0
        if self.merged is None or self.which is None or (self.loop != unlabelled).any():
            return select(Rows(rows.features), unlabelled, labels), None
        return self.merged, self.which


def lay_out(
    model: NaiveBayes,
    rows: Rows,
    labels: Labels,
    used: npt.NDArray[np.bool_],
    merging: bool,
) -> Layout:
    """Lay out the rows that are used; if `merging`, words that cannot come apart become one."""
    known = (labels.codes >= 0) & model.family.complete(rows.features) & used
    whole, loop = model, ~known & used
    if merging and loop.any() and (fewer := merge(model.family, rows.features)) is not None:
        model, rows = replace(model, family=fewer[0]), replace(rows, features=fewer[1])
    merged, which = collapse(model, select(rows, loop, labels)) if loop.any() else (None, None)
    fixed = count_known(model, rows, known, labels) if known.any() else None
    return Layout(whole, model, rows, loop, merged, which, fixed)


def select(rows: Rows, mask: npt.NDArray[np.bool_], labels: Labels) -> Rows:
    """Return the rows of a mask with their evidence, if there is any."""
    chosen = rows if mask.all() else rows.take(np.flatnonzero(mask))
    if labels.unknown[mask].all():
        return chosen
    return Rows(chosen.features, labels.log_evidence()[mask], chosen.weight)


def collapse(model: NaiveBayes, rows: Rows) -> tuple[Rows, npt.NDArray[np.intp] | None]:
    """Merge equal rows into one, their weights added, if many are equal.

    Also returns which of the merged rows each row is; None if nothing was merged.
    """
    keys = model.family.keys(rows.features) if rows.evidence is None else None
    found = None if keys is None else kernels.distinct(keys)
    if found is None:
        return rows, None
    first, which = found
    weight = np.bincount(which, rows.weight, len(first)).astype(np.float64)
    return Rows(rows.features.take(first), None, weight), which


def count_known(
    model: NaiveBayes,
    rows: Rows,
    known: npt.NDArray[np.bool_],
    labels: Labels,
) -> ClassCounts:
    """Return the statistics of rows whose label is known, and whose cells are all observed."""
    chosen = rows if known.all() else rows.take(np.flatnonzero(known))
    codes = labels.codes if known.all() else labels.codes[known]
    weight = np.ones(len(codes)) if chosen.weight is None else chosen.weight
    places = codes, np.arange(len(codes) + 1)
    one_hot = sparse.csr_array((weight, *places), (len(codes), len(labels.classes)))
    rows = Rows(chosen.features)
    counts = model.count(rows, one_hot)
    exact = model.family.around(counts.features)
    return counts if exact is model.family else replace(model, family=exact).count(rows, one_hot)
