"""Suggestions for misspelt names, as the end of error messages.

In this room because `tacit.tables`, which stands apart, needs them as much as the estimators do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]

MOST_NAMES = 20


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known one, and all names.

    Examples
    --------
    >>> "no column 'topik'" + did_you_mean("topik", ["id", "topic"])
    "no column 'topik': did you mean 'topic'? There are id, topic."
    """
    known = list(map(str, names))
    lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), lower, 1, cutoff=0.5)
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    there = f"There are {', '.join(known[:MOST_NAMES])}{more}."
    return f": did you mean {lower[near[0]]!r}? {there}" if near else f". {there}"
