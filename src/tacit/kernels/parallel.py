"""Which kernels run, native or NumPy, and in how many threads; BLAS is kept to one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from types import ModuleType
from typing import Any

from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

__all__ = ["kernel_threads", "native", "one_blas_thread", "threads", "workers"]


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

    @classmethod
    def reset(cls) -> None:
        """Begin anew in a forked process, where no thread is left that could end a context."""
        limit = cls.limit if cls.users else None
        cls.lock, cls.users, cls.limit = threading.Lock(), 0, None
        if limit is not None:
            limit.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Blas.reset)


@contextmanager
def one_blas_thread(needed: bool = True) -> Iterator[None]:
    """Return a context in which BLAS uses one thread, if it is needed at all.

    The threads are ours (`n_jobs`), and the chunks they share do not depend on their number. BLAS's
    own would change the bits with theirs, and spin while they wait: on matrices as narrow as ours
    a round took many times as long with the other core busy. Kernels that do without BLAS need not
    wait until its libraries are found, which takes a while the first time.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    if not needed:
        yield
        return
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


# Says how many threads there may be. It is asked when there is enough to do.
_threads: ContextVar[Callable[[], int]] = ContextVar("threads", default=lambda: 1)


# Operations that are worth starting a thread for.
LEAST_WORK = 1 << 17


def workers(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for: None is one for each core.

    Examples
    --------
    >>> workers(3), workers(None) == workers(-1)
    (3, True)
    """
    wanted = -1 if n_jobs is None else n_jobs
    if wanted < 0:
        allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        cores = _cores(allowed, os.environ.get("LOKY_MAX_CPU_COUNT"))
        wanted = max(cores + 1 + wanted, 1)
    return int(effective_n_jobs(wanted))


@cache
def _cores(allowed: int | None, limit: str | None) -> int:
    """Return how many cores there are, which files tell: counted anew if what is given changes."""
    return int(cpu_count())


@contextmanager
def kernel_threads(n_jobs: int | None) -> Iterator[None]:
    """Return a context in which native kernels use as many threads as `n_jobs` says.

    Examples
    --------
    >>> with kernel_threads(2):
    ...     threads(10**9), threads(10)
    (2, 1)
    """
    asked = cache(partial(workers, n_jobs))
    if n_jobs == 0:
        asked()  # which says that this is no number of threads
    token = _threads.set(asked)
    try:
        yield
    finally:
        _threads.reset(token)


def threads(work: int) -> int:
    """Return how many threads a kernel uses here for so many operations: few are done alone."""
    most = work // LEAST_WORK
    return min(_threads.get()(), most) if most > 1 else 1
