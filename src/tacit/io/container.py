"""One record in one file: safetensors with a tree of JSON in its metadata, replaced atomically.

Reading validates the form and runs no code; what a record means is validated by `tacit.modelfile`
and `tacit.estimators.checkpoints`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import numpy as tensors
from safetensors import safe_open

from tacit.io.files import replaced
from tacit.io.records import Record, decode, encode

__all__ = ["FORMAT", "ModelFileError", "read", "write"]

FORMAT = 1
KEY = "tacit"  # of the metadata

# The largest header that is read, in bytes: long values are in tensors.
LARGEST_HEADER = 1 << 22


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, or holds an invalid model."""


def write(path: str | os.PathLike[str], value: Any, records: Mapping[str, Record]) -> None:
    """Write a record to a file; ValueError if it holds anything that is not data."""
    tree, arrays = encode(value, records)
    content = {"format": FORMAT, "version": version("tacit"), "model": tree}
    data = tensors.save(arrays, {KEY: json.dumps(content, sort_keys=True)})
    if int.from_bytes(data[:8], "little") > LARGEST_HEADER:
        raise ValueError("The parameters are too long to be saved: give arrays instead of lists.")
    with replaced(path) as file:
        file.write(data)


def read(path: Path, records: Mapping[str, Record]) -> Any:
    """Return the record of a file, in memory bounded by the size of the file.

    Any exception means that the contents are damaged.
    """
    with path.open("rb") as start:
        if int.from_bytes(start.read(8), "little") > LARGEST_HEADER:
            raise ValueError("its header is too long")
    with safe_open(path, framework="np") as file:
        text = (file.metadata() or {}).get(KEY)
        if text is None:
            raise ValueError(f"it has no {KEY!r} in its metadata")
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
        found = content.get("format") if isinstance(content, dict) else None
        if type(found) is not int or found < 1:
            raise ValueError("it does not say its format")
        if found > FORMAT:
            raise ModelFileError(
                f"{path} has format {found!s:.40} of a newer tacit, and this one reads {FORMAT}: "
                "upgrade tacit."
            )
        if set(content) != {"format", "version", "model"}:
            raise ValueError(f"it is not of format {FORMAT}")
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return decode(content["model"], arrays, records)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a key twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"it holds {constant} as a number")
