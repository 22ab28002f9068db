"""Tables in files: CSV, TSV, JSON lines, Parquet and Arrow, read and written as polars data frames.

Whole or by batches in bounded memory, plain or gzipped, from standard input or to standard output.
This package stands apart: it knows files and no models. Values are kept as they are; the types of
columns are inferred by `tacit.frames`.
"""

from __future__ import annotations

import gzip
import os
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.io.files import check_target, replaced
from tacit.io.suggestions import did_you_mean
from tacit.tables.columnar import COLUMNAR, read_columnar, write_columnar
from tacit.tables.delimited import check_names, read_delimited
from tacit.tables.jsonlines import read_json_lines
from tacit.tables.textfiles import TableError, opened
from tacit.tables.writing import ready, write_text

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TableError", "batches", "check_output", "columns", "is_table", "read", "write"]

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
FORMATS = sorted(set(SUFFIXES.values()))
MOST_BYTES = 1 << 25  # of cells in a batch, or little more


def read(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,  # noqa: A002 - the word that users know
) -> pl.DataFrame:
    r"""Read a table.

    Parameters
    ----------
    path : str or path
        The file, plain or gzipped; "-" is standard input.
    delimiter : str, default=None
        What separates the cells of delimited text. None takes a tab for .tsv and .tab, otherwise
        the one of comma, tab, semicolon and bar that gives the first line the most cells.
    encoding : str, default="utf-8"
        The encoding of text.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, default=None
        None goes by the extension, or else by what the file begins with.

    Returns
    -------
    polars.DataFrame
        Cells of delimited text as they are, all text: "007" stays "007", an empty one is "". Blank
        lines are skipped. In tab-separated text quotes are ordinary characters, unless the first
        million characters in which a cell begins with a quote are well-formed with them: such
        cells end with a quote, and all rows have equally many cells.
        JSON lines keep numbers, truth values and text; a column that mixes them, numbers beyond 64
        bits and nested values become text; null, NaN and keys that a record lacks are missing.
        Parquet and Arrow keep their types.

    Raises
    ------
    TableError
        If there is no such file or it is broken: the message says where, and what to do.

    Examples
    --------
    >>> import tempfile
    >>> from tacit import tables
    >>> mails = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> _ = mails.write_text("id,text,topic\n007,win a prize,spam\n008,see you,\n")
    >>> tables.read(mails).rows()
    [('007', 'win a prize', 'spam'), ('008', 'see you', '')]
    """
    found = list(_frames(path, None, delimiter, encoding, format))
    return found[0] if len(found) == 1 else _polars().concat(found, rechunk=True)


def batches(
    path: str | os.PathLike[str],
    *,
    rows: int = 50_000,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,  # noqa: A002 - the word that users know
) -> Iterator[pl.DataFrame]:
    r"""Read a table by batches, in order and in bounded memory.

    The batches have the columns and types that `read` gives. JSON lines are read twice for that,
    from a pipe by way of a temporary file, as are Parquet and Arrow from a pipe or gzipped.

    Parameters
    ----------
    path : str or path
        The file, plain or gzipped; "-" is standard input.
    rows : int, default=50_000
        Rows in a batch; the last one may have fewer, and so have batches of long texts.
    delimiter, encoding, format
        As for `read`.

    Yields
    ------
    polars.DataFrame
        The next rows.

    Examples
    --------
    >>> import tempfile
    >>> from tacit import tables
    >>> mails = Path(tempfile.mkdtemp()) / "mails.csv"
    >>> _ = mails.write_text("id,text\n1,a\n2,b\n3,c\n")
    >>> [batch["id"].to_list() for batch in tables.batches(mails, rows=2)]
    [['1', '2'], ['3']]
    """
    if rows < 1:
        raise ValueError(f"rows is {rows}: a batch has at least one row.")
    waiting: list[pl.DataFrame] = []
    count = size = 0
    for frame in _frames(path, rows, delimiter, encoding, format):
        waiting.append(frame)
        count += frame.height
        size += int(frame.estimated_size())
        if count < rows and size < MOST_BYTES:
            continue
        joined = _polars().concat(waiting, rechunk=True)
        full = count - count % rows if count >= rows else count
        yield from (joined[start : min(start + rows, full)] for start in range(0, full, rows))
        waiting, count, size = ([joined[full:]] if count > full else []), count - full, 0
    if waiting:
        yield _polars().concat(waiting, rechunk=True)


def write(
    frames: pl.DataFrame | Iterable[pl.DataFrame],
    path: str | os.PathLike[str],
    *,
    spreadsheet: bool = False,
    format: str | None = None,  # noqa: A002 - the word that users know
) -> int:
    """Write a table; a file is replaced atomically or, if anything fails, left as it was.

    Parameters
    ----------
    frames : polars.DataFrame, or an iterable of them
        The rows; batches with the same columns are written one by one in bounded memory. For
        Parquet and Arrow they wait in a temporary directory until all are there.
    path : str or path
        A file that ends in .csv, .tsv, .jsonl or .ndjson, with .gz or without, in .parquet, .arrow,
        .feather or .ipc; "-" is standard output, as CSV unless `format` says otherwise.
    spreadsheet : bool, default=False
        Write an apostrophe before text that a spreadsheet would run as a formula: what begins with
        = + - @, a tab or a carriage return and is not a number. Column names too.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, default=None
        None goes by the extension.

    Returns
    -------
    int
        How many rows were written.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> from tacit import tables
    >>> target = Path(tempfile.mkdtemp()) / "filled.csv"
    >>> frame = pl.DataFrame({"text": ["=1+1", "-3.5"], "topic": ["spam", None]})
    >>> tables.write(frame, target, spreadsheet=True)
    2
    >>> print(target.read_text(), end="")
    text,topic
    '=1+1,spam
    -3.5,
    """
    pl, name = _polars(), os.fspath(path)
    kind, zipped = check_output(path, format), name.lower().endswith(".gz")
    given: Any = [frames] if isinstance(frames, pl.DataFrame) else frames
    problem = f"{name} cannot be written: leave out or change the column that {kind} cannot hold"
    write_all = write_columnar if kind in COLUMNAR else write_text
    with ExitStack() as stack:
        stack.enter_context(_named(name))
        to: Any = sys.stdout.buffer if path == "-" else stack.enter_context(replaced(path))
        if zipped:
            to = stack.enter_context(gzip.GzipFile(fileobj=to, mode="wb", mtime=0))
        return write_all(ready(given, spreadsheet), to, kind, problem)


def check_output(path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """Return the format in which a file would be written; an error if it cannot be.

    Examples
    --------
    >>> from tacit import tables
    >>> tables.check_output("filled.csv.gz")
    'csv'
    """
    name = os.fspath(path)
    if path == "-" and sys.stdout is None:
        raise TableError("stdout is closed: name a file to write to.")
    if path != "-" and Path(name).is_dir():
        raise TableError(f"{name} is a directory: name a file to write to.")
    kind = _checked(format) or ("csv" if path == "-" else _by_name(path))
    if kind is None or (name.lower().endswith(".gz") and kind in COLUMNAR):
        raise TableError(
            f"{name} does not say a format that can be written: end it in .csv, .tsv, .jsonl (each "
            "also with .gz), .parquet or .arrow, or give format=..."
        )
    if path != "-":
        check_target(path)
    return kind


def columns(frame: pl.DataFrame, names: Sequence[str], *, source: str = "The table") -> None:
    """Raise TableError unless a table has columns of these names.

    Examples
    --------
    >>> import polars as pl
    >>> from tacit import tables
    >>> mails = pl.DataFrame({"id": ["1"], "text": ["a"], "topic": [""]})
    >>> tables.columns(mails, ["topik"], source="mails.csv")
    Traceback (most recent call last):
        ...
    tacit.tables.TableError: mails.csv has no column 'topik': did you mean 'topic'? There are id,
    text, topic.
    """
    for name in names:
        if name not in frame.columns:
            raise TableError(f"{source} has no column {name!r}{did_you_mean(name, frame.columns)}")


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Make disk errors name the file; a closed pipe is left to the caller."""
    try:
        yield
    except TableError:
        raise
    except OSError as error:
        if "roken pipe" in str(error) or (error.filename and str(error.filename) in name):
            raise
        raise TableError(
            f"{name} cannot be written: {error}. Make room, or write elsewhere."
        ) from error


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise ImportError('Tables need polars: pip install "tacit[tables]"') from None
    return polars


def _checked(format: str | None) -> str | None:  # noqa: A002
    if format is not None and format not in FORMATS:
        raise TableError(f"There is no format {format!r}: give one of {', '.join(FORMATS)}.")
    return format


def _by_name(path: str | os.PathLike[str]) -> str | None:
    name = os.fspath(path).lower().removesuffix(".gz")
    return SUFFIXES.get(Path(name).suffix)


def _by_content(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    return "jsonl" if head.removeprefix(BOM_UTF8).lstrip().startswith(b"{") else "csv"


def _frames(
    path: str | os.PathLike[str],
    rows: int | None,
    delimiter: str | None,
    encoding: str,
    format: str | None,  # noqa: A002
) -> Iterator[pl.DataFrame]:
    """Yield a table as frames of at most `rows` rows, or of any size."""
    _polars()
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise TableError(f"{delimiter!r} cannot be a delimiter: give one character, such as ';'.")
    with opened(path) as source:
        kind = _checked(format) or _by_name(path) or _by_content(source.head)
        if kind in COLUMNAR:
            frames = read_columnar(source, kind, rows)
        elif kind == "jsonl":
            frames = read_json_lines(source, encoding)
        else:
            delimiter = delimiter or ("\t" if kind == "tsv" else None)
            frames = read_delimited(source, encoding, delimiter)
        first = next(frames, None)
        if first is None:
            raise TableError(f"{source.name} has no rows: expected at least one.")
        if not first.columns:
            raise TableError(f"{source.name} has no columns: expected at least one.")
        check_names(first.columns, source.name)
        yield first
        yield from frames


def is_table(path: str | os.PathLike[str]) -> bool:
    """Return whether the extension of a file is that of a table.

    Examples
    --------
    >>> from tacit import tables
    >>> tables.is_table("mails.csv.gz"), tables.is_table("topics.model"), tables.is_table("-")
    (True, False, True)
    """
    return os.fspath(path) == "-" or _by_name(path) is not None
