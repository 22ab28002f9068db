"""Opening and decoding of files: plain, gzipped or standard input, as bytes or as whole lines.

Knows nothing of rows and columns, except for the error of a broken file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from shutil import copyfileobj
from typing import IO, Any

__all__ = ["Opened", "TableError", "line_ends", "opened", "pieces"]

PIECE = 1 << 20  # characters
LONGEST_LINE = 100_000_000  # an unlimited line would fill the memory
GZIP = b"\x1f\x8b"
# In this order: what marks UTF-32 begins with what marks UTF-16.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class TableError(ValueError):
    """A file that cannot be read as a table, or a table that is not as it was expected.

    The message is one line: the file, the line or column, what is wrong and what to do.
    """

    __module__ = "tacit.tables"  # where users find it


@dataclass(frozen=True)
class Opened:
    """A file opened for reading.

    Attributes
    ----------
    name : str
        Its name in messages.
    stream : binary file
        Its contents, unzipped.
    head : bytes
        Its first bytes, which the stream will read again.
    rereadable : bool
        Whether the stream can go back to its beginning.
    plain : bool
        Whether it is a file on the disk that is not zipped.
    """

    name: str
    stream: Any
    head: bytes
    rereadable: bool
    plain: bool

    def on_disk(self) -> IO[bytes]:
        """Return a temporary file with the contents of the stream."""
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked for it closes it
        copyfileobj(self.stream, copy, PIECE)
        copy.seek(0)
        return copy


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Opened]:
    """Open a file, or standard input for "-", and turn what can go wrong into a TableError.

    Examples
    --------
    >>> from pathlib import Path
    >>> target = Path(tempfile.mkdtemp()) / "zipped"
    >>> _ = target.write_bytes(gzip.compress(b"id,text"))
    >>> with opened(target) as source:
    ...     source.head, source.stream.read(), source.plain
    (b'id,text', b'id,text', False)
    """
    name = "standard input" if path == "-" else os.fspath(path)
    with ExitStack() as stack:
        try:
            file = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))
            rereadable = path != "-" and file.seekable()
            head, stream = _begun(file, rereadable)
            zipped = head.startswith(GZIP)
            if zipped:
                head, stream = _begun(
                    stack.enter_context(gzip.GzipFile(fileobj=stream)), rereadable
                )
            yield Opened(name, stream, head, rereadable, rereadable and not zipped)
        except FileNotFoundError:
            raise TableError(
                f"There is no file {name}: check the name and the directory."
            ) from None
        except IsADirectoryError:
            raise TableError(f"{name} is a directory: name a file in it.") from None
        except PermissionError:
            raise TableError(
                f"{name} may not be read: ask for the right to, or copy it to where you have it."
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TableError(
                f"{name} is a gzip file that is cut short or damaged ({error}): fetch it anew."
            ) from None
        except OSError as error:
            raise TableError(f"{name} cannot be read: {error.strerror or error}.") from None


def pieces(source: Opened, encoding: str) -> Iterator[str]:
    """Yield the text of a file in pieces of whole lines, with line ends unchanged."""
    mark = next((mark for mark in MARKS if source.head.startswith(mark)), None)
    try:
        plain = codecs.lookup(encoding).name
        # Bytes that are not valid become lone surrogates, by which their line is found.
        text = io.TextIOWrapper(source.stream, encoding, "surrogateescape", newline="")
    except (LookupError, ValueError):
        raise TableError(
            f"{encoding!r} is not an encoding of text: try 'utf-8', 'latin-1', 'utf-16'."
        ) from None
    line = 1
    try:
        if plain == "utf-8" and mark is not None:
            raise TableError(
                f"{source.name} starts with the byte order mark of {MARKS[mark].upper()}: give "
                f"{_suggested(MARKS[mark])}."
            )
        while piece := text.read(PIECE):
            piece += text.readline(LONGEST_LINE)
            if line == 1 and plain == "utf-8":
                piece = piece.removeprefix("\ufeff")
            _check(piece, source.name, line, encoding)
            yield piece
            line += line_ends(piece)
        text.detach()  # or it would close the stream, which may be read again
    except UnicodeError as error:
        raise TableError(
            f"{source.name}, after line {line - 1}: this is not {encoding} "
            f"({getattr(error, 'reason', error)}). Give the file's own encoding, such as "
            f"{_suggested('latin-1')}."
        ) from None


def line_ends(text: str, stop: int | None = None) -> int:
    r"""Return the number of line ends before a position: \n, \r\n or \r.

    Examples
    --------
    >>> line_ends("a\nb\r\nc\rd")
    3
    """
    count = [text.count(end, 0, stop) for end in ("\n", "\r", "\r\n")]
    return count[0] + count[1] - count[2]


def _begun(stream: Any, rereadable: bool) -> tuple[bytes, Any]:
    """Return the first bytes of a stream, and the stream at its beginning."""
    head = stream.read(8)
    if rereadable:
        stream.seek(0)
        return head, stream
    return head, io.BufferedReader(_Rejoined(head, stream), PIECE)


class _Rejoined(io.RawIOBase):
    """A pipe, with the bytes that were read from it put back."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self.head, self.stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.head or self.stream.read1(len(buffer))
        self.head = b""
        buffer[: len(found)] = found
        return len(found)


def _check(piece: str, name: str, line: int, encoding: str) -> None:
    """Raise TableError if a piece is not text: too long a line, NUL or invalid bytes."""
    if len(piece) > LONGEST_LINE:
        raise TableError(
            f"{name}, line {line + line_ends(piece)}: more than {LONGEST_LINE:,} characters. "
            "Check that this is a text file with one row a line."
        )
    if (at := piece.find("\0")) >= 0:
        raise TableError(
            f"{name}, line {line + line_ends(piece, at)}: a NUL byte, which text does not hold. "
            f"If the file is UTF-16, give {_suggested('utf-16')}; otherwise write it anew as text."
        )
    try:
        piece.isascii() or piece.encode()
    except UnicodeEncodeError as error:
        raise TableError(
            f"{name}, line {line + line_ends(piece, error.start)}: the byte "
            f"0x{ord(piece[error.start]) - 0xDC00:02X} is not valid {encoding}. Give the file's "
            f"own encoding, such as {_suggested('latin-1')}."
        ) from None


def _suggested(encoding: str) -> str:
    return f"encoding={encoding!r} (--encoding {encoding})"
