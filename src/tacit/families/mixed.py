"""Columns of different kinds side by side: words, categories and numbers in one model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.data.rows import Blocks, Joined, Rows
from tacit.data.sparse import SparseRows
from tacit.em import Sums
from tacit.families.base import Expected, Family, check_is
from tacit.io.records import plain
from tacit.kernels import Output
from tacit.numerics import Array, Matrix

__all__ = ["RECORDS", "Mixed", "Part"]


class Part(NamedTuple):
    """A family and the columns (their numbers) that it describes."""

    name: str
    family: Family
    columns: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Parts(Sums):
    """The statistics of each part."""

    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Mixed(Family):
    """p(x | y) = the product over the parts of p(x in the part's columns | y).

    Attributes
    ----------
    parts : tuple of Part
        The families and their columns.
    width : int
        The number of columns, also those in no part; set by `bind`.

    Examples
    --------
    >>> from tacit.families import Bernoulli, Gaussian
    >>> X = np.array([[1.0, 0.5], [0.0, 1.5]])
    >>> parts = Part("has", Bernoulli(), np.array([0])), Part("size", Gaussian(), np.array([1]))
    >>> family = Mixed(parts).bind(X)
    >>> params = family.maximize(family.count(family.encode(X), np.ones((2, 1))))
    >>> np.exp(params[0].log_p), params[1].mean
    (array([[0.5]]), array([[1.]]))
    """

    parts: tuple[Part, ...] = ()
    width: int = 0
    takes_sparse: ClassVar[bool] = True

    @property
    def kind(self) -> tuple[Any, ...]:
        """The names and kinds of the parts."""
        return (Mixed, *((part.name, part.family.kind) for part in self.parts))

    def _replace(self, families: Any) -> Self:
        parts = zip(self.parts, families, strict=True)
        return replace(self, parts=tuple(part._replace(family=family) for part, family in parts))

    def _columns(self, X: Matrix) -> list[Any]:
        """Cut out each part's columns; families that need dense columns get them dense."""
        if isinstance(X, Joined):
            return list(X.blocks)
        blocks = (X[:, part.columns] for part in self.parts)
        return [
            block.toarray() if sparse.issparse(block) and not part.family.takes_sparse else block
            for part, block in zip(self.parts, blocks, strict=True)
        ]

    def bind(self, X: Matrix) -> Self:
        """Bind each part to its columns."""
        blocks = zip(self.parts, self._columns(X), strict=True)
        bound = self._replace([part.family.bind(block) for part, block in blocks])
        return replace(bound, width=X.shape[1])

    def adopt(self, other: Self) -> Self:
        """Let each part adopt its counterpart."""
        pairs = zip(self.parts, other.parts, strict=True)
        adopted = self._replace([part.family.adopt(old.family) for part, old in pairs])
        return replace(adopted, width=other.width)

    def for_em(self, features: Blocks) -> Self:
        """Let each part make its params ready for its columns."""
        pairs = zip(self.parts, features.parts, strict=True)
        return self._replace([part.family.for_em(block) for part, block in pairs])

    def recentre(self, statistics: Parts, centre: Any) -> Parts:
        """Recentre each part."""
        centres = centre.parts if isinstance(centre, Parts) else centre
        triples = zip(self.parts, statistics.parts, centres, strict=True)
        return Parts(tuple(part.family.recentre(sums, own) for part, sums, own in triples))

    def extend(self, X: Matrix, statistics: Parts) -> tuple[Self, Parts]:
        """Widen each part."""
        blocks = zip(self.parts, self._columns(X), statistics.parts, strict=True)
        pairs = [part.family.extend(block, own) for part, block, own in blocks]
        return self._replace([f for f, _ in pairs]), Parts(tuple(own for _, own in pairs))

    def encode(self, X: Matrix) -> Blocks:
        """Encode each part's columns."""
        blocks = zip(self.parts, self._columns(X), strict=True)
        return Blocks(tuple(part.family.encode(block) for part, block in blocks))

    def score(self, params: Any, features: Blocks, fitting: bool = False) -> Array:
        """Return the sum of the parts' scores."""
        triples = zip(self.parts, params, features.parts, strict=True)
        scores = [part.family.score(own, block, fitting) for part, own, block in triples]
        return np.asarray(np.sum(scores, axis=0))

    def predict_rows(
        self, params: Any, X: Matrix, log_prior: Array, output: Output
    ) -> tuple[Array, Array] | None:
        """Use the kernel of a single part."""
        if len(self.parts) > 1:
            return None
        return self.parts[0].family.predict_rows(params[0], self._columns(X)[0], log_prior, output)

    def expect(self, params: Any, rows: Rows, log_prior: Array, hard: bool) -> Expected | None:
        """Use the kernel of one part, with the scores of the others as evidence of the class."""
        assert isinstance(rows.features, Blocks)
        blocks = rows.features.parts
        lead = next((i for i, block in enumerate(blocks) if isinstance(block, SparseRows)), 0)
        others = [i for i in range(len(blocks)) if i != lead]
        if others and not isinstance(blocks[lead], SparseRows):
            return None
        evidence, most = rows.evidence, np.zeros(1)
        if others:
            pieces = [self.parts[i].family.score(params[i], blocks[i], True) for i in others]
            evidence = np.sum(pieces if evidence is None else [*pieces, evidence], axis=0)
            if np.isneginf(evidence).all(axis=1).any():  # rows that they rule out are rare
                return None
            most = evidence.max(axis=1)
            evidence -= most[:, None]  # which leaves small numbers, whose float32 is exact enough
        own = replace(rows, features=blocks[lead], evidence=evidence)
        result = self.parts[lead].family.expect(params[lead], own, log_prior, hard)
        if result is None:
            return None
        statistics = [result.statistics if i == lead else None for i in range(len(blocks))]
        if others:
            assert result.responsibilities is not None
            weights = result.responsibilities.astype(np.float64)
            for i in others:
                statistics[i] = self.parts[i].family.count(blocks[i], weights, params[i])
        log_likelihood = result.log_likelihood
        log_likelihood += float((most if rows.weight is None else most * rows.weight).sum())
        return result._replace(log_likelihood=log_likelihood, statistics=Parts(tuple(statistics)))

    def keys(self, features: Blocks) -> npt.NDArray[np.uint8] | None:
        """Return the bytes that tell rows apart, if a single part has them."""
        return None if len(self.parts) > 1 else self.parts[0].family.keys(features.parts[0])

    def count(self, features: Blocks, weights: Matrix, params: Any = None) -> Parts:
        """Return each part's statistics."""
        owns = params or [None] * len(self.parts)
        triples = zip(self.parts, owns, features.parts, strict=True)
        return Parts(tuple(part.family.count(block, weights, own) for part, own, block in triples))

    def complete(self, features: Blocks) -> npt.NDArray[np.bool_]:
        """Return the rows that are complete in every part."""
        pairs = zip(self.parts, features.parts, strict=True)
        complete = [part.family.complete(block) for part, block in pairs]
        return np.asarray(np.logical_and.reduce(complete))

    def maximize(self, statistics: Parts) -> tuple[Any, ...]:
        """Return each part's params."""
        pairs = zip(self.parts, statistics.parts, strict=True)
        return tuple(part.family.maximize(own) for part, own in pairs)

    def log_prior(self, params: Any) -> float:
        """Return the sum of the parts' log priors."""
        return sum(p.family.log_prior(own) for p, own in zip(self.parts, params, strict=True))

    def log_joint(self, params: Any, statistics: Parts) -> float:
        """Return the sum over the parts."""
        triples = zip(self.parts, params, statistics.parts, strict=True)
        return sum(part.family.log_joint(own, sums) for part, own, sums in triples)

    def rounding(self, params: Any, statistics: Parts) -> float:
        """Return the sum over the parts."""
        triples = zip(self.parts, params, statistics.parts, strict=True)
        return sum(part.family.rounding(own, sums) for part, own, sums in triples)

    def reorder(self, statistics: Parts, order: npt.NDArray[np.intp]) -> Parts:
        """Reorder each part."""
        pairs = zip(self.parts, statistics.parts, strict=True)
        return Parts(tuple(part.family.reorder(own, order) for part, own in pairs))

    def sample(
        self,
        params: Any,
        statistics: Parts,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        """Draw each part's columns; columns that no part describes are zero."""
        drawn = np.zeros((len(labels), self.width))
        for part, own, sums in zip(self.parts, params, statistics.parts, strict=True):
            drawn[:, part.columns] = part.family.sample(own, sums, labels, rng)
        return drawn

    def n_parameters(self, params: Any) -> int:
        """Return the sum over the parts."""
        return sum(p.family.n_parameters(own) for p, own in zip(self.parts, params, strict=True))

    def check(self, statistics: Any, K: int, d: int) -> None:
        """Check each part, and that its columns are there."""
        check_is(statistics, Parts)
        if self.width != d or len(self.parts) != len(statistics.parts):
            raise ValueError(f"the parts are of {self.width} columns: expected {d}")
        for part, own in zip(self.parts, statistics.parts, strict=True):
            there = (part.columns >= 0) & (part.columns < d)
            if part.columns.ndim != 1 or not part.columns.size or not there.all():
                raise ValueError(f"part {part.name!r} has columns beyond the {d} that there are")
            part.family.check(own, K, len(part.columns))

    def check_params(self, params: Any) -> None:
        """Check each part."""
        for part, own in zip(self.parts, params, strict=True):
            part.family.check_params(own)


# As files name them.
RECORDS = {"Mixed": plain(Mixed), "Part": plain(Part), "Parts": plain(Parts)}
