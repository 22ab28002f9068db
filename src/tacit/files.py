"""Files that are replaced whole: a reader sees the old one or the new one, also after a crash."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["replaced"]


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file to write to that takes the place of `path` when it is complete.

    It is written beside `path`, flushed to the disk and renamed. If the block raises, it is removed
    and `path` stays as it was. What is no ordinary file, such as a pipe, is written to directly.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replaced(target) as file:
    ...     _ = file.write(b"all of it")
    >>> target.read_bytes(), len(list(target.parent.iterdir()))
    (b'all of it', 1)
    """
    target = Path(os.path.realpath(path))  # the file that a link stands for
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("wb") as file:
            yield file
        return
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory: name a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {target.parent} to write to.")
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
    if os.name == "posix":  # the new name is on the disk as well
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _mode(target: Path) -> int:
    """Return the rights of the file that is replaced, or those of any new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
