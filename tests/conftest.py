"""What all tests share: random numbers of their own, and a last line on published figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator that is the test's own: what it draws does not depend on other tests."""
    return np.random.default_rng(0)


def told_of_figures(stats: dict[str, list[Any]]) -> str | None:
    """Return the line on the tests marked `published`, or None if none of them ran.

    `stats` are reports by outcome, as the terminal reporter has them; with pytest-xdist these are
    the reports of all workers.
    """
    passed, failed, errors, skipped = (
        [one for one in stats.get(outcome, ()) if "published" in getattr(one, "keywords", ())]
        for outcome in ("passed", "failed", "error", "skipped")
    )
    if not (passed or failed or errors or skipped):
        return None
    line = f"published figures: {len(passed) + len(failed)} checked"
    if failed or errors:
        line += f", {len(failed) + len(errors)} failed"
    if skipped:
        line += f", {len(skipped)} skipped: {reasons(skipped)}"
    return line


def reasons(skipped: Iterable[Any]) -> str:
    """Return why tests were skipped, the most frequent reason first."""
    found = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{reason} ({count})" for reason, count in found.most_common())


@pytest.hookimpl(wrapper=True, tryfirst=True)  # so that it comes after the list of skipped tests
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """Say how many published figures were checked, how many were skipped, and why."""
    yield
    line = told_of_figures(terminalreporter.stats)
    if line is not None:
        terminalreporter.write_line(line)
