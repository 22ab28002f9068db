"""Atomic writes: a reader sees the old file or the new one, also after a crash.

Bytes only; the formats are `container`'s and `tacit.tables`'.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["check_target", "replaced"]


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` when the block ends.

    It is written beside `path`, flushed to the disk and renamed. If the block raises, it is removed
    and `path` stays as it was. Pipes and other special files are written to directly.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replaced(target) as file:
    ...     _ = file.write(b"all of it")
    >>> target.read_bytes(), len(list(target.parent.iterdir()))
    (b'all of it', 1)
    """
    target = check_target(path)
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    handle, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, _mode(target))
        os.replace(beside, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    if os.name == "posix":  # flush the new name to the disk as well
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path resolves to; OSError if it cannot be written.

    Examples
    --------
    >>> check_target("no/such/place/model")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no/such/place/model: there is no directory no/such/place to write to.
    """
    target = Path(os.path.realpath(path))  # the target of a link
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory: name a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {Path(path).parent} to write to.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(f"{path} must not be written: choose another place.")
    return target


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
