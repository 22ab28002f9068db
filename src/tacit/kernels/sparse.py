"""CSR matrices: products, scores of rows, sums by class, checks of their form."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tacit.kernels.dense import KERNEL_TYPES
from tacit.kernels.parallel import native, threads

__all__ = ["CSR", "Output", "csr_arrays", "has_duplicates", "multiply", "score", "tally"]

# A CSR matrix or array. (SciPy has no types.)
CSR: TypeAlias = Any
Floats: TypeAlias = npt.NDArray[np.float64]


def _places(matrix: CSR) -> tuple[Any, Any]:
    """Return where the rows of a CSR matrix begin and the columns of its entries, in one type.

    Whatever reaches a kernel comes through here: ValueError if the arrays do not belong together.
    """
    lengths = len(matrix.indptr) - 1, len(matrix.data)
    if lengths != (matrix.shape[0], len(matrix.indices)):
        raise ValueError(
            f"The arrays of a sparse matrix of {matrix.shape[0]} rows do not fit together: indptr "
            f"is of {lengths[0]} rows, and there are {lengths[1]} values for "
            f"{len(matrix.indices)} indices."
        )
    index = np.result_type(matrix.indptr, matrix.indices)
    return matrix.indptr.astype(index, copy=False), matrix.indices.astype(index, copy=False)


def csr_arrays(matrix: CSR) -> tuple[Any, Any, Any]:
    """Return the arrays of a CSR matrix, in types that the kernels take."""
    data = matrix.data if matrix.dtype in KERNEL_TYPES else matrix.data.astype(np.float64)
    return *_places(matrix), data


def multiply(matrix: CSR, dense: Floats) -> Floats:
    """Return matrix @ dense for a CSR matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> multiply(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]), np.array([[1.0], [3.0]]))
    array([[6.],
           [4.]])
    """
    module = native()
    if module is None:
        return np.asarray(matrix @ dense)
    out = np.empty((matrix.shape[0], dense.shape[1]))
    work, none = len(matrix.data) * dense.shape[1], np.zeros(dense.shape[1])
    table = np.ascontiguousarray(dense)
    module.score(*csr_arrays(matrix), table, none, out, None, 0, 0, False, threads(work))
    return out


Output = Literal["joint", "posterior", "log_posterior"]


def score(
    matrix: CSR, table: Floats, constants: Floats, output: Output, *, ones: bool
) -> tuple[Floats, Floats] | None:
    """Score rows of a CSR matrix that was not validated; None if it has to be.

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
    module = native()
    if module is None or matrix.dtype not in KERNEL_TYPES or not matrix.shape[0]:
        return None
    K = len(constants)
    out, log_p = np.empty((matrix.shape[0], K)), np.empty(matrix.shape[0])
    how = get_args(Output).index(output), 2 if ones else 1, ones
    given = np.ascontiguousarray(table), constants
    size = threads(len(matrix.data) * K)
    plain = module.score(*csr_arrays(matrix), *given, out, log_p, *how, size)
    return (out, log_p) if plain else None


def has_duplicates(matrix: CSR) -> bool:
    """Return whether a row of a CSR matrix holds a column twice; ValueError if it is malformed.

    It checks the bounds of all indices, once for all kernels after it.

    Examples
    --------
    >>> from scipy import sparse
    >>> has_duplicates(sparse.csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 3)))
    True
    """
    module = native()
    starts, indices = _places(matrix)
    if module is None:
        matrix.check_format(full_check=True)
        return not matrix.has_canonical_format
    return bool(module.has_duplicates(starts, indices, matrix.shape[1], threads(len(indices))))


def tally(labels: CSR, matrix: CSR) -> tuple[Floats, Floats]:
    """Return labels.T @ matrix, dense, for CSR matrices of which labels is narrow; and its sums.

    Examples
    --------
    >>> from scipy import sparse
    >>> tally(sparse.csr_array([[0.0, 1.0], [2.0, 0.0]]), sparse.csr_array([[3.0], [4.0]]))
    (array([[8.],
           [3.]]), array([8., 3.]))
    """
    module = native()
    if module is None:
        counts = (labels.T.tocsr() @ matrix).toarray()
        return counts, counts.sum(axis=1)
    counts, totals = np.empty((labels.shape[1], matrix.shape[1])), np.empty(labels.shape[1])
    places = (one.astype(np.int64, copy=False) for one in (labels.indptr, labels.indices))
    module.tally(
        *csr_arrays(matrix), *places, labels.data, counts, totals, threads(len(matrix.data))
    )
    return counts, totals
