from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]

class SparseRows:
    def __init__(
        self,
        starts: Numbers,
        indices: Numbers,
        values: Numbers,
        columns: int,
        picked: npt.NDArray[np.int64] | None,
        threads: int,
    ) -> None: ...
    @property
    def entries(self) -> int: ...
    def expect(
        self,
        table: Numbers,
        constants: Floats,
        evidence: Floats | None,
        weight: Floats | None,
        prior: Floats,
        hard: bool,
        posteriors: Numbers,
        classes: Floats,
        threads: int,
    ) -> float: ...
    def count(
        self,
        posteriors: Numbers,
        table: Numbers | None,
        remainder: npt.NDArray[np.float32] | None,
        out: Floats,
        totals: Floats,
        threads: int,
    ) -> float: ...
    def gather(
        self, table: npt.NDArray[np.float32], classes: int, softmax: bool, threads: int
    ) -> float: ...
    def expect_odds(
        self,
        table: npt.NDArray[np.float32],
        constant: float,
        weight: Floats | None,
        posteriors: npt.NDArray[np.float32],
        classes: Floats,
        threads: int,
    ) -> float: ...
    def count_odds(
        self,
        posteriors: npt.NDArray[np.float32],
        both: Floats,
        table: npt.NDArray[np.float32],
        remainder: npt.NDArray[np.float32],
        out: Floats,
        totals: Floats,
        threads: int,
    ) -> float: ...

class CategoricalRows:
    def __init__(
        self, codes: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], threads: int
    ) -> None: ...
    def bytes(self) -> npt.NDArray[np.uint8]: ...
    def expect(
        self,
        log_p: Floats,
        prior: Floats,
        evidence: Floats | None,
        weight: Floats | None,
        hard: bool,
        counts: Floats,
        classes: Floats,
        single: bool,
        threads: int,
    ) -> float: ...

class Column:
    def __init__(self, source: object) -> None: ...
    def __len__(self) -> int: ...
    @property
    def missing(self) -> int: ...
    @property
    def first_missing(self) -> int: ...
    def tolist(self) -> list[str]: ...

class Counter:
    def __init__(
        self,
        letters: bool,
        bounded: bool,
        lowercase: bool,
        least: int,
        fold: Callable[[int], list[str]] | None,
        stop: list[str],
        fewest: int,
        most: int,
    ) -> None: ...
    def count(
        self, texts: tuple[str, ...] | Column, vocabulary: list[str] | None, threads: int
    ) -> tuple[Numbers, Numbers, npt.NDArray[np.int64], dict[str, int] | None]: ...

def distinct(
    rows: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None: ...
def largest_categories(X: Numbers, tops: npt.NDArray[np.int64], threads: int) -> int: ...
def offset_categories(
    X: Numbers, starts: npt.NDArray[np.int64], codes: npt.NDArray[np.int32], threads: int
) -> bool: ...
def count_labelled_categories(
    codes: npt.NDArray[np.int32],
    labels: npt.NDArray[np.int64],
    weights: Floats,
    counts: Floats,
    threads: int,
) -> None: ...
def gather(codes: npt.NDArray[np.int32], table: Floats, scores: Floats) -> None: ...
def accumulate(codes: npt.NDArray[np.int32], weights: Floats, counts: Floats) -> None: ...
def moments(
    X: Floats,
    labels: npt.NDArray[np.int64],
    weights: Floats,
    pilot: Floats,
    sums: Floats,
    squares: Floats,
    threads: int,
) -> None: ...
def score_gaussian(
    X: Floats,
    observed: npt.NDArray[np.bool_] | None,
    mean: Floats,
    variance: Floats,
    noise: float,
    scores: Floats,
    threads: int,
) -> None: ...
def expect_gaussian(
    X: Floats,
    observed: npt.NDArray[np.bool_] | None,
    mean: Floats,
    variance: Floats,
    noise: float,
    prior: Floats,
    evidence: Floats | None,
    weight: Floats | None,
    hard: bool,
    sums: Floats,
    squares: Floats,
    seen: Floats | None,
    classes: Floats,
    threads: int,
) -> float: ...
def normalize(joint: Floats, log_p: Floats, logs: bool, threads: int) -> None: ...
def scan(values: Numbers, threads: int) -> tuple[float, float, bool, bool]: ...
def has_duplicates(starts: Numbers, indices: Numbers, columns: int, threads: int) -> bool: ...
def score(
    starts: Numbers,
    indices: Numbers,
    values: Numbers,
    table: Floats,
    constants: Floats,
    out: Floats,
    log_p: Floats | None,
    wanted: int,
    trust: int,
    ones: bool,
    threads: int,
) -> bool: ...
def tally(
    starts: Numbers,
    indices: Numbers,
    values: Numbers,
    label_starts: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int64],
    weights: Floats,
    counts: Floats,
    totals: Floats,
    threads: int,
) -> None: ...
def add(a: Floats, b: Floats, out: Floats, threads: int) -> None: ...
def log_probabilities(
    counts: Floats, alpha: Floats, log_totals: Floats, log_p: Floats, threads: int
) -> tuple[float, float]: ...
def log_odds(
    ones: Floats,
    zeros: Floats | None,
    seen: Floats,
    alpha: Floats,
    log_p: Floats,
    log_not: Floats,
    threads: int,
) -> tuple[float, float]: ...
def make_weights(
    counts: Floats,
    alpha: Floats,
    log_totals: Floats,
    seen: Floats | None,
    table: Numbers,
    remainder: npt.NDArray[np.float32] | None,
    mean: Floats,
    constants: Floats,
    threads: int,
) -> tuple[float, bool]: ...
def expected_score(
    counts: Floats,
    table: Numbers,
    remainder: npt.NDArray[np.float32] | None,
    mean: Floats,
    threads: int,
) -> float: ...
def by_column(counts: Floats, out: Floats, threads: int) -> None: ...
