"""What a binary file claims about itself: read where the file has it, and believed only then.

polars takes the memory that a Parquet or Arrow file claims before it looks whether the file has as
much, and a claim beyond the memory of the machine ends the process: no exception comes of it. So
arrowfile.py and parquetfile.py go through the descriptions in a file first. They read nothing of
the columns, refuse what would end the process, and leave it to polars to make sense of the cells.
"""

from __future__ import annotations

import os
from typing import IO

__all__ = ["DEEPEST", "BinaryFile", "DamagedError", "memory", "require"]

DEEPEST = 64  # levels of nested columns, as pyarrow has it; hundreds overflow the stack of polars


class DamagedError(Exception):
    """What a file says of itself cannot be so; the message says what."""


def require(holds: bool, problem: str) -> None:
    """Raise DamagedError unless something holds."""
    if not holds:
        raise DamagedError(problem)


def memory() -> int:
    """Return the bytes of memory that this machine has, or as many as any has if it does not say.

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
    """A file of which parts are read, as long as they are inside of it.

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
        """Refuse a part that is not all inside of the file."""
        if start < 0 or length < 0 or start + length > self.size:
            raise DamagedError(f"{what} lies outside of the file")

    def part(self, start: int, length: int, what: str) -> bytes:
        """Return so many bytes from a place on."""
        self.check(start, length, what)
        self.stream.seek(start)
        return self.stream.read(length)
