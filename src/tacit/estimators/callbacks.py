"""Callbacks during a fit: `verbose` printing, the user's `callback`, scikit-learn's callbacks.

Stands between `EMEstimator` and `tacit.em.fit`, which calls `StartCallbacks.after_round`. Nothing
here decides when EM has converged.

scikit-learn's callbacks (its version 1.9 and later) see a task "fit" with a task "start" for each
start of EM, which has a task "round" for each round.
"""

from __future__ import annotations

import sys
from typing import Any

from tacit.em import Round, asks_to_stop
from tacit.models.naive_bayes import NaiveBayes, Params

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # an older scikit-learn: there is nothing to support

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty stand-in for scikit-learn's class."""


__all__ = ["CallbackSupportMixin", "FitCallbacks", "StartCallbacks"]


class StartCallbacks:
    """Calls every callback after each round of one start.

    Parameters
    ----------
    number : int
        The number of the start, from 1.
    model : NaiveBayes
        The model that is fitted.
    data : dict
        The estimator, X, y and metadata, as scikit-learn's callbacks want them.
    context : CallbackContext or None
        scikit-learn's context of this start, if it has any.

    Attributes
    ----------
    stopped : bool
        Whether a callback asked to stop.
    """

    def __init__(self, number: int, model: NaiveBayes, data: dict[str, Any], context: Any) -> None:
        self.number, self.model, self.data, self.context = number, model, data, context
        self.stopped = False

    def after_round(self, done: Round) -> bool:
        """Run the callbacks of a round; True ends the rounds."""
        estimator = self.data["estimator"]
        if estimator.verbose:
            print(
                f"{type(estimator).__name__}: start {self.number}, round {done.number}, "
                f"objective {done.objective:.10g}, {done.seconds:.2f} s",
                file=sys.stderr,
            )
        if estimator.callback is not None:
            answer = estimator.callback(done.number, done.objective, done.seconds)
            self.stopped |= asks_to_stop(answer)
        if self.context is not None:
            task = self.context.subcontext("round").call_on_fit_task_begin(**self.data)
            self.stopped |= task.call_on_fit_task_end(
                **self.data, reconstruction_attributes=reconstruction(self.model, done.params)
            )
        return self.stopped

    def end(self) -> None:
        """Run the callbacks at the end of the start."""
        if self.context is not None:
            self.context.call_on_fit_task_end(**self.data)


class FitCallbacks:
    """Makes the `StartCallbacks` of each start of a fit.

    Parameters
    ----------
    estimator : EMEstimator
        The estimator that is being fitted.
    data : dict
        X, y and metadata.
    n_starts : int
        How many starts there will be.
    """

    def __init__(self, estimator: Any, data: dict[str, Any], n_starts: int) -> None:
        self.data = {"estimator": estimator, **data}
        self.context = None
        if hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=n_starts)
            self.context.call_on_fit_task_begin(**self.data)

    def start(self, number: int, model: NaiveBayes) -> StartCallbacks:
        """Return the callbacks of start `number`, after telling scikit-learn's that it begins."""
        context = None
        if self.context is not None:
            rounds = self.data["estimator"].max_iter
            context = self.context.subcontext("start", max_subtasks=rounds)
            context.call_on_fit_task_begin(**self.data)
        return StartCallbacks(number, model, self.data, context)

    def end(self, model: NaiveBayes, params: Params) -> None:
        """Run the callbacks at the end of the fit."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                **self.data, reconstruction_attributes=reconstruction(model, params)
            )


def reconstruction(model: NaiveBayes, params: Params) -> dict[str, Any]:
    """Return the attributes from which a callback can rebuild the estimator as it is now."""
    return {"_model": model, "_params": params}
