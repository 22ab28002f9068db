"""Columns of a table: their feature types, inferred from the values, and their encoding as numbers.

A table is anything with named columns: a data frame of pandas or polars, an Arrow table, a dict of
lists. Feature types are called kinds in the API (`kinds`, `Column.kind`). Nothing here reads files
or knows models; raw values are in `tacit.frames.values`.
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

from tacit.frames.values import ColumnValues, as_text
from tacit.io.suggestions import did_you_mean
from tacit.numerics import Array
from tacit.text.vectorizer import CountVectorizer

__all__ = ["FEATURE_TYPES", "CellError", "Column", "bin_edges", "columns_of", "encode", "infer"]

# Feature types; a column of type "out" is left out.
FEATURE_TYPES = ("text", "category", "number", "yes/no", "out")

# Pairs of values that mean no and yes.
YES_NO = (("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("0", "1"))

DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d\d))"
    r"([T ]\d{1,2}:\d\d(:\d\d(\.\d+)?)?)?\s*(Z|[+-]\d\d:?\d\d)?"
)

# Names of identifier columns.
ID = re.compile(r"(?:^|[\W_])id$|(?:^|[\W_]|[a-z])I[Dd]$")

# Size of the even sample of values from which a feature type is inferred.
SAMPLE = 10_000
# Quantile bins of a number.
BINS = 5
# Fraction of a count that each neighbour of a number's bin gets: as if the number were off by up to
# a third of a bin.
NEIGHBOUR_SMOOTHING = 1 / 12


class CellError(ValueError):
    """A value that does not fit the feature type of its column; rows count from 0."""

    def __init__(self, column: str, row: int, text: str) -> None:
        super().__init__(column, row, text)
        self.column, self.row, self.text = column, row, text

    def __str__(self) -> str:
        return f"Column {self.column!r}, row {self.row + 1}: {self.text}"


@dataclass(frozen=True)
class Column:
    """A column of a table: its feature type, and what its encoding needs of the training rows.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"text", "category", "number", "yes/no", "out"}
        Its feature type.
    note : str
        The reason for it, in a few words.
    categories : tuple of str
        The categories, or the values for no and yes.
    vectorizer : CountVectorizer, optional
        The vectorizer of a text.
    edges : tuple of float
        The bin edges of a number, if it is binned.
    """

    name: str
    kind: str
    note: str = ""
    categories: tuple[str, ...] = ()
    vectorizer: CountVectorizer | None = None
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        text, binned = self.kind == "text", bool(self.edges) and self.kind != "number"
        if self.kind not in FEATURE_TYPES or text != (self.vectorizer is not None) or binned:
            raise ValueError(
                f"Column {self.name!r} of kind {self.kind!r} has what another kind has."
            )
        rising = all(a < b for a, b in pairwise(self.edges))
        if len(self.edges) == 1 or not rising or not np.isfinite(self.edges).all():
            raise ValueError(f"Column {self.name!r} has bin edges that do not rise.")
        named = {"category": len(self.categories), "yes/no": 2}.get(self.kind, 0)
        if len(self.categories) != named or len(set(self.categories)) < named:
            raise ValueError(
                f"Column {self.name!r} of kind {self.kind!r} has {self.categories[:5]}."
            )

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return 1 if self.vectorizer is None else len(self.vectorizer.vocabulary_)

    @property
    def values(self) -> tuple[str, ...]:
        """The names of its discrete values, if any: categories, no and yes, or bins."""
        if not self.edges:
            return self.categories
        gap = np.diff(self.edges).min()
        for digits in range(3, 18):  # the fewest that still separate the bins
            names = [f"{edge:.{digits}g}" for edge in self.edges]
            if np.abs(np.array(names, float) - self.edges).max() <= gap / 100:
                break
        first, *inner, last = names
        if not inner:
            return (f"{first} to {last}",)
        between = (f"{a} to {b}" for a, b in pairwise(inner))
        return (f"below {inner[0]}", *between, f"from {inner[-1]} on")

    def with_bins(self, block: Any, bins: bool) -> Column:
        """Return the column with the bin edges of its encoded values, or without any."""
        return (
            replace(self, edges=bin_edges(block) if bins else ()) if self.kind == "number" else self
        )

    def to_bins(self, block: Any) -> Any:
        """Return encoded values with numbers as the codes of their bins, if the column is binned.

        Examples
        --------
        >>> Column("size", "number", edges=(1.0, 2.0, 3.0)).to_bins(np.array([[1.5], [np.nan]]))
        array([[ 0.],
               [nan]])
        """
        if not self.edges:
            return block
        codes = np.searchsorted(self.edges[1:-1], block, side="right")
        return np.where(np.isnan(block), np.nan, codes)


def bin_edges(numbers: Array) -> tuple[float, ...]:
    """Return the edges of quantile bins; none if all numbers are equal.

    Examples
    --------
    >>> bin_edges(np.array([0.0, 0.0, 1.0, 5.0, np.nan]))
    (0.0, 0.5, 3.0, 5.0)
    """
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    if len(values) < 2:
        return ()
    quantile = (np.cumsum(counts) - counts / 2) / counts.sum() * BINS  # in units of a bin
    inner = np.flatnonzero(np.diff(quantile.astype(np.intp))) if len(values) > BINS else slice(None)
    edges = ((values[:-1] + values[1:]) / 2)[inner]
    return tuple(np.unique([values[0], *edges, values[-1]]).tolist())


def columns_of(table: Any) -> dict[str, ColumnValues]:
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
    columns = {text: table[name] for text, name in zip(texts, names, strict=True)}
    if isinstance(table, Mapping):  # a single row is a dict of values
        columns = {
            name: [values] if isinstance(values, str) or not hasattr(values, "__len__") else values
            for name, values in columns.items()
        }
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"Columns must be equally long: found {sorted(lengths)} cells.")
    return {name: ColumnValues(values) for name, values in columns.items()}


def infer(
    table: Mapping[str, ColumnValues], given: Mapping[str, str] | None, vectorizer: CountVectorizer
) -> tuple[tuple[Column, ...], dict[str, Any]]:
    """Return the columns of a table with their feature types, `given` or inferred.

    Also returns the word counts of the columns of text, by name, as `encode` gives them.

    The rules, in this order, on an even sample of at most 10,000 values that are not missing:

    1. none, or all equal: left out.
    2. dates and times: left out.
    3. yes and no, y and n, true and false, t and f, 0 and 1: yes/no.
    4. numbers: left out if 10 or more count the rows (1, 2, 3, ...) or, mostly distinct, are named
       id; a category if they are integers, at most 10 are distinct, and each occurs twice on
       average; else a number.
    5. at least 10 words on average, or 3 and mostly distinct: text.
    6. one short word of plain letters and digits each, and 10 or more of which nine in ten are
       distinct: left out, as an identifier.
    7. at most 20 distinct, or at most a tenth of the values and 1,000: a category.
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
        if kind not in FEATURE_TYPES:
            names = ", ".join(FEATURE_TYPES)
            raise ValueError(f"Column {name!r}: kind {kind!r} is none of {names}.")
    word_counts: dict[str, sparse.csr_array] = {}
    columns = []
    for name, values in table.items():
        column, counts = _column(name, values, given.get(name), vectorizer)
        columns.append(column)
        if counts is not None:
            word_counts[name] = counts
    return tuple(columns), word_counts


def _column(
    name: str, values: ColumnValues, kind: str | None, vectorizer: CountVectorizer
) -> tuple[Column, sparse.csr_array | None]:
    """Return a column of a given or inferred type, and the word counts of a text."""
    note = "as you said" if kind else ""
    if kind is None:
        kind, note = _infer_type(name, values.sample(SAMPLE))
        kind = _valid_for_all(kind, values)
    if kind == "text":
        from sklearn.base import clone  # slow to import, and only text needs it

        own = clone(vectorizer)
        try:
            counts = own.fit_transform(values.mapped(as_text, ""))
        except ValueError as error:
            if "empty vocabulary" not in str(error) and "no terms remain" not in str(error):
                raise
            return Column(name, "out", "holds no words"), None
        return Column(name, kind, note, (), own), sparse.csr_array(counts)
    distinct = {one for one in values.keys if one is not None}
    if kind == "category":
        if not distinct:
            raise ValueError(f"Column {name!r} is empty: it can be no category. Leave it out.")
        return Column(name, kind, note, tuple(sorted(distinct))), None
    if kind == "yes/no":
        both = {one.lower() for one in distinct}
        pair = next((p for p in YES_NO if both <= set(p)), tuple(sorted(both)))
        if len(pair) != 2:
            raise ValueError(f"Column {name!r}: yes/no needs two values, found {pair[:5]}.")
        return Column(name, kind, note, pair), None
    return Column(name, kind, note), None


def _valid_for_all(kind: str, values: ColumnValues) -> str:
    """Return the feature type inferred from a sample, or one that all values have."""
    if kind == "number" and values.numbers is None:
        return "text"
    if kind == "yes/no":
        distinct = {one.lower() for one in values.keys if one is not None}
        return kind if any(distinct <= set(pair) for pair in YES_NO) else "category"
    return kind


def _infer_type(name: str, sample: ColumnValues) -> tuple[str, str]:
    """Return the feature type by the rules of `infer`, and a note."""
    values = [value for value in sample.values if value is not None]
    texts = [one for one in sample.keys if one is not None]
    if not texts:
        return "out", "is empty"
    n, distinct = len(texts), len(set(texts))
    if distinct == 1 and n > 1:
        return "out", f"is always {_shortened(texts[0])}"
    if all(map(_is_date, values)):
        return "out", "holds dates"
    if distinct <= 4 and tuple(sorted({text.lower() for text in texts})) in YES_NO:
        return "yes/no", ""
    numbers = ColumnValues(values).numbers
    if numbers is not None:
        whole = bool((numbers == np.floor(numbers)).all())
        if whole and distinct == n >= 10 and len(set(np.diff(numbers).tolist())) == 1:
            return "out", "counts the rows"
        if whole and distinct >= 10 and distinct > n / 2 and ID.search(name):
            return "out", "identifies the rows"
        return ("category", "") if whole and distinct <= min(10, n // 2) else ("number", "")
    words = sum(len(text.split()) for text in texts) / n
    if words >= 10 or (words >= 3 and distinct > n / 2):
        return "text", ""
    short = all(one.isascii() and len(one) <= 40 for one in texts)
    if n >= 10 and distinct > 0.9 * n and words == 1.0 and short:
        return "out", "identifies the rows"
    return ("category", "") if distinct <= max(20, min(n // 10, 1000)) else ("text", "")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:19] + "…")


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return value[:1].isdigit() and DATE.fullmatch(value.strip()) is not None
    return isinstance(value, datetime.date | datetime.time | datetime.timedelta | np.datetime64)


def encode(column: Column, values: ColumnValues) -> Any:
    """Return the values of a column as numbers, shape (n, 1), NaN where one is missing.

    Texts become a CSR matrix of word counts. A category that is new is missing.

    Examples
    --------
    >>> encode(Column("red", "yes/no", categories=("no", "yes")), ColumnValues(["yes", "?", "No"]))
    array([[ 1.],
           [nan],
           [ 0.]])
    """
    if column.vectorizer is not None:
        return sparse.csr_array(column.vectorizer.transform(values.mapped(as_text, "")))
    if column.kind == "number":
        if values.numbers is None:
            row = values.first_non_number()
            raise CellError(
                column.name,
                row,
                f"{_shortened(str(values.values[row]))} is no number, or too large. Correct it, "
                "leave it empty, or make the column a category.",
            )
        return values.numbers[:, None]
    code = {name: float(i) for i, name in enumerate(column.categories)}
    lower = column.kind == "yes/no"

    def encoded(value: Any) -> float:
        text = as_text(value)
        return code.get(text.lower() if lower else text, np.nan)

    return np.array(values.mapped(encoded, np.nan), dtype=np.float64).reshape(-1, 1)
