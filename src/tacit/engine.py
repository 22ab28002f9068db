"""Where the map of EM runs: a step for every chunk, in threads of this process.

Results come back in the order of the chunks, so that their sum has the same bits for any number of
threads. Nothing here knows of a model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from tacit.kernels import kernel_threads, workers

__all__ = ["map_chunks"]

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def map_chunks(
    step: Callable[[Chunk], Result], chunks: Sequence[Chunk], n_jobs: int | None
) -> Iterator[Result]:
    """Yield what the step returns for each chunk, in order.

    Threads that chunks leave over are for the kernels inside the step. At most one chunk more than
    there are threads is waited for: chunks that are read when asked for need not fit in memory.

    Examples
    --------
    >>> list(map_chunks(sum, [[1, 2], [3, 4], [5]], n_jobs=2))
    [3, 7, 5]
    """
    size = 1 if len(chunks) <= 1 else min(len(chunks), workers(n_jobs))
    inside = n_jobs if len(chunks) <= 1 else max(1, workers(n_jobs) // len(chunks))

    def run(chunk: Chunk) -> Result:
        with kernel_threads(inside):
            return step(chunk)

    if size <= 1:
        yield from map(run, chunks)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(size) as pool:
        for chunk in chunks:
            waiting.append(pool.submit(run, chunk))
            if len(waiting) > size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
