from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

def gather(codes: npt.NDArray[np.int32], table: Floats, scores: Floats) -> None: ...
def accumulate(codes: npt.NDArray[np.int32], weights: Floats, counts: Floats) -> None: ...
def moments(
    X: Floats,
    labels: npt.NDArray[np.int64],
    weights: Floats,
    pilot: Floats,
    sums: Floats,
    squares: Floats,
) -> None: ...
def normalize(joint: Floats, log_p: Floats, threads: int) -> None: ...
def multiply(
    starts: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    dense: Floats,
    out: Floats,
    threads: int,
) -> None: ...
def tally(
    starts: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    label_starts: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int64],
    weights: Floats,
    counts: Floats,
) -> None: ...
