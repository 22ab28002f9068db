"""The labelled/unlabelled split of a fit: labelled rows are counted once, duplicates collapsed.

The rounds of EM go over the rows whose label is unknown; the statistics of the others never change
and are added as they are (`fixed` of `tacit.em.fit`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import kernels
from tacit.data.labels import Labels
from tacit.data.rows import Rows
from tacit.families.merged import Merged, merge_words
from tacit.models.naive_bayes import ClassCounts, NaiveBayes
from tacit.models.starts import responsibilities
from tacit.numerics import Array, Matrix

__all__ = ["Split", "count_labelled", "select", "split_rows"]


class Duplicates(NamedTuple):
    """Kinds of equal rows: the first row of each, and which kind each row is."""

    first: npt.NDArray[np.intp]
    which: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Split:
    """What the rounds of a fit go over, and the statistics of the rest.

    Attributes
    ----------
    model : NaiveBayes
        The model of the rounds: its params are ready for the kernels.
    rows : Rows
        All rows, as the rounds take them.
    loop : ndarray of shape (n,)
        Which rows the rounds go over.
    distinct : Rows or None
        These rows, duplicates collapsed into weights; None if there are none.
    duplicates : Duplicates or None
        Which of the distinct rows each is, where some were collapsed.
    fixed : ClassCounts or None
        The statistics of the other rows, whose label and cells are all known.
    """

    model: NaiveBayes
    rows: Rows
    loop: npt.NDArray[np.bool_]
    distinct: Rows | None
    duplicates: Duplicates | None
    fixed: ClassCounts | None

    def expand(self, statistics: ClassCounts) -> ClassCounts:
        """Return statistics of the rounds in terms of the columns of the data."""
        family = self.model.family
        if not isinstance(family, Merged):
            return statistics
        return replace(statistics, features=family.expand(statistics.features))

    def width(self, d: int) -> int:
        """Return how many columns the rounds see of d."""
        return len(self.model.family.log_sizes) if isinstance(self.model.family, Merged) else d

    @property
    def chunks(self) -> list[Rows]:
        """The rows of the loop in chunks."""
        return [] if self.distinct is None else list(self.distinct.chunks())

    def start(
        self, init: Any, X: Matrix, labels: Labels, weight: Array, rng: np.random.RandomState
    ) -> tuple[Rows, Array]:
        """Return rows to start from, and their responsibilities (see `tacit.models.starts`)."""
        draw = partial(responsibilities, init, rng=rng, hard=self.model.hard)
        if self.duplicates is None or not self.loop.all():
            return self.rows, draw(X, labels, weight)
        first, which = self.duplicates
        assert self.distinct is not None
        assert self.distinct.weight is not None
        total = self.distinct.weight
        if isinstance(init, str):
            return self.distinct, draw(X[first], labels.of(first), total)
        # A row has the mean of those that it stands for.
        begin = draw(X, labels, weight)
        sums = [np.bincount(which, weight * column, len(first)) for column in begin.T]
        return self.distinct, np.stack(sums, axis=1) / total[:, None]

    def unlabelled(self, rows: Rows, labels: Labels) -> tuple[Rows, npt.NDArray[np.intp] | None]:
        """Return the rows without a label, and which of them each is if duplicates are collapsed.

        These differ from the rows of the loop where a labelled row has a missing cell, or a row
        has no weight. `rows` are all rows of the data.
        """
        unlabelled = labels.codes < 0
        if self.distinct is None or not self.duplicates or (self.loop != unlabelled).any():
            return select(Rows(rows.features), unlabelled, labels), None
        return self.distinct, self.duplicates.which


def split_rows(
    model: NaiveBayes, rows: Rows, labels: Labels, used: npt.NDArray[np.bool_], merging: bool
) -> Split:
    """Split the rows that are used into those that EM goes over and those that it counts once.

    If `merging`, words that no round can tell apart may be merged.
    """
    known = (labels.codes >= 0) & model.family.complete(rows.features) & used
    loop, distinct, duplicates = ~known & used, None, None
    if loop.any():
        merged = merge_words(model.family, rows.features) if merging else None
        family, features = (model.family, rows.features) if merged is None else merged
        model = replace(model, family=family.for_em(features))
        rows = replace(rows, features=features)
        distinct, duplicates = collapse(model, select(rows, loop, labels))
    fixed = count_labelled(model, rows, known, labels) if known.any() else None
    return Split(model, rows, loop, distinct, duplicates, fixed)


def select(rows: Rows, mask: npt.NDArray[np.bool_], labels: Labels) -> Rows:
    """Return the rows of a mask with the evidence of their labels, if there is any."""
    chosen = rows if mask.all() else rows.take(np.flatnonzero(mask))
    if labels.unknown[mask].all():
        return chosen
    return Rows(chosen.features, labels.log_evidence()[mask], chosen.weight)


def collapse(model: NaiveBayes, rows: Rows) -> tuple[Rows, Duplicates | None]:
    """Return distinct rows with the weight of all their duplicates, if many rows are duplicates."""
    keys = model.family.keys(rows.features) if rows.evidence is None else None
    found = None if keys is None else kernels.distinct(keys)
    if found is None:
        return rows, None
    first, which = found
    weight = np.bincount(which, rows.weight, len(first)).astype(np.float64)
    return Rows(rows.features.take(first), None, weight), Duplicates(first, which)


def count_labelled(
    model: NaiveBayes, rows: Rows, known: npt.NDArray[np.bool_], labels: Labels
) -> ClassCounts:
    """Return the statistics of rows whose label is known, and whose cells are all observed."""
    chosen = rows if known.all() else rows.take(np.flatnonzero(known))
    codes = labels.codes if known.all() else labels.codes[known]
    weight = np.ones(len(codes)) if chosen.weight is None else chosen.weight
    places = codes, np.arange(len(codes) + 1)
    one_hot = sparse.csr_array((weight, *places), (len(codes), len(labels.classes)))
    return model.count(Rows(chosen.features), one_hot)
