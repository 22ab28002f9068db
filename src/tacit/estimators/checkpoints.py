"""Checkpoints: the state of a running fit in a file, from which a killed fit resumes.

A resumed fit gives the same bits as one that ran through: the state is saved where a round leaves
nothing to the next but its statistics (see `tacit.em.fit`). The file is `tacit.io.container`'s;
fitted models are saved by `tacit.modelfile`.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit import em, families
from tacit.data.labels import Labels
from tacit.data.rows import Joined
from tacit.io.container import ModelFileError, read, write
from tacit.io.files import check_target
from tacit.io.records import Record, plain
from tacit.models.naive_bayes import ClassCounts, NaiveBayes, Params
from tacit.numerics import Array

__all__ = ["RECORDS", "Best", "Checkpoint", "CheckpointFile"]

# Parameters that do not change the result of a round.
IGNORED_PARAMETERS = {
    *("callback", "checkpoint", "checkpoint_every", "max_iter", "n_jobs", "random_state"),
    *("resume", "verbose"),
}


@dataclass(frozen=True)
class Best:
    """The best start so far: the fields of `tacit.em.Fit` from which the rest follows."""

    statistics: ClassCounts
    log_likelihood: float
    trace: Array
    converged: bool


@dataclass(frozen=True)
class Checkpoint:
    """The state of a fit: all that resuming needs besides data and parameters.

    Attributes
    ----------
    of : str
        A fingerprint of the data and the parameters.
    number : int
        The current start, from 1.
    statistics, objectives
        Its progress (see `tacit.em.Progress`).
    finished : ndarray
        The final objectives of the starts before it.
    best : Best, optional
        The best of those starts.
    keys : ndarray of shape (624,)
        The state of the random generator, and its `position`, `has_normal` and `normal`.
    """

    of: str
    number: int
    statistics: ClassCounts
    objectives: Array
    finished: Array
    best: Best | None
    keys: npt.NDArray[np.uint32]
    position: int
    has_normal: int
    normal: float

    def rng(self) -> np.random.RandomState:
        """Return the random generator in the saved state."""
        rng = np.random.RandomState()
        rng.set_state(("MT19937", self.keys, self.position, self.has_normal, self.normal))
        return rng

    def best_fit(self, model: NaiveBayes) -> em.Fit[Params, ClassCounts] | None:
        """Return the best start before the current one, with its params."""
        if self.best is None:
            return None
        own, trace = self.best, self.best.trace.tolist()
        params = model.maximize(own.statistics)
        return em.Fit(params, own.statistics, own.log_likelihood, trace[-1], trace, own.converged)


RECORDS: dict[str, Record] = {
    **families.RECORDS,
    "ClassCounts": plain(ClassCounts, dropped=("rounding",)),
    "Checkpoint": plain(Checkpoint),
    "Best": plain(Best),
}


class CheckpointFile:
    """Writes the state of a fit to a file every `checkpoint_every` seconds, and reads it back.

    Parameters
    ----------
    estimator : EMEstimator
        Its parameters `checkpoint`, `checkpoint_every` and `resume` are used.
    X, labels, weight
        The data.
    """

    def __init__(self, estimator: Any, X: Any, labels: Labels, weight: Array) -> None:
        self.path = None if estimator.checkpoint is None else Path(estimator.checkpoint)
        self.every, self.last = estimator.checkpoint_every, time.monotonic()
        self.found: Checkpoint | None = None
        if self.path is None:
            if estimator.resume:
                raise ValueError("resume=True needs checkpoint=PATH, the file to resume from.")
            return
        check_target(self.path)
        self.of = _fingerprint(estimator, X, labels, weight)
        if self.path.exists():
            if not estimator.resume:
                raise ValueError(
                    f"{self.path} exists. Resume from it with resume=True (--resume), or remove it."
                )
            self.found = self._read(self.path)

    def _read(self, path: Path) -> Checkpoint:
        try:
            found = read(path, RECORDS)
        except (ModelFileError, OSError, MemoryError):
            raise
        except Exception as error:  # any failure to decode means that the contents are damaged
            raise _damaged(path, error) from error
        if not isinstance(found, Checkpoint) or found.of != self.of:
            raise ValueError(
                f"{path} is of other data or other parameters, or no checkpoint. To resume, fit "
                "the same; to begin anew, remove it."
            )
        return found

    def take_up(self, model: NaiveBayes, K: int, d: int) -> Checkpoint | None:
        """Return the state to resume from, after validating it; None to begin anew."""
        found = self.found
        if found is not None:
            assert self.path is not None
            try:
                model.restore(found.statistics, K, d)
                if found.best is not None:
                    model.restore(found.best.statistics, K, d)
                found.rng()
            except ValueError as error:
                raise _damaged(self.path, error) from error
        return found

    def save(
        self,
        number: int,
        rng: np.random.RandomState,
        finished: list[float],
        best: em.Fit[Params, ClassCounts] | None,
        progress: em.Progress[ClassCounts],
    ) -> None:
        """Write the state, if `checkpoint_every` seconds have passed."""
        if self.path is None or time.monotonic() - self.last < self.every:
            return
        _, keys, *rest = rng.get_state(legacy=True)
        kept = None
        if best is not None:
            trace = np.array(best.trace)
            kept = Best(best.statistics, best.log_likelihood, trace, best.converged)
        state = np.array(finished, dtype=np.float64), kept, np.asarray(keys, np.uint32), *rest
        objectives = np.array(progress.objectives)
        write(
            self.path, Checkpoint(self.of, number, progress.statistics, objectives, *state), RECORDS
        )
        self.last = time.monotonic()

    def end(self) -> None:
        """Remove the file, as the fit is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _damaged(path: Path, error: Exception) -> Exception:
    reason = " ".join(str(error)[:200].split()).rstrip(".")
    return ModelFileError(f"{path} is no sound checkpoint: {reason}. Remove it to begin anew.")


def _fingerprint(estimator: Any, X: Any, labels: Labels, weight: Array) -> str:
    """Return a hash of data and parameters, by which a checkpoint is matched to its fit."""
    digest = hashlib.blake2b(digest_size=16)

    def add(value: Any) -> None:
        if sparse.issparse(value):
            for part in (value.data, value.indices, value.indptr):
                add(part)
        elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
            digest.update(f"{value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
        else:
            shown = getattr(value, "__qualname__", None) or repr(value)
            digest.update(f"{shown};".encode())

    add(type(estimator))
    for name, value in sorted(estimator.get_params(deep=False).items()):
        if name not in IGNORED_PARAMETERS:
            add(name)
            add(value)
    if not isinstance(estimator.random_state, np.random.RandomState):
        add(estimator.random_state)
    for block in X.blocks if isinstance(X, Joined) else (X,):
        add(block)
    for part in (labels.classes, labels.codes, labels.evidence, weight):
        add(part)
    return digest.hexdigest()
