"""Delimited text (CSV, TSV and the like) as data frames, block by block.

Every value stays text: types of columns are inferred by `tacit.frames`.
"""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from tacit.tables.textfiles import LONGEST_LINE, PIECE, Opened, TableError, line_ends, pieces

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DELIMITERS", "check_names", "read_delimited"]

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}
BLOCK = 4096  # rows that are lists of Python strings at a time
END = "\0"  # a sentinel line that no text holds: an unclosed quote includes it
QUOTED_AFTER_TAB = re.compile(r'(?:^|[\t\r\n])"')
LONGEST_QUOTE = 16 * PIECE  # how far the other end of a quote in tab-separated text is looked for


def read_delimited(source: Opened, encoding: str, delimiter: str | None) -> Iterator[pl.DataFrame]:
    """Yield the rows of delimited text, every cell as the text that it is.

    Without a delimiter, it is the one that gives the first line the most cells. In tab-separated
    text quotes are ordinary characters, unless the first piece of it in which a cell begins with a
    quote is well-formed with them: such cells end with a quote, and rows have equally many cells.
    """
    name, text = source.name, pieces(source, encoding)
    first = next(text, "")
    delimiter = delimiter or max(DELIMITERS, key=lambda each: len(_first_rows(first, each)[0]))
    names: Sequence[str] = ()
    for line, rows in _blocks(chain([first], text), name, delimiter):
        if not names and any(rows):
            at = next(i for i, row in enumerate(rows) if row)
            names = rows[at].split(delimiter) if isinstance(rows[at], str) else rows[at]
            check_names(names, name)
            if len(names) == 1:
                _check_delimiter(first, name, delimiter)
            line += _lines_of(rows[: at + 1])
            rows = rows[at + 1 :]
        if any(rows):
            yield _frame(rows, names, delimiter, name, line)
    if not names:
        raise TableError(f"{name} is empty: expected a line of column names, then rows.")


def check_names(names: Sequence[str], name: str) -> None:
    """Raise TableError if a column name is empty or repeated."""
    places: dict[str, int] = {}
    for number, column in enumerate(names, 1):
        if not column.strip():
            raise TableError(
                f"{name}: column {number} of {len(names)} has no name. Name it in the header (if "
                "it is the index of pandas, write the file with index=False)."
            )
        if (before := places.setdefault(column, number)) < number:
            raise TableError(
                f"{name}: columns {before} and {number} are both named {column!r}. Rename one."
            )


def _blocks(text: Iterator[str], name: str, delimiter: str) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows by blocks, with the line that each block begins in.

    Up to the first quote, a row is a line, for polars to split much faster than Python could; from
    there on it is a list of cells. Blank lines are empty rows.
    """
    line = 1
    quotes = None if delimiter == "\t" else True
    for piece in text:
        if quotes is None and QUOTED_AFTER_TAB.search(piece):
            while (quotes := _quotes(piece)) is None and len(piece) < LONGEST_QUOTE:
                if not (more := next(text, "")):
                    break
                piece += more
            quotes = bool(quotes)
        if quotes and '"' in piece:
            yield from _quoted_blocks(chain([piece], text), name, delimiter, line)
            return
        yield line, piece.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        line += line_ends(piece)


def _quotes(piece: str) -> bool | None:
    """Return whether tab-separated text uses quoting; None if it ends before a quote is closed."""
    reader = csv.reader(io.StringIO(piece, newline=""), delimiter="\t", strict=True)
    widths, lines = set(), 0
    with _long_cells():
        try:
            for row in filter(None, reader):
                widths.add(len(row))
                lines = reader.line_num
        except csv.Error as error:
            if "unexpected end" not in str(error):
                return False
            whole = "".join(islice(io.StringIO(piece, newline=""), lines))
            if not QUOTED_AFTER_TAB.search(whole):
                return None
    return len(widths) == 1


def _quoted_blocks(
    text: Iterable[str], name: str, delimiter: str, line: int
) -> Iterator[tuple[int, list[list[str]]]]:
    lines = chain.from_iterable(io.StringIO(piece, newline="") for piece in text)
    reader = csv.reader(chain(lines, [END]), delimiter=delimiter)
    while True:
        start, rows = line + reader.line_num, list[list[str]]()
        with _long_cells():
            try:
                rows.extend(islice(reader, BLOCK))
            except csv.Error:  # the rows before are there
                raise TableError(
                    f"{name}, line {start + _lines_of(rows)}: a cell of more than "
                    f"{LONGEST_LINE:,} characters. Check that its quote is closed."
                ) from None
        if not rows:
            return
        if rows[-1] and rows[-1][-1].endswith(END):
            *before, last = rows.pop()
            if before or last != END:
                at = start + _lines_of(rows) + sum(map(line_ends, before))
                raise TableError(
                    f"{name}, line {at}: a quote opens here and is never closed. Close it, or "
                    "double it if it belongs to the text."
                )
        yield start, rows


def _frame(
    rows: list[Any], names: Sequence[str], delimiter: str, name: str, line: int
) -> pl.DataFrame:
    """Return rows, not all of them blank, as a frame of text columns."""
    import polars as pl

    found = list(filter(None, rows))
    if isinstance(found[0], str):
        if set(map(methodcaller("count", delimiter), found)) == {len(names) - 1}:
            cells = pl.Series(found, dtype=pl.String).str.split_exact(delimiter, len(names) - 1)
            return cells.struct.rename_fields(names).struct.unnest()
    elif set(map(len, found)) == {len(names)}:
        columns = zip(names, zip(*found, strict=True), strict=True)
        return pl.DataFrame([pl.Series(each, cells, pl.String) for each, cells in columns])
    widths = [row.count(delimiter) + 1 if isinstance(row, str) else len(row) for row in rows]
    at = next(i for i, row in enumerate(rows) if row and widths[i] != len(names))
    first = line + _lines_of(rows[:at])
    last = first + _lines_of([rows[at]]) - 1
    kind = DELIMITERS.get(delimiter, repr(delimiter))
    raise TableError(
        f"{name}, line {first}{f' to {last}' if last > first else ''}: {widths[at]} "
        f"cell{'s' * (widths[at] > 1)} where the header has {len(names)}. "
        + (
            "Check that the quotes in these lines are closed."
            if last > first
            else f"Quote cells that hold a {kind}, or name the delimiter (--delimiter) if it is "
            f"not the {kind}."
        )
    )


def _lines_of(rows: Iterable[Any]) -> int:
    """Return the number of lines that rows span: a quoted value may have several."""
    return sum(1 + (0 if isinstance(row, str) else sum(map(line_ends, row))) for row in rows)


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the first two rows as a delimiter gives them, empty ones if there are none."""
    with _long_cells():
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        return [*islice(filter(None, rows), 2), [], []][:2]


def _check_delimiter(text: str, name: str, delimiter: str) -> None:
    """Raise TableError if the delimiter gives one column where another gives several."""
    for other, kind in DELIMITERS.items():
        header, row = _first_rows(text, other)
        if len(header) == len(row) > 1:
            raise TableError(
                f"{name} has a single column if {DELIMITERS.get(delimiter, repr(delimiter))} is "
                f"the delimiter; {kind} gives {len(row)}. Give delimiter={other!r} "
                f"(--delimiter {other!r})."
            )


class _Limit:
    """Count of the users of a raised csv.field_size_limit (process-wide), and its old value."""

    lock, raised, usual = threading.Lock(), 0, 0


@contextmanager
def _long_cells() -> Iterator[None]:
    """Raise the csv field size limit within the block; thread-safe."""
    with _Limit.lock:
        if not _Limit.raised:
            _Limit.usual = csv.field_size_limit(LONGEST_LINE)
        _Limit.raised += 1
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.raised -= 1
            if not _Limit.raised:
                csv.field_size_limit(_Limit.usual)
