"""Columns of a table as people have them: what kind each is, and how its cells become numbers.

Nothing here reads files or knows of models. A table is anything with named columns: a data frame of
pandas or polars, an Arrow table, a dict of lists.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from scipy import sparse

from tacit.numerics import Array
from tacit.text import CountVectorizer

__all__ = ["KINDS", "CellError", "Column", "columns_of", "encode", "infer", "is_missing", "plain"]

# What a column can be taken for; "out" means that it is left out.
KINDS = ("text", "category", "number", "yes/no", "out")

# Cells that say that nothing is known.
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"})

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
    """

    name: str
    kind: str
    note: str = ""
    categories: tuple[str, ...] = ()
    vectorizer: CountVectorizer | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS or (self.kind == "text") != (self.vectorizer is not None):
            raise ValueError(
                f"Column {self.name!r} of kind {self.kind!r} has what another kind has."
            )
        named = {"category": len(self.categories), "yes/no": 2}.get(self.kind, 0)
        if len(self.categories) != named or len(set(self.categories)) < named:
            raise ValueError(
                f"Column {self.name!r} of kind {self.kind!r} has {self.categories[:5]}."
            )

    @property
    def width(self) -> int:
        """How many columns of numbers it becomes."""
        return 1 if self.vectorizer is None else len(self.vectorizer.vocabulary_)


def columns_of(table: Any) -> dict[str, Any]:
    """Return the columns of a table by their names.

    Examples
    --------
    >>> columns_of({"size": [1, 2]})
    {'size': [1, 2]}
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
    return found


def plain(cells: Any) -> list[Any]:
    """Return the cells of a column as Python objects, missing ones as None.

    Examples
    --------
    >>> plain(np.array([1.5, np.nan])), plain(["a", "?", None])
    ([1.5, None], ['a', None, None])
    """
    for name in ("to_list", "tolist", "to_pylist"):
        if hasattr(cells, name):
            cells = getattr(cells, name)()
            break
    return [None if is_missing(cell) else cell for cell in cells]


def is_missing(cell: Any) -> bool:
    """Return whether a cell is missing: None, NaN, NA, or a text that says so.

    Examples
    --------
    >>> [is_missing(cell) for cell in (None, float("nan"), " ", "?", 0, "none")]
    [True, True, True, True, False, False]
    """
    if type(cell) is str:
        return len(cell) < 5 and (cell in MISSING or cell.strip() in MISSING)
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)


def infer(
    table: Mapping[str, Any], given: Mapping[str, str] | None, vectorizer: CountVectorizer
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
    6. one word each, and 10 or more that all differ: left out, as an identifier.
    7. at most 20 differ, or a tenth of the cells and 1,000: a category.
    8. else text.

    Examples
    --------
    >>> table = {"day": ["2024-01-31"] * 3, "size": [1.5, 2.0, None], "red": ["yes", "no", "no"]}
    >>> [(c.name, c.kind, c.note) for c in infer(table, None, CountVectorizer())[0]]
    [('day', 'out', "is always '2024-01-31'"), ('size', 'number', ''), ('red', 'yes/no', '')]
    """
    given = dict(given or {})
    for name, kind in given.items():
        if name not in table:
            close = get_close_matches(name, table, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else f" It has {', '.join(table)}."
            raise ValueError(f"The table has no column {name!r}.{hint}")
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
    name: str, cells: Any, kind: str | None, vectorizer: CountVectorizer
) -> tuple[Column, Any]:
    note = "as you said" if kind else ""
    if kind is None:
        step = max(1, len(cells) // SAMPLE)
        kind, note = _kind(name, [cell for cell in plain(cells[::step]) if cell is not None])
    if kind == "number" and not note and _numbers(plain(cells)) is None:
        kind = "text"  # a later cell is none
    if kind == "text":
        from sklearn.base import clone  # which text alone needs

        own = clone(vectorizer)
        try:
            counts = own.fit_transform(_texts(cells))
        except ValueError as error:
            if "empty vocabulary" not in str(error) and "no terms remain" not in str(error):
                raise
            return Column(name, "out", "holds no words"), None
        return Column(name, kind, note, (), own), sparse.csr_array(counts)
    if kind == "category":
        seen = dict.fromkeys(_key(cell) for cell in plain(cells) if cell is not None)
        return Column(name, kind, note, tuple(sorted(seen))), None
    if kind == "yes/no":
        both = {_key(cell).lower() for cell in plain(cells) if cell is not None}
        pair = next((p for p in YES_NO if both <= set(p)), tuple(sorted(both)))
        if len(pair) != 2:
            raise ValueError(f"Column {name!r}: yes/no needs two values, found {pair[:5]}.")
        return Column(name, kind, note, pair), None
    return Column(name, kind, note), None


def _kind(name: str, cells: list[Any]) -> tuple[str, str]:
    """Apply the rules of `infer` to cells that are not missing."""
    if not cells:
        return "out", "is empty"
    keys = [_key(cell) for cell in cells]
    n, different = len(keys), len(set(keys))
    if different == 1 and n > 1:
        return "out", f"is always {_shown(keys[0])}"
    if all(map(_is_date, cells)):
        return "out", "holds dates"
    if different <= 4 and tuple(sorted({key.lower() for key in keys})) in YES_NO:
        return "yes/no", ""
    numbers = _numbers(cells)
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
    if different == n >= 10 and words == 1.0:
        return "out", "identifies the rows"
    return ("category", "") if different <= max(20, min(n // 10, 1000)) else ("text", "")


def _shown(key: str) -> str:
    return repr(key if len(key) <= 20 else key[:19] + "…")


def _is_date(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell[:1].isdigit() and DATE.fullmatch(cell.strip()) is not None
    return isinstance(cell, datetime.date | datetime.time | datetime.timedelta | np.datetime64)


def _key(cell: Any) -> str:
    """Return a cell as text, the same for 1, 1.0, True and "1" where they mean the same."""
    if type(cell) is str:
        return cell.strip()
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell) if whole else cell)


def _number(cell: Any) -> float:
    """Return a cell as a number, NaN if it is missing; ValueError if it is none."""
    if cell is None:
        return np.nan
    number = float(cell)
    if not np.isfinite(number) or (type(cell) is str and "_" in cell):
        raise ValueError
    return number


def _numbers(cells: Iterable[Any]) -> Array | None:
    """Return cells as numbers, or None if one of them is none."""
    try:
        return np.array([_number(cell) for cell in cells])
    except (TypeError, ValueError):
        return None


def _texts(cells: Any) -> Any:
    """Return texts as the vectorizer takes them, missing ones empty."""
    return ["" if cell is None else _key(cell) for cell in plain(cells)]


def encode(column: Column, cells: Any) -> Any:
    """Return the cells of a column as a block of numbers, NaN where one is missing.

    Words become a CSR matrix of their counts. A category that is new is missing.

    Examples
    --------
    >>> encode(Column("red", "yes/no", categories=("no", "yes")), ["yes", "?", "No"])
    array([[ 1.],
           [nan],
           [ 0.]])
    """
    if column.vectorizer is not None:
        return sparse.csr_array(column.vectorizer.transform(_texts(cells)))
    values = plain(cells)
    if column.kind == "number":
        numbers = _numbers(values)
        if numbers is None:
            row = next(i for i, value in enumerate(values) if _numbers([value]) is None)
            shown = _shown(str(values[row]))
            raise CellError(
                column.name,
                row,
                f"{shown} is no number. Correct it, leave it empty, or make the column a category.",
            )
        return numbers[:, None]
    lower = column.kind == "yes/no"
    place: dict[str | None, float] = {name: float(i) for i, name in enumerate(column.categories)}
    keys = [None if cell is None else _key(cell) for cell in values]
    codes = [place.get(key.lower() if key and lower else key, np.nan) for key in keys]
    return np.array(codes).reshape(-1, 1)
