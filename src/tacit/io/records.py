"""Encoding of values and records as a tree of JSON and named arrays, and back.

Nothing here reads or writes files (see `container`) or knows what records mean. Only classes that
the caller lists can be made: none is looked up by a name from a file.

A tree is null, a truth value, a number, text, a list, or an object with one key that says what it
is: ``{"tuple": [...]}``, ``{"array": "C"}``, ``{"Gaussian": {...}}``. An array has the name of its
place in the tree.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

__all__ = ["Record", "decode", "encode", "fits", "plain"]

Arrays = dict[str, npt.NDArray[Any]]

# Lists of more numbers or texts than this become arrays.
LONG = 64
# The deepest tree that is read.
DEEPEST = 32
# The types of the entries of arrays.
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64"]
SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple}


class Record(NamedTuple):
    """How objects of a type become fields (`take`) and back (`make`, which raises ValueError)."""

    type: type
    take: Callable[[Any], dict[str, Any]]
    make: Callable[[dict[str, Any]], Any]


def plain(cls: type, later: tuple[str, ...] = (), dropped: tuple[str, ...] = ()) -> Record:
    """Return the record of a dataclass or named tuple, validated against its type hints.

    Fields that were added `later` may be missing from files; they have defaults. Those that were
    `dropped` are passed over where older files have them. Fields of a dataclass whose metadata has
    ``saved=False`` are not written.

    Examples
    --------
    >>> class Point(NamedTuple):
    ...     x: float
    >>> plain(Point).make({"x": 1.0})
    Point(x=1.0)
    >>> plain(Point).make({"x": "1"})
    Traceback (most recent call last):
    ...
    ValueError: Point has x='1': expected float
    """
    if dataclasses.is_dataclass(cls):
        own = dataclasses.fields(cls)
        names = [field.name for field in own if field.metadata.get("saved", True)]
    else:
        names = list(cls._fields)  # type: ignore[attr-defined]

    def make(fields: dict[str, Any]) -> Any:
        hints = get_type_hints(cls)
        fields = {name: value for name, value in fields.items() if name not in dropped}
        if not set(names) - set(later) <= set(fields) <= set(names):
            raise ValueError(f"{cls.__name__} has the fields {list(fields)}: expected {names}")
        for name, value in fields.items():
            if not fits(value, hints[name]):
                hint = getattr(hints[name], "__name__", hints[name])
                raise ValueError(f"{cls.__name__} has {name}={_short(value)}: expected {hint}")
        return cls(**fields)

    return Record(cls, lambda value: {name: getattr(value, name) for name in names}, make)


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value matches a type hint.

    Examples
    --------
    >>> fits(1, float), fits(True, float), fits(("a", "b"), tuple[str, ...]), fits(None, int | None)
    (True, False, True, True)
    """
    if hint is Any:
        return True
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if kind is np.ndarray:
        (dtype,) = get_args(inner[1])
        return isinstance(value, np.ndarray) and (dtype is Any or value.dtype == dtype)
    if kind is tuple:
        if not isinstance(value, tuple):
            return False
        each = [inner[0]] * len(value) if inner[1:] == (...,) else inner
        return len(value) == len(each) and all(map(fits, value, each))
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool, str):
        return type(value) is hint
    return isinstance(value, kind or hint)


def encode(value: Any, records: Mapping[str, Record]) -> tuple[Any, Arrays]:
    """Return a value as a tree and arrays; ValueError if it holds anything that is not data.

    Examples
    --------
    >>> encode((1, np.zeros(2)), {})
    ({'tuple': [1, {'array': 'C'}]}, {'1': array([0., 0.])})
    """
    arrays: Arrays = {}
    names = {record.type: name for name, record in records.items()}

    def keep(path: str, array: npt.NDArray[Any]) -> None:
        if array.dtype.name not in DTYPES:
            raise ValueError(f"{path} is an array of {array.dtype}, which cannot be saved.")
        arrays[path] = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)

    def words(path: str, texts: Iterable[str], kind: str) -> Any:
        pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
        keep(_at(path, "text"), np.frombuffer(b"".join(pieces), np.uint8))
        keep(_at(path, "ends"), np.cumsum([len(piece) for piece in pieces], dtype=np.int64))
        return {"words": kind}

    def of_array(array: npt.NDArray[Any], path: str) -> Any:
        if array.dtype.kind == "U":  # the characters, so that the width stays as well
            flat = np.array(array, array.dtype.newbyteorder("="), order="C", ndmin=1)
            keep(path, flat.view(np.uint32).reshape(*array.shape, array.itemsize // 4))
            return {"array": "characters"}
        if array.dtype.kind == "O" and array.ndim == 1 and all(type(v) is str for v in array):
            return words(path, array, "array")
        # The order in memory stays, because the bits of what is computed can depend on it.
        turned = array.ndim == 2 and 0 < array.strides[0] < array.strides[1]
        keep(path, array.T if turned else array)
        return {"array": "F" if turned else "C"}

    def of_list(values: list[Any] | tuple[Any, ...], path: str) -> Any:
        kind = "tuple" if isinstance(values, tuple) else "list"
        types = set(map(type, values)) if len(values) > LONG else set()
        if types == {str}:
            return words(path, values, kind)
        if types in ({int}, {float}):
            keep(path, np.array(values))
            return {"array": kind}
        each = [of(one, _at(path, i)) for i, one in enumerate(values)]
        return each if kind == "list" else {"tuple": each}

    def of(value: Any, path: str) -> Any:
        if isinstance(value, np.bool_ | np.number | np.str_):
            value = value.item()
        name = names.get(type(value))
        if name is not None:
            fields = records[name].take(value).items()
            return {name: {field: of(one, _at(path, field)) for field, one in fields}}
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int) and _is_small(value):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"number": repr(value)}
        if isinstance(value, list | tuple):
            return of_list(value, path)
        if isinstance(value, set | frozenset):
            return {"set": of_list(sorted(value, key=repr), _at(path, "set"))}
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return {"dict": {key: of(one, _at(path, key)) for key, one in value.items()}}
        if isinstance(value, range):
            return of_list(list(value), path)
        if isinstance(value, slice):
            return {"slice": [of(one, path) for one in (value.start, value.stop, value.step)]}
        if hasattr(value, "__array__"):
            return of_array(np.asarray(value), path)
        raise ValueError(
            f"{path} is {_short(value)}, which cannot be saved: expected numbers, text, lists or "
            "arrays of them, or what tacit defines."
        )

    return of(value, ""), arrays


def decode(tree: Any, arrays: Arrays, records: Mapping[str, Record]) -> Any:
    """Return the value of a tree; ValueError unless it is valid and uses every array once.

    Examples
    --------
    >>> decode({"tuple": [1, {"array": "C"}]}, {"1": np.zeros(2)}, {})
    (1, array([0., 0.]))
    """
    left = dict(arrays)

    def take(path: str, ndim: int | None = None, dtype: Any = None) -> npt.NDArray[Any]:
        array = left.pop(path, None)
        if array is None:
            raise ValueError(f"the array {path!r} is missing")
        if array.dtype.name not in DTYPES or dtype not in (None, array.dtype):
            raise ValueError(f"the array {path!r} has entries of type {array.dtype}")
        if ndim not in (None, array.ndim):
            raise ValueError(f"the array {path!r} has {array.ndim} dimensions: expected {ndim}")
        if array.dtype == bool and (array.view(np.uint8) > 1).any():
            raise ValueError(f"the array {path!r} has truth values that are none")
        return array

    def words(kind: Any, path: str) -> Any:
        text, ends = take(_at(path, "text"), 1, np.uint8), take(_at(path, "ends"), 1, np.int64)
        starts = np.concatenate([[0], ends])
        if (np.diff(starts) < 0).any() or starts[-1] != len(text):
            raise ValueError(f"the words {path!r} do not end where their text does")
        data, cuts = text.tobytes(), starts.tolist()
        pieces = (data[i:j] for i, j in pairwise(cuts))
        found = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
        if kind == "array":
            objects = np.empty(len(found), dtype=object)
            objects[:] = found
            return objects
        return SEQUENCES[kind](found)

    def array(kind: Any, path: str) -> Any:
        if kind == "characters":
            found = take(path, None, np.uint32)
            if not found.ndim or not found.shape[-1] or (found > 0x10FFFF).any():
                raise ValueError(f"the array {path!r} is no text")
            return found.view(f"U{found.shape[-1]}")[..., 0]
        if kind == "F":
            return take(path, 2).T
        return take(path) if kind == "C" else SEQUENCES[kind](take(path, 1).tolist())

    def several(tree: Any, path: str, depth: int) -> list[Any]:
        if not isinstance(tree, list):
            raise ValueError(f"{path} holds {_short(tree)}: expected a list")
        return [of(one, _at(path, i), depth) for i, one in enumerate(tree)]

    def named(tree: Any, path: str, depth: int) -> dict[str, Any]:
        if not isinstance(tree, dict):
            raise ValueError(f"{path} holds {_short(tree)}: expected fields")
        return {name: of(one, _at(path, name), depth) for name, one in tree.items()}

    def of(tree: Any, path: str, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        depth += 1
        if isinstance(tree, list):
            return several(tree, path, depth)
        if not isinstance(tree, dict):
            number = isinstance(tree, int | float)
            if number and not (_is_small(tree) if type(tree) is int else math.isfinite(tree)):
                raise ValueError(f"{path} is {_short(tree)}: expected a smaller number")
            return tree
        if len(tree) != 1:
            raise ValueError(f"{path} has {len(tree)} keys: expected one that says what it is")
        ((tag, inner),) = tree.items()
        if tag in records:
            return records[tag].make(named(inner, path, depth))
        if tag == "dict":
            return named(inner, path, depth)
        if tag == "tuple":
            return tuple(several(inner, path, depth))
        if tag == "set":
            return set(of(inner, _at(path, "set"), depth))
        if tag == "slice":
            return slice(*several(inner, path, depth))
        if tag == "number" and inner in ("nan", "inf", "-inf"):
            return float(inner)
        if tag in ("array", "words"):
            return (array if tag == "array" else words)(inner, path)
        raise ValueError(f"{path} is of an unknown kind, {_short(tag)}")

    value = of(tree, "")
    if left:
        raise ValueError(f"nothing refers to the array {min(left)!r}")
    return value


def _at(path: str, step: object) -> str:
    return f"{path}.{step}" if path else str(step)


def _is_small(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 64


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
