"""Checks of the metadata of a Parquet file before polars reads it; header_checks.py says why.

Metadata are structs of Thrift's compact protocol:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md. Their fields are
defined by parquet.thrift in https://github.com/apache/parquet-format.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import IO, Any

from tacit.tables.arrowfile import check_arrow_schema
from tacit.tables.header_checks import DEEPEST, BinaryFile, DamagedError, require

__all__ = ["parquet_sizes"]

MAGIC = b"PAR1"
HEADER, LONGEST_HEADER = 1 << 10, 1 << 24  # bytes; those of a page are longer for long statistics
DEEPEST_SCHEMA = 2 * DEEPEST  # a list takes two levels
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_2 = 0, 2, 3
# Bytes that one byte can become at most, by the number of the compression: none, Snappy, gzip, LZO,
# Brotli (which knows no limit), LZ4, Zstandard, LZ4.
MOST_EXPANDED = (1, 32, 1100, 256, 1 << 31, 256, 1 << 15, 256)
# Bits that a value takes in memory at least, missing or not, by the number of its type: boolean,
# integers of 32, 64 and 96 bits, floating point of 32 and 64 bits, bytes.
WIDTHS = dict(enumerate((1, 8, 64, 64, 32, 64, 8)))
FIXED = 7  # bytes of a fixed length

TRUE, BOOL, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = *range(1, 11), 12
BITS = {I16: 16, I32: 32, I64: 64}
SIZES = {TRUE: 1, BOOL: 1, BYTE: 1, DOUBLE: 8}  # in a list, where truth values are bytes
KINDS: dict[Any, int] = {dict: STRUCT, list: LIST}
Struct = dict[int, Any]

# The types of all fields that polars knows; a dict is a struct, a list has such elements. polars
# decodes a field by its expected type, whatever type the file states: the two must agree, or this
# check would decode another file than polars does.
EMPTY: Struct = {}
STATISTICS = {1: BINARY, 2: BINARY, 3: I64, 4: I64, 5: BINARY, 6: BINARY, 7: BOOL, 8: BOOL}
PAGE = {
    **dict.fromkeys((1, 2, 3, 4), I32),
    5: {**dict.fromkeys((1, 2, 3, 4), I32), 5: STATISTICS},
    6: EMPTY,
    7: {1: I32, 2: I32, 3: BOOL},
    8: {**dict.fromkeys((1, 2, 3, 4, 5, 6), I32), 7: BOOL, 8: STATISTICS},
}
KEY_VALUE = {1: BINARY, 2: BINARY}
COLUMN = {
    **dict.fromkeys((1, 4, 15), I32),
    **dict.fromkeys((5, 6, 7, 9, 10, 11, 14), I64),
    2: [I32],
    3: [BINARY],
    8: [KEY_VALUE],
    12: STATISTICS,
}
COLUMN_CHUNK = {1: BINARY, 2: I64, 3: COLUMN, 4: I64, 5: I32, 6: I64, 7: I32}
SORTING = {1: I32, 2: BOOL, 3: BOOL}
ROW_GROUP = {1: [COLUMN_CHUNK], 2: I64, 3: I64, 4: [SORTING], 5: I64, 6: I64, 7: I16}
TIME = {1: BOOL, 2: {1: EMPTY, 2: EMPTY, 3: EMPTY}}
LOGICAL_TYPE = {
    **dict.fromkeys((1, 2, 3, 4, 6, 11, 12, 13, 14, 15), EMPTY),
    5: {1: I32, 2: I32},
    7: TIME,
    8: TIME,
    10: {1: BYTE, 2: BOOL},
}
SCHEMA_ELEMENT = {**dict.fromkeys((1, 2, 3, 5, 6, 7, 8, 9), I32), 4: BINARY, 10: LOGICAL_TYPE}
FOOTER = {
    1: I32,
    2: [SCHEMA_ELEMENT],
    3: I64,
    4: [ROW_GROUP],
    5: [KEY_VALUE],
    6: BINARY,
    7: [{1: EMPTY, 2: EMPTY}],
}


class Reader:
    """Decoder of Thrift's compact protocol, bounds-checked."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, known: Struct) -> Struct:
        """Return the fields of the next struct, None for truth values."""
        try:
            return self._struct(known, 0)
        except IndexError:
            raise DamagedError("its description goes on behind its end") from None

    def _struct(self, known: Struct, depth: int) -> Struct:
        fields: Struct = {}
        number = 0
        while kind := (header := self._byte()) & 15:
            number = number + (header >> 4) if header >> 4 else self._signed(16)
            if number in fields:
                raise DamagedError("a field is there twice")
            kind = BOOL if kind == TRUE else kind
            expected = self._checked(kind, known.get(number))
            fields[number] = None if kind == BOOL else self._value(kind, expected, depth)
        return fields

    def _checked(self, kind: int, expected: Any) -> Any:
        if expected is not None and kind != KINDS.get(type(expected), expected):
            raise DamagedError("a field is of another kind than it must be")
        return expected

    def _value(self, kind: int, known: Any, depth: int) -> Any:
        if kind in BITS:
            return self._signed(BITS[kind])
        if kind == BINARY:
            return self._bytes(self._unsigned())
        require(depth <= DEEPEST, "its description is nested too deep")
        if kind == STRUCT:
            return self._struct(known or EMPTY, depth + 1)
        if kind in (LIST, SET):
            head = self._byte()
            count = self._unsigned() if head >> 4 == 15 else head >> 4
            require(count <= len(self.data) - self.at, "a list is longer than its room")
            element = self._checked(head & 15, known[0]) if known and count else None
            return [self._value(head & 15, element, depth + 1) for _ in range(count)]
        require(kind in SIZES, "a field is of no kind that there is")
        return self._bytes(SIZES[kind])

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, length: int) -> bytes:
        start, self.at = self.at, self.at + length
        if self.at > len(self.data):
            raise IndexError
        return self.data[start : self.at]

    def _unsigned(self) -> int:
        number = shift = 0
        while shift < 64:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
        raise DamagedError("a number does not end")

    def _signed(self, bits: int) -> int:
        number = self._unsigned()
        if number >> bits:
            raise DamagedError("a number is too large for its kind")
        return -(number >> 1) - 1 if number & 1 else number >> 1


def parquet_sizes(stream: IO[bytes]) -> Iterator[int]:
    """Check a Parquet file, and yield a lower bound of the bytes of memory of each page."""
    file = BinaryFile(stream)
    require(file.part(0, 4, "its mark") == MAGIC, "it does not begin with PAR1")
    end = file.part(file.size - 8, 8, "its footer")
    require(end.endswith(MAGIC), "it does not end with PAR1, so it is cut short")
    length = int.from_bytes(end[:4], "little")
    footer = Reader(file.part(file.size - 8 - length, length, "its footer")).read(FOOTER)
    widths = _widths(footer.get(2, []))
    arrow = [entry.get(2, b"") for entry in footer.get(5, []) if entry.get(1) == b"ARROW:schema"]
    widest = max(map(_arrow_width, arrow), default=1)
    left = file.size
    for group in footer.get(4, []):
        rows, chunks = _whole(group, 3), group.get(1, [])
        require(len(chunks) == len(widths), "some columns are missing")
        yield rows * widest
        for width, chunk in zip(widths, chunks, strict=True):
            column = chunk.get(3, {})
            require(rows <= _whole(column, 5), "a column has too few values")
            left -= _whole(column, 7)
            require(left >= 0, "its columns overlap")
            yield from _page_sizes(file, column, width)


def _whole(fields: Struct, number: int) -> int:
    found: int = fields.get(number, -1)
    require(found >= 0, "a number is missing or negative")
    return found


def _widths(elements: list[Struct]) -> list[int]:
    """Return the bits that a value of each column takes; DamagedError if nested too deep."""
    widths, missing = [], [1]  # by levels, how many are still to come
    for element in elements:
        children, kind = element.get(5, 0), element.get(1)
        require(children >= 0, "a column has less than no columns in it")
        missing[-1] -= 1
        missing.append(children)
        while len(missing) > 1 and not missing[-1]:
            missing.pop()
        require(len(missing) <= DEEPEST_SCHEMA, f"columns are nested more than {DEEPEST} deep")
        if kind is not None:
            require(kind in WIDTHS or kind == FIXED, "a column is of an unknown kind")
            widths.append(8 * _whole(element, 2) if kind == FIXED else WIDTHS[kind])
    return widths


def _arrow_width(text: bytes) -> int:
    try:
        return check_arrow_schema(base64.b64decode(text))
    except binascii.Error:
        return 1  # polars does not read it, either


def _page_sizes(file: BinaryFile, column: Struct, width: int) -> Iterator[int]:
    """Check the pages of a column chunk, and yield a lower bound of the memory of each."""
    codec, values, size = (_whole(column, number) for number in (4, 5, 7))
    require(codec < len(MOST_EXPANDED), "a column is compressed in an unknown way")
    at = _whole(column, 11 if 11 in column else 9)
    end = at + size
    file.check(at, size, "a column")
    while values > 0:
        page, at = _page(file, at, end)
        expanded, compressed = _whole(page, 2), _whole(page, 3)
        at += compressed
        require(at <= end, "a page lies outside of its column")
        most = compressed * MOST_EXPANDED[codec]
        require(expanded <= most, "a page claims more than it can become")
        count, type_ = 0, _whole(page, 1)
        if type_ == DICTIONARY_PAGE:
            require(_whole(page.get(7, {}), 1) <= expanded, "a dictionary has too many values")
        elif type_ in (DATA_PAGE, DATA_PAGE_2):
            data = page.get(5 if type_ == DATA_PAGE else 8, {})
            levels = 0 if type_ == DATA_PAGE else _whole(data, 5) + _whole(data, 6)
            require(levels <= compressed, "a page has too many levels")
            count = _whole(data, 1)
            values -= count
        yield max(count * width // 8, expanded)


def _page(file: BinaryFile, at: int, end: int) -> tuple[Struct, int]:
    """Return the header of a page, and the offset of its end."""
    most = HEADER
    while True:
        reader = Reader(file.part(at, min(most, end - at), "a page"))
        try:
            return reader.read(PAGE), at + reader.at
        except DamagedError:
            if most >= min(end - at, LONGEST_HEADER):
                raise
            most *= 16
