"""The fused rounds of the native kernels against the NumPy engine, the oracle."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tacit
from tacit import em, families, kernels
from tacit.data import categorical as codes
from tacit.data import memory
from tacit.data.labels import Labels, encode
from tacit.data.rows import Joined, Rows
from tacit.families import Bernoulli, Categorical, Gaussian, Mixed, Multinomial
from tacit.families.mixed import Part
from tacit.kernels import parallel
from tacit.models.naive_bayes import ClassCounts, NaiveBayes
from tacit.models.split import count_known, select

pytestmark = pytest.mark.skipif(kernels.native() is None, reason="there are no kernels to compare")


@contextmanager
def oracle():
    os.environ["TACIT_ENGINE"] = "numpy"
    try:
        yield
    finally:
        del os.environ["TACIT_ENGINE"]


@contextmanager
def single(wanted):
    """Keep posteriors in float32, or do not, whatever the size of the data."""
    before = memory.SINGLE_FROM, codes.SINGLE_FROM
    memory.SINGLE_FROM = codes.SINGLE_FROM = 0 if wanted else 1 << 60
    try:
        yield
    finally:
        memory.SINGLE_FROM, codes.SINGLE_FROM = before


def arrays(value):
    """Return the arrays in a record of statistics."""
    if isinstance(value, np.ndarray):
        return [value]
    parts = [part for part in vars(value).values() if part is not None]
    return [array for part in parts for array in arrays(part)]


def compare(found: ClassCounts, expected: ClassCounts, rounded: bool, size: float) -> None:
    """Compare statistics of rows whose entries sum to `size`."""
    close = 2e-5 if rounded else 1e-12
    for a, b in zip(arrays(found.features), arrays(expected.features), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=close * (1 + size))
    np.testing.assert_allclose(found.classes, expected.classes, atol=close * (1 + size))
    scale = 1 + abs(expected.log_likelihood)
    if np.isfinite(scale):  # the log-likelihood does not suffer from float32
        gap = abs(found.log_likelihood - expected.log_likelihood)
        assert gap <= (1e-9 * scale + 1e-6 * size if rounded else 1e-11 * scale + 1e-14 * size)
    else:
        assert found.log_likelihood == expected.log_likelihood


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


def plain(params):
    """Return the same params without anything that kernels have left on them."""
    names = [field.name for field in dataclasses.fields(params.features)]
    features = type(params.features)(*(getattr(params.features, name) for name in names))
    return type(params)(params.class_log_prior, features)


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
    rows = Rows(model.family.encode(X), *known(rng, n, K, evidence, weight))
    start = model.start(rows, rng.dirichlet(np.ones(K), n))
    if subset:
        rows = rows.take(np.flatnonzero(rng.random(n) < 0.7))
    with single(rounded):
        found = in_threads(model, start, rows)
    with oracle():
        expected = model.expect(plain(start), rows)
    compare(found, expected, rounded, float(n + X.sum()))


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
    rows = Rows(family.encode(X), *known(rng, n, K, evidence, weight))
    start = model.start(rows, rng.dirichlet(np.ones(K), n))
    with single(rounded):
        found = model.expect(start, rows)
    with oracle():
        expected = model.expect(start, rows)
    compare(found, expected, rounded, float(n))


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
    compare(found, expected, False, float(n))


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
    """Weights made on the way, and labelled rows counted on the way, are those of the oracle."""
    rng = np.random.default_rng(seed)
    n, d = 120, 40
    X = sparse.csr_array((rng.random((n, d)) < 0.2) * rng.integers(1, 4, (n, d)).astype(float))
    model = NaiveBayes(family(alpha).bind(X))
    rows = Rows(model.family.encode(X), None, rng.uniform(0.5, 2.0, n) if weight else None)
    labels = encode(np.r_[np.arange(30) % K, np.full(n - 30, np.nan)], list(range(K)))
    fixed = count_known(model, rows, labels.codes >= 0, labels)
    free = rows.take(np.arange(30, n))
    start = model.start(rows, rng.dirichlet(np.ones(K), n))
    with single(rounded):
        found = em.fit(
            model, [dataclasses.replace(free.fresh(), known=fixed)], start, max_iter=5, tol=0.0
        )
    with oracle():
        expected = em.fit(model, [free.fresh()], plain(start), fixed=fixed, max_iter=5, tol=0.0)
    both = min(len(found.trace), len(expected.trace))  # it may be over after a round or two
    rtol = 1e-5 if rounded else 1e-11
    np.testing.assert_allclose(found.trace[:both], expected.trace[:both], rtol=rtol)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-5)
    if not rounded:
        same = dataclasses.replace(found.statistics, log_likelihood=0.0)
        other = dataclasses.replace(expected.statistics, log_likelihood=0.0)
        compare(same, other, rounded, float(n + X.sum()))


def test_rows_that_stay_are_not_scored():
    """If nothing is said to have moved, rows with a leeway keep their posterior, others do not."""
    rng = np.random.default_rng(0)
    of, p = rng.integers(0, 4, 1500), rng.dirichlet(np.full(400, 0.1), 4)
    length = np.where(np.arange(1500) % 20, 250.0, 2.0)[:, None]  # few rows are not sure
    X = sparse.csr_array(rng.poisson(p[of] * length) * 1.0)
    model = NaiveBayes(Multinomial(1.0).bind(X))
    rows = model.rows(X).fresh()

    def nothing_moved(own, constants, shift):
        constants[:] = [1e6, 0.0, 0.0, 0.0]  # whoever is scored is of the first class
        return np.zeros(X.shape[1], np.float32), (0.0, 0.0)

    with single(True), pytest.MonkeyPatch.context() as patch:
        start = model.start(rows, np.eye(4)[of] + 0.1)
        found = em.fit(model, [rows], start, max_iter=3, tol=0.0)
        before, leeway = rows.memory.kept[:6000].copy().reshape(-1, 4), rows.memory.leeway.copy()
        patch.setattr(memory.Memory, "moved_apart", nothing_moved)
        model.expect(found.params, rows)
    after, stays = rows.memory.kept[:6000].reshape(-1, 4), leeway > 0
    scored = leeway <= 0
    assert min(stays.sum(), scored.sum()) > 50
    np.testing.assert_array_equal(after[stays], before[stays])
    np.testing.assert_allclose(after[scored, 0], 1.0, atol=1e-4)


def test_differences_are_the_sums():
    """Sums that take in only what moved, round after round, are those over all rows."""
    X, y = text(length=100)
    model = NaiveBayes(Multinomial(1.0).bind(X))
    rows = model.rows(X).fresh()
    start = np.full((X.shape[0], 4), 0.1)
    start[np.flatnonzero(~np.isnan(y)), y[~np.isnan(y)].astype(int)] = 3.0
    with single(True):
        em.fit(model, [rows], model.start(rows, start), max_iter=3, tol=0.0)
        assert rows.memory.rounds > 1  # most rows no longer move
        whole = model.rows(X).fresh()
        whole.memory.kept, whole.memory.rounds = rows.memory.kept.copy(), None
        sums = np.empty_like(rows.memory.words)
        whole.features.packed.count(rows.memory.kept, sums, np.empty(4), None, 1)
    np.testing.assert_allclose(rows.memory.words, sums, rtol=1e-12, atol=1e-12)


def settling(n=4000, d=3000, K=4, length=60, seed=0):
    """Return counts of words that soon settle, and a start from a few labels."""
    rng = np.random.default_rng(seed)
    p, y = 1.0 / (np.arange(d) + 2.7), rng.integers(0, K, n)
    orders = np.stack([rng.permutation(d) for _ in range(K)])
    words = rng.choice(d, size=(n, length), p=p / p.sum())
    own = rng.random(words.shape) < 0.4
    words = np.where(own, orders[y[:, None], words], words)
    places = np.repeat(np.arange(n), length), words.ravel()
    X = sparse.csr_array(sparse.coo_array((np.ones(words.size), places), (n, d)))
    start = np.full((n, K), 0.1)
    start[np.arange(0, n, 40), y[::40]] = 3.0
    return X, start


@pytest.mark.parametrize("alpha", [1.0, np.linspace(0.5, 1.5, 3000)])
def test_columns_that_changed_are_all_that_is_looked_at(alpha, monkeypatch):
    """Rounds in which little moves have the statistics and the objective of rounds from scratch."""
    X, start = settling()
    model = NaiveBayes(Multinomial(alpha).bind(X))
    rows = model.rows(X).fresh()
    looked, shift = [], type(rows.features.packed).shift

    class Spy:
        def __init__(self, packed):
            self.packed = packed

        def __getattr__(self, name):
            return getattr(self.packed, name)

        def shift(self, *given):
            looked.append(given[7])
            return shift(self.packed, *given)

    monkeypatch.setitem(rows.features.__dict__, "packed", Spy(rows.features.packed))
    with single(True):
        statistics = model.expect(model.start(rows, start), rows)
        for _ in range(14):
            params = model.maximize(statistics)
            whole = model.expect(plain(params), model.rows(X).fresh())
            density = model.log_prior(plain(params))
            statistics = model.expect(params, rows)
            assert model.log_prior(params) == pytest.approx(density, rel=1e-12)
            assert statistics.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-11)
            words = statistics.features.words
            np.testing.assert_allclose(words, whole.features.words, rtol=1e-6, atol=1e-5)
            sums, totals = np.empty(words.shape[::-1]), np.empty(len(words))
            rows.features.packed.count(rows.memory.kept, sums, totals, None, 1)
            np.testing.assert_allclose(words, sums.T, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(statistics.features.totals, totals, rtol=1e-13)
    assert sum(looked) > 4


def test_settled_rounds_have_the_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(parallel, "LEAST_WORK", 1)
    X, start = settling()
    model = NaiveBayes(Multinomial(1.0).bind(X))
    found = []
    for threads in (1, 2, 5):
        rows = model.rows(X).fresh()
        with single(True), kernels.kernel_threads(threads):
            found.append(em.fit(model, [rows], model.start(rows, start), max_iter=15, tol=0.0))
        assert rows.memory.expected is not None
    for other in found[1:]:
        assert other.trace == found[0].trace
        np.testing.assert_array_equal(
            other.statistics.features.words, found[0].statistics.features.words
        )


@pytest.mark.parametrize("K", [2, 5, 12])
def test_a_run_is_taken_up_with_the_same_bits_where_rows_are_sure(K):
    X, start = settling(K=K)
    model = NaiveBayes(Multinomial(1.0).bind(X))
    kept = []
    with single(True):
        rows = model.rows(X).fresh()
        begun = model.start(rows, start)
        whole = em.fit(model, [rows], begun, max_iter=20, tol=0.0, save=kept.append)
        for progress in kept:  # after 4 rounds, and 8
            other = model.rows(X).fresh()
            found = em.fit(model, [other], progress=progress, max_iter=20, tol=0.0)
            assert found.trace == whole.trace
            np.testing.assert_array_equal(
                found.statistics.features.words, whole.statistics.features.words
            )


def test_a_class_without_rows_does_not_keep_sure_rows_from_being_left_alone(monkeypatch):
    X, start = settling(K=12)
    start = np.c_[start, np.zeros(len(start))]
    model = NaiveBayes(Multinomial(1.0).bind(X))
    rows, given, apart = model.rows(X).fresh(), [], memory.Memory.moved_apart

    def noted(*own):
        given.append(apart(*own))
        return given[-1]

    monkeypatch.setattr(memory.Memory, "moved_apart", noted)
    with single(True):
        found = em.fit(model, [rows], model.start(rows, start), max_iter=7, tol=0.0)
    assert found.statistics.classes[-1] == 0
    assert any(change is not None for change, _ in given)


@pytest.mark.parametrize("where", ["moved_apart", "update", "sum_up", "note"])
def test_a_round_that_comes_to_nothing_leaves_nothing_behind(where, monkeypatch):
    X, start = settling(K=12)
    model = NaiveBayes(Multinomial(1.0).bind(X))
    rows = model.rows(X).fresh()
    with single(True):
        statistics = model.expect(model.start(rows, start), rows)
        for _ in range(9):
            statistics = model.expect(model.maximize(statistics), rows)
        assert rows.memory.expected is not None
        params = model.maximize(statistics)

        def interrupt(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(memory.Memory, where, interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.expect(params, rows)
        whole = model.expect(plain(params), model.rows(X).fresh())
        for _ in range(3):
            found = model.expect(params, rows)
            assert found.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-11)
            np.testing.assert_allclose(
                found.features.words, whole.features.words, rtol=1e-6, atol=1e-5
            )


def test_counts_that_somebody_holds_stay_as_they_are():
    """Tables of counts are used again, but not before nobody looks at them any more."""
    X, start = settling()
    model = NaiveBayes(Multinomial(1.0).bind(X))
    rows = model.rows(X).fresh()
    held, copies = [], []

    def hold(told):
        if told.number % 3 == 0:
            held.append(told.params.features.counts[1:3, ::2])  # a view of a part
            copies.append(held[-1].copy())

    with single(True):
        em.fit(model, [rows], model.start(rows, start), max_iter=14, tol=0.0, callback=hold)
    for view, copy in zip(held, copies, strict=True):
        np.testing.assert_array_equal(view, copy)
    rooms = kernels.native().Rooms(3, 2)
    table, before = rooms.take(1)
    assert (table.shape, before) == ((3, 2), -1)
    table[:] = 7.0
    other, before = rooms.take(2)
    assert before == -1
    assert not np.shares_memory(table, other)
    part = table[1:]
    del table
    assert rooms.take(3)[1] == -1  # `part` looks at it; the third table comes back at once
    del part
    assert [rooms.take(4)[1], rooms.take(5)[1]] == [3, 4]
    many = [rooms.take(number)[0] for number in range(6, 20)]
    del many, other  # at most four of them are kept
    many = [rooms.take(number) for number in range(20, 26)]
    assert [held for _, held in many] == [19, 18, 17, 16, -1, -1]


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
            assert (families.merged.merge(family, family.encode(X)) is not None) == found


@pytest.mark.parametrize("make", [tacit.MultinomialNB, tacit.BernoulliNB])
@pytest.mark.parametrize("K", [3, 20])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_that_cannot_move_need_no_score(make, K):
    """What is found does not depend on whether rows are scored again that are sure.

    All classes but one have at most 1e-9 of them, so that the objective is off by some nats times
    that: far less than the 1e-7 nats a row that the check of the ascent allows for.
    """
    rng = np.random.default_rng(0)
    of = rng.integers(0, K, 1500)
    p = rng.dirichlet(np.full(400, 0.1), K)
    X = sparse.csr_array(rng.poisson(p[of] * rng.choice([8.0, 60.0, 250.0], (1500, 1))))
    X.data = X.data.astype(np.float64)
    y = np.where(np.arange(1500) < 3 * K, of, np.nan)
    given, fits = [], []
    with single(True), pytest.MonkeyPatch.context() as patch:
        apart = memory.Memory.moved_apart
        patch.setattr(
            memory.Memory, "moved_apart", lambda *own: given.append(apart(*own)) or given[-1]
        )
        settings = {"tol": 0.0, "max_iter": 15}
        fits.append(make(**settings).fit(X, y))
        fits.append(make(**settings, n_jobs=2).fit(X, y))
        assert any(change is not None for change, _ in given)
        patch.setattr(memory.Memory, "moved_apart", lambda *own: (None, (0.0, 0.0)))
        fits.append(make(**settings).fit(X, y))
    for name in "trace_", "label_distributions_", "feature_count_":
        first, second, scored = (getattr(fit, name) for fit in fits)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, scored, rtol=1e-12, atol=1e-9)


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


def test_rows_that_say_little_do_not_trip_the_check():
    """In float32 a row's log-likelihood is off by some 1e-7 nats, whatever it says."""
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
    assert found.objective_ == pytest.approx(expected.objective_, abs=2e-7 * n)


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


def test_a_table_is_not_taken_for_that_of_another_smoothing():
    X, _ = text()
    one, other = NaiveBayes(Multinomial(1.0).bind(X)), NaiveBayes(Multinomial(50.0).bind(X))
    rows = one.rows(X).fresh()
    start = one.start(rows, np.random.default_rng(0).dirichlet(np.ones(4), X.shape[0]))
    statistics = one.expect(start, rows)
    params = other.maximize(statistics)
    fresh = other.expect(other.maximize(statistics), rows.fresh()).log_likelihood
    assert other.expect(params, rows).log_likelihood == pytest.approx(fresh, rel=1e-12)


def test_moving_rows_are_followed_under_hard_assignment_and_evidence():
    X, y = text(length=100)
    start = np.full((X.shape[0], 4), 0.1)
    start[np.flatnonzero(~np.isnan(y)), y[~np.isnan(y)].astype(int)] = 3.0
    evidence = np.zeros((X.shape[0], 4))
    evidence[::7, 0] = -np.inf
    for hard, allowed in [(True, None), (False, evidence)]:
        model = NaiveBayes(Multinomial(1.0).bind(X), hard=hard)
        rows = model.rows(X, allowed).fresh()
        with single(True):
            em.fit(model, [rows], model.start(rows, start), max_iter=3, tol=0.0)
        assert rows.memory.rounds > 1


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
    rows = Rows(model.family.encode(blocks), None, weight)
    start = np.full((n, 4), 0.1)
    start[np.flatnonzero(~np.isnan(y)), y[~np.isnan(y)].astype(int)] = 3.0
    first = model.start(rows, start)
    labels = Labels(np.arange(4), np.where(np.arange(n) < 100, rng.integers(0, 4, n), -1))
    known = labels.codes >= 0
    fixed = count_known(model, rows, known & model.family.complete(rows.features), labels)
    free = dataclasses.replace(select(rows, ~known, labels), known=fixed)
    with oracle():
        expected = em.fit(model, [free], first, max_iter=5, tol=0.0)
    with single(rounded):
        found = em.fit(model, [free.fresh()], first, max_iter=5, tol=0.0)
        memory = free.fresh()
        assert model.family.expect(first.features, memory, first.class_log_prior, hard) is not None
    tolerance = 1e-6 if rounded else 1e-10
    rounds = min(len(found.trace), len(expected.trace))  # hard ones soon stand still
    np.testing.assert_allclose(found.trace[:rounds], expected.trace[:rounds], rtol=tolerance)
    for ours, theirs in zip(found.params.features, expected.params.features, strict=True):
        name = "mean" if hasattr(theirs, "mean") else "log_p"
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-5 if rounded else 1e-8
        )
