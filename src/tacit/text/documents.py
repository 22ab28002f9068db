"""Texts as people hold them: lists, arrays, columns of data frames, Arrow.

What is in them is the business of text.py. Columns of Arrow (polars, pyarrow, and pandas where it
keeps strings in Arrow) are read where they are; anything else becomes a list of Python objects.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tacit._native import Column
from tacit.data.missing import is_na

__all__ = ["checked", "length", "listed", "read"]


def read(documents: Iterable[Any]) -> list[Any] | Column:
    """Return texts as a list, or as a column of Arrow; missing ones are empty, with a warning.

    Examples
    --------
    >>> read(("one", "two"))
    ['one', 'two']
    """
    if getattr(documents, "ndim", 1) != 1:
        raise ValueError("The texts are a table: pass one column of it.")
    texts: list[Any] | Column
    if _is_arrow(documents):
        texts = Column(documents)
        missing, first = texts.missing, texts.first_missing
    else:
        texts = documents.tolist() if hasattr(documents, "tolist") else list(documents)
        places = [i for i, text in enumerate(texts) if type(text) is not str and is_na(text)]
        for i in places:
            texts[i] = ""
        missing, first = len(places), places[0] if places else 0
    if missing:
        warnings.warn(
            f"{missing} of {len(texts)} texts are missing (the first is text {first}): "
            "they count as empty.",
            UserWarning,
            stacklevel=4,
        )
    return texts


def listed(texts: list[Any] | Column) -> list[Any]:
    """Return texts as a list.

    Examples
    --------
    >>> listed(["one"])
    ['one']
    """
    return texts if isinstance(texts, list) else texts.tolist()


def length(texts: list[Any] | Column) -> float:
    """Return how many characters strings have, or infinity for what is not a list of them.

    Examples
    --------
    >>> length(["one", "two"])
    6
    """
    if isinstance(texts, list) and set(map(type, texts)) <= {str}:
        return sum(len(text) for text in texts)
    return float("inf")


def checked(texts: list[Any]) -> list[Any]:
    """Return texts if all of them are strings or bytes.

    Examples
    --------
    >>> checked(["one", b"two", 3])
    Traceback (most recent call last):
    TypeError: Text 2 is 3: expected str or bytes; make it a text.
    """
    for place, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise TypeError(f"Text {place} is {text!r}: expected str or bytes; make it a text.")
    return texts


def _is_arrow(documents: Any) -> bool:
    """Return whether there is Arrow to be read; pandas would make it of other columns first."""
    if hasattr(documents, "iloc") and getattr(documents.dtype, "storage", None) != "pyarrow":
        return False
    return hasattr(documents, "__arrow_c_stream__") or hasattr(documents, "__arrow_c_array__")
