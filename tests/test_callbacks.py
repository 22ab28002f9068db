"""Callbacks, scikit-learn's callbacks and printing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from cases import CASES, hide
from robust import check_sane, every_family
from tacit import BernoulliNB, MultinomialNB


@every_family
def test_a_callback_sees_every_round_and_stops(case):
    X, y = case.data(15)
    for estimator in case.classifier(), case.mixture(3, random_state=0, n_init=2):
        seen: list[tuple[int, float, float]] = []

        def note(*told, seen=seen):
            seen.append(told)
            return len(seen) == 2

        estimator.set_params(tol=0.0, callback=note).fit(X, hide(y, 0.7))
        assert estimator.n_iter_ == len(estimator.trace_) == 2
        assert not estimator.converged_
        assert [number for number, _, _ in seen] == [1, 2]
        assert [objective for _, objective, _ in seen] == estimator.trace_.tolist()
        assert all(seconds >= 0 for _, _, seconds in seen)
        check_sane(estimator, X)


@every_family
def test_verbose_talks_to_stderr_alone(case, capsys):
    X, y = case.data(16)
    nb = case.classifier(verbose=1).fit(X, hide(y, 0.5))
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert len(lines) == nb.n_iter_
    assert f"round {nb.n_iter_}, objective" in lines[-1]
    case.classifier().fit(X, hide(y, 0.5))
    assert capsys.readouterr() == ("", "")


class Recorder:
    """A callback of scikit-learn's protocol, written by hand; stops after three rounds."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, str]] = []
        self.rounds: list[Any] = []

    def setup(self, estimator, context):
        self.tasks.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.tasks.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.tasks.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.tasks.append(("end", context.task_name))
        if context.task_name == "round":
            self.rounds.append(fitted_estimator.predict_proba(X))
        return len(self.rounds) == 3


@every_family
def test_a_callback_of_scikit_learn(case):
    protocol = pytest.importorskip("sklearn.callback")
    X, y = case.data(17)
    for estimator in case.classifier(), case.mixture(3, random_state=0, n_init=2):
        recorder = Recorder()
        assert isinstance(recorder, protocol.FitCallback)
        estimator.set_params(tol=0.0).set_callbacks(recorder).fit(X, hide(y, 0.7))
        assert estimator.n_iter_ == 3
        rounds = [("begin", "round"), ("end", "round")] * 3
        start = [("begin", "start"), *rounds, ("end", "start")]
        assert recorder.tasks[1:-1] == [("begin", "fit"), *start, ("end", "fit")]
        assert [task for task, _ in recorder.tasks[:: len(recorder.tasks) - 1]] == [
            "setup",
            "teardown",
        ]
        np.testing.assert_allclose(  # but for the order of a mixture's components
            np.sort(recorder.rounds[-1]), np.sort(estimator.predict_proba(X)), rtol=1e-12
        )


def test_scores_of_every_round():
    def mean(estimator, X, y):
        return {"mean": estimator.score_samples(X).mean()}

    monitor = pytest.importorskip("sklearn.callback").ScoringMonitor(scoring=mean)
    X, y = CASES[0].data(18)
    nb = BernoulliNB().set_callbacks(monitor).fit(X, hide(y, 0.5))
    scores = [entry for entry in monitor.get_logs().data if entry["task_name"] == "round"]
    assert len(scores) == nb.n_iter_
    assert scores[-1]["mean"] == pytest.approx(nb.score_samples(X).mean())


def test_a_progress_bar(capsys):
    pytest.importorskip("rich")
    callback = pytest.importorskip("sklearn.callback").ProgressBar()
    X, y = CASES[0].data(19)
    BernoulliNB().set_callbacks(callback).fit(X, hide(y, 0.5))
    assert "BernoulliNB" in capsys.readouterr().out


def test_ctrl_c_keeps_what_was_found():
    X, y = load_digits(return_X_y=True)
    some = np.where(np.arange(len(y)) < 30, y, np.nan)

    def press(number, objective, seconds):
        if number == 3:
            raise KeyboardInterrupt

    nb = MultinomialNB(callback=press)
    with pytest.raises(KeyboardInterrupt, match="after round 3 of the best start: the model keeps"):
        nb.fit(X, some)
    with pytest.warns(ConvergenceWarning):
        expected = MultinomialNB(max_iter=3).fit(X, some)
    np.testing.assert_array_equal(nb.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(nb.transduction_, expected.transduction_)
    assert not nb.converged_

    nb.set_params(callback=None).fit(X, some)
    assert nb.converged_
