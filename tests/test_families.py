"""Every family: each EM round equals the slow reference, and what must change nothing does not."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import sklearn.discriminant_analysis
import sklearn.naive_bayes
from scipy import integrate, sparse
from scipy.stats import dirichlet
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

import reference
import tacit
from cases import CASES, K, hide
from tacit import em
from tacit.families import Bernoulli, Categorical, Gaussian, Multinomial
from tacit.models.naive_bayes import NaiveBayes

every_family = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def flat(value):
    """Return all numbers in nested lists and dicts, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [number for part in value for number in flat(part)]
    return [value] if isinstance(value, float) else []


def evidence_of(y, rng, kind):
    """Return evidence of one kind, with labels known for some rows."""
    evidence = np.ones((len(y), K))
    known = rng.random(len(y)) < 0.4
    evidence[known] = np.eye(K)[y[known]]
    if kind == "soft":
        evidence[~known] = rng.uniform(0.1, 1, (int((~known).sum()), K))
        evidence[~known, rng.integers(K)] = 0.0
    return evidence


@every_family
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("hard", [False, True])
def test_each_round_equals_the_reference(case, missing, alpha, hard):
    """S14, S15, S16: three rounds from random responsibilities, with weights and soft labels."""
    rng = np.random.default_rng(1)
    X, y = case.data(seed=5, missing=missing)
    noise, class_alpha = 0.3, 0.5
    evidence, weight = evidence_of(y, rng, "soft"), rng.uniform(0.5, 2, len(y))
    family = case.family(alpha, noise).bind(X)
    model = NaiveBayes(family, class_alpha=class_alpha, hard=hard)
    with np.errstate(divide="ignore"):
        rows = model.rows(X, np.log(evidence), weight)
    params = model.start(rows, rng.dirichlet(np.ones(K), len(y)))
    settings = {"alpha": alpha, "class_alpha": class_alpha, "hard": hard, "noise": noise}

    def lists(params):
        prior = np.exp(params.class_log_prior).tolist()
        return {"prior": prior, **case.lists(model.family, params.features)}

    for _ in range(3):
        old = lists(params)
        expected, delta, objective = reference.em_round(
            case.name, X.tolist(), evidence.tolist(), weight.tolist(), old, **settings
        )
        found, log_p, _ = model.posterior(params, rows, fitting=True)
        statistics = model.expect(params, rows)
        if not hard:
            np.testing.assert_allclose(found, delta, atol=1e-10)
            np.testing.assert_allclose(statistics.log_likelihood, weight @ log_p, rtol=1e-12)
        here = statistics.log_likelihood + model.log_prior(params)
        np.testing.assert_allclose(here, objective, rtol=1e-10)
        params = em.fit(model, [rows], params, max_iter=1).params
        np.testing.assert_allclose(flat(lists(params)), flat(expected), rtol=1e-10, atol=1e-10)


SKLEARN = [
    (tacit.BernoulliNB, sklearn.naive_bayes.BernoulliNB, {"alpha": 0.3, "fit_prior": False}),
    (tacit.CategoricalNB, sklearn.naive_bayes.CategoricalNB, {"alpha": 0.3, "min_categories": 6}),
    (tacit.MultinomialNB, sklearn.naive_bayes.MultinomialNB, {"class_prior": [0.2, 0.3, 0.5]}),
    (tacit.GaussianNB, sklearn.naive_bayes.GaussianNB, {"priors": [0.2, 0.3, 0.5]}),
]
ATTRIBUTES = [
    *("classes_", "class_count_", "class_log_prior_", "class_prior_", "n_features_in_"),
    *("feature_count_", "feature_log_prob_", "n_categories_", "category_count_"),
    *("theta_", "var_", "epsilon_"),
]


def assert_same_as_sklearn(ours, theirs, X, tolerance=1e-10):
    """Compare every attribute that scikit-learn has, and every prediction."""
    for name in ATTRIBUTES:
        if hasattr(theirs, name):
            np.testing.assert_equal(np.shape(getattr(ours, name)), np.shape(getattr(theirs, name)))
            for own, their in zip(
                np.atleast_1d(getattr(ours, name)),
                np.atleast_1d(getattr(theirs, name)),
                strict=True,
            ):
                np.testing.assert_allclose(own, their, rtol=tolerance, atol=tolerance, err_msg=name)
    for method in ("predict_joint_log_proba", "predict_log_proba", "predict_proba"):
        own, their = getattr(ours, method)(X), getattr(theirs, method)(X)
        np.testing.assert_allclose(own, their, rtol=tolerance, atol=tolerance, err_msg=method)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("settings", [{}, "own"], ids=["defaults", "settings"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs", "own"), SKLEARN, ids=lambda v: getattr(v, "__name__", "")
)
def test_with_complete_labels_the_numbers_are_scikit_learns(ours, theirs, own, settings, weighted):
    """S1, S2, S3, S4, S6, S9, S11: supervised fitting and prediction to 1e-10."""
    case = next(case for case in CASES if case.classifier is ours)
    X, y = case.data(seed=2, n=60)
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y)) if weighted else None
    settings = own if settings == "own" else {}
    a, b = ours(**settings).fit(X, y, weight), theirs(**settings).fit(X, y, weight)
    assert_same_as_sklearn(a, b, X)
    assert a.n_iter_ == 1  # C Fig. 3
    assert a.converged_


@pytest.mark.parametrize(
    ("ours", "theirs", "own"), SKLEARN, ids=lambda v: getattr(v, "__name__", "")
)
def test_partial_fit_is_scikit_learns(ours, theirs, own):
    """Batches with complete labels add up to the same numbers; categories may grow."""
    case = next(case for case in CASES if case.classifier is ours)
    X, y = case.data(seed=2, n=60)
    if case.name == "categorical":
        X = X[np.argsort(X.max(axis=1), kind="stable")]
    # scikit-learn takes epsilon_ from the last batch and mixes it up with the one before.
    settings = {"var_smoothing": 0.0} if case.name == "gaussian" else {}
    a, b = ours(**settings), theirs(**settings)
    for part in (slice(0, 25), slice(25, 40), slice(40, 60)):
        a.partial_fit(X[part], y[part], classes=range(K))
        b.partial_fit(X[part], y[part], classes=range(K))
    if case.name == "categorical":
        b.n_categories_ = a.n_categories_  # theirs is the last batch's
    assert_same_as_sklearn(a, b, X)


def test_digits_whose_pixels_have_no_variance():
    """The worst case for sums of squares: variances that are nothing but smoothing."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    ours, theirs = tacit.GaussianNB().fit(X, y), sklearn.naive_bayes.GaussianNB().fit(X, y)
    np.testing.assert_allclose(ours.var_, theirs.var_, rtol=1e-10)
    np.testing.assert_allclose(
        ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-10, atol=1e-10
    )


def test_discriminant_analysis_in_closed_form():
    """S5: psi, mu and Sigma of the shared covariance, and the posterior p(y | x)."""
    X, y = CASES[4].data(seed=3, n=80)
    ours = tacit.GaussianDiscriminant(var_smoothing=0.0).fit(X, y)
    theirs = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(
        solver="lsqr", store_covariance=True
    ).fit(X, y)
    np.testing.assert_allclose(ours.class_prior_, theirs.priors_, rtol=1e-12)
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-12)
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-10)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-10)
    far = tacit.GaussianDiscriminant(var_smoothing=0.0).fit(X + 1e6, y)  # squares would cancel
    np.testing.assert_allclose(far.covariance_, ours.covariance_, rtol=1e-7)
    np.testing.assert_allclose(far.predict_proba(X + 1e6), ours.predict_proba(X), atol=1e-7)


def test_quadratic_discriminant_analysis():
    """A covariance for each class; scikit-learn divides by n - 1."""
    X, y = CASES[5].data(seed=3, n=80)
    ours = tacit.GaussianDiscriminant(covariance="full", var_smoothing=0.0).fit(X, y)
    for k in range(K):
        np.testing.assert_allclose(ours.covariance_[k], np.cov(X[y == k].T, bias=True), rtol=1e-9)
    diag = tacit.GaussianDiscriminant(covariance="diag").fit(X, y)
    naive = tacit.GaussianNB().fit(X, y)
    np.testing.assert_array_equal(diag.predict_proba(X), naive.predict_proba(X))
    np.testing.assert_array_equal(diag.covariance_, naive.var_)


def fit(case, X, y, **settings):
    return case.classifier(**settings).fit(X, y)


def same(a, b, X, Z=None, tolerance=1e-9, order=slice(None)):
    np.testing.assert_allclose(a.objective_, b.objective_, rtol=tolerance)
    found = b.predict_proba(X if Z is None else Z)[:, order]
    np.testing.assert_allclose(a.predict_proba(X), found, atol=10 * tolerance)


@every_family
@pytest.mark.parametrize("missing", [0.0, 0.2])
class TestMetamorphic:
    """What must change nothing."""

    def test_order_of_rows(self, case, missing):
        X, y = case.data(seed=7, n=120, missing=missing)
        y = np.array(hide(y, 0.6), dtype=object)
        order = np.random.default_rng(0).permutation(len(y))
        same(fit(case, X, y), fit(case, X[order], y[order]), X)

    def test_order_of_features(self, case, missing):
        if case.name == "mixed":
            pytest.skip("the columns of the mixed case are told apart by their place")
        X, y = case.data(seed=7, n=120, missing=missing)
        y = hide(y, 0.6)
        order = np.random.default_rng(0).permutation(X.shape[1])
        same(fit(case, X, y), fit(case, X[:, order], y), X, X[:, order])

    def test_names_of_classes(self, case, missing):
        X, y = case.data(seed=7, n=120, missing=missing)
        y = hide(y, 0.6)
        renamed = [None if label is None else "cab"[label] for label in y]
        same(fit(case, X, y), fit(case, X, renamed), X, order=[2, 0, 1])

    # Smoothing of variances, and the start of cells to fill in, look at all rows alike, whatever
    # their weight: there, only the optimum is the same.

    def test_weight_two_is_a_row_twice(self, case, missing):
        X, y = case.data(seed=7, n=120, missing=missing)
        y = np.array(hide(y, 0.6), dtype=object)
        weight = np.random.default_rng(0).integers(0, 3, len(y))
        weight[[np.flatnonzero(y == k)[0] for k in range(K)]] = 2
        nb = case.classifier(max_iter=3000)
        weighted = clone(nb).fit(X, y, sample_weight=weight)
        repeated = clone(nb).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
        same(weighted, repeated, X, tolerance=1e-9 if case.discrete else 1e-5)

    def test_zero_unlabeled_weight_is_supervised(self, case, missing):
        X, y = case.data(seed=7, n=120, missing=missing)
        y = np.array(hide(y, 0.6), dtype=object)
        known = np.array([label is not None for label in y])
        a = case.classifier(unlabeled_weight=0.0, max_iter=3000).fit(X, y)
        b = case.classifier(max_iter=3000).fit(X[known], y[known])
        same(a, b, X, tolerance=1e-9 if case.discrete else 1e-5)

    def test_unlabeled_weight_is_sample_weight(self, case, missing):
        X, y = case.data(seed=7, n=120, missing=missing)
        y = hide(y, 0.6)
        weight = np.where([label is None for label in y], 0.3, 1.0)
        a = case.classifier(unlabeled_weight=0.3).fit(X, y)
        same(a, case.classifier().fit(X, y, sample_weight=weight), X)

    def test_labels_and_evidence_say_the_same(self, case, missing):
        X, y = case.data(seed=7, n=120, missing=missing)
        y = hide(y, 0.6)
        evidence = np.array([np.ones(K) * 3 if v is None else 5 * np.eye(K)[v] for v in y])
        evidence[y.index(None)] = np.nan
        same(fit(case, X, y), fit(case, X, evidence), X)

    def test_chunks_add_up(self, case, missing, monkeypatch):
        X, y = case.data(seed=7, n=120, missing=missing)
        y = hide(y, 0.6)
        whole = fit(case, X, y)
        monkeypatch.setattr("tacit.data.rows.CHUNK", 7)
        same(whole, fit(case, X, y), X)
        a, b = fit(case, X, y), case.classifier(n_jobs=2).fit(X, y)
        np.testing.assert_array_equal(a.predict_joint_log_proba(X), b.predict_joint_log_proba(X))

    def test_random_starts_do_not_depend_on_the_order_of_rows(self, case, missing):
        """S20."""
        X, _ = case.data(seed=7, n=120, missing=missing)
        order = np.random.default_rng(0).permutation(len(X))
        settings = {"n_init": 2, "random_state": 3, "max_iter": 1000}
        a = case.mixture(2, **settings).fit(X)
        b = case.mixture(2, **settings).fit(X[order])
        same(a, b, X, tolerance=1e-6)

    def test_a_label_is_never_overwritten(self, case, missing):
        """S15, W (22)."""
        X, y = case.data(seed=7, n=120, missing=missing)
        hidden = hide(y, 0.6)
        nb = fit(case, X, hidden)
        known = np.array([label is not None for label in hidden])
        np.testing.assert_array_equal(nb.transduction_[known], y[known])
        np.testing.assert_array_equal(nb.label_distributions_[known], np.eye(K)[y[known]])
        np.testing.assert_allclose(nb.label_distributions_[~known], nb.predict_proba(X[~known]))

    def test_candidates_restrict(self, case, missing):
        X, y = case.data(seed=7, n=120, missing=missing)
        evidence = np.ones((len(y), K))
        evidence[np.arange(len(y)), (y + 1) % K] = 0.0
        evidence[:9] = np.eye(K)[y[:9]]
        nb = fit(case, X, evidence)
        assert not (nb.label_distributions_[evidence == 0]).any()


@pytest.mark.parametrize("case", CASES[:3:2], ids=lambda case: case.name)
@pytest.mark.parametrize(
    "form", ["csr_array", "csr_matrix", "csc_array", "csc_matrix", "coo_array"]
)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_sparse_is_dense(case, form, alpha):
    """S8: the numbers do not depend on how the matrix is stored."""
    X, y = case.data(seed=7)
    X[:, 0] = 1.0  # a feature that every row has
    y = hide(y, 0.6)
    stored = getattr(sparse, form)(X)
    dense, other = fit(case, X, y, alpha=alpha), fit(case, stored, y, alpha=alpha)
    same(dense, other, X)
    joint = other.predict_joint_log_proba(stored)
    np.testing.assert_allclose(joint, dense.predict_joint_log_proba(X), rtol=1e-12)
    mixture = case.mixture(2, alpha=alpha, random_state=0, n_init=1)
    a, b = mixture.fit(X).objective_, mixture.fit(stored).objective_
    np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("binary", [True, False])
def test_documents_to_bags_of_words(binary):
    """S8: documents to binary or count bags of words, sparse from end to end, in a pipeline."""
    texts = ["goal match goal", "violin cello", "match goal time", "cello piano violin", "time"]
    labels = ["sport", "music", None, None, None]
    words = CountVectorizer(binary=binary)
    nb = tacit.BernoulliNB() if binary else tacit.MultinomialNB()
    pipeline = make_pipeline(words, nb).fit(texts, labels)
    assert pipeline.predict(texts).tolist() == ["sport", "music", "sport", "music", "sport"]
    counts = words.transform(texts)
    assert sparse.issparse(counts)
    np.testing.assert_allclose(nb.predict_proba(counts), nb.predict_proba(counts.toarray()))


def test_sparse_is_never_dense():
    """S8: a matrix whose dense form would take 80 GB is fitted and predicted."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((10_000, 1_000_000), density=1e-6, rng=rng, format="csr")
    y = [i % 2 if i < 100 else None for i in range(X.shape[0])]
    for nb in (tacit.BernoulliNB(max_iter=2, tol=1e9), tacit.MultinomialNB(max_iter=2, tol=1e9)):
        assert nb.fit(X, y).predict(X).shape == (10_000,)


QUAD = {"limit": 1000, "epsabs": 0.0, "epsrel": 1e-9}


@every_family
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_missing_cell_is_marginalised_out(case, alpha):
    """p(x without a cell | y) is the sum, or the integral, over what the cell may be."""
    X, y = case.data(seed=4)
    family = case.family(alpha, 0.1).bind(X)
    params = family.maximize(family.count(family.encode(X), np.eye(K)[y]))
    row, j = X[:1].copy(), 1

    def density(value):
        filled = row.copy()
        filled[0, j] = value
        return np.exp(family.score(params, family.encode(filled))[0])

    row[0, j] = np.nan
    found = np.exp(family.score(params, family.encode(row))[0])
    if case.name == "multinomial":  # the other words, drawn from what is left of the vocabulary
        p = np.exp(params.log_p) * (np.arange(X.shape[1]) != j)
        p /= p.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, np.prod(p ** np.nan_to_num(row), axis=1, where=p > 0))
        return
    if case.name in ("bernoulli", "categorical", "mixed"):
        expected = sum(density(value) for value in range(2 if case.name == "bernoulli" else 4))
    else:
        middle = X[:, j].mean()  # far from it the density is nothing
        expected = [
            integrate.quad(lambda v, k=k: density(v)[k], middle - 60, middle + 60, **QUAD)[0]
            for k in range(K)
        ]
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("case", [c for c in CASES if c.discrete], ids=lambda c: c.name)
def test_smoothing_is_a_prior(case):
    """S13: log_prior is the log density of Dirichlet(alpha + 1), up to a constant."""
    alpha = 0.7
    X, _ = case.data(seed=4)
    family = case.family(alpha, 0.0).bind(X)

    def both(seed):
        R = np.random.default_rng(seed).dirichlet(np.ones(K), len(X))
        params = family.maximize(family.count(family.encode(X), R))
        if case.name == "multinomial":
            tables = list(np.exp(params.log_p))
        elif case.name == "bernoulli":
            p = np.exp(params.log_p).ravel()
            tables = list(np.column_stack([p, 1 - p]))
        else:
            tables = [row for table in family.split(np.exp(params.log_p)) for row in table]
        density = sum(dirichlet.logpdf(row / row.sum(), [alpha + 1] * len(row)) for row in tables)
        return family.log_prior(params), density

    (prior_a, density_a), (prior_b, density_b) = both(1), both(2)
    np.testing.assert_allclose(prior_a - prior_b, density_a - density_b, rtol=1e-9)


@every_family
def test_samples_look_like_the_data(case):
    """S7: a model fitted to its own samples finds its parameters again."""
    X, y = case.data(seed=4, n=300)
    nb = case.classifier(random_state=0).fit(X, y)
    drawn, labels = nb.sample(60_000)
    again = case.classifier().fit(drawn, labels)
    np.testing.assert_allclose(again.class_count_ / 60_000, nb.class_count_ / 300, atol=0.01)
    if case.name == "mixed":
        np.testing.assert_allclose(
            nb.named_params_["size"].mean, again.named_params_["size"].mean, atol=0.15
        )
    for name in ("feature_log_prob_", "theta_", "var_", "means_", "covariance_"):
        for a, b in zip(getattr(nb, name, []), getattr(again, name, []), strict=True):
            scale = np.exp if name == "feature_log_prob_" else np.asarray
            np.testing.assert_allclose(scale(a), scale(b), rtol=0.06, atol=0.06)


def test_arrays_of_alpha():
    """A smoothing for each feature: Bernoulli, categorical and multinomial by hand."""
    X, y, alpha = np.array([[1.0, 0.0], [1.0, 1.0]]), [0, 0], np.array([1.0, 3.0])
    p = np.exp(tacit.BernoulliNB(alpha=alpha).fit(X, y).feature_log_prob_)
    np.testing.assert_allclose(p, [[3 / 4, 4 / 8]])
    p = np.exp(tacit.MultinomialNB(alpha=alpha).fit(X, y).feature_log_prob_)
    np.testing.assert_allclose(p, [[3 / 7, 4 / 7]])
    tables = tacit.CategoricalNB(alpha=alpha).fit(X, y).feature_log_prob_
    np.testing.assert_allclose(np.exp(tables[0]), [[1 / 4, 3 / 4]])
    np.testing.assert_allclose(np.exp(tables[1]), [[4 / 8, 4 / 8]])


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_categories_that_lie_beside_each_other(alpha):
    """Against rows that are spread over the categories by hand: counts, scores and the maximum."""
    rng = np.random.default_rng(0)
    X, R = rng.integers(0, 4, (60, 3)).astype(float), rng.dirichlet(np.ones(2), 60)
    X[rng.random(X.shape) < 0.1] = np.nan
    family = Categorical(alpha, 4, beside=(0.2, 0.0, 1 / 3)).bind(X)
    counts = family.count(family.encode(X), R)
    params = family.maximize(counts)
    scores = np.zeros((60, 2))
    for j, part in enumerate(family.beside):
        spread = np.eye(4) * (1 - 2 * part) + (np.eye(4, k=1) + np.eye(4, k=-1)) * part
        spread[[0, 3], [0, 3]] += part
        there = ~np.isnan(X[:, j])
        cells = spread[X[there, j].astype(int)]
        p = R[there].T @ cells + alpha
        p /= p.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.exp(family.split(params.log_p)[j]), p)
        scores[there] += cells @ np.log(p).T
    np.testing.assert_allclose(family.score(params, family.encode(X)), scores)
    best = family.log_joint(params, counts) + family.log_prior(params)
    assert best == pytest.approx((R * scores).sum() + alpha * params.log_p.sum())
    for _ in range(20):  # other shares are no better
        p = np.exp(params.log_p) * rng.uniform(0.9, 1.1, params.log_p.shape)
        log_p = np.log(p / family._totals(p))
        other = replace(params, log_p=log_p, cell_log_p=family._blurred(log_p))
        assert family.log_joint(other, counts) + family.log_prior(other) < best


def test_without_smoothing_what_lies_beside_is_impossible_too():
    family = Categorical(0.0, 5, beside=(1 / 6,)).bind(np.zeros((1, 1)))
    X = np.array([[0.0], [4.0]])
    params = family.maximize(family.count(family.encode(X), np.eye(2)))
    said = family.score(params, family.encode(np.arange(5.0)[:, None]))
    assert not np.isnan(said).any()
    assert np.isfinite(said[[0, 4], [0, 1]]).all()
    assert np.isneginf(said[[4, 0], [0, 1]]).all()


def test_a_class_as_if_it_had_more_rows():
    """Variances: the maximum of the posterior, and by hand that of rows as wide as all."""
    rng = np.random.default_rng(0)
    X, R = rng.normal(size=(30, 2)) * [1.0, 5.0], rng.dirichlet(np.ones(3), 30)
    family = Gaussian(var_smoothing=1e-3, prior_rows=1.7).bind(X)
    counts = family.count(family.encode(X), R)
    params = family.maximize(counts)
    n = R.sum(axis=0)[:, None]
    mean = R.T @ X / n
    squares = np.array([R[:, k] @ (X - mean[k]) ** 2 for k in range(3)])
    expected = (squares + 1.7 * X.var(axis=0)) / (n + 1.7) + family.noise
    np.testing.assert_allclose(params.variance, expected)

    def objective(variance):
        other = replace(params, variance=variance)
        return family.log_joint(other, counts) + family.log_prior(other)

    for place, factor in product(np.ndindex(3, 2), (0.999, 1.001)):
        variance = params.variance.copy()
        variance[place] *= factor
        assert objective(variance) < objective(params.variance)
    X = np.append(X, rng.normal(size=(270, 2)), axis=0)
    y = [0] * 3 + [1] * 3 + [None] * 294
    numbers = tacit.MixedNB(
        [("all", Gaussian(1e-3, prior_rows=1.0), slice(None))], max_iter=30, tol=0
    )
    with pytest.warns(ConvergenceWarning):
        numbers.fit(X, y)
    assert (np.diff(numbers.trace_) > -1e-9 * np.abs(numbers.trace_[1:])).all()


def test_a_shared_variance_is_a_part_of_the_squared_range():
    X = np.array([[1.0, 0.0], [3.0, np.nan], [2.0, 0.0], [2.0, 0.0]])
    labels = np.eye(2)[[0, 0, 1, 1]]
    family = Gaussian(shared=True).bind(X)
    found = family.maximize(family.count(family.encode(X), labels))
    part = (1.0 + 1.0) / 2.0**2 / 7  # seven cells; the second column does not vary
    np.testing.assert_allclose(found.variance, [[4.0 * part, part]] * 2)
    assert family.n_parameters(found) == 5
    counts = family.count(family.encode(X), labels)
    for factor in (0.999, 1.001):
        other = replace(found, variance=factor * found.variance)
        assert family.log_joint(other, counts) < family.log_joint(found, counts)


def test_em_with_a_shared_variance_rises():
    X = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 5.0, 0.1]
    X[::7, 1] = np.nan
    parts = [("all", Gaussian(shared=True), slice(None))]
    mixture = tacit.MixedMixture(parts, 9, max_iter=40, tol=0, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        mixture.fit(X)
    assert (np.diff(mixture.trace_) > -1e-9 * np.abs(mixture.trace_[1:])).all()


def test_a_shared_variance_does_not_vanish():
    X = np.array([[1.0], [3.0]])
    family = Gaussian(shared=True).bind(X)
    found = family.maximize(family.count(family.encode(X), np.eye(2)))
    np.testing.assert_allclose(found.variance, 4e-4)


def test_numbers_of_parameters():
    """The counts that AIC and BIC use."""
    X = np.array([[0, 2], [1, 0], [2, 1], [0, 1.0]])
    for family, expected in [
        (Bernoulli(), 2 * 2),
        (Categorical(), 2 * (2 + 2)),
        (Multinomial(), 2 * 1),
        (Gaussian(), 2 * 4),
    ]:
        bound = family.bind(X)
        params = bound.maximize(bound.count(bound.encode(X), np.ones((4, 2))))
        assert bound.n_parameters(params) == expected


@pytest.mark.parametrize("family", [Bernoulli, Multinomial])
def test_a_family_encodes_no_malformed_matrix(family):
    X = sparse.csr_matrix(np.ones((3, 3)))
    X.indices[4] = 50_000_000
    with pytest.raises(ValueError, match="indices"):
        NaiveBayes(family()).rows(X)


@pytest.mark.parametrize("family", [Bernoulli, Multinomial])
def test_the_log_prior_is_that_of_the_family_that_is_asked(family):
    X = sparse.csr_array(np.array([[1.0, 0, 1], [0, 1, 1], [1, 1, 0]]))
    own, other = family(1.0).bind(X), family(5.0).bind(X)
    params = own.maximize(own.count(own.encode(X), np.ones((3, 1))))
    np.testing.assert_allclose(other.log_prior(params), 5.0 * own.log_prior(params), rtol=1e-14)


@pytest.mark.parametrize("sparse_first", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_batches_may_be_dense_or_sparse(sparse_first, missing):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (40, 5)).astype(float), rng.integers(0, 2, 40)
    X[:20][rng.random((20, 5)) < missing] = np.nan
    dense, other = (X[:20], y[:20]), (X[20:], y[20:])
    together = tacit.BernoulliNB().partial_fit(*dense, classes=[0, 1]).partial_fit(*other)
    batches = (sparse.csr_array(other[0]), other[1]), dense
    batches = batches if sparse_first else batches[::-1]
    apart = tacit.BernoulliNB()
    for batch in batches:
        apart.partial_fit(*batch, classes=[0, 1])
    for name in ("feature_log_prob_", "feature_count_"):
        np.testing.assert_allclose(getattr(apart, name), getattr(together, name), rtol=1e-12)
