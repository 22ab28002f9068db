"""Checks of the headers of binary files: bounds, sizes and nesting, before polars reads them.

polars allocates the memory that the header of a Parquet or Arrow file states before it checks that
the file is as long, and a size beyond the memory of the machine aborts the process without an
exception. So arrowfile.py and parquetfile.py validate the metadata of a file first. They read none
of the column data; values are for polars to decode.
"""

from __future__ import annotations

import os
from typing import IO

__all__ = ["DEEPEST", "BinaryFile", "DamagedError", "memory", "require"]

DEEPEST = 64  # levels of nested columns, as in pyarrow; hundreds overflow the stack of polars


class DamagedError(Exception):
    """The metadata of a file is inconsistent; the message says how."""


def require(holds: bool, problem: str) -> None:
    """Raise DamagedError with this message unless a condition holds."""
    if not holds:
        raise DamagedError(problem)


def memory() -> int:
    """Return the bytes of memory of this machine, or a terabyte if they cannot be determined.

    Examples
    --------
    >>> memory() > 1_000_000
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows, for one
        return 1 << 40


class BinaryFile:
    """A binary file with bounds-checked random access.

    Examples
    --------
    >>> import io
    >>> BinaryFile(io.BytesIO(b"PAR1...")).part(0, 4, "its mark")
    b'PAR1'
    >>> BinaryFile(io.BytesIO(b"PAR1...")).part(4, 400, "its footer")
    Traceback (most recent call last):
        ...
    tacit.tables.header_checks.DamagedError: its footer lies outside of the file
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.size = stream, stream.seek(0, os.SEEK_END)

    def check(self, start: int, length: int, what: str) -> None:
        """Raise DamagedError unless a range of bytes lies in the file."""
        if start < 0 or length < 0 or start + length > self.size:
            raise DamagedError(f"{what} lies outside of the file")

    def part(self, start: int, length: int, what: str) -> bytes:
        """Return `length` bytes from `start` on."""
        self.check(start, length, what)
        self.stream.seek(start)
        return self.stream.read(length)
