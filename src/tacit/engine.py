"""Where the map and the reduce run, and which kernels: threads here, native code or NumPy.

The pieces come back in the order of the chunks, so that their sum has the same bits for any
number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

__all__ = [
    "Scan",
    "Wanted",
    "add",
    "distinct",
    "expect",
    "has_duplicates",
    "kernel_threads",
    "multiply",
    "native",
    "one_blas_thread",
    "scan",
    "scan_once",
    "score",
    "tally",
    "threads",
    "workers",
]


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


def _places(matrix: Any) -> tuple[Any, Any]:
    """Return where the rows of a CSR matrix begin and the columns of its entries, in one type."""
    index = np.result_type(matrix.indptr, matrix.indices)
    return matrix.indptr.astype(index, copy=False), matrix.indices.astype(index, copy=False)


def arrays(matrix: Any) -> tuple[Any, Any, Any]:
    """Return the arrays of a CSR matrix, in types that kernels take."""
    data = matrix.data if matrix.dtype in KERNEL_TYPES else matrix.data.astype(np.float64)
    return *_places(matrix), data


def multiply(matrix: Any, dense: Any) -> Any:
    """Return matrix @ dense for a CSR matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> multiply(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]), np.array([[1.0], [3.0]]))
    array([[6.],
           [4.]])
    """
    kernels = native()
    if kernels is None:
        return np.asarray(matrix @ dense)
    out = np.empty((matrix.shape[0], dense.shape[1]))
    work, none = len(matrix.data) * dense.shape[1], np.zeros(dense.shape[1])
    table = np.ascontiguousarray(dense)
    kernels.score(*arrays(matrix), table, none, out, None, 0, 0, False, threads(work))
    return out


Wanted = Literal["joint", "posterior", "log_posterior"]


def score(
    matrix: Any, table: Any, constants: Any, wanted: Wanted, *, ones: bool
) -> tuple[Any, Any] | None:
    """Score the rows of a CSR matrix that nobody has looked at yet; None if that is necessary.

    The scores are constants + matrix @ table, where all that is stored counts as 1 if `ones`; what
    comes back are they, or their softmax, or its logarithm, and (not with "joint") log p(x). It is
    None where there are no kernels, or the matrix is not plain: it stores numbers that are not
    positive and finite, or columns that do not exist, or if `ones`, does not store them in order.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = sparse.csr_array([[0.0, 2.0], [1.0, 1.0]])
    >>> table, constants = np.array([[1.0], [3.0]]), np.array([0.5])
    >>> found = score(X, table, constants, "joint", ones=False)
    >>> found is None or found[0].tolist()
    [[6.5], [4.5]]
    """
    kernels = native()
    if kernels is None or matrix.dtype not in KERNEL_TYPES or not matrix.shape[0]:
        return None
    K = len(constants)
    out, log_p = np.empty((matrix.shape[0], K)), np.empty(matrix.shape[0])
    how = get_args(Wanted).index(wanted), 2 if ones else 1, ones
    given = np.ascontiguousarray(table), constants
    size = threads(len(matrix.data) * K)
    plain = kernels.score(*arrays(matrix), *given, out, log_p, *how, size)
    return (out, log_p) if plain else None


def has_duplicates(matrix: Any) -> bool:
    """Return whether a row of a CSR matrix holds a column twice; ValueError if it is malformed.

    Examples
    --------
    >>> from scipy import sparse
    >>> has_duplicates(sparse.csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 3)))
    True
    """
    kernels = native()
    if kernels is None:
        matrix.check_format(full_check=True)
        return not matrix.has_canonical_format
    starts, indices = _places(matrix)
    return bool(kernels.has_duplicates(starts, indices, matrix.shape[1], threads(len(indices))))


class Scan(NamedTuple):
    """The least and the most of some numbers and 0; whether all are finite, and none is zero."""

    least: float
    most: float
    finite: bool
    full: bool


def scan(values: Any) -> Scan:
    """Look through an array of numbers once.

    Examples
    --------
    >>> import numpy as np
    >>> scan(np.array([3.0, 0.0, np.inf]))
    Scan(least=0.0, most=inf, finite=False, full=False)
    """
    seen = _seen.get()
    if seen is not None and id(values) in seen:
        return seen[id(values)][1]
    found = _scan(values)
    if seen is not None:
        seen[id(values)] = values, found
    return found


# What has been scanned in this call, with the arrays, which must not go away.
_seen: ContextVar[dict[int, tuple[Any, Scan]] | None] = ContextVar("seen", default=None)


@contextmanager
def scan_once() -> Iterator[None]:
    """Return a context in which an array is scanned only once: nobody writes to it in between.

    Examples
    --------
    >>> with scan_once():
    ...     pass
    """
    token = _seen.set({})
    try:
        yield
    finally:
        _seen.reset(token)


def _scan(values: Any) -> Scan:
    kernels = native()
    flat = values.reshape(-1) if values.flags.c_contiguous else None
    if kernels is not None and flat is not None and values.dtype in KERNEL_TYPES:
        return Scan(*kernels.scan(flat, threads(flat.size)))
    finite = bool(np.isfinite(values).all())
    least, most = np.fmin.reduce(values, None, initial=0), np.fmax.reduce(values, None, initial=0)
    return Scan(least.item(), most.item(), finite, bool(values.all()))


KERNEL_TYPES = [np.dtype(name) for name in ("float64", "float32", "int64", "int32")]


def distinct(rows: Any) -> tuple[Any, Any] | None:
    """Return the first of each kind of equal rows, and which kind each is; None if half differ.

    Examples
    --------
    >>> import numpy as np
    >>> distinct(np.array([[1, 2], [3, 4], [1, 2], [1, 2]], dtype=np.uint8))
    (array([0, 1]), array([0, 1, 0, 0]))
    """
    kernels = native()
    if kernels is not None:
        found = kernels.distinct(np.ascontiguousarray(rows))
        return found and (found[0].astype(np.intp), found[1].astype(np.intp))
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(first) > len(rows) // 2:
        return None
    order = np.argsort(first)
    return first[order], np.argsort(order)[which.ravel()]


def add(a: Any, b: Any) -> Any:
    """Return a + b for two arrays, in threads if they are large.

    Examples
    --------
    >>> import numpy as np
    >>> add(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array([4., 6.])
    """
    kernels = native()
    alike = a.size >= LEAST_WORK and a.strides == b.strides and a.shape == b.shape
    alike = alike and (a.flags.c_contiguous or a.flags.f_contiguous)
    if kernels is None or not alike or a.dtype != np.float64 or b.dtype != np.float64:
        return a + b
    out = np.empty_like(a)
    flat = [x.reshape(-1, order="A", copy=False) for x in (a, b, out)]
    kernels.add(*flat, threads(4 * a.size))
    return out


def tally(labels: Any, matrix: Any) -> tuple[Any, Any]:
    """Return labels.T @ matrix, dense, for CSR matrices of which labels is narrow; and its sums.

    Examples
    --------
    >>> from scipy import sparse
    >>> tally(sparse.csr_array([[0.0, 1.0], [2.0, 0.0]]), sparse.csr_array([[3.0], [4.0]]))
    (array([[8.],
           [3.]]), array([8., 3.]))
    """
    kernels = native()
    if kernels is None:
        counts = (labels.T.tocsr() @ matrix).toarray()
        return counts, counts.sum(axis=1)
    counts, totals = np.empty((labels.shape[1], matrix.shape[1])), np.empty(labels.shape[1])
    places = (one.astype(np.int64, copy=False) for one in (labels.indptr, labels.indices))
    kernels.tally(*arrays(matrix), *places, labels.data, counts, totals, threads(len(matrix.data)))
    return counts, totals


def expect(model: Any, params: Any, chunks: Sequence[Any], n_jobs: int | None) -> Iterable[Any]:
    """Return the statistics of every chunk, in order."""
    if len(chunks) <= 1 or workers(n_jobs) <= 1:
        return (model.expect(params, chunk) for chunk in chunks)
    return _expect_in_threads(model, params, chunks, min(len(chunks), workers(n_jobs)))


def _expect_in_threads(model: Any, params: Any, chunks: Sequence[Any], size: int) -> Iterator[Any]:
    with ThreadPoolExecutor(size) as pool:
        yield from pool.map(lambda chunk: model.expect(params, chunk), chunks)
