"""The same input, seed and settings give the same bits; nothing that was passed is changed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import tacit
from cases import K, hide, mixed_parts
from robust import NAN, X, every_family, every_sparse, few_rounds, same_bits, wrong
from tacit import BernoulliNB, GaussianNB, MixedNB, MultinomialNB, kernels


@few_rounds
@every_family
def test_threads_do_not_change_a_bit(case):
    X, y = case.data(10, n=45_000, missing=0.02 if case.name != "multinomial" else 0.0)
    labels = np.where(np.arange(len(y)) % 3 == 0, y, NAN)
    fits = [case.classifier(n_jobs=n, max_iter=3).fit(X, labels) for n in (1, 2, 4)]
    for other in fits[1:]:
        same_bits(fits[0], other, X[:100])
        np.testing.assert_array_equal(fits[0].class_count_, other.class_count_)


@few_rounds
def test_threads_do_not_change_a_bit_of_sparse_rows():
    table = sparse.random_array((45_000, 200), density=0.05, rng=np.random.default_rng(0))
    labels = np.where(np.arange(45_000) % 7 < 2, np.arange(45_000) % 7, NAN)
    for make in BernoulliNB, MultinomialNB:
        one, four = (make(n_jobs=n, max_iter=3).fit(table, labels) for n in (1, 4))
        same_bits(one, four, table.tocsr()[:100])
        np.testing.assert_array_equal(one.feature_log_prob_, four.feature_log_prob_)


@few_rounds
@every_family
def test_the_same_random_state_gives_the_same_bits(case):
    X, y = case.data(11, missing=0.1)
    estimators = [
        case.mixture(3, random_state=5, n_init=3, max_iter=10),
        case.classifier(random_state=5, init="random", n_init=3, max_iter=10),
    ]
    for estimator in estimators:
        first, second = (clone(estimator).fit(X, hide(y, 0.7)) for _ in range(2))
        same_bits(first, second, X)
        np.testing.assert_array_equal(first.start_objectives_, second.start_objectives_)
        for a, b in zip(first.sample(7), second.sample(7), strict=True):
            np.testing.assert_array_equal(a, b)


@few_rounds
@every_family
def test_inputs_are_never_modified(case):
    X, y = case.data(12, missing=0.1)
    evidence = np.where(np.arange(len(y))[:, None] % 2, np.eye(K)[y], NAN)
    inputs = [X, np.array(hide(y, 0.5), dtype=float), evidence, np.linspace(0, 2, len(y))]
    before = [array.copy() for array in inputs]
    for array in inputs:
        array.flags.writeable = False
    table, labels, soft, weight = inputs
    for target in labels, soft:
        nb = case.classifier(max_iter=5).fit(table, target, sample_weight=weight)
        nb.predict_proba(table)
        case.classifier(classes=range(K)).partial_fit(table, target, sample_weight=weight)
    case.mixture(2, max_iter=5).fit(table, sample_weight=weight).predict(table)
    for array, copy in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@every_sparse
def test_sparse_inputs_are_never_modified(make):
    for kind in sparse.csr_array, sparse.csc_array, sparse.coo_array:
        table = kind(X)
        table.data.flags.writeable = False
        make().fit(table, [0, 1, None, None]).predict_proba(table)
        np.testing.assert_array_equal(table.toarray(), X)


@few_rounds
@every_family
def test_pickle_and_clone(case):
    X, y = case.data(13, missing=0.1)
    for estimator in case.classifier(max_iter=5), case.mixture(2, max_iter=5, random_state=0):
        estimator.fit(X, hide(y, 0.5))
        again = pickle.loads(pickle.dumps(estimator))
        same_bits(estimator, again, X)
        if hasattr(estimator, "partial_fit"):
            pair = [fitted.partial_fit(X, y).predict_proba(X) for fitted in (estimator, again)]
            np.testing.assert_array_equal(*pair)
            estimator.fit(X, hide(y, 0.5))
        fresh = clone(estimator)
        assert not hasattr(fresh, "trace_")
        same_bits(estimator, fresh.fit(X, hide(y, 0.5)), X)


@pytest.mark.parametrize("make", [MixedNB, tacit.MixedMixture])
def test_parameters_reach_into_parts(make):
    nb = make(mixed_parts())
    assert nb.get_params()["kind__alpha"] == 1.0
    assert "kind__alpha" not in nb.get_params(deep=False)
    nb.set_params(kind__alpha=0.25, size=GaussianNB(var_smoothing=0.5), max_iter=7)
    assert nb.get_params()["kind__alpha"] == 0.25
    assert nb.parts[1][1].alpha == 0.25
    assert nb.get_params()["size__var_smoothing"] == 0.5
    assert [columns for *_, columns in nb.parts] == [columns for *_, columns in mixed_parts()]
    copy = clone(nb)
    assert copy.parts[1][1] is not nb.parts[1][1]
    assert copy.get_params()["kind__alpha"] == 0.25
    for name in "colour__alpha", "kind__colour", "colour":
        with wrong("Invalid parameter 'colour'"):
            nb.set_params(**{name: 1.0})


@few_rounds
@every_family
def test_kernels_agree_with_numpy(case, monkeypatch):
    X, y = case.data(14, missing=0.1)
    estimators = [case.classifier(max_iter=10), case.mixture(3, max_iter=10, random_state=0)]
    results = []
    for choice in "native", "numpy":
        monkeypatch.setenv("TACIT_ENGINE", choice)
        fits = [clone(estimator).fit(X, hide(y, 0.5)) for estimator in estimators]
        results.append([(fit.trace_, fit.predict_proba(X), fit.score_samples(X)) for fit in fits])
    for native, numpy in zip(*results, strict=True):
        for a, b in zip(native, numpy, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux says what runs where")
def test_threads_leave_their_maker_where_it_may_run():
    """Threads once were put on other cores, and a slip pinned whoever asked for them."""
    native, a = kernels.native(), np.ones(1 << 17)
    if native is None:
        pytest.skip("NumPy has no threads of ours")
    before, out = os.sched_getaffinity(0), np.empty(1 << 17)
    for _ in range(1000):
        native.add(a, a, out, 4)  # more than there are cores: some end before it is their turn
    assert os.sched_getaffinity(0) == before


FORKS = """
import os, threading, time
import numpy as np
from tacit import _native

numbers = np.random.default_rng(0).normal(size=200_000)
expected, wrong = _native.scan(numbers, 1), []


def fork(look=lambda: None):
    child = os.fork()
    if not child:
        os._exit(_native.scan(numbers, 3) != expected)
    seen = look()
    wrong.append(os.waitpid(child, 0)[1])
    return seen


def ask(times):
    for _ in range(times):
        if _native.scan(numbers, 3) != expected:
            wrong.append(1)


callers = [threading.Thread(target=ask, args=(300,)) for _ in range(3)]
for caller in callers:
    caller.start()
for _ in range(20):
    fork()
for caller in callers:
    caller.join()
ask(1)


def left_after_a_fork():
    rows, sums = np.zeros((1_000_000, 20)), np.full(1_000_000, np.nan)
    busy = threading.Thread(target=_native.normalize, args=(rows, sums, True, 3))
    busy.start()
    time.sleep(0.01)
    left = fork(lambda: np.isnan(sums).mean())
    busy.join()
    return left


# A fork does not wait for helpers that are busy: much is left of what they do. On a busy machine
# it may come late by itself, but not every time.
waits = all(left_after_a_fork() < 0.2 for _ in range(30))
raise SystemExit(waits or any(wrong))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_threads_of_several_callers_and_of_forked_children():
    """Helpers serve whoever asks, and a child, which has none of its parent's, makes its own."""
    if kernels.native() is None:
        pytest.skip("NumPy has no threads of ours")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]
    assert subprocess.run(command, timeout=60).returncode == 0
