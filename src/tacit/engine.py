"""Where the map of EM runs: `expect` over the chunks, in threads of this process.

The pieces come back in the order of the chunks, so that their sum has the same bits for any
number of threads. Nothing here knows of a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tacit.kernels import workers

__all__ = ["expect"]


def expect(model: Any, params: Any, chunks: Sequence[Any], n_jobs: int | None) -> Iterable[Any]:
    """Return the statistics of every chunk, in order."""
    if len(chunks) <= 1 or workers(n_jobs) <= 1:
        return (model.expect(params, chunk) for chunk in chunks)
    return _expect_in_threads(model, params, chunks, min(len(chunks), workers(n_jobs)))


def _expect_in_threads(model: Any, params: Any, chunks: Sequence[Any], size: int) -> Iterator[Any]:
    with ThreadPoolExecutor(size) as pool:
        yield from pool.map(lambda chunk: model.expect(params, chunk), chunks)
