"""A chunk of data: the features of some rows, what is known of their labels, their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from tacit import kernels
from tacit.data.categorical import Codes
from tacit.data.memory import Memory
from tacit.data.sparse import Bags
from tacit.numerics import Array

__all__ = ["CHUNK", "Blocks", "Cells", "Features", "Joined", "Rows", "cells", "in_parts"]

# Rows in a chunk of dense rows.
CHUNK = 1 << 14


class Features(Protocol):
    """Features as a family has encoded them: anything that can be cut by rows."""

    def __len__(self) -> int: ...

    def take(self, rows: Any, /) -> Self:
        """Return these rows, given by a slice or an array of indices."""

    @property
    def chunk(self) -> int:
        """How many rows a chunk has. It does not depend on the number of threads."""


@dataclass(frozen=True)
class Cells:
    """A dense table of numbers, with the missing cells marked.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        Zero where a cell is missing.
    observed : boolean ndarray of shape (n, d), or None
        None when every cell is observed.
    """

    values: Any
    observed: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def take(self, rows: Any) -> Cells:
        """Return these rows."""
        observed = None if self.observed is None else self.observed[rows]
        return Cells(self.values[rows], None if observed is None or observed.all() else observed)

    def scaled(self, factor: float) -> Cells:
        """Return the cells times a factor."""
        return Cells(self.values * factor, self.observed)

    def sums(self, weights: Any) -> tuple[Array, Array]:
        """Return weights.T @ values, of shape (K, d), for weights dense or CSR of shape (n, K).

        And what it sums up to, of shape (K,).
        """
        found = np.asarray(weights.T @ self.values)
        return found, found.sum(axis=1)

    @property
    def chunk(self) -> int:
        """How many rows a chunk has."""
        return CHUNK

    @cached_property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Whether each row has no missing cell."""
        if self.observed is None:
            return np.ones(len(self), bool)
        return np.asarray(self.observed.all(axis=1))

    @cached_property
    def bits(self) -> Codes:
        """Zeros and ones as categories: 2 j + x in column j."""
        columns = 2 * np.arange(self.values.shape[1] + 1)
        values = (columns[:-1] + (self.values > 0)).astype(np.int32)
        return Codes(
            values if self.observed is None else np.where(self.observed, values, -1), columns
        )

    @cached_property
    def patterns(self) -> list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]]:
        """The different sets of observed cells, each with the rows that have it."""
        if self.observed is None:
            return [(np.ones(self.values.shape[1], bool), np.arange(len(self)))]
        masks, which = np.unique(self.observed, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        sizes = np.bincount(which.ravel(), minlength=len(masks))
        return list(zip(masks, np.split(order, np.cumsum(sizes)[:-1]), strict=True))


def cells(X: Any) -> Cells:
    """Encode a dense numeric matrix, in which NaN is a missing cell."""
    X = np.asarray(X, dtype=np.float64)
    missing = None if kernels.scan(X).finite else np.isnan(X)
    if missing is None or not missing.any():
        return Cells(X)
    return Cells(np.where(missing, 0.0, X), ~missing)


@dataclass(frozen=True)
class Joined:
    """Matrices side by side, dense or CSR, that stand for one; each keeps its missing cells."""

    blocks: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of all."""
        return self.blocks[0].shape[0], sum(block.shape[1] for block in self.blocks)

    def __getitem__(self, rows: Any) -> Joined:
        return Joined(tuple(block[rows] for block in self.blocks))


@dataclass(frozen=True)
class Blocks:
    """The features of a mixed model: one block of columns for each of its families."""

    parts: tuple[Features, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def take(self, rows: Any) -> Blocks:
        """Return these rows."""
        return Blocks(tuple(part.take(rows) for part in self.parts))

    @property
    def chunk(self) -> int:
        """How many rows a chunk has: all if one part is words, else few enough for every part."""
        sizes = [part.chunk for part in self.parts]
        return max(sizes) if any(isinstance(part, Bags) for part in self.parts) else min(sizes)


@dataclass(frozen=True)
class Rows:
    """Rows of data for a model whose hidden variable is one label a row.

    Attributes
    ----------
    features : Features
        What the model's family has encoded.
    evidence : ndarray of shape (n, K), or None
        Log of the label evidence: 0 where a class is allowed, -inf where it is ruled out, anything
        between for a soft label. None when nothing is known of any label.
    weight : ndarray of shape (n,), or None
        None when every row counts once.
    memory : Memory, optional
        What the rounds of one fit leave for the next.
    known : statistics, optional
        Those of rows whose label is known, which are counted with these: their posterior is too.
    """

    features: Features
    evidence: Array | None = None
    weight: Array | None = None
    memory: Memory | None = None
    known: Any = None

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: Any) -> Rows:
        """Return these rows."""
        return Rows(
            self.features.take(rows),
            None if self.evidence is None else self.evidence[rows],
            None if self.weight is None else self.weight[rows],
        )

    def scaled(self, factor: float) -> Rows:
        """Return rows of counts that are this part as long, those with a known label too."""
        known, features = self.known, cast("Cells | Bags", self.features)
        if known is not None:
            known = replace(known, features=known.features.scaled(factor))
        return replace(self, features=features.scaled(factor), memory=Memory(), known=known)

    def fresh(self) -> Rows:
        """Return the same rows with an empty memory, for the rounds of a fit."""
        return replace(self, memory=Memory())

    def chunks(self, most: int | None = None) -> Iterator[Rows]:
        """Cut into chunks, of at most so many rows."""
        size = min(self.features.chunk, most or len(self) + 1)
        if len(self) <= size:
            yield self
            return
        for begin in range(0, len(self), size):
            yield self.take(slice(begin, begin + size))


def in_parts(look: Callable[[slice], Array], n: int) -> Array:
    """Return what is found in n rows, of which some at a time are looked at.

    Examples
    --------
    >>> in_parts(lambda part: np.arange(3.0)[part], 3)
    array([0., 1., 2.])
    """
    parts = (slice(start, start + CHUNK) for start in range(0, n, CHUNK))
    return np.concatenate([look(part) for part in parts])
