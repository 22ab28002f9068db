"""Dense arrays: a scan of their numbers, distinct rows, a sum in threads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.kernels import parallel
from tacit.kernels.parallel import native, threads

__all__ = ["KERNEL_TYPES", "Scan", "add", "distinct", "scan"]

KERNEL_TYPES = [np.dtype(name) for name in ("float64", "float32", "int64", "int32")]


class Scan(NamedTuple):
    """The least and the most of some numbers and 0; whether all are finite, and none is zero."""

    least: float
    most: float
    finite: bool
    full: bool


def scan(values: npt.NDArray[Any]) -> Scan:
    """Look through an array of numbers once.

    Examples
    --------
    >>> import numpy as np
    >>> scan(np.array([3.0, 0.0, np.inf]))
    Scan(least=0.0, most=inf, finite=False, full=False)
    """
    module = native()
    flat = values.reshape(-1) if values.flags.c_contiguous else None
    if module is not None and flat is not None and values.dtype in KERNEL_TYPES:
        return Scan(*module.scan(flat, threads(flat.size)))
    finite = bool(np.isfinite(values).all())
    least, most = np.fmin.reduce(values, None, initial=0), np.fmax.reduce(values, None, initial=0)
    return Scan(least.item(), most.item(), finite, bool(values.all()))


def distinct(
    rows: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
    """Return the first of each kind of equal rows, and which kind each is; None if most differ.

    That is if more than half of the rows are distinct.

    Examples
    --------
    >>> import numpy as np
    >>> distinct(np.array([[1, 2], [3, 4], [1, 2], [1, 2]], dtype=np.uint8))
    (array([0, 1]), array([0, 1, 0, 0]))
    """
    module = native()
    if module is not None:
        found = module.distinct(np.ascontiguousarray(rows))
        return found and (found[0].astype(np.intp), found[1].astype(np.intp))
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(first) > len(rows) // 2:
        return None
    order = np.argsort(first)
    return first[order], np.argsort(order)[which.ravel()]


def add(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a + b for two arrays, in threads if they are large.

    Examples
    --------
    >>> import numpy as np
    >>> add(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array([4., 6.])
    """
    module = native()
    alike = a.size >= parallel.LEAST_WORK and a.strides == b.strides and a.shape == b.shape
    alike = alike and (a.flags.c_contiguous or a.flags.f_contiguous)
    if module is None or not alike or a.dtype != np.float64 or b.dtype != np.float64:
        return np.asarray(a + b)
    out = np.empty_like(a)
    flat = [x.reshape(-1, order="A", copy=False) for x in (a, b, out)]
    module.add(*flat, threads(4 * a.size))
    return out
