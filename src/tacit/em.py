"""The EM algorithm in its general form: one loop for every model (C Fig. 2, S17).

    EM = expect (map over chunks of rows) + add (reduce) + maximize

This module knows nothing of classes, features or labels. A model is any object with the
functions of `Model`; its statistics are anything that can be added.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np

from tacit import engine, kernels

__all__ = [
    "AscentError",
    "Fit",
    "Model",
    "Progress",
    "Round",
    "Statistics",
    "Sums",
    "fit",
    "lower_bound",
    "q",
]

Params = TypeVar("Params")
Chunk = TypeVar("Chunk", contravariant=True)

# A fall of the objective that is larger than this part of it is no rounding error.
ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Sums:
    """A record of sums: two of them are added field by field.

    Subclass it as a frozen dataclass. A field is whatever `+` adds: a float, an array, another
    record, or a tuple of them (added element by element); or None in both.
    """

    def __add__(self, other: Self) -> Self:
        names = (field.name for field in dataclasses.fields(self))
        return type(self)(**{n: _add(getattr(self, n), getattr(other, n)) for n in names})


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return kernels.add(a, b)
    if a is None and b is None:
        return None
    return tuple(map(_add, a, b)) if isinstance(a, tuple) else a + b


@dataclasses.dataclass(frozen=True)
class Statistics(Sums):
    """Base of a model's statistics: sums, one of which is the log-likelihood.

    Attributes
    ----------
    log_likelihood : float
        Summed log-likelihood of the rows that these statistics come from.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Coins(Statistics):
    ...     heads: float
    >>> Coins(log_likelihood=-1.0, heads=2.0) + Coins(log_likelihood=-0.5, heads=1.0)
    Coins(log_likelihood=-1.5, heads=3.0)
    """

    log_likelihood: float


S = TypeVar("S", bound=Statistics)


class Model(Protocol[Params, S, Chunk]):
    """What the loop needs of a model p(x, y; params).

    Statistics must support `+` and have a `log_likelihood`; params and chunks may be anything. What
    a model may have beyond this is declared in `Conditioned` and `Centred`.
    """

    def expect(self, params: Params, chunk: Chunk, /) -> S:
        """Return the expected sufficient statistics of a chunk's rows and their log-likelihood."""

    def maximize(self, statistics: S, /) -> Params:
        """Return the params that maximise `log_joint(params, statistics) + log_prior(params)`."""

    def log_prior(self, params: Params, /) -> float:
        """Return what smoothing adds to the objective; 0 for maximum likelihood."""

    def log_joint(self, params: Params, statistics: S, /) -> float:
        """Return the expected complete-data log-likelihood, Q of C (11).

        The loop calls it only for statistics that are `fixed`; `q` and `lower_bound` need it too.
        """


@runtime_checkable
class Conditioned(Protocol):
    """A model whose log-likelihood rounding can shift by more than a relative 1e-9."""

    def rounding(self, params: Any, statistics: Any, /) -> float:
        """Return by how many nats rounding can shift the log-likelihood."""


@runtime_checkable
class Centred(Protocol):
    """A model whose statistics are sums around a centre that changes with the params."""

    def recentre(self, statistics: Any, params: Any, /) -> Any:
        """Return statistics around the centre of the params, to be added to those of `expect`."""


class AscentError(RuntimeError):
    """The objective fell, which EM rules out (C Theorem 5): the model's steps do not fit together.

    For the models that tacit ships this is a defect of tacit; please report it.
    """


class Round(NamedTuple):
    """What a callback is given after each round: its number, from 1, and the results so far."""

    number: int
    objective: float
    seconds: float
    params: Any


@dataclasses.dataclass(frozen=True)
class Progress(Generic[S]):
    """State from which `fit` resumes a run, after any round.

    Attributes
    ----------
    statistics
        Those that the parameters of the last round come from.
    objectives : list of float
        The objective of the start and after each round.
    """

    statistics: S
    objectives: list[float]


@dataclasses.dataclass(frozen=True)
class Fit(Generic[Params, S]):
    """What a run of the loop found.

    Attributes
    ----------
    params
        The last parameters.
    statistics
        The statistics that they come from: ``params == model.maximize(statistics)``.
    log_likelihood, objective : float
        Log-likelihood under `params`, and the same plus the log prior: what EM raises.
    trace : list of float
        The objective after each round.
    converged : bool
        Whether the rounds ended because the objective no longer rises.
    interrupted : bool
        Whether they ended by Ctrl-C; the rest is what the last whole round found.
    """

    params: Params
    statistics: S
    log_likelihood: float
    objective: float
    trace: list[float]
    converged: bool
    interrupted: bool = False


def fit(
    model: Model[Params, S, Chunk],
    chunks: Sequence[Chunk],
    start: Params | None = None,
    *,
    fixed: S | None = None,
    max_iter: int = 500,
    tol: float = 1e-6,
    callback: Callable[[Round], object] | None = None,
    n_jobs: int | None = None,
    progress: Progress[S] | None = None,
    save: Callable[[Progress[S]], object] | None = None,
) -> Fit[Params, S]:
    """Run EM: rounds of one E-step and one M-step, until the objective stands still.

    After every round the objective (log-likelihood + log prior) is compared with the one before;
    a fall beyond rounding raises `AscentError`.

    Parameters
    ----------
    model : Model
        The functions `expect`, `maximize` and `log_prior` (and `log_joint` if `fixed` is given),
        and those of `Conditioned` or `Centred` where it has them.
    chunks : sequence
        The data, in pieces that `model.expect` takes. Their order fixes the order of the sums.
    start
        The parameters of the first E-step. None is enough when `chunks` is empty.
    fixed : statistics, optional
        Statistics of data whose hidden part is known. They are added in every round as they are,
        and their log-likelihood is read off them. With `fixed` alone, fitting is one round:
        maximum likelihood from complete data (C Fig. 3).
    max_iter : int
        The largest number of rounds.
    tol : float
        In nats. The rounds end when the last round's rise and the rise still to come (Aitken's
        estimate from the last three objectives) are both at most this.
    callback : callable, optional
        Called after each round with a `Round`: its number, the objective, the seconds since the
        start and the parameters. If it returns True, the rounds end.
    n_jobs : int, optional
        Threads that share the chunks, None for one a core. The bits of the result do not depend
        on their number.
    progress : Progress, optional
        Where to take up a run, instead of `start`: the result has the bits of one that was never
        interrupted.
    save : callable, optional
        Called with a `Progress` after each round but the last.

    Returns
    -------
    Fit

    Examples
    --------
    A coin is chosen at random out of two and thrown ten times; the two biases, from the heads
    of five such trials, with the choices unknown:

    >>> import numpy as np
    >>> from tacit import em
    >>> @dataclasses.dataclass(frozen=True)
    ... class Throws(em.Statistics):
    ...     heads: np.ndarray
    ...     tails: np.ndarray
    >>> class TwoCoins:
    ...     def expect(self, bias, heads):
    ...         joint = 0.5 * bias ** heads[:, None] * (1 - bias) ** (10 - heads[:, None])
    ...         delta = joint / joint.sum(axis=1, keepdims=True)
    ...         return Throws(np.log(joint.sum(axis=1)).sum(), heads @ delta, (10 - heads) @ delta)
    ...     def maximize(self, throws):
    ...         return throws.heads / (throws.heads + throws.tails)
    ...     def log_prior(self, bias):
    ...         return 0.0
    >>> found = em.fit(TwoCoins(), [np.array([5, 9, 8, 4, 7])], np.array([0.6, 0.5]))
    >>> found.params.round(2), found.converged
    (array([0.8 , 0.52]), True)
    """
    if progress is None and start is None and (len(chunks) or fixed is None):
        raise ValueError("start is None: give the parameters to start from.")
    if max_iter < 1:
        raise ValueError(f"max_iter is {max_iter}: at least one round is needed.")
    began = time.perf_counter()
    monitor = _Monitor(model, tol if len(chunks) else np.inf)
    params = start if progress is None else model.maximize(progress.statistics)
    statistics, log_likelihood = _e_step(model, params, chunks, fixed, n_jobs)
    monitor.begin(params, log_likelihood, None if progress is None else progress.objectives)
    result: Fit[Params, S] | None = None
    if progress is not None and params is not None:
        trace = progress.objectives[1:]
        result = Fit(params, progress.statistics, log_likelihood, trace[-1], trace, False)
    try:
        for number in range(len(monitor.objectives), max_iter + 1):
            params, sums = model.maximize(statistics), statistics
            statistics, log_likelihood = _e_step(model, params, chunks, fixed, n_jobs)
            monitor.follow(params, sums, log_likelihood)
            trace, converged = monitor.objectives[1:], monitor.converged
            result = Fit(params, sums, log_likelihood, trace[-1], trace, converged)
            now = Round(number, trace[-1], time.perf_counter() - began, params)
            if (callback is not None and asks_to_stop(callback(now))) or converged:
                break
            if save is not None and number < max_iter:
                save(Progress(sums, list(monitor.objectives)))
    except KeyboardInterrupt:
        if result is None:  # nothing to keep
            raise
        return dataclasses.replace(result, interrupted=True)
    assert result is not None
    return result


def _e_step(
    model: Model[Params, S, Chunk],
    params: Params | None,
    chunks: Sequence[Chunk],
    fixed: S | None,
    n_jobs: int | None,
) -> tuple[S, float]:
    """Return the expected statistics of all data under the params, and its log-likelihood.

    Statistics are added in the order of the chunks, those that are fixed first.
    """
    total, log_likelihood = fixed, 0.0
    if fixed is not None and params is not None:
        log_likelihood = model.log_joint(params, fixed)
        total = model.recentre(fixed, params) if isinstance(model, Centred) else fixed
    step = partial(model.expect, cast(Params, params))  # None only where there are no chunks
    for piece in engine.map_chunks(step, chunks, n_jobs):
        total = piece if total is None else total + piece
        log_likelihood += piece.log_likelihood
    assert total is not None
    return total, log_likelihood


class _Monitor:
    """The objective after each round: that it never falls (S19), and whether it stands still."""

    def __init__(self, model: Model[Any, Any, Any], tol: float) -> None:
        self.model, self.tol = model, tol
        self.objectives: list[float] = []
        self.size = 1.0

    def begin(self, params: Any, log_likelihood: float, objectives: Sequence[float] | None) -> None:
        """Note the objective of a start, or those of the run that is taken up."""
        log_prior = 0.0 if params is None else self.model.log_prior(params)
        objective = -np.inf if params is None else log_likelihood + log_prior
        self.objectives = [objective] if objectives is None else list(objectives)
        self.size = _size(log_likelihood, log_prior)

    def follow(self, params: Any, statistics: Any, log_likelihood: float) -> None:
        """Note the objective after a round; AscentError if it fell by more than rounding."""
        log_prior = self.model.log_prior(params)
        previous, objective = self.objectives[-1], log_likelihood + log_prior
        noise = ROUNDING * self.size
        if isinstance(self.model, Conditioned):
            noise += self.model.rounding(params, statistics)
        if not objective >= previous - noise:  # also catches NaN
            raise AscentError(
                f"The objective went from {previous!r} to {objective!r} in round "
                f"{len(self.objectives)}. EM never lowers it: expect, maximize and log_prior do "
                "not fit together."
            )
        self.objectives.append(objective)
        self.size = _size(log_likelihood, log_prior)

    @property
    def converged(self) -> bool:
        """Whether the objective rises by no more than the tolerance, now and from now on."""
        return bool(to_come(self.objectives, 1e-15 * self.size) <= self.tol)


def _size(log_likelihood: float, log_prior: float) -> float:
    """Return the size of the numbers whose sum is compared; impossible data have none."""
    size = abs(log_likelihood) + abs(log_prior)
    return max(1.0, size) if np.isfinite(size) else 1.0


def asks_to_stop(answer: object) -> bool:
    """Return whether a callback's answer is True; other answers mean nothing.

    Examples
    --------
    >>> asks_to_stop(True), asks_to_stop(None), asks_to_stop(3)
    (True, False, False)
    """
    return isinstance(answer, bool | np.bool_) and bool(answer)


def to_come(objectives: Sequence[float], noise: float = 0.0) -> float:
    """Estimate how far the objective still rises, at least the last rise (Aitken, Böhning 1994).

    EM converges linearly, so a small rise does not mean that little is left: with a rate of .999,
    a thousand times the last rise is. The rate is the ratio of the last two rises. While they
    grow (EM leaving a saddle) nothing can be said: inf. Rises below `noise` are rounding.

    Examples
    --------
    >>> to_come([0.0, 0.5, 0.75])
    0.25
    >>> to_come([0.0, 1.0, 1.75])  # slow: more is left than the last rise
    2.25
    """
    last = objectives[-1] - objectives[-2]
    if last <= noise:
        return 0.0
    before = objectives[-2] - objectives[-3] if len(objectives) > 2 else 0.0
    return float(max(last, last * last / (before - last))) if last < before else np.inf


def q(
    model: Model[Params, S, Chunk], chunks: Iterable[Chunk], params: Params, old: Params
) -> float:
    """Return Q(params, old) of C (11): the log-likelihood that `old` expects of `params`.

    Examples
    --------
    >>> from tacit.families import Bernoulli
    >>> from tacit.models.naive_bayes import NaiveBayes
    >>> model = NaiveBayes(Bernoulli(alpha=0.0))
    >>> rows = model.rows([[1, 0], [0, 1], [1, 1]])
    >>> old = model.start(rows, [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> new = fit(model, [rows], old, max_iter=1).params
    >>> q(model, [rows], new, old) >= q(model, [rows], old, old)  # Theorem 3
    True
    """
    return model.log_joint(params, _total(model, chunks, old))


def lower_bound(
    model: Model[Params, S, Chunk], chunks: Iterable[Chunk], params: Params, old: Params
) -> float:
    """Return the bound on the log-likelihood of `params` that the E-step at `old` gives (S18).

    It is L(old) + Q(params, old) - Q(old, old): never above L(params) (C Theorem 4, by Jensen's
    inequality), and equal to it at ``params = old``.

    Examples
    --------
    >>> from tacit.families import Bernoulli
    >>> from tacit.models.naive_bayes import NaiveBayes
    >>> model = NaiveBayes(Bernoulli(alpha=0.0))
    >>> rows = model.rows([[1, 0], [0, 1], [1, 1]])
    >>> old = model.start(rows, [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> new = fit(model, [rows], old, max_iter=1).params
    >>> lower_bound(model, [rows], new, old) <= model.expect(new, rows).log_likelihood
    True
    """
    statistics = _total(model, chunks, old)
    change = model.log_joint(params, statistics) - model.log_joint(old, statistics)
    return statistics.log_likelihood + change


def _total(model: Model[Params, S, Chunk], chunks: Iterable[Chunk], params: Params) -> S:
    first, *rest = (model.expect(params, chunk) for chunk in chunks)
    return sum(rest, start=first)
