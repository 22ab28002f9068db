"""Work of a benchmark in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Result = TypeVar("Result")


def in_processes(
    work: Callable[..., Result], units: Iterable[tuple[object, ...]], jobs: int
) -> Iterator[Result]:
    """Yield what `work` returns for each unit of arguments as it is there, `jobs` at a time."""
    if jobs == 1:
        for unit in units:
            yield work(*unit)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork would share the threads of the kernels
    with ProcessPoolExecutor(jobs, mp_context=fresh) as pool:
        for done in as_completed([pool.submit(work, *unit) for unit in units]):
            yield done.result()
