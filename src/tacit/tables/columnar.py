"""Parquet and Arrow files, which polars reads and writes itself, in bounded memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any

from tacit.tables.arrowfile import arrow_sizes
from tacit.tables.header_checks import DamagedError, memory
from tacit.tables.parquetfile import parquet_sizes
from tacit.tables.textfiles import Opened, TableError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COLUMNAR", "polars_errors", "read_columnar", "write_columnar"]

COLUMNAR = {"parquet": "Parquet", "arrow": "Arrow"}
# Bytes of memory that any file may claim, and one of many bytes for each of them: 100 million times
# the same number are 17,000 for each.
MOST_CLAIMED, MOST_EXPANDED = 1 << 28, 1 << 16


@contextmanager
def polars_errors(problem: str, *others: type[Exception]) -> Iterator[None]:
    """Turn what polars raises, panics included, into a TableError."""
    from polars.exceptions import PanicException, PolarsError

    kinds: tuple[Any, ...] = (PolarsError, PanicException, *others)
    try:
        yield
    except kinds as error:
        reason = str(error).strip().partition("\n")[0]
        raise TableError(f"{problem} ({reason}).") from None


def read_columnar(source: Opened, kind: str, rows: int | None) -> Iterator[pl.DataFrame]:
    """Yield a table by frames of so many rows, or in one."""
    import polars as pl

    scan: Any = pl.scan_parquet if kind == "parquet" else pl.scan_ipc
    on_disk = nullcontext(source.stream) if source.plain else source.on_disk()
    problem = f"{source.name} is damaged or not a file of {COLUMNAR[kind]}: write or fetch it anew"
    with on_disk as file, polars_errors(problem, OSError, DamagedError):
        _check_sizes(file, kind, whole=rows is None)
        start, table = 0, scan(file)
        while (frame := table.slice(start, rows).collect()).height:
            yield frame
            start += frame.height


def _check_sizes(file: IO[bytes], kind: str, whole: bool) -> None:
    """Refuse a file that polars would end the process over, or fill the memory with."""
    size = file.seek(0, os.SEEK_END)
    claimed, most = 0, min(memory(), max(MOST_CLAIMED, MOST_EXPANDED * size))
    for claim in (parquet_sizes if kind == "parquet" else arrow_sizes)(file):
        claimed = claimed + claim if whole else claim
        if claimed > most:
            raise DamagedError(
                f"it claims {claimed:,} bytes of memory, and for {size:,} bytes of file on this "
                f"machine {most:,} are the most"
            )
    file.seek(0)


def write_columnar(frames: Iterable[pl.DataFrame], file: IO[bytes], kind: str, problem: str) -> int:
    """Write frames to a file, and return how many rows that were.

    Such files cannot be added to: all frames are written by themselves before they are joined.
    """
    import polars as pl

    parts, rows = [], 0
    with tempfile.TemporaryDirectory(prefix="tacit-") as directory:
        for number, frame in enumerate(frames):
            parts.append(os.path.join(directory, f"{number}.arrow"))
            rows += frame.height
            with polars_errors(problem):
                frame.write_ipc(parts[-1])
        with polars_errors(problem):
            table = pl.scan_ipc(parts)
            (table.sink_parquet if kind == "parquet" else table.sink_ipc)(file)
    return rows
