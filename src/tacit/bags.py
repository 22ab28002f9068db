"""Sparse rows, and the E- and M-step in one pass over them.

A row is a bag of words (or of whatever its columns are): the entries that are not zero. For
families whose log-density is linear in them, log p(x | y) = x · weights_y + constant_y, a native
kernel goes from the weights straight to posteriors and their sums, by rows and then by columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import engine
from tacit.numerics import Array, expected_log

__all__ = [
    "Bags",
    "Found",
    "Known",
    "Memory",
    "Smoothing",
    "Weights",
    "bags",
    "by_column",
    "expect",
]

# From so many products of an entry and a class on, posteriors are kept in float32: their error,
# about 1e-7, is then far below what the data can tell, and a round takes half the time.
SINGLE_FROM = 1 << 22

# A posterior in float32 that moved by no more than this stays as it was.
STILL = 1e-8

# For so many rounds it is known which columns changed: as long as somebody may hold the counts.
HELD = 4

# Kernels read whole vectors: behind a table there is room for one.
SLACK = 8


@dataclass(frozen=True)
class Bags:
    """Rows of a CSR matrix without missing cells; all of them, or those given by their numbers."""

    table: Any
    rows: npt.NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return int(self.table.shape[0]) if self.rows is None else len(self.rows)

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.table.shape[1])

    def take(self, rows: Any) -> Bags:
        """Return these rows; nothing is copied."""
        own = np.arange(self.table.shape[0]) if self.rows is None else self.rows
        return Bags(self.table, own[rows])

    def scaled(self, factor: float) -> Bags:
        """Return the rows times a factor."""
        return Bags(self.table * factor, self.rows)

    @property
    def chunk(self) -> int:
        """How many rows a chunk has: all, as the kernels share them out themselves."""
        return max(len(self), 1)

    @cached_property
    def values(self) -> Any:
        """These rows as a CSR matrix."""
        return self.table if self.rows is None else self.table[self.rows]

    @cached_property
    def packed(self) -> Any:
        """These rows as the kernels take them."""
        kernels = engine.native()
        assert kernels is not None
        table, rows = self.table, self.rows
        if rows is not None and len(rows) and (np.diff(rows) == 1).all():  # cut them out first
            table, rows = _cut(table, int(rows[0]), int(rows[-1]) + 1), None
        arrays = engine.arrays(table)
        return kernels.Bags(*arrays, self.width, rows, engine.threads(table.nnz))

    def sums(self, weights: Any) -> tuple[Array, Array]:
        """Return weights.T @ values, of shape (K, d), for weights dense or CSR of shape (n, K).

        And what it sums up to, of shape (K,).
        """
        if sparse.issparse(weights):
            return engine.tally(weights, self.values)
        if engine.native() is None:
            words = np.asarray((self.values.T @ weights).T)
            return words, words.sum(axis=1)
        n, K = weights.shape
        flat = np.zeros(n * K + SLACK)
        flat[: n * K] = np.ascontiguousarray(weights).ravel()
        out, totals = np.empty((self.width, K)), np.empty(K)
        self.packed.count(flat, out, totals, None, engine.threads(self.packed.entries * K))
        return out.T, totals


def _cut(table: Any, first: int, last: int) -> Any:
    """Return the rows [first, last) of a CSR matrix; nothing but where they begin is copied."""
    starts = table.indptr[first : last + 1]
    part = slice(starts[0], starts[-1])
    pieces = table.data[part], table.indices[part], starts - starts[0]
    return type(table)(pieces, shape=(last - first, table.shape[1]), copy=False)


def bags(X: Any) -> Bags:
    """Encode a CSR matrix of numbers without NaN; entries that are zero are left out."""
    if X.dtype.kind == "b":
        X = X.astype(np.float64)
    if not engine.scan(X.data).full:
        X = X.copy()
        X.eliminate_zeros()
    return Bags(X)


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


class Found(NamedTuple):
    """What the E-step expects: the log-likelihood, the counts of classes, (K,), and of words.

    `words` has shape (K, d), and `totals`, of shape (K,), their sums.
    """

    log_likelihood: float
    classes: Array
    words: Array
    totals: Array


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
            kernels = engine.native()
            assert kernels is not None
            self.known, self.occupied = by_column(known.words), np.empty(features.width, bool)
            kernels.occupied(self.known, self.occupied, engine.threads(self.known.size))
            self.all_columns = self.columns + known.words.sum(axis=0)
        self.total = float(self.all_columns.sum())

    def update(self, smoothing: Smoothing, labelled: bool = False) -> Any:
        """Return what makes the weights of the next round, and says how they change."""
        kernels = engine.native()
        assert kernels is not None
        kind = kernels.Update32 if self.table.dtype == np.float32 else kernels.Update64
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
            kernels = engine.native()
            assert kernels is not None
            self.rooms = kernels.Rooms(d, K)
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
            update.prepare(by_column(counts), engine.threads(16 * counts.size))
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


def by_column(counts: Array) -> Array:
    """Return a table of shape (K, d) with a line for each column, as the kernels keep it."""
    if counts.T.flags.c_contiguous:
        return counts.T
    kernels, out = engine.native(), np.empty(counts.shape[::-1])
    assert kernels is not None
    kernels.by_column(counts.T, out, engine.threads(4 * counts.size))
    return out


class Known(NamedTuple):
    """Counts of labelled rows: of classes, (K,), and of words, (K, d)."""

    classes: Array
    words: Array


def expect(
    rows: Any,
    known: Known | None,
    weights: Weights,
    smoothing: Callable[[Array], Smoothing],
    log_prior: Array,
    hard: bool,
    smoothed: bool,
) -> Found:
    """Return what the E-step expects of rows under weights, in one pass and with exact zeros.

    With the memory of the round before, and if few rows moved, only what they changed is added to
    the sums; not so without smoothing, where a sum may have to be exactly zero. On the way, the
    memory gets the weights that the sums give by ``smoothing(classes)``; where most stay, those of
    words that changed alone, made as in the round before. Labelled rows, whose posterior is
    `known`, are counted in, and so is their log-likelihood.
    """
    features, evidence, weight, own = rows.features, rows.evidence, rows.weight, rows.memory
    packed, K = features.packed, len(log_prior)
    rounds = own.rounds
    own.restart()  # if this round comes to nothing, the next begins anew
    threads = engine.threads(packed.entries * K)
    own.look(features, weight, known)
    size = len(features) if weight is None else float(weight.sum())
    size += 0.0 if known is None else float(known.classes.sum())
    constants = weights.constants + log_prior
    middle = float(constants[np.isfinite(constants)].mean())
    constants -= middle
    single, finite = weights.table.dtype == np.float32, bool(np.isfinite(constants).all())
    classes, totals = np.empty(K), np.empty(K)
    words, stale = own.room(features.width, K)
    score = middle * size + weights.middle * own.total
    shift = weights.shift

    def next_table(settled: bool = False, settling: bool = False) -> tuple[Smoothing, Any]:
        if known is not None:
            np.add(classes, known.classes, out=classes)
        following = own.smoothing if settled else smoothing(classes)
        if not settled:
            worth = settling and following.seen is None
            own.expected = np.empty(features.width) if worth else None
        return following, own.update(following, known is not None)

    if K == 2 and single and smoothed and evidence is None and not hard and finite:
        odds = float(constants[1] - constants[0]), 0.0 if shift is None else shift[1] - shift[0]
        kept = np.empty(len(features), np.float32)
        log_odds = np.ascontiguousarray(2.0 * weights.table[1 : 2 * features.width : 2])
        entropy = packed.expect_odds(log_odds, *odds, weight, kept, classes, threads)
        following, sums = next_table()
        packed.count_odds(kept, own.columns, words, totals, sums, threads)
        own.change = None
    else:
        again = rounds is not None and single and smoothed
        if own.kept is None:
            own.kept = np.zeros(len(features) * K + SLACK, weights.table.dtype)
        plain = single and smoothed and evidence is None and weight is None and not hard
        if own.leeway is None and plain:
            own.leeway = np.zeros(len(features), np.float32)
            own.entropies = np.zeros(len(features))
        given = evidence, weight, log_prior, hard
        sure = own.leeway, own.entropies, *own.moved_apart(constants, shift)
        state = own.kept, classes, again, STILL, *sure
        entropy, moved = packed.expect(weights.table, constants, shift, *given, *state, threads)
        own.change = None
        if own.leeway is not None and 2 * np.count_nonzero(own.leeway > 0) > len(features):
            own.change = np.empty(features.width, np.float32)  # worth while to know
        settled = moved is not None and own.expected is not None
        following, sums = next_table(settled, moved is not None or own.change is not None)
        if moved is not None:
            if settled:
                totals[:] = own.totals
            tables = own.words, stale, words, totals
            changed = packed.shift(*moved, *tables, sums, settled, threads)
            own.changed = {n: c for n, c in own.changed.items() if n > own.number - HELD}
            own.changed[own.number] = changed
            own.rounds = (rounds or 0) + 1
        else:
            packed.count(own.kept, words, totals, sums, threads)
            own.changed.clear()
            own.rounds = 0
        own.words, own.totals = words, totals
    own.note(words, following, sums)
    score += sums.score + expected_log(classes, constants)
    if shift is not None:
        score += float(totals @ shift)
    return Found(entropy + score, classes, words.T, totals)


def _column_sums(features: Bags, weight: Array | None) -> Array:
    """Return the sum of each column, rows times their weights."""
    ones = np.ones(len(features) + SLACK)
    if weight is not None:
        ones[:-SLACK] = weight
    out, total = np.empty((features.width, 1)), np.empty(1)
    features.packed.count(ones, out, total, None, engine.threads(features.packed.entries))
    return out[:, 0]
