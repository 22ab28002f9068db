"""The E- and M-step of sparse rows in one pass over them.

For families whose log-density is linear in the entries of a row, log p(x | y) = x · weights_y +
constant_y, a native kernel goes from the weights straight to posteriors and their sums, by rows and
then by columns. Rows that no longer move cost little, and so do columns in which none does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tacit import kernels
from tacit.data.memory import Known, Smoothing, Weights
from tacit.data.sparse import SLACK
from tacit.numerics import Array, expected_log

__all__ = ["Found", "expect"]

# A posterior in float32 that moved by no more than this stays as it was.
STILL = 1e-8


class Found(NamedTuple):
    """What the E-step expects: the log-likelihood, the counts of classes, (K,), and of words.

    `words` has shape (K, d), and `totals`, of shape (K,), their sums.
    """

    log_likelihood: float
    classes: Array
    words: Array
    totals: Array


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
    features, own, K = rows.features, rows.memory, len(log_prior)
    packed, rounds = features.packed, own.rounds
    own.restart()  # if this round comes to nothing, the next begins anew
    own.look(features, rows.weight, known)
    threads = kernels.threads(packed.entries * K)
    constants = weights.constants + log_prior
    middle = float(constants[np.isfinite(constants)].mean())
    constants -= middle
    single, finite = weights.table.dtype == np.float32, bool(np.isfinite(constants).all())
    classes, totals = np.empty(K), np.empty(K)
    words, stale = own.room(features.width, K)

    by_odds = single and smoothed and finite and K == 2 and rows.evidence is None and not hard
    kept, moved, given = None, None, (weights, constants, classes, threads)
    if by_odds:
        entropy, kept = _posteriors_of_two(rows, *given)
    else:
        again = rounds is not None and single and smoothed
        entropy, moved = _posteriors(rows, *given, log_prior, hard, smoothed, again)
    if known is not None:
        classes += known.classes

    settled = moved is not None and own.expected is not None
    following = own.smoothing if settled else smoothing(classes)
    if not settled:  # from now on, or not yet
        settling = following.seen is None and (moved is not None or own.change is not None)
        own.expected = np.empty(features.width) if settling else None
    update = own.update(following, known is not None)
    if by_odds:
        packed.count_odds(kept, own.columns, words, totals, update, threads)
    elif moved is None:
        packed.count(own.kept, words, totals, update, threads)
        own.sum_up(words, totals)
    else:
        if settled:
            totals[:] = own.totals
        tables = own.words, stale, words, totals
        changed = packed.shift(*moved, *tables, update, settled, threads)
        own.sum_up(words, totals, rounds, changed)
    own.note(words, following, update)

    size = len(features) if rows.weight is None else float(rows.weight.sum())
    size += 0.0 if known is None else float(known.classes.sum())
    score = middle * size + weights.middle * own.total
    score += update.score + expected_log(classes, constants)
    if weights.shift is not None:
        score += float(totals @ weights.shift)
    return Found(entropy + score, classes, words.T, totals)


def _posteriors_of_two(
    rows: Any, weights: Weights, constants: Array, classes: Array, threads: int
) -> tuple[float, Any]:
    """Score rows of two classes by their log-odds.

    Returned are the log-likelihood without the expected scores, and the posteriors of the second.
    """
    features, own, shift = rows.features, rows.memory, weights.shift
    odds = float(constants[1] - constants[0]), 0.0 if shift is None else shift[1] - shift[0]
    kept = np.empty(len(features), np.float32)
    log_odds = np.ascontiguousarray(2.0 * weights.table[1 : 2 * features.width : 2])
    entropy = features.packed.expect_odds(log_odds, *odds, rows.weight, kept, classes, threads)
    own.change = None
    return entropy, kept


def _posteriors(
    rows: Any,
    weights: Weights,
    constants: Array,
    classes: Array,
    threads: int,
    log_prior: Array,
    hard: bool,
    smoothed: bool,
    again: bool,
) -> tuple[float, tuple[Any, Any] | None]:
    """Score rows, and keep their posteriors: where `again`, of those that moved.

    Returned are the log-likelihood without the expected scores, and which rows moved by how much;
    None if many did.
    """
    features, own = rows.features, rows.memory
    if own.kept is None:
        own.kept = np.zeros(len(features) * len(constants) + SLACK, weights.table.dtype)
    plain = rows.evidence is None and rows.weight is None and not hard
    if own.leeway is None and plain and smoothed and weights.table.dtype == np.float32:
        own.leeway = np.zeros(len(features), np.float32)
        own.entropies = np.zeros(len(features))
    given = rows.evidence, rows.weight, log_prior, hard
    sure = own.leeway, own.entropies, *own.moved_apart(constants, weights.shift)
    state = own.kept, classes, again, STILL, *sure
    found: tuple[float, tuple[Any, Any] | None] = features.packed.expect(
        weights.table, constants, weights.shift, *given, *state, threads
    )
    own.change = None
    if own.leeway is not None and 2 * np.count_nonzero(own.leeway > 0) > len(features):
        own.change = np.empty(features.width, np.float32)  # worth while to know
    return found
