"""A chunk of data: the features of some rows, what is known of their labels, their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self, cast

import numpy as np

from tacit.data.dense import CHUNK, DenseRows
from tacit.data.sparse import SparseRows
from tacit.numerics import Array, Index, Matrix

__all__ = ["Blocks", "Features", "Joined", "Rows", "in_parts"]


class Features(Protocol):
    """Features as a family has encoded them: anything that can be cut by rows."""

    def __len__(self) -> int: ...

    def take(self, rows: Index, /) -> Self:
        """Return these rows, given by a slice or an array of indices."""

    @property
    def chunk(self) -> int:
        """How many rows a chunk has. It does not depend on the number of threads."""


@dataclass(frozen=True)
class Joined:
    """Matrices side by side, dense or CSR, that stand for one; each keeps its missing cells."""

    blocks: tuple[Matrix, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of all."""
        return self.blocks[0].shape[0], sum(block.shape[1] for block in self.blocks)

    def __getitem__(self, rows: Index) -> Joined:
        return Joined(tuple(block[rows] for block in self.blocks))


@dataclass(frozen=True)
class Blocks:
    """The features of a mixed model: one block of columns for each of its families."""

    parts: tuple[Features, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def take(self, rows: Index) -> Blocks:
        """Return these rows."""
        return Blocks(tuple(part.take(rows) for part in self.parts))

    @property
    def chunk(self) -> int:
        """How many rows a chunk has: all if one part is sparse, else few enough for every part."""
        sizes = [part.chunk for part in self.parts]
        return (
            max(sizes) if any(isinstance(part, SparseRows) for part in self.parts) else min(sizes)
        )


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
    """

    features: Features
    evidence: Array | None = None
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: Index) -> Rows:
        """Return these rows."""
        return Rows(
            self.features.take(rows),
            None if self.evidence is None else self.evidence[rows],
            None if self.weight is None else self.weight[rows],
        )

    def scaled(self, factor: float) -> Rows:
        """Return rows of counts that are this part as long."""
        return replace(self, features=cast("DenseRows | SparseRows", self.features).scaled(factor))

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
