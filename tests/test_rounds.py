"""The E-step of the kernels: against NumPy, in chunks and threads, and what float32 does to it."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tacit
from tacit import em, families, kernels
from tacit.data import dense
from tacit.data import sparse as sparse_data
from tacit.data.labels import Labels, encode
from tacit.data.rows import Joined, Rows
from tacit.families import (
    Bernoulli,
    Categorical,
    Gaussian,
    Mixed,
    Multinomial,
    bernoulli,
    categorical,
)
from tacit.families.merged import merge_words
from tacit.families.mixed import Part
from tacit.kernels import parallel
from tacit.models.naive_bayes import ClassCounts, NaiveBayes
from tacit.models.split import count_labelled, select

pytestmark = pytest.mark.skipif(kernels.native() is None, reason="there are no kernels to compare")

EPS = float(np.finfo(np.float32).eps)


@contextmanager
def oracle():
    os.environ["TACIT_ENGINE"] = "numpy"
    try:
        yield
    finally:
        del os.environ["TACIT_ENGINE"]


@contextmanager
def single(wanted):
    """Score rows that are encoded here in float32, or do not, whatever the size of the data."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (dense, sparse_data, bernoulli, categorical):
            patch.setattr(module, "SINGLE_FROM", 0 if wanted else 1 << 60)
        yield


def arrays(value):
    """Return the arrays in a record of statistics."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple):
        return [array for part in value for array in arrays(part)]
    if not dataclasses.is_dataclass(value):
        return []
    parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return [array for part in parts if part is not None for array in arrays(part)]


def score_error(X, log_p, constants):
    """Bound the rounding of float32 scores of rows: that of each addition, of what is added up."""
    finite = np.isfinite(log_p)
    most = np.where(finite, log_p, -np.inf).max(axis=0)
    spread = np.where(finite.any(axis=0), most - np.where(finite, log_p, np.inf).min(axis=0), 0.0)
    largest = abs(X) @ spread + np.ptp(constants[np.isfinite(constants)])
    return EPS * (np.diff(X.indptr) + 8) * (1.0 + largest)


def compare(
    found: ClassCounts, expected: ClassCounts, scale: float, error: float | None = None
) -> None:
    """Compare statistics of rows whose entries sum to `scale`.

    In float32 the posteriors, of weight `scale` in all, are off by at most `error` in sum; the
    log-likelihood by the square of what the scores are.
    """
    for a, b in zip(arrays(found.features), arrays(expected.features), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13 * (1 + scale) + (error or 0.0))
    np.testing.assert_allclose(
        found.classes, expected.classes, rtol=1e-12, atol=1e-13 * (1 + scale) + (error or 0.0)
    )
    if not np.isfinite(expected.log_likelihood):
        assert found.log_likelihood == expected.log_likelihood
        return
    gap = abs(found.log_likelihood - expected.log_likelihood)
    second = 0.0 if error is None else error**2
    assert gap <= 1e-12 * (1 + abs(expected.log_likelihood) + scale) + second


def in_threads(model, start, rows):
    """Return what one round expects, the same for any number of threads."""
    found = [model.expect(start, rows)]
    for threads in (2, 5):
        with kernels.kernel_threads(threads), pytest.MonkeyPatch.context() as patch:
            patch.setattr(parallel, "LEAST_WORK", 1)
            found.append(model.expect(start, rows))
    for other in found[1:]:
        assert other.log_likelihood == found[0].log_likelihood
        for a, b in zip(arrays(other.features), arrays(found[0].features), strict=True):
            np.testing.assert_array_equal(a, b)
    return found[0]


def known(rng, n, K, evidence, weight):
    """Return log evidence and weights, or None."""
    allowed = rng.random((n, K)) < 0.7
    allowed[np.arange(n), rng.integers(0, K, n)] = True
    soft = np.where(allowed, np.log(rng.uniform(0.1, 1.0, (n, K))), -np.inf)
    return soft if evidence else None, rng.uniform(0.1, 3.0, n) if weight else None


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 300),
    d=st.integers(1, 50),
    K=st.integers(1, 40),
    family=st.sampled_from([Multinomial, Bernoulli]),
    alpha=st.sampled_from([0.0, 0.5]),
    dtype=st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.int8]),
    largest=st.sampled_from([1, 3, 1000]),
    index=st.sampled_from([np.int32, np.int64]),
    rounded=st.booleans(),
    evidence=st.booleans(),
    weight=st.booleans(),
    hard=st.booleans(),
    subset=st.booleans(),
)
def test_sparse_rounds(
    seed, n, d, K, family, alpha, dtype, largest, index, rounded, evidence, weight, hard, subset
):
    rng = np.random.default_rng(seed)
    largest = min(largest, 100) if dtype == np.int8 else largest
    X = sparse.csr_array((rng.random((n, d)) < 0.2) * rng.integers(1, largest + 1, (n, d)))
    X = X.astype(dtype)
    X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
    model = NaiveBayes(family(alpha).bind(X), hard=hard and not rounded)
    with single(rounded):
        rows = Rows(model.family.encode(X), *known(rng, n, K, evidence, weight))
    start = model.start(rows, rng.dirichlet(np.ones(K), n))
    if subset:
        rows = rows.take(np.flatnonzero(rng.random(n) < 0.7))
    found = in_threads(model, start, rows)
    with oracle():
        expected = model.expect(start, rows)
    error = None
    if rounded and len(rows):
        own, params = rows.features.values.astype(np.float64), start.features
        log_p, constants = params.log_p, start.class_log_prior
        if family is Bernoulli:
            with np.errstate(invalid="ignore"):
                log_p = params.log_p - params.log_not
            constants = constants + np.where(np.isfinite(params.log_not), params.log_not, 0).sum(1)
        off = score_error(own, log_p, constants)
        if rows.evidence is not None:
            off += EPS * np.ptp(np.where(np.isfinite(rows.evidence), rows.evidence, 0.0), axis=1)
        counts = 1.0 + own.max(axis=1).toarray().ravel() * own.shape[1]
        weights = 1.0 if rows.weight is None else rows.weight
        error = float(((off + EPS) * counts * weights).sum())
    compare(found, expected, float(n + X.sum()), error)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 300),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    K=st.integers(1, 20),
    alpha=st.sampled_from([0.0, 0.5]),
    missing=st.sampled_from([0.0, 0.3]),
    rounded=st.booleans(),
    evidence=st.booleans(),
    weight=st.booleans(),
    hard=st.booleans(),
)
def test_rounds_of_categories(seed, n, sizes, K, alpha, missing, rounded, evidence, weight, hard):
    rng = np.random.default_rng(seed)
    X = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    family = Categorical(alpha, min_categories=np.array(sizes)).bind(X)
    model = NaiveBayes(family, hard=hard and not rounded)
    with single(rounded):
        rows = Rows(family.encode(X), *known(rng, n, K, evidence, weight))
    start = model.start(rows, rng.dirichlet(np.ones(K), n))
    found = in_threads(model, start, rows)
    with oracle():
        expected = model.expect(start, rows)
    finite = np.where(np.isfinite(start.features.log_p), start.features.log_p, 0.0)
    off = EPS * (len(sizes) + 8) * (1.0 + np.abs(finite).max() * (len(sizes) + 1))
    compare(found, expected, float(n), off * 3.0 * n if rounded else None)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 300),
    d=st.integers(1, 30),
    K=st.integers(1, 20),
    missing=st.sampled_from([0.0, 0.3]),
    evidence=st.booleans(),
    weight=st.booleans(),
    hard=st.booleans(),
)
def test_rounds_of_numbers(seed, n, d, K, missing, evidence, weight, hard):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 10, d) + rng.normal(size=d) * 100
    X[rng.random(X.shape) < missing] = np.nan
    X[0] = 1.0  # each feature is observed once
    family = Gaussian(var_smoothing=1e-3).bind(X)
    model = NaiveBayes(family, hard=hard)
    rows = Rows(family.encode(X), *known(rng, n, K, evidence, weight))
    start = model.start(rows, rng.dirichlet(np.ones(K), n))
    found = in_threads(model, start, rows)
    scores = family.score(start.features, rows.features)
    with oracle():
        expected = model.expect(start, rows)
        np.testing.assert_allclose(family.score(start.features, rows.features), scores, rtol=1e-11)
    compare(found, expected, 1e4 * n)


def text(n=3000, d=400, K=4, length=30, seed=0):
    """Return counts of words from K classes, and the classes of a few rows."""
    rng = np.random.default_rng(seed)
    topics, y = rng.dirichlet(np.full(d, 0.1), K), rng.integers(0, K, n)
    X = sparse.csr_array(np.stack([rng.multinomial(length, topics[k]) for k in y]))
    return X, np.where(np.arange(n) % 50 == 0, y, np.nan)


@pytest.mark.parametrize("make", [tacit.MultinomialNB, tacit.BernoulliNB])
@pytest.mark.parametrize("K", [2, 4])
def test_whole_fits_in_float32(make, K):
    """The same optimum, a rising objective, and the same bits for any number of threads."""
    X, y = text(K=K)
    with single(False):
        expected = make(tol=1e-10).fit(X, y)
    with single(True):
        found = [make(tol=1e-10, n_jobs=jobs).fit(X, y) for jobs in (1, 2, 3)]
    for nb in found:
        np.testing.assert_array_equal(nb.trace_, found[0].trace_)
        np.testing.assert_array_equal(nb.feature_log_prob_, found[0].feature_log_prob_)
    assert found[0].objective_ == pytest.approx(expected.objective_, rel=1e-9)
    np.testing.assert_allclose(found[0].feature_log_prob_, expected.feature_log_prob_, atol=1e-5)
    assert (np.diff(found[0].trace_) >= -1e-10 * abs(found[0].objective_)).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    K=st.sampled_from([1, 2, 3, 5, 20, 37]),
    family=st.sampled_from([Bernoulli, Multinomial]),
    alpha=st.sampled_from([0.0, 1e-3, 1.0]),
    rounded=st.booleans(),
    weight=st.booleans(),
)
def test_rounds_after_rounds_with_labelled_rows(seed, K, family, alpha, rounded, weight):
    """Rounds of the kernels, with statistics that are fixed, are those of NumPy."""
    rng = np.random.default_rng(seed)
    n, d = 120, 40
    X = sparse.csr_array((rng.random((n, d)) < 0.2) * rng.integers(1, 4, (n, d)).astype(float))
    model = NaiveBayes(family(alpha).bind(X))
    with single(rounded):
        rows = Rows(model.family.encode(X), None, rng.uniform(0.5, 2.0, n) if weight else None)
    labels = encode(np.r_[np.arange(30) % K, np.full(n - 30, np.nan)], list(range(K)))
    free, weights = rows.take(np.arange(30, n)), rng.dirichlet(np.ones(K), n)
    fits = []
    for prepared in (True, False):  # by the kernels, and by NumPy
        own = model
        if prepared:
            own = dataclasses.replace(model, family=model.family.for_em(rows.features))
        with nullcontext() if prepared else oracle():
            fixed = count_labelled(own, rows, labels.codes >= 0, labels)
            start = own.start(rows, weights)
            fits.append(em.fit(own, [free], start, fixed=fixed, max_iter=5, tol=0.0))
    found, expected = fits
    both = min(len(found.trace), len(expected.trace))  # it may be over after a round or two
    rtol = 1e-6 if rounded else 1e-11  # a posterior that is off by 1e-7 goes another way from there
    np.testing.assert_allclose(found.trace[:both], expected.trace[:both], rtol=rtol)
    if not rounded:
        same = dataclasses.replace(found.statistics, log_likelihood=0.0)
        other = dataclasses.replace(expected.statistics, log_likelihood=0.0)
        compare(same, other, 10 * float(n + X.sum()))


@pytest.mark.parametrize("alpha", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("K", [2, 7, 20])
def test_the_objective_of_rare_words_is_exact(alpha, K):
    """Words that occur once or twice, many classes, little smoothing: against math.fsum."""
    rng = np.random.default_rng(K)
    n, d, length = 300, 20_000, 90
    places = np.repeat(np.arange(n), length), rng.integers(0, d, n * length)
    X = sparse.csr_array(sparse.coo_array((np.ones(n * length), places), (n, d)))
    for make in (tacit.MultinomialMixture, tacit.BernoulliMixture):
        with single(True):
            model = make(K, alpha=alpha, random_state=0, n_init=1, max_iter=30, tol=1e-8).fit(X)
        log_p = model.feature_log_prob_
        with np.errstate(divide="ignore"):  # with much smoothing components die out
            log_prior = np.log(model.weights_)
        if make is tacit.MultinomialMixture:
            joint, density = X @ log_p.T + log_prior, log_p
        else:
            log_not = np.log1p(-np.exp(log_p))
            joint = (X > 0) @ (log_p - log_not).T + log_not.sum(axis=1) + log_prior
            density = np.stack([log_p, log_not])
        top = joint.max(axis=1)
        rows = top + np.log(np.exp(joint - top[:, None]).sum(axis=1))
        expected = math.fsum(rows) + alpha * math.fsum(density.ravel())
        assert model.objective_ == pytest.approx(expected, rel=1e-11)
        assert model.log_likelihood_ == pytest.approx(math.fsum(rows), rel=1e-11)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("alpha", [1e-3, 1e-2])
def test_rare_words_are_no_false_alarm(seed, alpha):
    rng = np.random.default_rng(seed)
    places = np.repeat(np.arange(250), 270), rng.integers(0, 70_000, 250 * 270)
    X = sparse.csr_array(sparse.coo_array((np.ones(250 * 270), places), (250, 70_000)))
    with single(True):
        model = tacit.MultinomialMixture(20, alpha=alpha, random_state=seed, n_init=1).fit(X)
    assert (np.diff(model.trace_) >= -1e-12 * abs(model.objective_)).all()


def chunked_case(name, rng):
    """Return a model, rows with evidence, weights and missing cells, and a start."""
    n, K = 400, 3
    words = sparse.csr_array((rng.random((n, 30)) < 0.2) * rng.integers(1, 4, (n, 30)) * 1.0)
    numbers, kinds = rng.normal(size=(n, 3)), rng.integers(0, 4, (n, 5)).astype(float)
    gaps = [np.where(rng.random(own.shape) < 0.1, np.nan, own) for own in (numbers, kinds)]
    X, family = {
        "multinomial": (words, Multinomial(0.5)),
        "dense multinomial": (words.toarray(), Multinomial(0.5)),
        "bernoulli": (words, Bernoulli(0.5)),
        "dense bernoulli": (
            np.where(kinds > 1, 1.0, np.where(kinds == 0, np.nan, 0.0)),
            Bernoulli(0.5),
        ),
        "categorical": (gaps[1], Categorical(0.5)),
        "gaussian": (gaps[0], Gaussian(1e-3)),
        "tied": (gaps[0], families.Discriminant(1e-3)),
        "full": (gaps[0], families.Discriminant(1e-3, tied=False)),
        "mixed": (
            Joined((words, gaps[1], gaps[0])),
            Mixed(
                (
                    Part("words", Multinomial(0.5), np.arange(30)),
                    Part("kinds", Categorical(0.5), np.arange(5)),
                    Part("numbers", Gaussian(1e-3), np.arange(3)),
                )
            ),
        ),
    }[name]
    model = NaiveBayes(family.bind(X))
    rows = Rows(model.family.encode(X), *known(rng, n, K, True, True))
    model = dataclasses.replace(model, family=model.family.for_em(rows.features))
    return model, rows, model.start(rows, rng.dirichlet(np.ones(K), n))


CHUNKED = [
    *("multinomial", "dense multinomial", "bernoulli", "dense bernoulli", "categorical"),
    *("gaussian", "tied", "full", "mixed"),
]


@pytest.mark.parametrize("name", CHUNKED)
@pytest.mark.parametrize("rounded", [False, True])
def test_rows_in_any_number_of_chunks(name, rounded):
    """One chunk, two or seven: the same fit, with labels, weights and missing cells."""
    rng = np.random.default_rng(3)
    with single(rounded):
        model, rows, start = chunked_case(name, rng)
    codes = np.where(np.arange(len(rows)) < 60, rng.integers(0, 3, len(rows)), -1)
    labels = Labels(np.arange(3), codes)
    labelled = (codes >= 0) & model.family.complete(rows.features)
    fixed = count_labelled(model, rows, labelled, labels)
    free = rows.take(np.flatnonzero(~labelled))
    fits = []
    for count in (1, 2, 7):
        chunks = list(free.chunks(-(-len(free) // count)))
        assert len(chunks) == count
        fits.append(em.fit(model, chunks, start, fixed=fixed, max_iter=8, tol=0.0, n_jobs=2))
    for other in fits[1:]:
        np.testing.assert_allclose(other.trace, fits[0].trace, rtol=1e-12)
        for a, b in zip(
            arrays(other.statistics.features), arrays(fits[0].statistics.features), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("name", CHUNKED)
def test_the_e_step_is_a_function(name):
    """The same answer whenever it is called, and nothing that it is given changes."""
    rng = np.random.default_rng(4)
    model, rows, start = chunked_case(name, rng)
    other = model.start(rows, rng.dirichlet(np.ones(3), len(rows)))
    given = [*arrays(rows), *arrays(start)]
    before = [a.copy() for a in given]
    first = model.expect(start, rows)
    model.expect(other, rows)
    again = model.expect(start, rows.take(np.arange(len(rows))))
    third = model.expect(start, rows)
    for same in (again, third):
        assert same.log_likelihood == first.log_likelihood
        for a, b in zip(arrays(same.features), arrays(first.features), strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(before, given, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("K", [2, 5, 12])
def test_a_run_is_taken_up_after_any_round_with_the_same_bits(K):
    X, _ = text(n=500, K=K)
    model = NaiveBayes(Multinomial(1.0).bind(X))
    saved = []
    with single(True):
        rows = model.rows(X)
    start = model.start(rows, np.random.default_rng(0).dirichlet(np.ones(K), 500))
    whole = em.fit(model, [rows], start, max_iter=8, tol=0.0, save=saved.append)
    assert len(saved) > 2  # it may stand still before the end
    for progress in saved[::2]:
        found = em.fit(model, [rows], progress=progress, max_iter=8, tol=0.0)
        assert found.trace == whole.trace
        words = found.statistics.features.words
        np.testing.assert_array_equal(words, whole.statistics.features.words)


def test_equal_rows_are_merged_without_a_difference():
    rng = np.random.default_rng(0)
    X = (rng.random((2000, 6)) < rng.random((2, 6))[rng.integers(0, 2, 2000)]).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    weight = rng.integers(1, 4, 2000).astype(float)
    start = rng.dirichlet(np.ones(2), 2000)
    for make in tacit.BernoulliMixture, tacit.CategoricalMixture:
        fits = [make(2, init=start, tol=1e-9, max_iter=5000).fit(X, sample_weight=weight)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "distinct", lambda rows: None)
            fits.append(make(2, init=start, tol=1e-9, max_iter=5000).fit(X, sample_weight=weight))
        assert fits[0].n_iter_ == fits[1].n_iter_
        assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-12)
        np.testing.assert_allclose(
            fits[0].label_distributions_, fits[1].label_distributions_, atol=1e-9
        )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"alpha": 0.0},
        {"alpha": "background"},
        {"assignment": "hard"},
        {"tempering": 0.5},
        {"components_per_class": 2},
    ],
)
@pytest.mark.parametrize("rounded", [False, True])
def test_equal_words_are_merged_without_a_difference(settings, rounded, tmp_path):
    """Half of the words occur once: counts of one row that are equal have equal words."""
    rng = np.random.default_rng(0)
    often = rng.poisson(rng.dirichlet(np.ones(30), 3)[rng.integers(0, 3, 90)] * 20)
    once = np.zeros((90, 60))
    once[rng.integers(0, 12, 55), np.arange(55)] = rng.integers(1, 3, 55)  # and five empty columns
    X = sparse.csr_array(np.hstack([often, once]))[:, rng.permutation(90)]
    y, weight = np.full(90, np.nan), rng.integers(0, 3, 90).astype(float)
    y[rng.permutation(90)[:9]] = np.repeat(np.arange(3), 3)

    def fit(least, **more):
        with single(rounded), pytest.MonkeyPatch.context() as patch:
            patch.setattr(families.merged, "LEAST", least)
            nb = tacit.MultinomialNB(**settings, random_state=0, **more)
            return nb.fit(X, y, sample_weight=weight)

    plain, merged = fit(1 << 60), fit(0)
    assert merged.n_iter_ == plain.n_iter_
    np.testing.assert_allclose(merged.trace_, plain.trace_, rtol=1e-9 if rounded else 1e-12)
    assert merged.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-9)
    for name in "label_distributions_", "feature_count_", "feature_log_prob_":
        a, b = getattr(merged, name), getattr(plain, name)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-5 if rounded else 1e-12)
        np.testing.assert_array_equal(getattr(fit(0, n_jobs=2), name), a)
    keep = {"checkpoint": tmp_path / "state", "checkpoint_every": 0.0}
    with pytest.raises(ZeroDivisionError):
        fit(0, **keep, callback=lambda number, *_: 1 / (min(merged.n_iter_, 6) - number))
    np.testing.assert_array_equal(fit(0, **keep, resume=True).trace_, merged.trace_)


def test_words_are_merged_only_if_they_stay_equal():
    X = sparse.csr_array(np.array([[1.0, 1, 2, 0, 0, 1], [0, 0, 0, 0, 0, 1]]))
    native = kernels.native()
    which, kinds = native.alike(*kernels.csr_arrays(X), 6)
    assert which.tolist() == [0, 0, 1, 2, 2, 3]
    assert kinds == 4
    assert native.alike(*kernels.csr_arrays(X[:, [0, 1, 2, 3, 5]]), 5) is None  # too few are equal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families.merged, "LEAST", 0)
        for alpha, found in ([1, 1, 3, 2, 2, 1], True), ([1, 2, 3, 2, 2, 1], False):
            family = Multinomial(alpha).bind(X)
            assert (merge_words(family, family.encode(X)) is not None) == found


MEMORY = """
import gc, sys
import numpy as np
from scipy import sparse
import tacit
rng = np.random.default_rng(0)
n, d, each, K = 200_000, 20_000, 60, 4
indices = rng.integers(0, d, n * each, dtype=np.int32)
X = sparse.csr_array(
    (rng.integers(1, 4, n * each).astype(np.float64), indices, np.arange(0, n * each + 1, each)),
    (n, d),
)
X.sum_duplicates()
if sys.argv[1] == "once":  # three words of each row are said nowhere else
    rare, ends = np.arange(3 * n, dtype=np.int32), np.arange(0, 3 * n + 1, 3)
    X = sparse.csr_array(sparse.hstack([X, sparse.csr_array((np.ones(3 * n), rare, ends))]))
    d = X.shape[1]
if sys.argv[1] == "weights":
    X.data *= 0.1
y = np.where(np.arange(n) % 1000 == 0, rng.integers(0, K, n), np.nan)
small = np.arange(2000)
tacit.MultinomialNB(max_iter=1, tol=1e9).fit(X[small], y[small])
del indices
gc.collect()
def status(name):  # in bytes
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew, without what made X
before = status("VmRSS")
tacit.MultinomialNB(max_iter=3, tol=1e9).fit(X, y)
after = status("VmHWM")
size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print(size, after - before, n * K * 4, 8 * d * K * 8)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("values", ["counts", "weights", "once"])
def test_memory_of_a_fit(values):
    """At most 1.2 times the matrix beside it, and the parameters and posteriors."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, values],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    size, more, posteriors, parameters = map(int, done.stdout.split())
    assert more > posteriors  # the peak was seen
    assert more <= 1.2 * size + 4 * posteriors + parameters, done.stdout


def test_a_smoothing_for_each_column():
    X, y = text(n=200, d=4, K=4)
    for make in (tacit.BernoulliNB, tacit.MultinomialNB):
        alpha = np.array([0.1, 0.5, 1.0, 2.0])
        found = make(alpha=alpha).fit(X, y)
        with oracle():
            expected = make(alpha=alpha).fit(X, y)
        np.testing.assert_allclose(found.trace_, expected.trace_, rtol=1e-11)
        found.partial_fit(X, y)


def test_a_column_that_is_always_there():
    """Counts of classes and of words agree, so that nothing is left of what is never absent."""
    X, y = text(n=2000, d=60, K=2)
    X = sparse.hstack([sparse.csr_array(np.ones((2000, 1))), X]).tocsr()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 2000)
    for weights in (None, weight):
        with single(True):
            found = tacit.BernoulliNB(alpha=1e-5).fit(X, y, weights)
        assert (found.class_count_ - found.feature_count_[:, 0] < 1e-9).all()


def test_no_count_becomes_negative():
    X, y = text(length=100)
    for alpha in (1e-10, 1e-3):
        with single(True):
            found = tacit.MultinomialNB(alpha=alpha, tol=0.0, max_iter=20).fit(X, y)
        assert (found.feature_count_ >= 0).all()


def test_rows_that_say_little_do_not_trip_the_check():
    """Posteriors are float32; the log-likelihood is not off by more than rounding of float64."""
    K, n, rng = 20, 220_000, np.random.default_rng(0)
    D = np.zeros((n, 6))
    D[:, 0], D[:, 5] = 1, rng.random(n) < 0.5
    c, hit = np.arange(n) % K, rng.random(n) < 0.001
    D[np.flatnonzero(hit), 1 + c[hit] % 4] = 1
    y = np.full(n, np.nan)
    y[:2000] = c[:2000]
    X = sparse.csr_array(D)
    found = tacit.BernoulliNB().fit(X, y)
    with single(False):
        expected = tacit.BernoulliNB().fit(X, y)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)


def test_rows_can_be_shared_by_threads():
    X, _ = text()
    model = NaiveBayes(Multinomial(1.0).bind(X))
    weights = np.random.default_rng(0).dirichlet(np.ones(4), X.shape[0])
    expected = model.start(model.rows(X), weights).features.counts
    for _ in range(5):
        rows = model.rows(X)
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _, rows=rows: model.start(rows, weights), range(4)):
                np.testing.assert_array_equal(found.features.counts, expected)


def test_numbers_far_apart_and_missing():
    G = np.random.default_rng(0).normal(size=(50, 2))
    G[:, 0] = 1e150
    G[::3, 0] = np.nan
    y = np.where(np.arange(50) < 20, np.arange(50) % 2, np.nan)
    found = tacit.GaussianNB().fit(G, y)
    with oracle():
        expected = tacit.GaussianNB().fit(G, y)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)


def test_indices_of_two_types():
    X, y = text(n=100)
    X.indptr = X.indptr.astype(np.int64)
    assert tacit.MultinomialNB().fit(X, y).predict(X).shape == (100,)
    X.indptr[-1] += 5
    with pytest.raises(ValueError, match="indptr"):
        tacit.MultinomialNB().fit(text(n=100)[0], y).predict(X)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_words_beside_other_columns(rounded, hard, weighted):
    """The kernel that takes the other columns as evidence finds what the oracle finds."""
    X, y = text(length=8)
    n, rng = X.shape[0], np.random.default_rng(0)
    beside = rng.integers(0, 3, (n, 2)).astype(float)
    beside[rng.random((n, 2)) < 0.1] = np.nan
    numbers = rng.normal(size=(n, 1)) + np.where(np.isnan(y), 0, y)[:, None]
    blocks = Joined((X, beside, numbers))
    families = Multinomial(0.1), Categorical(1.0), Gaussian(0.01)
    parts = tuple(
        Part(name, family, np.arange(block.shape[1]))
        for name, family, block in zip("abc", families, blocks.blocks, strict=True)
    )
    model = NaiveBayes(Mixed(parts).bind(blocks), hard=hard)
    weight = rng.uniform(0.5, 2.0, n) if weighted else None
    with single(rounded):
        rows = Rows(model.family.encode(blocks), None, weight)
    start = np.full((n, 4), 0.1)
    start[np.flatnonzero(~np.isnan(y)), y[~np.isnan(y)].astype(int)] = 3.0
    first = model.start(rows, start)
    labels = Labels(np.arange(4), np.where(np.arange(n) < 100, rng.integers(0, 4, n), -1))
    known = labels.codes >= 0
    fixed = count_labelled(model, rows, known & model.family.complete(rows.features), labels)
    free = select(rows, ~known, labels)
    with oracle():
        expected = em.fit(model, [free], first, fixed=fixed, max_iter=5, tol=0.0)
    found = em.fit(model, [free], first, fixed=fixed, max_iter=5, tol=0.0)
    assert model.family.expect(first.features, free, first.class_log_prior, hard) is not None
    tolerance = 1e-6 if rounded else 1e-10
    rounds = min(len(found.trace), len(expected.trace))  # hard ones soon stand still
    np.testing.assert_allclose(found.trace[:rounds], expected.trace[:rounds], rtol=tolerance)
    for ours, theirs in zip(found.params.features, expected.params.features, strict=True):
        name = "mean" if hasattr(theirs, "mean") else "log_p"
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-5 if rounded else 1e-8
        )
