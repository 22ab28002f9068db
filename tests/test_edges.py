"""Odd but legal data give finite, right results, or a clear error."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from threadpoolctl import threadpool_info

import tacit
from cases import CASES, K, hide
from robust import (
    DISCRETE,
    NAN,
    B,
    X,
    Y,
    check_sane,
    every_discrete,
    every_family,
    few_rounds,
    wrong,
)
from tacit import GaussianNB, MultinomialNB
from tacit.kernels import one_blas_thread


@few_rounds
@every_family
def test_a_row_without_any_value_has_the_prior_as_posterior(case):
    X, y = case.data(3, missing=0.1)
    X[[0, 5]] = NAN
    nb = case.classifier(max_iter=20).fit(X, hide(y, 0.5))
    check_sane(nb, X)
    blank = np.full((1, X.shape[1]), NAN)
    prior = nb.class_count_ / nb.class_count_.sum()
    np.testing.assert_allclose(nb.predict_proba(blank)[0], prior, rtol=1e-12)
    np.testing.assert_allclose(nb.score_samples(blank), 0.0, atol=1e-12)
    check_sane(case.mixture(2, max_iter=20, random_state=0).fit(X), X, blank)


@pytest.mark.parametrize("name", [*DISCRETE, "gaussian"])
def test_a_column_without_any_value_says_nothing(name):
    case = next(case for case in CASES if case.name == name)
    X, y = case.data(4)
    holes = np.column_stack([X, np.full(len(X), NAN)])
    labels = hide(y, 0.5)
    # To the same maximum: multinomial EM takes many more rounds with the column than without.
    nb, without = (
        case.classifier(tol=1e-12, max_iter=5000).fit(rows, labels) for rows in (holes, X)
    )
    check_sane(nb, holes, np.nan_to_num(holes))
    np.testing.assert_allclose(nb.predict_proba(holes), without.predict_proba(X), atol=1e-6)


@every_family
@pytest.mark.parametrize("stream", [False, True])
def test_a_class_without_rows(case, stream):
    X, y = case.data(5)
    keep = y < 2
    nb = case.classifier(classes=range(K))
    nb = nb.partial_fit(X[keep], y[keep]) if stream else nb.fit(X[keep], y[keep])
    check_sane(nb, X)
    assert nb.class_count_.tolist() == [*np.bincount(y[keep]), 0]
    assert not nb.predict_proba(X)[:, 2].any()
    if stream:  # it can still come
        check_sane(nb.partial_fit(X[~keep], y[~keep]), X)
        np.testing.assert_array_equal(nb.class_count_, np.bincount(y))
    else:  # and with smoothed shares it is possible from the start
        smoothed = case.classifier(classes=range(K), class_alpha=1.0).fit(X[keep], y[keep])
        check_sane(smoothed, X)
        assert smoothed.predict_proba(X)[:, 2].any()
        drawn, labels = smoothed.set_params(random_state=0).sample(50)
        assert np.isfinite(drawn).all()
        assert 2 in labels


@every_family
def test_one_class_one_row_and_fewer_rows_than_classes(case):
    X, _ = case.data(6)
    single = case.classifier().fit(X, ["only" if i % 2 else None for i in range(len(X))])
    check_sane(single, X)
    assert (single.predict_proba(X) == 1).all()
    for labels in (["a"], ["a", None]):
        nb = case.classifier().fit(X[: len(labels)], labels)
        check_sane(nb, X)
        assert (nb.predict(X) == "a").all()
    check_sane(case.classifier(classes=range(9), random_state=0).fit(X[:5], [0, 1, *[None] * 3]), X)
    check_sane(case.mixture(4, random_state=0).fit(X[:2]), X)
    check_sane(case.mixture(2, random_state=0).fit(X[:1]), X)


@every_family
def test_constant_and_duplicated_features(case):
    X, y = case.data(7)
    constant, labels = np.ones_like(X), hide(y, 0.5)
    check_sane(case.classifier().fit(constant, labels), constant, X)
    nb = case.classifier(**({"alpha": 0.0} if case.smoothed else {})).fit(constant, labels)
    prior = np.exp(nb.class_log_prior_)
    np.testing.assert_allclose(nb.predict_proba(constant)[0], prior, rtol=1e-9)
    if case.name != "mixed":
        check_sane(case.classifier().fit(np.hstack([X, X]), labels), np.hstack([X, X]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianNB(var_smoothing=0.0),
        lambda: tacit.GaussianDiscriminant(var_smoothing=0.0),
        lambda: tacit.GaussianDiscriminant(covariance="full", var_smoothing=0.0),
        lambda: tacit.GaussianMixture(2, reg_covar=0.0, init="random"),
        lambda: tacit.GaussianMixture(2, covariance_type="diag", reg_covar=0.0, init="random"),
    ],
)
def test_no_variance_and_no_smoothing_is_an_error(make):
    with wrong("(no variance|singular).*var_smoothing .in mixtures reg_covar."):
        make().fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])


@every_discrete
def test_without_smoothing_what_was_never_seen_leaves_the_prior(case):
    """S10, trap 5: zeros stay exact and never meet as NaN."""
    table = np.column_stack([B, np.zeros(4), np.ones(4)])
    nb = case.classifier(alpha=0.0).fit(table[:3], [0, 1, 1])
    unseen = np.array([[1.0, 1, 1, 1, 0], [0, 0, 0, 5, 0]])
    check_sane(nb, table, unseen)
    if case.name == "categorical":  # handle_unknown: a category that nobody has is missing
        unseen = unseen[:, [3, 3, 3, 3, 3]] * 0 + 9
    np.testing.assert_allclose(nb.predict_proba(unseen), [[1 / 3, 2 / 3]] * 2, rtol=1e-12)
    np.testing.assert_allclose(np.exp(nb.predict_log_proba(unseen)), [[1 / 3, 2 / 3]] * 2)
    semi = case.classifier(alpha=0.0).fit(np.vstack([table, unseen]), [0, 1, 1, None, None, None])
    check_sane(semi, table, unseen)
    assert np.isfinite(semi.objective_)


def test_documents_without_words():
    for alpha in 0.0, 1.0:
        nb = MultinomialNB(alpha=alpha).fit(np.zeros((4, 3)), [0, 1, 1, None])
        check_sane(nb, np.zeros((1, 3)), X)
        np.testing.assert_allclose(nb.predict_proba(np.zeros((1, 3)))[0], [1 / 3, 2 / 3], rtol=1e-6)
        check_sane(MultinomialNB(alpha=alpha).fit(X, Y), np.zeros((1, 3)))


@few_rounds
@pytest.mark.parametrize("scale", [1e5, 1e9, 1e15])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_long_documents_and_huge_counts(scale, container):
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.ones(50), 2)
    y = np.arange(20) % 2
    table = container(np.floor(scale * words[y]))
    nb = MultinomialNB().fit(table, hide(y, 0.8))
    check_sane(nb, table)
    np.testing.assert_array_equal(nb.transduction_, y)
    check_sane(tacit.MultinomialMixture(2, random_state=0, n_init=2).fit(table), table)
    if scale == 1e5:  # a document of 100,000 different words
        check_sane(MultinomialNB().fit(np.ones((2, 100_000)), [0, 1]), np.ones((1, 100_000)))


@few_rounds
@every_family
@pytest.mark.parametrize(
    "weight", [np.full(40, 1e-300), np.full(40, 1e12), np.tile([1e-300, 1e-6, 1.0, 1e12], 10)]
)
def test_tiny_and_huge_weights(case, weight):
    X, y = case.data(8)
    nb = case.classifier(max_iter=20).fit(X, hide(y, 0.5), sample_weight=weight)
    check_sane(nb, X)
    np.testing.assert_allclose(nb.class_count_.sum(), weight.sum(), rtol=1e-9)
    check_sane(case.mixture(2, max_iter=20, random_state=0).fit(X, sample_weight=weight), X)


@every_family
def test_a_row_of_weight_zero_is_as_good_as_absent(case):
    X, y = case.data(9)
    labels, weight = np.array(hide(y, 0.5), dtype=object), np.ones(len(X))
    weight[10:] = np.arange(len(X) - 10) % 2
    used = weight > 0
    weighted = case.classifier().fit(X, labels, sample_weight=weight)
    if case.smoothed and case.name != "mixed":  # the noise of the others is a share of all rows
        without = case.classifier().fit(X[used], labels[used])
        np.testing.assert_allclose(
            weighted.predict_proba(X), without.predict_proba(X), rtol=1e-9, atol=1e-12
        )
    assert weighted.class_count_.sum() == pytest.approx(weight.sum())


@few_rounds
@every_family
@pytest.mark.parametrize("seed", range(12))
def test_random_data_of_every_sort(case, seed):
    """Missing cells, labels as evidence, weights with zeros, little smoothing, hard assignment."""
    rng = np.random.default_rng(seed)
    X, _ = case.data(seed, n=int(rng.integers(6, 40)), missing=rng.choice([0.0, 0.1, 0.4]))
    X[:2] = case.data(seed, n=2 * K)[0][:2]
    evidence = np.where(rng.random((len(X), K)) < 0.6, rng.random((len(X), K)), 0.0)
    evidence[~evidence.any(axis=1)] = NAN
    evidence[:K] = np.eye(K)
    weight = rng.random(len(X)) * rng.integers(0, 2, len(X))
    weight[:K] = 1.0
    settings: dict[str, Any] = {
        "assignment": str(rng.choice(["soft", "hard"])),
        "class_alpha": float(rng.choice([0.0, 1.0])),
        "max_iter": int(rng.choice([1, 30])),
        "random_state": seed,
    }
    smoothing = {"alpha": float(rng.choice([0.0, 1e-10, 0.5]))} if case.smoothed else {}
    nb = case.classifier(**settings, **smoothing)
    nb.fit(X, evidence, sample_weight=weight)
    check_sane(nb, X, np.nan_to_num(X))
    assert nb.class_count_.sum() == pytest.approx(weight.sum())
    mixture = case.mixture(3, n_init=2, **settings, **smoothing).fit(X, sample_weight=weight)
    check_sane(mixture, X, np.nan_to_num(X))
    assert np.isfinite([mixture.bic(X), mixture.aic(X), mixture.icl(X)]).all()


def test_sums_of_squares_do_not_cancel():
    """Clusters that are far apart and tight, from a start halfway between them."""
    rng = np.random.default_rng(0)
    for far in (1e5, 1e8):
        Z = np.r_[rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + far]
        for covariance in ("diag", "tied", "full") if far < 1e7 else ("diag",):
            mixture = tacit.GaussianMixture(
                2, covariance_type=covariance, init="random", n_init=5, random_state=0
            ).fit(Z)
            near = mixture.means_[:, 0] < far / 2
            np.testing.assert_allclose(mixture.means_[near], [Z[:100].mean(axis=0)], rtol=1e-6)
            if covariance == "diag":
                within = [Z[part].var(axis=0) for part in (slice(0, 100), slice(100, 200))]
                found = mixture.covariances_ - mixture.reg_covar
                np.testing.assert_allclose(found, within if near[0] else within[::-1], rtol=1e-6)


def test_means_that_move_far_from_where_they_began():
    rng = np.random.default_rng(0)
    for seed in range(8):
        Z = np.round(rng.gamma(0.5, 1, (80, 2)) * 3) * 1e5
        for covariance in ("diag", "tied", "full"):
            tacit.GaussianMixture(
                4, covariance_type=covariance, init="random", n_init=2, random_state=seed,
                reg_covar=1.0,
            ).fit(Z)  # fmt: skip


def test_many_patterns_of_missing_cells_do_not_pile_up():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 12))
    Z[rng.random(Z.shape) < 0.2] = np.nan
    nb = tacit.GaussianDiscriminant(covariance="full", var_smoothing=0.1, max_iter=3, tol=1e9)
    nb.fit(Z, [i % 2 if i < 40 else None for i in range(300)])
    before = len(pickle.dumps(nb))
    nb.predict(Z)
    assert len(pickle.dumps(nb)) == before < 100_000


def test_a_fall_to_nothing_is_a_fall():
    """S19: -inf after something finite is an error, not an end."""

    class Model:
        steps = iter([-1.0, -0.5, -np.inf])

        def expect(self, params, chunk):
            return tacit.em.Statistics(next(self.steps))

        def maximize(self, statistics):
            return None

        def log_prior(self, params):
            return 0.0

    with pytest.raises(tacit.em.AscentError, match="-inf in round 2"):
        tacit.em.fit(Model(), [1], 0)


def test_large_weights_and_a_log_likelihood_of_nothing():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z = np.where(rng.random((6, 2)) < 0.3, np.nan, 0.0)
        tacit.CategoricalMixture(3, random_state=seed, n_init=1).fit(
            Z, sample_weight=1e9 * rng.random(6)
        )


def test_labels_of_no_weight_name_no_class():
    Z = [[1, 2, 0], [1.5, 2.5, 1], [4, 0, 3], [4.2, 0.1, 1], [0, 1, 1], [3, 0.3, 3]]
    y = [0, 0, 1, 1, None, None]
    for nb in (tacit.GaussianNB(var_smoothing=0.1), tacit.GaussianDiscriminant(var_smoothing=0.1)):
        nb.set_params(random_state=0).fit(Z, y, sample_weight=[0, 0, 0, 0, 1, 1])
        assert (np.ptp(nb.predict_proba(Z)[4:], axis=0) > 0.5).all()


def test_rows_that_are_impossible():
    nb = tacit.MultinomialNB(alpha=0.0).fit([[1, 0, 0], [0, 1, 0], [0, 1, 0]], [0, 1, 1])
    assert nb.predict([[0, 0, 1]]) == nb.predict_proba([[0, 0, 1]]).argmax() == 1
    together = nb.predict_log_proba([[0, 0, 1], [2, 0, 0]])
    np.testing.assert_array_equal(together[1:], nb.predict_log_proba([[2, 0, 0]]))
    np.testing.assert_allclose(np.exp(together[0]), [1 / 3, 2 / 3])


def test_columns_without_any_value_or_spread():
    Z = np.array([[1, 2], [1.5, 2.5], [4, 0], [4.2, 0.1], [0, 1], [3, 0.3]])
    y = [0, 0, 1, 1, None, None]
    for covariance in ("tied", "full", "diag"):
        nb = tacit.GaussianDiscriminant(covariance=covariance, var_smoothing=1e-3)
        with_empty = nb.fit(np.c_[Z, np.full(6, np.nan)], y).predict_proba(np.c_[Z, np.ones(6)])
        assert np.isfinite(with_empty).all()
    found = tacit.GaussianMixture(2, reg_covar=0.1, random_state=0).fit(
        [[0, np.nan], [1, np.nan], [2, np.nan], [9, 3]]
    )
    assert np.isfinite(found.covariances_).all()


def test_streams_in_odd_batches():
    X, y = CASES[2].data(seed=3, n=30)
    nb = tacit.MultinomialNB(unlabeled_weight=0.0).partial_fit(X[:10], y[:10], classes=range(K))
    before = nb.feature_log_prob_.copy()
    nb.partial_fit(X[10:], [None] * 20)
    np.testing.assert_array_equal(nb.feature_log_prob_, before)  # nothing was added
    nb.set_params(alpha=[3.0] * X.shape[1]).partial_fit(X[10:20], y[10:20])
    whole = tacit.MultinomialNB(alpha=3.0).fit(X[:20], y[:20])
    np.testing.assert_allclose(nb.feature_log_prob_, whole.feature_log_prob_)
    gaps = X.copy()
    gaps[:, 0] = np.nan
    for first in (tacit.MultinomialNB(), tacit.GaussianDiscriminant(var_smoothing=0.1)):
        check_sane(first.partial_fit(gaps, y, classes=range(K)), X)
    tied = tacit.GaussianDiscriminant().partial_fit(X, y, classes=range(K))
    with wrong("covariance cannot change"):
        tied.set_params(covariance="full").partial_fit(X, y)


def test_evidence_keeps_its_columns_from_call_to_call():
    X, evidence = np.array([[1, 0], [0, 1]] * 5), np.array([[1.0, 0.0], [0.0, 1.0]] * 5)
    for settings, named in (({"classes": ["b", "a"]}, {}), ({}, {"classes": ["b", "a"]})):
        nb = tacit.BernoulliNB(**settings)
        nb.partial_fit(X, evidence, **named).partial_fit(X, evidence)
        np.testing.assert_array_equal(nb.feature_count_, [[0, 10], [10, 0]])
    after_fit = tacit.BernoulliNB().fit(X, [0, 1] * 5).partial_fit(X, [0, None] * 5)
    assert after_fit.class_count_.sum() == 20
    for name in ("transduction_", "label_distributions_"):
        assert not hasattr(after_fit, name)  # it was of the rows of the fit
    soft = tacit.BernoulliNB().partial_fit(X, evidence + 0.1, classes=[0, 1])
    assert soft.class_count_.sum() == pytest.approx(10)


def test_a_start_near_a_saddle_is_not_an_end():
    rng = np.random.default_rng(0)
    truth = np.arange(400) % 2
    X = rng.random((400, 8)) < np.where(truth[:, None] == 1, 0.85, 0.15)
    best = tacit.BernoulliMixture(2, random_state=0).fit(X).objective_
    near = 0.5 + 0.01 * rng.standard_normal((400, 1)) * [1, -1]
    found = tacit.BernoulliMixture(2, init=near).fit(X)
    np.testing.assert_allclose(found.objective_, best, rtol=1e-6)
    with wrong("the same parameters"):
        tacit.BernoulliMixture(2, init=0.5 + 1e-9 * (near - 0.5)).fit(X)


def test_hard_assignment_from_a_uniform_start():
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 2
    X = rng.random((200, 6)) < np.where(truth[:, None] == 1, 0.8, 0.2)
    y = [v if i < 10 else None for i, v in enumerate(truth.tolist())]
    swapped = [None if v is None else 1 - v for v in y]
    nb = tacit.BernoulliNB(init="uniform", assignment="hard")
    a, b = clone(nb).fit(X, y), clone(nb).fit(X, swapped)
    assert (a.transduction_ == truth).mean() > 0.9
    np.testing.assert_allclose(a.objective_, b.objective_)


@every_family
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["labels", "evidence"])
@few_rounds
def test_a_warm_start_goes_on_where_the_fit_before_ended(case, missing, kind):
    X, y = case.data(seed=3, n=60, missing=missing)
    if kind == "labels":
        y = hide(y, 0.6)
    else:
        y = np.random.default_rng(0).uniform(0.1, 1, (60, K)) + np.eye(K)[y]
    whole = case.classifier(max_iter=9, random_state=0).fit(X, y)
    parts = case.classifier(max_iter=4, random_state=0, warm_start=True).fit(X, y)
    parts.set_params(max_iter=5).fit(X, y)
    np.testing.assert_allclose(parts.objective_, whole.objective_, rtol=1e-9)
    if whole.n_iter_ == 9:
        np.testing.assert_allclose(parts.trace_, whole.trace_[4:], rtol=1e-9)
    mixture = case.mixture(2, max_iter=3, warm_start=True, random_state=0, n_init=1).fit(X)
    before = mixture.objective_
    assert mixture.fit(X).objective_ >= before - 1e-9 * abs(before)


def test_labels_far_from_the_start_do_not_cancel():
    rng = np.random.default_rng(0)
    for far in (1e6, 1e8):
        X = np.r_[rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + far]
        y = [i // 100 if i % 2 else None for i in range(200)]
        naive = tacit.GaussianNB(init="uniform", var_smoothing=0.0).fit(X, y)
        within = [X[:100].var(axis=0), X[100:].var(axis=0)]
        np.testing.assert_allclose(naive.var_, within, rtol=1e-6)
        for covariance in ("tied", "full"):
            nb = tacit.GaussianDiscriminant(
                covariance=covariance, init="uniform", var_smoothing=0.0
            )
            if far > 1e7:  # one direction has 1e16 times the variance of the other at the start
                with wrong("singular"):
                    nb.fit(X, y)
                continue
            nb.fit(X, y)
            found = np.diagonal(np.atleast_3d(nb.covariance_.T), axis1=0, axis2=1)
            expected = within if covariance == "full" else [np.mean(within, axis=0)]
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rows_left_out_leave_no_trace():
    """`unlabeled_weight=0` is supervised: not even smoothing or categories look at the others."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=(20, 2)), 100 * rng.normal(size=(50, 2))]
    y = [i % 2 if i < 20 else None for i in range(70)]
    nb = tacit.GaussianNB(var_smoothing=0.1)
    alone = clone(nb).fit(X[:20], y[:20])
    np.testing.assert_array_equal(nb.set_params(unlabeled_weight=0.0).fit(X, y).var_, alone.var_)
    codes = tacit.CategoricalNB(unlabeled_weight=0.0).fit([[0], [1], [5]], [0, 1, None])
    assert codes.n_categories_ == [2]


def test_blas_is_set_free_whoever_ends_first():
    def threads():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = threads()
    a, b = one_blas_thread(), one_blas_thread()
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    assert set(threads()) == {1}
    b.__exit__(None, None, None)
    assert threads() == before


def test_next_to_no_weight():
    tacit.BernoulliMixture(2, random_state=0).fit(
        [[0, 1], [1, 0], [1, 1]], sample_weight=[1e10, 1e-320, 1e-320]
    )


def test_known_labels_are_their_distributions():
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (30, 4)), np.arange(30) % 3
    model = MultinomialNB()
    assert not hasattr(model, "label_distributions_")
    model.fit(X, np.where(y == 1, np.nan, y))
    again = pickle.loads(pickle.dumps(model.fit(X, y)))
    np.testing.assert_array_equal(again.label_distributions_, np.eye(3)[y])


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_rows_that_the_columns_beside_words_rule_out(monkeypatch, engine):
    """No labelled row has their category, and nothing is smoothed: labels are left to the prior."""
    monkeypatch.setenv("TACIT_ENGINE", engine)
    X = np.array([[3.0, 0, 0], [0, 3, 1], [2, 1, 0], [1, 2, 1], [0, 3, 0], [3, 0, 1], [1, 1, 2]])
    parts = [("words", MultinomialNB(), [0, 1]), ("kind", tacit.CategoricalNB(alpha=0), [2])]
    nb = tacit.MixedNB(parts).fit(sparse.csr_array(X), [0, 1, 0, 1, None, None, None])
    assert np.isfinite(nb.objective_)
    check_sane(nb, X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_child_forked_during_a_fit_has_all_threads_of_blas():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with one_blas_thread():
        child = os.fork()
        if not child:
            with one_blas_thread():
                within = threads()
            os._exit(int(threads() != before or set(within) != {1}))
        assert os.waitpid(child, 0)[1] == 0
    assert threads() == before
