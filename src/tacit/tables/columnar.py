"""Parquet and Arrow files, read and written by polars in bounded memory.

Their headers are validated first (`parquetfile`, `arrowfile`).
"""

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
# Bytes of memory that the header of any file may state, and of a large one for each of its bytes: a
# column of 100 million equal numbers has 17,000.
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
    """Yield a table as frames of at most `rows` rows, or as one frame."""
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
    """Raise DamagedError if a file would abort polars, or would not fit in memory."""
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
    """Write frames to a file, and return the number of rows.

    These formats cannot be appended to: frames go to temporary files, which are then joined.
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
