"""Native kernels against NumPy and SciPy, the oracles."""

import os
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tacit
from tacit import _native, kernels
from tacit.families import Categorical
from tacit.kernels import parallel
from tacit.models.naive_bayes import NaiveBayes
from tacit.numerics import expected_log, log, normalize, ratio


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(0, 60),
    columns=st.integers(1, 40),
    classes=st.integers(1, 60),
    density=st.sampled_from([0.0, 0.1, 1.0]),
    index=st.sampled_from([np.int32, np.int64]),
    value=st.sampled_from([np.float32, np.float64]),
)
def test_sparse_products(seed, rows, columns, classes, density, index, value):
    """Any shape, any number of classes (padded or not), any number of threads, the same bits."""
    rng = np.random.default_rng(seed)
    X = sparse.csr_array((rng.random((rows, columns)) < density) * rng.normal(size=(rows, columns)))
    X = X.astype(value)
    X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
    dense = rng.normal(size=(columns, classes))
    with kernels.kernel_threads(1):
        one = kernels.multiply(X, dense)
    np.testing.assert_allclose(one, X @ dense, rtol=1e-12, atol=1e-12)
    for threads in (2, 3, 7):
        with kernels.kernel_threads(threads):
            np.testing.assert_array_equal(kernels.multiply(X, dense), one)
    labels = sparse.csr_array((rng.random((rows, classes)) < 0.3) * rng.random((rows, classes)))
    expected = (labels.T @ X).toarray()
    counts, totals = kernels.tally(labels, X)
    np.testing.assert_allclose(counts, expected, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(totals, expected.sum(axis=1), rtol=1e-12, atol=1e-6)


def test_sums_by_label_of_many_tasks():
    """Classes of so many entries that several tasks share one, and rows of several classes."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((12_000, 1500), density=0.1, rng=rng, format="csr")
    labels = sparse.csr_array((rng.random((12_000, 3)) < 0.7) * rng.random((12_000, 3)))
    expected, found = (labels.T @ X).toarray(), []
    for threads in (1, 2, 5):
        with kernels.kernel_threads(threads):
            found.append(kernels.tally(labels, X))
    np.testing.assert_allclose(found[0][0], expected, rtol=1e-12)
    np.testing.assert_allclose(found[0][1], expected.sum(axis=1), rtol=1e-12)
    for other in found[1:]:
        for a, b in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("rows", "levels", "classes"), [(30_000, 5, 3), (70_001, 40, 6)])
def test_rows_of_categories_in_many_parts(rows, levels, classes, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, levels, (rows, 4)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = NaiveBayes(Categorical(1.0).bind(X))
    chunk, found = model.rows(X), []
    params = model.start(chunk, rng.dirichlet(np.ones(classes), rows))
    for threads in (1, 2, 5):
        with kernels.kernel_threads(threads):
            found.append(model.expect(params, chunk))
    for other in found[1:]:
        assert other.log_likelihood == found[0].log_likelihood
        np.testing.assert_array_equal(other.features.counts, found[0].features.counts)
    monkeypatch.setenv("TACIT_ENGINE", "numpy")
    expected = model.expect(params, chunk)
    assert found[0].log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
    counts = found[0].features.counts, expected.features.counts
    np.testing.assert_allclose(*counts, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (7, 2), (50, 5)])
def test_posteriors(shape, monkeypatch):
    joint = np.random.default_rng(0).normal(size=shape) * 50
    joint[::3, 0] = -np.inf
    joint[1::5] = -np.inf
    native = normalize(joint)
    for threads in (2, 5):
        with kernels.kernel_threads(threads):
            for a, b in zip(normalize(joint), native, strict=True):
                np.testing.assert_array_equal(a, b)
    monkeypatch.setenv("TACIT_ENGINE", "numpy")
    for a, b in zip(normalize(joint), native, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_what_is_not_finite_stays_where_it_is():
    """-inf in one line of a table touches the rows that use it, and no padding."""
    X = sparse.csr_array([[1.0, 0.0], [0.0, 1.0]])
    table = np.array([[0.0, 1.0, 2.0], [-np.inf, 0.0, 3.0]])
    np.testing.assert_array_equal(kernels.multiply(X, table), table)


def test_kernels_check_what_they_are_given():
    codes, table = np.array([[5]], dtype=np.int32), np.zeros((3, 2))
    with pytest.raises(ValueError, match="outside its table"):
        _native.gather(codes, table, np.zeros((1, 2)))
    with pytest.raises(ValueError, match="outside its table"):
        _native.accumulate(codes, np.zeros((1, 2)), np.zeros((3, 2)))
    X = sparse.csr_array([[1.0, 0.0], [0.0, 1.0]])
    given = X.indptr, X.indices, X.data, np.zeros((2, 3)), np.zeros(2)
    with pytest.raises(ValueError, match="shapes differ"):
        _native.score(*given, np.zeros((2, 2)), None, 0, 0, False, 1)
    out, starts = (np.zeros((2, 2)), np.zeros(2)), np.array([0, 1, 2])
    for label in (-1, 2, 10**8):
        with pytest.raises(ValueError, match="no such class"):
            _native.tally(*given[:3], starts, np.array([0, label]), np.ones(2), *out, 1)
    for wrong in ([1, 1, 2], [0, 2, 1], [0, 1, 3]):
        with pytest.raises(ValueError, match="shapes differ"):
            _native.tally(*given[:3], np.array(wrong), np.array([0, 1]), np.ones(2), *out, 1)
    # Entries behind the last row are nobody's.
    _native.tally(*given[:3], starts, np.array([1, 0, 7]), np.ones(3), *out, 1)
    np.testing.assert_array_equal(out[0], [[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize("make", [tacit.MultinomialNB, tacit.BernoulliNB])
def test_rows_that_are_not_plain_are_looked_at_twice(make):
    """Whatever is unusual about a matrix, predictions are those for the same matrix in order."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(
        (rng.random((300, 40)) < 0.2) * rng.integers(1, 4, (300, 40)).astype(float)
    )
    nb = make().fit(X, np.arange(300) % 3)
    expected = [nb.predict_log_proba(X), nb.predict_proba(X), nb.predict(X), nb.score_samples(X)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_ENGINE", "numpy")
        np.testing.assert_allclose(nb.predict_log_proba(X), expected[0], rtol=1e-11, atol=1e-11)
    backwards = X.copy()
    for i in range(300):
        part = slice(X.indptr[i], X.indptr[i + 1])
        backwards.indices[part], backwards.data[part] = X.indices[part][::-1], X.data[part][::-1]
    backwards.has_sorted_indices = False
    zeros = sparse.csr_array(X.toarray() + 1.0)
    zeros.data -= 1.0  # stores all its zeros
    starts, half = X.indptr * 2, X.data.repeat(2) / 2
    twice = sparse.csr_array((half, X.indices.repeat(2), starts), X.shape)
    for same in (
        backwards,
        zeros,
        twice,
        X.astype(np.float32),
        X.astype(np.int64),
        X.astype(np.int8),
    ):
        found = [nb.predict_log_proba(same), nb.predict_proba(same), nb.predict(same)]
        for a, b in zip(found, expected[:3], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
    for broken, message in [(np.nan, "NaN or infinity"), (np.inf, "NaN or infinity")]:
        bad = X.copy()
        bad.data[17] = broken
        with pytest.raises(ValueError, match=message):
            nb.predict(bad)
    bad = X.copy()
    bad.indices[3] = 40
    with pytest.raises(ValueError, match="indices"):
        nb.predict(bad)
    bad = X.copy()
    bad.data[5] = -1.0
    if make is tacit.MultinomialNB:
        with pytest.raises(ValueError, match="Negative"):
            nb.predict_proba(bad)
    else:
        assert nb.predict_proba(bad).shape == (300, 3)


def test_indices_out_of_range_do_not_reach_the_kernels():
    X = sparse.csr_array([[1.0, 0.0], [0.0, 1.0]])
    X.indices[0] = 7
    with pytest.raises(ValueError, match="indices"):
        tacit.MultinomialNB().fit(X, [0, 1])


@pytest.mark.parametrize("cut", ["data", "indices", "indptr"])
@pytest.mark.parametrize("make", [tacit.MultinomialNB, tacit.BernoulliNB])
def test_arrays_of_other_lengths_do_not_reach_the_kernels(cut, make):
    X = sparse.random_array((200, 50), density=0.2, format="csr", random_state=0)
    X.data = np.ceil(5 * X.data)
    y = np.arange(200) % 3
    fitted = make().fit(X, y)
    setattr(X, cut, getattr(X, cut)[:-5])
    for work in (
        lambda: make().fit(X, y),
        lambda: make().fit(X, np.where(np.arange(200) < 9, y, np.nan)),
        lambda: fitted.predict(X),
        lambda: fitted.partial_fit(X, y),
    ):
        with pytest.raises(ValueError, match=r"do not fit together|index|indices|data"):
            work()


def test_cores_are_counted_only_where_there_is_much_to_do(monkeypatch):
    asked = []
    monkeypatch.setattr(parallel, "workers", lambda n_jobs: asked.append(n_jobs) or 2)
    X, y = sparse.csr_array(np.eye(4)), [0, 1, 0, 1]
    tacit.MultinomialNB().fit(X, y).predict(X)
    assert asked == []
    with kernels.kernel_threads(None):
        assert kernels.threads(10**9) == kernels.threads(10**9) == 2
    assert asked == [None]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away here")
def test_cores_are_counted_anew_when_some_are_taken_away(monkeypatch):
    before = os.sched_getaffinity(0)
    kernels.workers(None)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert kernels.workers(None) == kernels.workers(-1) == 1
    finally:
        os.sched_setaffinity(0, before)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # joblib's
    assert kernels.workers(None) == 1
    assert kernels.workers(3) == 3


def test_no_threads_are_an_error_even_where_none_is_needed():
    with pytest.raises(ValueError, match="n_jobs"):
        tacit.MultinomialNB(n_jobs=0).fit([[1], [2]], [0, 1])


@pytest.mark.parametrize("classes", [1, 3, 4, 8, 20, 23])
@pytest.mark.parametrize("lines", [0, 1, 31, 33, 513])
def test_logarithms_of_counts(lines, classes):
    """However the counts lie in memory, smoothed or not, by one number or one a column."""
    kernels, rng = _native, np.random.default_rng(0)
    ones, zeros = rng.poisson(0.5, (2, lines, classes)).astype(float)
    seen = ones.max(axis=0, initial=0.0) + rng.integers(0, 3, classes)
    twice = np.repeat(np.repeat(ones, 2, axis=0), 2, axis=1)
    tables = [ones, np.asfortranarray(ones), twice[::2, ::2], np.asfortranarray(ones[::-1])[::-1]]
    alphas = [np.ones(1), np.zeros(1), rng.integers(0, 2, max(lines, 1)) * 0.5]
    for counts, alpha, threads in product(tables, alphas, (1, 3)):
        by_line = alpha[:, None] if lines else np.zeros((0, 1))
        p, rest = np.empty((2, lines, classes))
        kernels.by_column(counts, p, threads)
        np.testing.assert_array_equal(p, ones)
        totals = log((ones + by_line).sum(axis=0))
        found = kernels.log_probabilities(counts, alpha, totals, p, threads)
        shares = ratio(ones + by_line, np.exp(totals), 1.0 / max(lines, 1))
        np.testing.assert_allclose(p, log(shares), rtol=1e-12, atol=1e-12)
        smoothing = np.broadcast_to(by_line, p.shape)
        expected = expected_log(smoothing, p), expected_log(ones, p)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)
        for others in None, zeros:
            left = seen - ones if others is None else others
            found = kernels.log_odds(counts, others, seen, alpha, p, rest, threads)
            both = ones + left + 2 * by_line
            np.testing.assert_allclose(
                p, log(ratio(ones + by_line, both, 0.5)), rtol=1e-12, atol=1e-12
            )
            np.testing.assert_allclose(
                rest, log(ratio(left + by_line, both, 0.5)), rtol=1e-12, atol=1e-12
            )
            expected = (
                expected_log(smoothing, p) + expected_log(smoothing, rest),
                expected_log(ones, p) + expected_log(left, rest),
            )
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_expected_logs_do_not_depend_on_the_threads_of_blas():
    """Where a class is impossible, the products are added as NumPy adds them."""
    rng = np.random.default_rng(0)
    counts, log_p = rng.poisson(1.0, (2, 100_000)).astype(float), -rng.random((2, 100_000))
    log_p[counts == 0] = -np.inf
    products = np.where(counts > 0, counts * np.where(counts > 0, log_p, 0.0), 0.0)
    assert expected_log(counts, log_p) == products.sum()
    assert expected_log(np.zeros(()), log_p) == 0.0
