"""Reading documents: lists, arrays and columns of data frames in, strings for the tokenizer out.

Arrow columns (polars, pyarrow, and pandas with Arrow strings) are read in place; anything else
becomes a list of Python objects. What is in the documents is for `tacit.text.vectorizer` to see.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tacit._native import Column
from tacit.data.missing import is_na

__all__ = ["checked", "length", "listed", "read"]


def read(documents: Iterable[Any]) -> list[Any] | Column:
    """Return texts as a list or an Arrow column; missing ones become empty, with a warning.

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
    """Return texts as a list of Python objects.

    Examples
    --------
    >>> listed(["one"])
    ['one']
    """
    return texts if isinstance(texts, list) else texts.tolist()


def length(texts: list[Any] | Column) -> float:
    """Return the number of characters in a list of strings, infinity for anything else.

    Examples
    --------
    >>> length(["one", "two"])
    6
    """
    if isinstance(texts, list) and set(map(type, texts)) <= {str}:
        return sum(len(text) for text in texts)
    return float("inf")


def checked(texts: list[Any]) -> list[Any]:
    """Return the texts, or raise TypeError at the first that is neither str nor bytes.

    Examples
    --------
    >>> checked(["one", b"two", 3])
    Traceback (most recent call last):
    TypeError: Text 2 is 3: expected str or bytes; make it a text.
    """
    for i, text in enumerate(texts):
        if not isinstance(text, str | bytes):
            raise TypeError(f"Text {i} is {text!r}: expected str or bytes; make it a text.")
    return texts


def _is_arrow(documents: Any) -> bool:
    """Return whether documents are an Arrow column; other columns of pandas would be copied."""
    if hasattr(documents, "iloc") and getattr(documents.dtype, "storage", None) != "pyarrow":
        return False
    return hasattr(documents, "__arrow_c_stream__") or hasattr(documents, "__arrow_c_array__")
