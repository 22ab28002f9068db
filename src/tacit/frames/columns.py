"""Columns of a table as people have them: what kind each is, and how its cells become numbers.

Nothing here reads files or knows of models. A table is anything with named columns: a data frame of
pandas or polars, an Arrow table, a dict of lists.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from tacit.frames.values import Cells, key
from tacit.io.suggestions import did_you_mean
from tacit.numerics import Array
from tacit.text.vectorizer import CountVectorizer

__all__ = ["KINDS", "CellError", "Column", "columns_of", "cut", "encode", "infer"]

# What a column can be taken for; "out" means that it is left out.
KINDS = ("text", "category", "number", "yes/no", "out")

# What means no and yes.
YES_NO = (("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("0", "1"))

DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d\d))"
    r"([T ]\d{1,2}:\d\d(:\d\d(\.\d+)?)?)?\s*(Z|[+-]\d\d:?\d\d)?"
)

# Names of columns that number things.
ID = re.compile(r"(?:^|[\W_])id$|(?:^|[\W_]|[a-z])I[Dd]$")

# Cells that a kind is judged by, spread evenly over the column.
SAMPLE = 10_000
# Into how many bins numbers are cut.
BINS = 5
# How much of a number counts for each of the bins beside its own: as if it might lie up to a third
# of a bin off.
BESIDE = 1 / 12


class CellError(ValueError):
    """A cell that does not fit its column; `row` is its row, the first being 0."""

    def __init__(self, column: str, row: int, text: str) -> None:
        super().__init__(column, row, text)
        self.column, self.row, self.text = column, row, text

    def __str__(self) -> str:
        return f"Column {self.column!r}, row {self.row + 1}: {self.text}"


@dataclass(frozen=True)
class Column:
    """A column of a table, and what is known of its cells from the training rows.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"text", "category", "number", "yes/no", "out"}
        What it is taken for.
    note : str
        What speaks for it, in a few words.
    categories : tuple of str
        The categories, or what means no and yes.
    vectorizer : CountVectorizer, optional
        What counts the words of a text.
    edges : tuple of float
        Where the bins of a number begin and end, if it is taken for one of several.
    """

    name: str
    kind: str
    note: str = ""
    categories: tuple[str, ...] = ()
    vectorizer: CountVectorizer | None = None
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        text, cut = self.kind == "text", bool(self.edges) and self.kind != "number"
        if self.kind not in KINDS or text != (self.vectorizer is not None) or cut:
            raise ValueError(
                f"Column {self.name!r} of kind {self.kind!r} has what another kind has."
            )
        rising = all(a < b for a, b in pairwise(self.edges))
        if len(self.edges) == 1 or not rising or not np.isfinite(self.edges).all():
            raise ValueError(f"Column {self.name!r} has bins that are none.")
        named = {"category": len(self.categories), "yes/no": 2}.get(self.kind, 0)
        if len(self.categories) != named or len(set(self.categories)) < named:
            raise ValueError(
                f"Column {self.name!r} of kind {self.kind!r} has {self.categories[:5]}."
            )

    @property
    def width(self) -> int:
        """How many columns of numbers it becomes."""
        return 1 if self.vectorizer is None else len(self.vectorizer.vocabulary_)

    @property
    def values(self) -> tuple[str, ...]:
        """What its cells can be, if one of several: categories, no and yes, bins of numbers."""
        if not self.edges:
            return self.categories
        gap = np.diff(self.edges).min()
        for digits in range(3, 18):  # as many as tell on which side of an edge a number lies
            names = [f"{edge:.{digits}g}" for edge in self.edges]
            if np.abs(np.array(names, float) - self.edges).max() <= gap / 100:
                break
        first, *inner, last = names
        if not inner:
            return (f"{first} to {last}",)
        between = (f"{a} to {b}" for a, b in pairwise(inner))
        return (f"below {inner[0]}", *between, f"from {inner[-1]} on")

    def cut(self, block: Any, bins: bool) -> Column:
        """Return the column with numbers cut into bins by its cells, or not."""
        return replace(self, edges=cut(block) if bins else ()) if self.kind == "number" else self

    def shaped(self, block: Any) -> Any:
        """Return cells, as `encode` gives them, with numbers in their bins.

        Examples
        --------
        >>> Column("size", "number", edges=(1.0, 2.0, 3.0)).shaped(np.array([[1.5], [np.nan]]))
        array([[ 0.],
               [nan]])
        """
        if not self.edges:
            return block
        codes = np.searchsorted(self.edges[1:-1], block, side="right")
        return np.where(np.isnan(block), np.nan, codes)


def cut(numbers: Array) -> tuple[float, ...]:
    """Return edges of bins that hold about equally many numbers; none if these do not differ.

    Examples
    --------
    >>> cut(np.array([0.0, 0.0, 1.0, 5.0, np.nan]))
    (0.0, 0.5, 3.0, 5.0)
    """
    there, often = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    if len(there) < 2:
        return ()
    place = (np.cumsum(often) - often / 2) / often.sum() * BINS  # the bin of its middle
    inner = np.flatnonzero(np.diff(place.astype(np.intp))) if len(there) > BINS else slice(None)
    edges = ((there[:-1] + there[1:]) / 2)[inner]
    return tuple(np.unique([there[0], *edges, there[-1]]).tolist())


def columns_of(table: Any) -> dict[str, Cells]:
    """Return the columns of a table by their names.

    Examples
    --------
    >>> columns_of({"size": [1, None]})["size"].values
    [1, None]
    """
    names: Any = getattr(table, "column_names", None)
    if names is None:
        names = table.keys() if isinstance(table, Mapping) else getattr(table, "columns", None)
    if names is None or callable(names):
        raise TypeError(
            f"Expected a table with named columns (a data frame of pandas or polars, or a dict of "
            f"lists), got {type(table).__name__}."
        )
    names = list(names)
    texts = list(map(str, names))
    twice = [name for name, count in Counter(texts).items() if count > 1]
    if twice:
        raise ValueError(f"Column names must differ: {twice[0]!r} occurs more than once.")
    found = {text: table[name] for text, name in zip(texts, names, strict=True)}
    if isinstance(table, Mapping):  # a row is a dict of cells
        found = {
            name: [cells] if isinstance(cells, str) or not hasattr(cells, "__len__") else cells
            for name, cells in found.items()
        }
    lengths = {len(cells) for cells in found.values()}
    if len(lengths) > 1:
        raise ValueError(f"Columns must be equally long: found {sorted(lengths)} cells.")
    return {name: Cells(cells) for name, cells in found.items()}


def infer(
    table: Mapping[str, Cells], given: Mapping[str, str] | None, vectorizer: CountVectorizer
) -> tuple[tuple[Column, ...], dict[str, Any]]:
    """Say what each column of a table is; `given` are kinds that are known.

    Also returns the counts of words in the columns of text, by name, as `encode` gives them.

    The rules, in this order, on the cells that are not missing (at most 10,000, spread evenly):

    1. none, or all the same: left out.
    2. dates and times: left out.
    3. yes and no, y and n, true and false, t and f, 0 and 1: yes/no.
    4. numbers: left out if 10 or more count the rows (1, 2, 3, ...) or, most of them different, are
       called id; a category if they are whole, at most 10 differ, and on average each comes twice;
       else a number.
    5. at least 10 words a cell, or 3 and most cells differ: text.
    6. one short word of plain letters and digits each, and 10 or more of which nine in ten differ:
       left out, as an identifier.
    7. at most 20 differ, or a tenth of the cells and 1,000: a category.
    8. else text.

    Examples
    --------
    >>> table = {"day": ["2024-01-31"] * 3, "size": [1.5, 2.0, None], "red": ["yes", "no", "no"]}
    >>> columns, _ = infer(columns_of(table), None, CountVectorizer())
    >>> [(c.name, c.kind, c.note) for c in columns]
    [('day', 'out', "is always '2024-01-31'"), ('size', 'number', ''), ('red', 'yes/no', '')]
    """
    given = dict(given or {})
    for name, kind in given.items():
        if name not in table:
            raise ValueError(f"The table has no column {name!r}{did_you_mean(name, table)}")
        if kind not in KINDS:
            raise ValueError(f"Column {name!r}: kind {kind!r} is none of {', '.join(KINDS)}.")
    words: dict[str, Any] = {}
    columns = []
    for name, cells in table.items():
        column, counts = _column(name, cells, given.get(name), vectorizer)
        columns.append(column)
        if counts is not None:
            words[name] = counts
    return tuple(columns), words


def _column(
    name: str, cells: Cells, kind: str | None, vectorizer: CountVectorizer
) -> tuple[Column, Any]:
    note = "as you said" if kind else ""
    if kind is None:
        kind, note = _kind(name, cells.sample(SAMPLE))
        kind = _on_all(kind, cells)
    if kind == "text":
        from sklearn.base import clone  # which text alone needs

        own = clone(vectorizer)
        try:
            counts = own.fit_transform(cells.mapped(key, ""))
        except ValueError as error:
            if "empty vocabulary" not in str(error) and "no terms remain" not in str(error):
                raise
            return Column(name, "out", "holds no words"), None
        return Column(name, kind, note, (), own), sparse.csr_array(counts)
    seen = {one for one in cells.keys if one is not None}
    if kind == "category":
        if not seen:
            raise ValueError(f"Column {name!r} is empty: it can be no category. Leave it out.")
        return Column(name, kind, note, tuple(sorted(seen))), None
    if kind == "yes/no":
        both = {one.lower() for one in seen}
        pair = next((p for p in YES_NO if both <= set(p)), tuple(sorted(both)))
        if len(pair) != 2:
            raise ValueError(f"Column {name!r}: yes/no needs two values, found {pair[:5]}.")
        return Column(name, kind, note, pair), None
    return Column(name, kind, note), None


def _on_all(kind: str, cells: Cells) -> str:
    """Return what a column is of which some cells are of a kind, if others are not."""
    if kind == "number" and cells.numbers is None:
        return "text"
    if kind == "yes/no":
        different = {one.lower() for one in cells.keys if one is not None}
        return kind if any(different <= set(pair) for pair in YES_NO) else "category"
    return kind


def _kind(name: str, cells: Cells) -> tuple[str, str]:
    """Apply the rules of `infer` to the cells that are not missing."""
    values = [cell for cell in cells.values if cell is not None]
    keys = [one for one in cells.keys if one is not None]
    if not keys:
        return "out", "is empty"
    n, different = len(keys), len(set(keys))
    if different == 1 and n > 1:
        return "out", f"is always {_shown(keys[0])}"
    if all(map(_is_date, values)):
        return "out", "holds dates"
    if different <= 4 and tuple(sorted({key.lower() for key in keys})) in YES_NO:
        return "yes/no", ""
    numbers = Cells(values).numbers
    if numbers is not None:
        whole = bool((numbers == np.floor(numbers)).all())
        if whole and different == n >= 10 and len(set(np.diff(numbers).tolist())) == 1:
            return "out", "counts the rows"
        if whole and different >= 10 and different > n / 2 and ID.search(name):
            return "out", "identifies the rows"
        return ("category", "") if whole and different <= min(10, n // 2) else ("number", "")
    words = sum(len(key.split()) for key in keys) / n
    if words >= 10 or (words >= 3 and different > n / 2):
        return "text", ""
    short = all(one.isascii() and len(one) <= 40 for one in keys)
    if n >= 10 and different > 0.9 * n and words == 1.0 and short:
        return "out", "identifies the rows"
    return ("category", "") if different <= max(20, min(n // 10, 1000)) else ("text", "")


def _shown(key: str) -> str:
    return repr(key if len(key) <= 20 else key[:19] + "…")


def _is_date(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell[:1].isdigit() and DATE.fullmatch(cell.strip()) is not None
    return isinstance(cell, datetime.date | datetime.time | datetime.timedelta | np.datetime64)


def encode(column: Column, cells: Cells) -> Any:
    """Return the cells of a column as a block of numbers, NaN where one is missing.

    Words become a CSR matrix of their counts. A category that is new is missing.

    Examples
    --------
    >>> encode(Column("red", "yes/no", categories=("no", "yes")), Cells(["yes", "?", "No"]))
    array([[ 1.],
           [nan],
           [ 0.]])
    """
    if column.vectorizer is not None:
        return sparse.csr_array(column.vectorizer.transform(cells.mapped(key, "")))
    if column.kind == "number":
        if cells.numbers is None:
            row = cells.no_number()
            raise CellError(
                column.name,
                row,
                f"{_shown(str(cells.values[row]))} is no number, or too large. Correct it, leave "
                "it empty, or make the column a category.",
            )
        return cells.numbers[:, None]
    place = {name: float(code) for code, name in enumerate(column.categories)}
    lower = column.kind == "yes/no"
    codes = cells.mapped(lambda cell: _code(place, key(cell), lower), np.nan)
    return np.array(codes, dtype=np.float64).reshape(-1, 1)


def _code(place: dict[str, float], name: str, lower: bool) -> float:
    return place.get(name.lower() if lower else name, np.nan)
