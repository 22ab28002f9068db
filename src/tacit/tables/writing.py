"""Writing of data frames as text: CSV, TSV and JSON lines, optionally safe for spreadsheets.

Parquet and Arrow are written by `columnar`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

from tacit.tables.columnar import polars_errors
from tacit.tables.delimited import DELIMITERS
from tacit.tables.textfiles import TableError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ready", "write_text"]

# Text that a spreadsheet runs as a formula, unless it is a number.
FORMULA, NUMBER = r"^[=+\-@\t\r]", r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def ready(frames: Iterable[pl.DataFrame], spreadsheet: bool) -> Iterator[pl.DataFrame]:
    """Yield frames ready to be written; TableError unless all have the same columns."""
    names = None
    for frame in frames:
        names = names or frame.columns
        if frame.columns != names:
            raise TableError(
                f"A batch has the columns {', '.join(frame.columns)} where the first one has "
                f"{', '.join(names)}: give all the same."
            )
        yield _for_spreadsheets(frame) if spreadsheet else frame
    if names is None:
        raise TableError("There is no batch to write: give at least one, if without rows.")


def _for_spreadsheets(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    def safe(column: pl.Expr) -> pl.Expr:
        text = column.cast(pl.String)
        runs = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
        return pl.when(runs).then(text.str.replace("^", "'")).otherwise(text)

    names = pl.DataFrame({"before": frame.columns}).with_columns(after=safe(pl.col("before")))
    texts = pl.col(pl.String, pl.Categorical, pl.Enum)
    return frame.with_columns(safe(texts)).rename(dict(names.iter_rows()))


def write_text(frames: Iterable[pl.DataFrame], file: IO[bytes], kind: str, problem: str) -> int:
    """Write frames one after the other, and return the number of rows."""
    rows = 0
    for number, frame in enumerate(frames):
        rows += frame.height
        with polars_errors(problem):
            if kind == "jsonl":
                frame.write_ndjson(file)
            else:
                _write_delimited(frame, file, "\t" if kind == "tsv" else ",", header=number == 0)
    return rows


def _write_delimited(frame: pl.DataFrame, file: IO[bytes], delimiter: str, *, header: bool) -> None:
    """Write rows to a file, after the column names if these are wanted.

    Nested values are written as JSON. Missing values and empty text are both empty cells, as no
    reader distinguishes them.
    """
    import polars as pl

    if header:
        # Any other delimiter, or a byte order mark, would mislead a reader if it were not quoted.
        quoted = bool(set("".join(frame.columns)) & {*DELIMITERS, "\r", "\n", "\ufeff"})
        text = io.StringIO(newline="")
        csv.writer(
            text,
            delimiter=delimiter,
            lineterminator="\n",
            quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL,
        ).writerow(frame.columns)
        file.write(text.getvalue().encode())
    nested = [column.name for column in frame if column.dtype.is_nested()]
    frame = frame.with_columns(
        pl.Series(name, [_as_json(value) for value in frame[name].to_list()], pl.String)
        for name in nested
    ).with_columns(pl.col(pl.Duration).dt.to_string())
    if frame.width == 1:  # nothing but quotes tells an empty cell from a blank line
        frame = frame.select(pl.all().cast(pl.String).fill_null(""))
    else:
        frame = frame.with_columns(pl.col(pl.String).replace("", None))
    frame.write_csv(file, include_header=False, separator=delimiter)


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)
