"""Checks of the metadata of an Arrow file before polars reads it; header_checks.py says why.

Metadata are FlatBuffers tables: https://flatbuffers.dev/internals. Their fields are defined by
Message.fbs, Schema.fbs and File.fbs in https://github.com/apache/arrow/tree/main/format.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tacit.tables.header_checks import DEEPEST, BinaryFile, DamagedError, require

__all__ = ["arrow_sizes", "check_arrow_schema"]

MAGIC = b"ARROW1"
OTHERS = {
    b"\xff\xff\xff\xff": "it is an Arrow stream, and an Arrow file is needed",
    b"FEA1": "it is Feather of version 1, and version 2 is needed",
}
CONTINUED = b"\xff\xff\xff\xff"  # the prefix of messages since 2019, before their length
DICTIONARY, BATCH = 2, 3  # kinds of messages
FIXED_SIZE = (15, 16)  # kinds of columns: bytes and lists
# Bytes that one byte of LZ4 or Zstandard can become at most: 255 in a match that goes on, and
# 128 KiB of one value in a block of four bytes.
MOST_EXPANDED = (256, 1 << 15)
BLOCK = np.dtype(
    {"names": ["at", "head", "body"], "formats": ["<i8", "<i4", "<i8"], "offsets": [0, 8, 16]}
)
BUFFER = np.dtype([("at", "<i8"), ("length", "<i8")])
NODE = np.dtype([("length", "<i8"), ("nulls", "<i8")])
I8, U16, I32, U32, I64 = map(Struct, ("<b", "<H", "<i", "<I", "<q"))


class Table:
    """A FlatBuffers table with bounds-checked offsets."""

    def __init__(self, data: bytes, at: int | None = None) -> None:
        self.data = data
        self.at = self._read(U32, 0) if at is None else at
        self.slots = self.at - self._read(I32, self.at)
        self.end = self.slots + self._read(U16, self.slots)

    def _read(self, kind: Struct, at: int) -> int:
        if not 0 <= at <= len(self.data) - kind.size:
            raise DamagedError("a description points out of itself")
        number: int = kind.unpack_from(self.data, at)[0]
        return number

    def _place(self, field: int) -> int | None:
        slot = self.slots + 4 + 2 * field
        offset = self._read(U16, slot) if slot + 2 <= self.end else 0
        return self.at + offset if offset else None

    def number(self, field: int, kind: Struct) -> int:
        place = self._place(field)
        return 0 if place is None else self._read(kind, place)

    def table(self, field: int) -> Table | None:
        place = self._place(field)
        return None if place is None else Table(self.data, place + self._read(U32, place))

    def vector(self, field: int, kind: Any) -> NDArray[Any]:
        place, kind = self._place(field), np.dtype(kind)
        if place is None:
            return np.empty(0, kind)
        start = place + self._read(U32, place)
        count = self._read(U32, start)
        end = start + 4 + count * kind.itemsize
        require(end <= len(self.data), "a list is longer than its room")
        return np.frombuffer(self.data, kind, count, start + 4)

    def tables(self, field: int) -> Iterator[Table]:
        place = self._place(field)
        if place is not None:
            first = place + self._read(U32, place) + 4
            for number, offset in enumerate(self.vector(field, "<u4").tolist()):
                yield Table(self.data, first + 4 * number + offset)


def arrow_sizes(stream: IO[bytes]) -> Iterator[int]:
    """Check an Arrow file, and yield a lower bound of the bytes of memory of each batch."""
    file = BinaryFile(stream)
    mark = file.part(0, min(8, file.size), "its mark")
    require(mark.startswith(MAGIC), OTHERS.get(mark[:4], "it does not begin with ARROW1"))
    end = file.part(file.size - 10, 10, "its footer")
    require(end.endswith(MAGIC), "it does not end with ARROW1, so it is cut short")
    length = I32.unpack_from(end)[0]
    footer = Table(file.part(file.size - 10 - length, length, "its footer"))
    schema = footer.table(1)
    if schema is None:
        raise DamagedError("it has no schema")
    _check_fields(schema)
    blocks = [
        (kind, *block)
        for kind in (DICTIONARY, BATCH)
        for block in footer.vector(kind, BLOCK).tolist()
    ]
    sizes = [size for *_, head, body in blocks for size in (head, body)]
    require(min(sizes, default=0) >= 0 and sum(sizes) <= file.size, "its batches do not fit in")
    for kind, at, head, body in blocks:
        file.check(at, head + body, "a batch")
        batch = _batch(file.part(at, head, "a batch"), kind)
        yield _batch_size(file, batch, at + head, body)


def check_arrow_schema(message: bytes) -> int:
    """Check the Arrow schema that a Parquet file may hold; return the most values a row can have.

    These are the elements of lists of a fixed size, and the bytes of binary values of one, present
    or missing.
    """
    schema = Table(message[8:] if message.startswith(CONTINUED) else message).table(2)
    return 1 if schema is None else _check_fields(schema)


def _check_fields(schema: Table) -> int:
    """Raise DamagedError if columns are nested too deep; return the widest (see above)."""
    room = iter(range(len(schema.data) // 8))  # a column takes more

    def widest(parent: Table, number: int, depth: int) -> int:
        found = 1
        for field in parent.tables(number):
            require(depth <= DEEPEST, f"columns are nested more than {DEEPEST} deep")
            require(next(room, None) is not None, "its schema has more columns than room")
            kind = field.table(3) if field.number(2, I8) in FIXED_SIZE else None
            size = 1 if kind is None else kind.number(0, I32)
            found = max(found, size * widest(field, 5, depth + 1))
        return found

    return widest(schema, 1, 1)


def _message(data: bytes) -> Table:
    start = 8 if data.startswith(CONTINUED) else 4
    length = I32.unpack_from(data, start - 4)[0] if len(data) >= start else -1
    require(0 <= length <= len(data) - start, "a message is longer than its room")
    return Table(data[start : start + length])


def _batch(description: bytes, kind: int) -> Table:
    message = _message(description)
    require(message.number(1, I8) == kind, "a message is not of the kind that the footer says")
    header = message.table(2)
    batch = header.table(1) if header and kind == DICTIONARY else header
    if batch is None:
        raise DamagedError("a batch is not described")
    return batch


def _batch_size(file: BinaryFile, batch: Table, start: int, body: int) -> int:
    """Check the buffers of a batch, and return a lower bound of its bytes of memory."""
    buffers, counts = batch.vector(2, BUFFER), batch.vector(4, "<i8")
    few = (counts >= 0) & (counts <= len(buffers))
    require(bool(few.all()), "a column has more buffers than there are")
    buffers = buffers[buffers["length"] != 0]
    at, length = buffers["at"], buffers["length"]
    inside = (at >= 0) & (length > 0) & (length <= body) & (at <= body - length)
    require(bool(inside.all()), "a buffer lies outside of its batch")
    require(int(length.sum()) <= body, "buffers overlap")
    values = [batch.number(0, I64), *batch.vector(1, NODE)["length"].tolist()]
    require(min(values) >= 0, "a column has less than no values")
    claim: int = sum(values) // 8  # a bit for each, even if all are missing
    compression = batch.table(3)
    if compression is not None:
        codec = compression.number(0, I8)
        require(0 <= codec < len(MOST_EXPANDED), "buffers are compressed in an unknown way")
        for place, size in buffers.tolist():
            expanded = I64.unpack(file.part(start + place, 8, "a buffer"))[0]
            most = size * MOST_EXPANDED[codec]
            require(expanded <= most, "a buffer claims more than it can become")
            claim += max(int(expanded), 0)
    return claim
