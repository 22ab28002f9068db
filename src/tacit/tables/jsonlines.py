"""JSON lines as data frames, block by block: one object a line, one column for every key."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from tacit.tables.textfiles import Opened, TableError, pieces

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_json_lines"]

BLOCK = 4096  # records that are Python objects at a time


def read_json_lines(source: Opened, encoding: str) -> Iterator[pl.DataFrame]:
    """Yield the records of JSON lines as frames; a first pass finds the columns and their types.

    Numbers, truth values and text stay what they are. A column that mixes them, numbers beyond 64
    bits and nested values become text. NaN, null and keys that a record lacks are missing.
    """
    import polars as pl

    with nullcontext(source.stream) if source.rereadable else source.on_disk() as stream:
        source = replace(source, stream=stream)
        kinds: dict[str, set[type]] = {}
        for record in _records(source, encoding):
            for key, value in record.items():
                big = isinstance(value, int) and not -(2**63) <= value < 2**63
                kinds.setdefault(key, set()).add(str if big else type(value))
        if not kinds:
            raise TableError(f"{source.name} is empty: expected one JSON object a line, with keys.")
        dtypes = {key: _dtype(kind - {type(None)}) for key, kind in kinds.items()}
        mixed = [key for key in kinds if dtypes[key] == pl.String and kinds[key] - {str}]
        stream.seek(0)
        records = _records(source, encoding)
        while block := list(islice(records, BLOCK)):
            columns = {key: [record.get(key) for record in block] for key in kinds}
            columns.update((key, list(map(_as_text, columns[key]))) for key in mixed)
            yield pl.DataFrame(columns, schema=dtypes)


def _records(source: Opened, encoding: str) -> Iterator[dict[str, Any]]:
    text = pieces(source, encoding)
    lines = chain.from_iterable(io.StringIO(piece, newline="") for piece in text)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_object, parse_constant=_constant)
            if "\\ud" in line or "\\uD" in line:
                json.dumps(record, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            problem = f"{error.msg} at character {error.colno}"
        except UnicodeEncodeError:
            problem = "an escape such as \\ud83d that is half a character"
        except RecursionError:
            problem = "values nested too deep"
        except ValueError as error:
            problem = str(error)
        else:
            if isinstance(record, dict):
                yield record
                continue
            problem = f"{type(record).__name__} instead of an object"
        raise TableError(
            f"{source.name}, line {number}: {problem}. Expected one JSON object a line, such as "
            '{"id": 1, "text": "..."}; jq -c ".[]" makes such lines of an array.'
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!r} twice")
    return found


def _constant(literal: str) -> None:
    if literal != "NaN":
        raise ValueError(f"{literal}, which is not a number of JSON")


def _dtype(kinds: set[type]) -> Any:
    """Return the type of a column from the types of its values."""
    import polars as pl

    if kinds == {bool}:
        return pl.Boolean
    if kinds == {int}:
        return pl.Int64
    return pl.Float64 if kinds and kinds <= {int, float} else pl.String


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
