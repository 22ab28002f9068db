import numpy as np
import numpy.typing as npt

def gather(
    codes: npt.NDArray[np.int32], table: npt.NDArray[np.float64], scores: npt.NDArray[np.float64]
) -> None: ...
def accumulate(
    codes: npt.NDArray[np.int32], weights: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]
) -> None: ...
