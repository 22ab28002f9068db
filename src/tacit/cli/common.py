"""Input and output of the commands: tables with labels, options as pairs, added columns.

Files are read and written by `tacit.tables`; what is printed is in `output`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit import TableClassifier, TableMixture, load, tables
from tacit.cli.output import UsageError
from tacit.data.missing import is_missing
from tacit.frames.columns import CellError
from tacit.frames.values import ColumnValues
from tacit.io.files import check_target
from tacit.numerics import Array

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Labelled",
    "check_outputs",
    "check_resume",
    "free",
    "kinds",
    "labelled",
    "named",
    "table_model",
    "weight_of",
    "with_labels",
    "words",
    "wrote",
]


def check_outputs(output: str, as_json: bool, model: str | None = None) -> None:
    """Raise an error if an output cannot be written, before anything is computed."""
    if output == "-" and as_json:
        raise UsageError("--json goes to stdout: give the table a file by -o FILE.")
    tables.check_output(output)
    if model is not None:
        check_target(model)


def check_resume(checkpoint: str | None, resume: bool) -> None:
    """Warn if there is no checkpoint to resume from."""
    if resume and checkpoint is None:
        raise UsageError("--resume needs --checkpoint FILE, the file to resume from.")
    if resume and not Path(str(checkpoint)).exists():
        warnings.warn(f"{checkpoint} does not exist yet: the fit starts anew.", stacklevel=2)


def kinds(given: list[str] | None) -> dict[str, str]:
    """Return the types of columns that were given as COLUMN=KIND."""
    return _pairs("--kind", given, "COLUMN=KIND")


def words(given: list[str] | None) -> dict[str, str]:
    """Return the classes of words that were given as WORD=CLASS."""
    return _pairs("--word", given, "WORD=CLASS")


def _pairs(option: str, given: list[str] | None, expected: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or []:
        name, sign, value = text.rpartition("=")
        if not (name and sign) or is_missing(value):
            raise UsageError(f"{option} {text}: expected {expected}.")
        if found.get(name, value) != value:
            raise UsageError(f"{option} {text}: {name} was {found[name]} already. Give it once.")
        found[name] = value
    return found


def weight_of(text: str) -> float | str:
    """Return the weight of unlabelled rows: a number, or "auto"."""
    if text == "auto":
        return text
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise UsageError(f"--unlabeled {text}: expected a number from 0 on, or auto.")
    return weight


class Labelled(NamedTuple):
    """A table, and the labels that one of its columns holds."""

    table: pl.DataFrame
    features: pl.DataFrame
    labels: pl.Series
    names: dict[str, Any]  # of the classes, as the table has them


def labelled(
    path: str,
    label: str,
    delimiter: str | None,
    encoding: str,
    of_words: Collection[str] = (),
) -> Labelled:
    """Read a table with a column of labels, which may be absent if words have labels."""
    import polars as pl

    table = tables.read(path, delimiter=delimiter, encoding=encoding)
    if of_words and not get_close_matches(label, table.columns):  # no name that was meant
        table = table.with_columns(pl.lit(None, pl.String).alias(label))
    tables.columns(table, [label], source=path)
    cells = ColumnValues(table[label])
    labels = cells.keys
    different = {name for name in labels if name is not None}
    values = {v for v in table[label].unique().to_list() if type(v) is str and v.strip()}
    gone = sorted(value for value in values if value.strip() not in different)
    if gone:
        warnings.warn(
            f"{', '.join(gone)} in column {label!r} of {path}: taken as missing labels.",
            stacklevel=2,
        )
    if len(different | set(of_words)) < 2:
        found = f"only {different.pop()!r}" if different else "none"
        raise ValueError(
            f"{path}: column {label!r} holds {found} as a label: expected at least two different "
            "ones (empty cells, NA, N/A, NaN, null and ? are missing). Label some rows, or find "
            "clusters without labels by tacit cluster."
        )
    endings = "_filled", "_predicted", "_probability"
    classes = different | set(of_words)
    own = [f"{label}{ending}" for ending in endings] + [f"{label}_p_{c}" for c in classes]
    written = [name for name in own if name in table.columns]
    if written:
        warnings.warn(
            f"{', '.join(written)}: written by tacit earlier, and left out.", stacklevel=2
        )
    pairs = zip(labels, cells.values, strict=True)
    names = {name: name for name in of_words}
    names |= {k: k if type(v) is str else v for k, v in pairs if k is not None}
    return Labelled(table, table.drop(label, *written), pl.Series(label, labels), names)


@contextmanager
def named(path: str, before: int = 0) -> Iterator[None]:
    """Make errors about a value name the file and the row; `before` rows were read earlier."""
    try:
        yield
    except CellError as error:
        raise CellError(error.column, before + error.row, f"{error.text} ({path})") from None


def free(name: str, taken: list[str]) -> str:
    """Return a name that no column has, by appending underscores."""
    while name in taken:
        name += "_"
    return name


def with_labels(
    table: pl.DataFrame, name: str, classes: list[Any], p: Array, every: bool, ending: str
) -> pl.DataFrame:
    """Return a table with added columns: label and probability, with `every` that of each class."""
    import polars as pl

    best = p.argmax(axis=1)
    new = {
        f"{name}{ending}": pl.Series([classes[k] for k in best]),
        f"{name}_probability": pl.Series(p[np.arange(len(best)), best]),
    }
    if every:
        new |= {
            f"{name}_p_{c}": pl.Series(np.ascontiguousarray(p[:, k])) for k, c in enumerate(classes)
        }
    for wanted, column in new.items():
        table = table.with_columns(column.alias(free(wanted, table.columns)))
    return table


def wrote(path: str, rows: int, more: str = "") -> str:
    """Return the line that reports a written table."""
    return f"{'stdout' if path == '-' else path}: {rows:,} rows{more}"


def table_model(path: str) -> TableClassifier | TableMixture:
    """Return the model of a file; an error unless it takes tables."""
    if path != "-" and tables.is_table(path):
        raise UsageError(f"{path} is a table: the model comes first, then the table.")
    found = load(path)
    if not isinstance(found, TableClassifier | TableMixture):
        raise ValueError(
            f"{path} holds a {type(found).__name__}, which takes no tables: use Python."
        )
    return found
