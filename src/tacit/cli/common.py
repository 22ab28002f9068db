"""Tables in and out of commands: labels, kinds, the columns that are added."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit import TableClassifier, TableMixture, load, tables
from tacit.cli.talk import UsageError
from tacit.columns import plain

__all__ = [
    "Labelled",
    "check_output",
    "free",
    "kinds",
    "labelled",
    "table_model",
    "weight_of",
    "with_labels",
    "wrote",
]


def check_output(output: str, as_json: bool) -> None:
    """Refuse to write a table and facts to the same place."""
    if output == "-" and as_json:
        raise UsageError("--json goes to stdout: give the table a file by -o FILE.")


def kinds(given: list[str] | None) -> dict[str, str]:
    """Return the kinds of columns that were given as COLUMN=KIND."""
    pairs = [text.rpartition("=") for text in given or []]
    for name, sign, kind in pairs:
        if not (name and sign):
            raise UsageError(f"--kind {name}{sign}{kind}: expected COLUMN=KIND.")
    return {name: kind for name, _, kind in pairs}


def weight_of(text: str) -> float | str:
    """Return the weight of rows without a label."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--unlabeled {text}: expected a number or auto.") from None


class Labelled(NamedTuple):
    """A table, and the labels that one of its columns holds."""

    table: Any
    features: Any
    labels: Any


def labelled(path: str, label: str, delimiter: str | None, encoding: str) -> Labelled:
    """Read a table, one column of which holds labels."""
    table = tables.read(path, delimiter=delimiter, encoding=encoding)
    tables.columns(table, [label], source=path)
    labels = [None if cell is None else str(cell).strip() for cell in plain(table[label])]
    different = {name for name in labels if name is not None}
    if len(different) < 2:
        found = f"only {different.pop()!r}" if different else "none"
        raise ValueError(
            f"{path}: column {label!r} holds {found} as a label: expected at least two different "
            "ones. Label some rows, or find groups without labels by tacit cluster."
        )
    import polars as pl

    return Labelled(table, table.drop(label), pl.Series(label, labels))


def free(name: str, taken: list[str]) -> str:
    """Return a name that no column has."""
    while name in taken:
        name += "_"
    return name


def with_labels(table: Any, name: str, classes: list[Any], p: Any, every: bool, ending: str) -> Any:
    """Add the label of each row and its probability to a table."""
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
    return table.with_columns([s.alias(free(n, table.columns)) for n, s in new.items()])


def wrote(path: str, rows: int, more: str = "") -> str:
    """Say what was written where."""
    return f"{'stdout' if path == '-' else path}: {rows:,} rows{more}"


def table_model(path: str) -> Any:
    """Read a model that takes tables."""
    found = load(path)
    if not isinstance(found, TableClassifier | TableMixture):
        raise ValueError(
            f"{path} holds a {type(found).__name__}, which takes no tables: use Python."
        )
    return found
