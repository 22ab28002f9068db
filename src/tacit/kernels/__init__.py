"""The native kernels and their NumPy oracle behind one interface: arrays in, arrays out.

TACIT_ENGINE=numpy chooses the oracle. Nothing here knows of rows, labels or models.
"""

from tacit.kernels.dense import Scan, add, distinct, scan
from tacit.kernels.parallel import kernel_threads, native, one_blas_thread, threads, workers
from tacit.kernels.sparse import Output, csr_arrays, has_duplicates, multiply, score, tally

__all__ = [
    "Output",
    "Scan",
    "add",
    "csr_arrays",
    "distinct",
    "has_duplicates",
    "kernel_threads",
    "multiply",
    "native",
    "one_blas_thread",
    "scan",
    "score",
    "tally",
    "threads",
    "workers",
]
