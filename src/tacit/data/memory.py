"""What the rounds of one fit to sparse rows leave for the next: weights, posteriors, their sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.sparse import SLACK, Bags, by_column
from tacit.numerics import SINGLE_FROM, Array

__all__ = ["Known", "Memory", "Smoothing", "Weights"]

# For so many rounds it is known which columns changed: as long as somebody may hold the counts.
HELD = 4


@dataclass(frozen=True)
class Weights:
    """Weights of the columns for each class, as the kernels take them.

    Attributes
    ----------
    table : ndarray of shape (d (2 K + 1) + SLACK,)
        The weights less their mean over the classes, in float32 or float64; after all of them what
        rounding took off each; and whether that matters for the column.
    constants : ndarray of shape (K,)
        What is added for each class.
    shift : ndarray of shape (K,), optional
        What is added to all weights of a class, less `middle`, which is added to all weights.
    density : float
        The log density of the smoothing.
    bounded : bool
        Whether all weights are below +inf.
    """

    table: Any
    constants: Array
    shift: Array | None
    middle: float
    density: float
    bounded: bool


class Smoothing(NamedTuple):
    """What it takes to get from counts to weights.

    Attributes
    ----------
    alpha : ndarray of shape () or (d,)
        What is added to every count.
    log_totals : ndarray of shape (K,)
        Log of what the smoothed counts are divided by.
    seen : ndarray of shape (K,), optional
        How often each class was, if the weights are those of presence and absence.
    """

    alpha: Array
    log_totals: Array
    seen: Array | None = None


class Known(NamedTuple):
    """Counts of labelled rows: of classes, (K,), and of words, (K, d)."""

    classes: Array
    words: Array


@dataclass
class Memory:
    """What the rounds of one fit leave for the next.

    Attributes
    ----------
    table : ndarray, optional
        Room for the weights; `mean` and `constants` for what goes with them.
    ready : ndarray of shape (d, K), optional
        The counts that the table has been made from, by `smoothing`, with `density` and `bounded`.
    kept : ndarray, optional
        The posteriors of the last round, row by row.
    words : ndarray of shape (d, K), optional
        The sums over them.
    rounds : int, optional
        How many rounds ago all of them were summed up; None if they must be.
    columns, all_columns : ndarray of shape (d,), optional
        The sum of each column, without labelled rows and with them.
    total : float
        The sum of the latter.
    known : ndarray of shape (d, K), optional
        The counts of labelled rows.
    occupied : ndarray of shape (d,), optional
        The columns that they have entries in.
    leeway : ndarray of shape (n,), optional
        How far the scores of each row may come apart until its posterior can be another: more than
        0 if it is sure of its class.
    entropies : ndarray of shape (n,), optional
        What each row adds to the log-likelihood beside the expected score.
    scored : tuple of ndarray of shape (K,), optional
        What rows were scored with last beside the weights of columns: constants, and what is added
        to all weights.
    change : ndarray of shape (d,), optional
        How far the weights of each column have come apart since then.
    totals : ndarray of shape (K,), optional
        The sums of `words`.
    expected : ndarray of shape (d,), optional
        What each column adds to the expected score if its counts stay as they are, by the table.
    rooms : Rooms, optional
        Where tables of counts come from, and go when nobody looks at them any more.
    number : int
        How many rounds there were.
    changed : dict
        By the numbers of rounds, the columns whose counts changed; of the last rounds without one
        in which all of them did.
    """

    table: Any = None
    mean: Any = None
    constants: Any = None
    ready: Any = None
    smoothing: Smoothing | None = None
    density: float = 0.0
    bounded: bool = True
    kept: Any = None
    words: Any = None
    rounds: int | None = None
    columns: Any = None
    all_columns: Any = None
    total: float = 0.0
    known: Any = None
    occupied: Any = None
    leeway: Any = None
    entropies: Any = None
    scored: Any = None
    change: Any = None
    totals: Any = None
    expected: Any = None
    rooms: Any = None
    number: int = 0
    changed: dict[int, npt.NDArray[np.int32]] = field(default_factory=dict)

    def restart(self) -> None:
        """Forget what a round left, but for what every round would find the same."""
        self.ready = self.rounds = None

    def look(self, features: Bags, weight: Array | None, known: Known | None) -> None:
        """Note what is the same in all rounds: of these rows, and of labelled ones."""
        if self.columns is not None:
            return
        self.columns = self.all_columns = _column_sums(features, weight)
        if known is not None:
            native = kernels.native()
            assert native is not None
            self.known, self.occupied = by_column(known.words), np.empty(features.width, bool)
            native.occupied(self.known, self.occupied, kernels.threads(self.known.size))
            self.all_columns = self.columns + known.words.sum(axis=0)
        self.total = float(self.all_columns.sum())

    def update(self, smoothing: Smoothing, labelled: bool = False) -> Any:
        """Return what makes the weights of the next round, and says how they change."""
        native = kernels.native()
        assert native is not None
        kind = native.Update32 if self.table.dtype == np.float32 else native.Update64
        alpha, log_totals, seen = smoothing
        places = self.table, self.mean, self.constants
        known = (self.known, self.occupied) if labelled else (None, None)
        by = None
        if self.change is not None:  # but for totals of words, which `moved_apart` looks at
            by = np.zeros(len(log_totals)) if seen is not None else log_totals - self._totals()
        given = np.atleast_1d(alpha), log_totals, seen, self.all_columns
        return kind(*places, *given, *known, self.change, by, self.expected)

    def room(self, d: int, K: int) -> tuple[Array, npt.NDArray[np.int32] | None]:
        """Return a table for the counts of a round.

        And the columns in which it differs from those of the round before; None if any may.
        Counts of earlier rounds must not be written to: a table may come back with them.
        """
        if self.rooms is None:
            native = kernels.native()
            assert native is not None
            self.rooms = native.Rooms(d, K)
        self.number += 1
        words, held = self.rooms.take(self.number)
        since = range(held + 1, self.number)
        if held < 0 or any(number not in self.changed for number in since):
            return words, None
        nothing = np.empty(0, np.int32)
        return words, np.concatenate([nothing, *(self.changed[number] for number in since)])

    def _totals(self) -> Any:
        """Return the log totals that are part of the table's weights: of words, or none."""
        assert self.smoothing is not None
        return self.smoothing.log_totals if self.smoothing.seen is None else 0.0

    def moved_apart(self, constants: Array, shift: Array | None) -> tuple[Any, tuple[float, float]]:
        """Note what rows are scored with, and return how far that came apart since the last time.

        For each column; and for each row and for each unit of its sum. None for columns if unknown.
        """
        if self.leeway is None:
            return None, (0.0, 0.0)
        now = constants, (np.zeros(len(constants)) if shift is None else shift) - self._totals()
        before, self.scored = self.scored, now
        if self.change is None or before is None:
            return None, (0.0, 0.0)
        possible = np.isfinite(constants) | np.isfinite(before[0])  # an empty class stays empty
        with np.errstate(invalid="ignore"):
            changes = (a - b for a, b in zip(now, before, strict=True))
            drift, slope = (float(np.ptp(change[possible])) for change in changes)
        finite = np.isfinite(drift + slope)
        return (self.change, (drift, slope)) if finite else (None, (0.0, 0.0))

    def _fits(self, smoothing: Smoothing) -> bool:
        """Return whether the table has been made in this way, but for the totals of words."""
        own = self.smoothing
        if own is None or not np.array_equal(own.alpha, smoothing.alpha):
            return False
        return (smoothing.seen is own.seen) or bool(np.all(smoothing.seen == own.seen))

    def sum_up(self, words: Array, totals: Array, rounds: int = -1, changed: Any = None) -> None:
        """Remember the sums over posteriors, and which columns changed: None if any may have.

        `rounds` is how many rounds before the last all of them were summed up; -1 if they are now.
        """
        self.words, self.totals, self.rounds = words, totals, rounds + 1
        if changed is None:
            self.changed.clear()
            return
        self.changed = {n: c for n, c in self.changed.items() if n > self.number - HELD}
        self.changed[self.number] = changed

    def note(self, counts: Array | None, smoothing: Smoothing, update: Any) -> None:
        """Remember what the table has been made from."""
        self.ready, self.smoothing = counts, smoothing
        self.density, self.bounded = update.density, update.bounded

    def weights(self, features: Bags, counts: Array, smoothing: Smoothing) -> Weights:
        """Return the weights of counts, of shape (K, d): the table may hold them already."""
        K, d = counts.shape
        if self.table is None:
            packed = features.packed
            single = packed.entries * K >= SINGLE_FROM and packed.small
            self.table = np.zeros(d * (2 * K + 1) + SLACK, np.float32 if single else np.float64)
            self.mean, self.constants = np.empty(d), np.empty(K)
        if self.ready is None or counts.base is not self.ready or not self._fits(smoothing):
            self.change = self.expected = None
            update = self.update(smoothing)
            update.prepare(by_column(counts), kernels.threads(16 * counts.size))
            self.note(None, smoothing, update)
        assert self.smoothing is not None
        shift, middle, density = None, 0.0, self.density
        if not np.array_equal(self.smoothing.log_totals, smoothing.log_totals):
            shift = self.smoothing.log_totals - smoothing.log_totals
            total = smoothing.alpha.sum() if smoothing.alpha.ndim else d * smoothing.alpha
            density += float(total * shift.sum())
            middle = float(shift.mean())
            shift -= middle
        return Weights(self.table, self.constants, shift, middle, density, self.bounded)


def _column_sums(features: Bags, weight: Array | None) -> Array:
    """Return the sum of each column, rows times their weights."""
    ones = np.ones(len(features) + SLACK)
    if weight is not None:
        ones[:-SLACK] = weight
    out, total = np.empty((features.width, 1)), np.empty(1)
    features.packed.count(ones, out, total, None, kernels.threads(features.packed.entries))
    return out[:, 0]
