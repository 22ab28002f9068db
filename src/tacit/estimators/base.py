"""Base class of all estimators: the parameters of EM, the fit, and `save`.

Stands between scikit-learn and the loop: it checks parameters, makes `tacit.em.fit` run from each
start and sets the fitted attributes. What a family adds is in `feature_types`, what a fitted model
answers in `prediction`; labels are for `classifier`, components for `mixture`.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from tacit import em, kernels
from tacit.data.labels import Labels
from tacit.data.lazy import lazy
from tacit.data.rows import Rows
from tacit.data.validation import check_numbers
from tacit.estimators.callbacks import CallbackSupportMixin, FitCallbacks
from tacit.estimators.checkpoints import CheckpointFile
from tacit.estimators.docs import SHARED
from tacit.estimators.prediction import PredictionMixin
from tacit.families import Family
from tacit.models import starts
from tacit.models.naive_bayes import ClassCounts, NaiveBayes, Params
from tacit.models.split import Split, split_rows
from tacit.numerics import Array

__all__ = ["EMEstimator", "fit_context"]

Method = TypeVar("Method", bound=Callable[..., Any])

# Training rows whose posteriors are computed at a time.
BLOCK = 1 << 15


class Runs(NamedTuple):
    """Result of all starts: the best run, each final objective, and how the last ended."""

    best: em.Fit[Params, ClassCounts]
    objectives: list[float]
    stopped: bool
    interrupted: bool
    callbacks: FitCallbacks


def fit_context(method: Method) -> Method:
    """Decorate a fit: parameters are validated, threads set, and a failed fit changes nothing."""

    @wraps(method)
    def in_threads(self: EMEstimator, X: Any, *args: Any, **kwargs: Any) -> Any:
        blas, before = kernels.one_blas_thread(self._needs_blas(X)), dict(self.__dict__)
        try:
            with blas, kernels.kernel_threads(self.n_jobs):
                result = method(self, X, *args, **kwargs)
        except BaseException:  # Ctrl-C too: the attributes of an earlier fit are restored
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        if self.__dict__.pop("_interrupted", False):
            raise KeyboardInterrupt(
                f"Stopped after round {self.n_iter_} of the best start: the model keeps the "
                f"parameters found so far (objective {self.objective_:.10g})."
            )
        return result

    checked: Method = _fit_context(prefer_skip_nested_validation=True)(in_threads)
    return checked


@dataclass(eq=False, repr=False, kw_only=True)
class EMEstimator(CallbackSupportMixin, PredictionMixin, BaseEstimator, ABC):
    """Base of all estimators. Constructors are made by `dataclass`: they only store."""

    max_iter: int = 500
    tol: float = 1e-6
    n_init: int = 1
    init: Any = "labels"
    random_state: Any = None
    assignment: str = "soft"
    class_alpha: float = 0.0
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: int = 0
    callback: Any = None
    checkpoint: Any = None
    checkpoint_every: float = 60.0
    resume: bool = False

    _inits: ClassVar[dict[str, str]] = {}
    # Attributes that a model file keeps beside those of all estimators, and their types.
    _saved: ClassVar[dict[str, Any]] = {}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "assignment": [StrOptions({"soft", "hard"})],
        "class_alpha": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "callback": [callable, None],
        "checkpoint": [str, os.PathLike, None],
        "checkpoint_every": [Interval(Real, 0, None, closed="left")],
        "resume": ["boolean"],
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Collect the parameter constraints of all bases and complete the docstring."""
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("_parameter_constraints", {})
        inherited: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= base.__dict__.get("_parameter_constraints", {})
        cls._parameter_constraints = inherited | own
        cls._parameter_constraints["init"] = [StrOptions(set(cls._inits)), "array-like", callable]
        if cls.__doc__:
            cls.__doc__ = cls._fill_docstring(cls.__doc__)

    @classmethod
    def _fill_docstring(cls, doc: str) -> str:
        """Return a docstring with the shared sections filled in, and the defaults of this class."""
        for name, text in SHARED.items():
            doc = doc.replace(f"    %({name})s", text.strip("\n"))
        for name in ("max_iter", "n_init", "init", *(["alpha"] if hasattr(cls, "alpha") else [])):
            default = getattr(cls, name)
            shown = f'"{default}"' if isinstance(default, str) else str(default)
            doc = doc.replace(f"%(default_{name})s", shown)
        doc = doc.replace("%(inits)s", "{" + ", ".join(f'"{name}"' for name in cls._inits) + "}")
        texts = (f'\n        "{name}": {text}' for name, text in cls._inits.items())
        return doc.replace("%(init_texts)s", "".join(texts))

    # What a feature type defines (see `feature_types`): its family, its attributes, its checks.

    @abstractmethod
    def _family(self) -> Family:
        """Return the family, not yet bound to data."""

    @abstractmethod
    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        """Return the fitted attributes that describe the features, by name."""

    @abstractmethod
    def _class_attributes(self, params: Params, statistics: ClassCounts) -> dict[str, Any]:
        """Return the fitted attributes that describe the classes, by name."""

    def _kind(self) -> tuple[Any, ...]:
        """Return the signature of this estimator's family (see `Family.kind`)."""
        return self._family().kind

    def _describes(self, family: Family) -> bool:
        """Return whether a family, such as one from a file, is of this estimator's type."""
        return self._kind() == family.kind

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters; cached, as scikit-learn asks for them often."""
        names: list[str] = super()._get_param_names()
        return names

    def _check_features(self, X: Any, reset: bool) -> Any:
        """Return X as a numeric array or CSR matrix, in which NaN is a missing value."""
        return check_numbers(self._check_shape(X, reset))

    def _width(self) -> int:
        """Return the number of columns that the family sees."""
        return int(self.n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse()
        tags.input_tags.allow_nan = True
        return tags

    def _attributes(
        self, model: NaiveBayes, params: Params, statistics: ClassCounts
    ) -> dict[str, Any]:
        """Return all fitted attributes that follow from params and statistics, by name."""
        return {
            "_model": model,
            "_params": params,
            "_statistics": statistics,
            **self._class_attributes(params, statistics),
            **self._feature_attributes(params.features, statistics.features, model.family),
        }

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def _bound(self, X: Any, weight: Array, K: int) -> Family:
        """Return the family, with the constants it takes from the rows of positive weight."""
        used = weight > 0
        return self._family().bind(X if used.all() else X[used])

    def _first(self, model: NaiveBayes, known: ClassCounts) -> Params:
        """Return the supervised estimate, from statistics of labelled rows: a start for EM."""
        return model.maximize(known)

    def _annealed(self, split: Split, start: Params | None) -> Params | None:
        """Return the start after preliminary rounds, if any (see `MultinomialNB.tempering`)."""
        return start

    def _start(self, model: NaiveBayes, rows: Rows, responsibilities: Array) -> Params:
        """Return the params that initial responsibilities give."""
        return model.start(rows, responsibilities)

    def _previous(self, X: Any, labels: Labels) -> tuple[Family, ClassCounts]:
        """Return family and statistics of the previous fit, for a warm start."""
        before = self._fitted_on
        now = labels.classes.tolist(), X.shape[1]
        if before != now:
            raise ValueError(
                f"warm_start=True, but the previous fit had classes {before[0]} and {before[1]} "
                f"features, and this one has {now[0]} and {now[1]}. Set warm_start=False."
            )
        old: ClassCounts = self._statistics
        family, features = self._model.family.extend(X, old.features)
        return family, replace(old, features=features)

    def _fit_em(
        self,
        X: Any,
        labels: Labels,
        weight: Array,
        class_prior: Array | None,
        data: dict[str, Any],
        init: Any,
    ) -> None:
        """Fit by EM to checked data, and set all attributes."""
        previous = None
        if self.warm_start and hasattr(self, "_params"):
            old, previous = self._previous(X, labels)
            family = self._family().adopt(old)
        else:
            family = self._bound(X, weight, len(labels.classes))
        model = NaiveBayes(family, self.class_alpha, class_prior, self.assignment == "hard")
        rows = Rows(family.encode(X), None, None if (weight == 1).all() else weight)
        # Callbacks of scikit-learn want parameters after every round, and a warm start has its own.
        merging = previous is None and not getattr(self, "_skl_callbacks", None)
        split = split_rows(model, rows, labels, weight > 0, merging)
        runs = self._run(split, X, labels, weight, init, previous, data)
        params, statistics = runs.best.params, split.expand(runs.best.statistics)
        if self._exchangeable():  # S20: the same optimum is reported with the same order
            order = np.argsort(-statistics.classes, kind="stable")
            statistics = model.reorder(statistics, order)
        if split.model is not model or self._exchangeable():
            params = model.maximize(statistics)
        self._set(self._attributes(model, params, statistics))
        self._fitted_on: tuple[list[Any], int] = labels.classes.tolist(), X.shape[1]
        self._set_fit_attributes(runs, float(weight.sum()))
        self.__dict__.pop("label_distributions_", None)
        self._known_labels = labels.codes, len(labels.classes)
        if (labels.codes < 0).any():
            self.label_distributions_ = self._distributions(labels, *split.unlabelled(rows, labels))
        runs.callbacks.end(model, params)
        self._interrupted = self.__dict__.pop("_cut_short", False) or runs.interrupted
        if not (runs.best.converged or runs.stopped or runs.interrupted):
            warnings.warn(
                f"EM did not converge in {self.max_iter} rounds: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,  # the caller of fit, behind its decorators
            )

    def _run(
        self,
        split: Split,
        X: Any,
        labels: Labels,
        weight: Array,
        init: Any,
        previous: ClassCounts | None,
        data: dict[str, Any],
    ) -> Runs:
        """Run EM from each start, or go on with what a checkpoint holds."""
        rng, model, chunks = check_random_state(self.random_state), split.model, split.chunks
        drawn = chunks and previous is None and starts.is_random(init, labels, weight)
        n_starts = self._n_starts() if drawn else 1
        callbacks = FitCallbacks(self, data, n_starts)
        checkpoint = CheckpointFile(self, X, labels, weight)
        saved = checkpoint.take_up(model, len(labels.classes), split.width(X.shape[1]))
        first, objectives, stopped, interrupted = 1, list[float](), False, False
        best: em.Fit[Params, ClassCounts] | None = None
        if saved is not None:
            first, rng, best = saved.number, saved.rng(), saved.best_fit(model)
            objectives = saved.finished.tolist()
        for number in range(first, n_starts + 1):
            try:
                start, progress = None, None
                if saved is not None and number == first:
                    progress = em.Progress(saved.statistics, saved.objectives.tolist())
                elif previous is not None:
                    start = model.maximize(previous) if chunks else None
                else:
                    start = self._begin(split, X, labels, weight, init, rng) if chunks else None
                    start = self._annealed(split, start)
                watch = callbacks.start(number, model)
                run = em.fit(
                    model,
                    chunks,
                    start,
                    fixed=split.fixed,
                    max_iter=self.max_iter,
                    tol=self.tol * float(weight.sum()),
                    callback=watch.after_round,
                    n_jobs=self.n_jobs,
                    progress=progress,
                    save=partial(checkpoint.save, number, rng, objectives, best),
                )
            except KeyboardInterrupt:
                if best is None:  # nothing to keep
                    raise
                interrupted = True
                break
            watch.end()
            objectives.append(run.objective)
            best = run if best is None or run.objective > best.objective else best
            stopped, interrupted = watch.stopped, run.interrupted
            if stopped or interrupted:
                break
        assert best is not None
        if not interrupted:
            checkpoint.end()
        return Runs(best, objectives, stopped, interrupted, callbacks)

    def _begin(
        self,
        split: Split,
        X: Any,
        labels: Labels,
        weight: Array,
        init: Any,
        rng: np.random.RandomState,
    ) -> Params:
        """Return where EM begins: with what labelled rows say, or a start as `init` has it."""
        if split.fixed is not None and starts.from_labels_alone(init, labels, weight, split.loop):
            return self._first(split.model, split.fixed)
        return self._start(split.model, *split.start(init, X, labels, weight, rng))

    def _set_fit_attributes(self, runs: Runs, mass: float) -> None:
        """Set trace_, n_iter_, objective_ and the like, for rows of total weight `mass`."""
        best, self.start_objectives_ = runs.best, np.array(runs.objectives)
        same = max(10 * self.tol * mass, 1e-9 * abs(best.objective))
        self.n_best_starts_ = int((self.start_objectives_ >= best.objective - same).sum())
        self.trace_ = np.array(best.trace)
        self.lower_bounds_ = self.trace_ / mass
        self.n_iter_ = len(best.trace)
        self.converged_ = best.converged
        self.objective_ = best.objective
        self.log_likelihood_ = best.log_likelihood

    def _n_starts(self) -> int:
        """Return the number of random starts."""
        return self.n_init

    def _exchangeable(self) -> bool:
        """Return whether classes are unnamed, so that their order is ours to choose (S20)."""
        return False

    @lazy
    def label_distributions_(self) -> Array:
        """p(y | x) of the training rows; computed on first access if every label is known."""
        if "_known_labels" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no label_distributions_: call fit.")
        codes, K = self._known_labels
        return np.eye(K).take(codes, axis=0)

    def _distributions(
        self, labels: Labels, others: Rows, which: npt.NDArray[np.intp] | None
    ) -> Array:
        """Return p(y | x) of the training rows: those without a label are `others`, in order.

        Where equal ones were merged, `which` says which each is.
        """
        known = labels.codes >= 0
        result = np.zeros((len(labels.codes), len(labels.classes)))
        result[known, labels.codes[known]] = 1.0
        place, rows = np.flatnonzero(~known), 0
        if which is not None:
            posterior = self._model.posterior(self._params, Rows(others.features))[0]
            result[place] = posterior[which]
            return result
        for chunk in others.chunks(BLOCK):
            posterior = self._model.posterior(self._params, chunk)[0]
            result[place[rows : rows + len(chunk)]] = posterior
            rows += len(chunk)
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, which `tacit.load` reads without running code.

        The file is replaced atomically: a crash leaves the old one or the new one. Its contents are
        described in docs/model-files.md; what is not kept, in `tacit.load`.

        Parameters
        ----------
        path : str or path-like
            The file.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import tacit
        >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> tacit.BernoulliNB().fit([[1, 0], [0, 1]], ["spam", "ham"]).save(path)
        >>> tacit.load(path).predict([[1, 0]])
        array(['spam'], dtype='<U4')
        """
        import tacit  # `tacit.modelfile` knows every estimator: reached through the package alone

        tacit.save(self, path)
