"""Where the map and the reduce run, and which kernels: threads here, native code or NumPy.

The pieces come back in the order of the chunks, so that their sum has the same bits for any
number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

__all__ = ["expect", "native", "one_blas_thread"]


def native() -> ModuleType | None:
    """Return the module of native kernels, or None where TACIT_ENGINE=numpy asks for the oracle.

    Examples
    --------
    >>> import os
    >>> os.environ["TACIT_ENGINE"] = "numpy"
    >>> native() is None
    True
    >>> del os.environ["TACIT_ENGINE"]
    """
    choice = os.environ.get("TACIT_ENGINE", "native")
    if choice == "numpy":
        return None
    if choice != "native":
        raise ValueError(f"TACIT_ENGINE is {choice!r}: set it to 'native' or 'numpy'.")
    from tacit import _native

    return _native


@cache
def _libraries() -> Any:
    return ThreadpoolController()


class _Blas:
    """How many contexts keep BLAS to one thread; the first limits it, the last sets it free."""

    lock = threading.Lock()
    users = 0
    limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Return a context in which BLAS uses one thread.

    The threads are ours (`n_jobs`), and the chunks they share do not depend on their number. BLAS's
    own would change the bits with theirs, and spin while they wait: on matrices as narrow as ours
    a round took many times as long with the other core busy.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    with _Blas.lock:
        if not _Blas.users:
            _Blas.limit = _libraries().limit(limits=1, user_api="blas")
        _Blas.users += 1
    try:
        yield
    finally:
        with _Blas.lock:
            _Blas.users -= 1
            if not _Blas.users:
                _Blas.limit.restore_original_limits()


def expect(model: Any, params: Any, chunks: Sequence[Any], n_jobs: int | None) -> Iterable[Any]:
    """Return the statistics of every chunk, in order."""
    threads = min(len(chunks), 1 if n_jobs is None else effective_n_jobs(n_jobs))
    if threads <= 1:
        return (model.expect(params, chunk) for chunk in chunks)
    return _expect_in_threads(model, params, chunks, threads)


def _expect_in_threads(
    model: Any, params: Any, chunks: Sequence[Any], threads: int
) -> Iterator[Any]:
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda chunk: model.expect(params, chunk), chunks)
