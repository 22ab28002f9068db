"""Bad input raises an error that says what was found and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import tacit
from cases import CASES, K, hide
from robust import INF, NAN, X, Y, every_discrete, every_family, wrong
from tacit import BernoulliNB, CategoricalNB, GaussianNB, MixedNB, MultinomialNB

# Bad features


@every_family
@pytest.mark.parametrize("method", ["fit", "predict"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda X: X[0], "1D array"),
        (lambda X: X[None], "dim 3"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: X[:, :0], "0 feature"),
        (lambda X: np.where(X[0, 0] == X, INF, X), "infinity"),
        (lambda X: np.where(X[0, 0] == X, -INF, X), "infinity"),
        (lambda X: np.full(X.shape, "word"), "strings|convert"),
        (lambda X: pd.DataFrame(X).astype(object).replace(X[0, 0], "word"), "'word'"),
        (lambda X: X * 1j, "Complex"),
        (lambda X: None, "scalar|None"),
    ],
)
def test_features_that_are_no_table_of_numbers(case, method, bad, message):
    X, y = case.data(0, n=12)
    estimators = [case.classifier(), case.mixture(2, random_state=0)]
    for estimator in estimators:
        with wrong(message):
            if method == "fit":
                estimator.fit(bad(X), y)
            else:
                estimator.fit(X, y).predict(bad(X))


@every_family
def test_other_features_than_in_fit(case):
    X, y = case.data(0, n=12)
    frame = pd.DataFrame(X, columns=list("abcde"))
    for estimator in case.classifier(), case.mixture(2, random_state=0):
        with wrong("X has 4 features, but .* is expecting 5"):
            estimator.fit(X, y).predict(X[:, :4])
        estimator.fit(frame, y)
        with wrong("feature names should match"):
            estimator.predict(frame[list("edcba")])
    with wrong("X has 4 features, but .* is expecting 5"):
        case.classifier().partial_fit(X, y, classes=range(K)).partial_fit(X[:, :4], y)


@every_family
def test_methods_before_fit(case):
    for estimator in case.classifier(), case.mixture(2):
        for method in "predict", "predict_proba", "score_samples":
            with wrong("not fitted yet"):
                getattr(estimator, method)(X)
        with wrong("not fitted yet"):
            estimator.sample()


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_negative_counts(container):
    bad = container(np.array([[1.0, 0.0], [-1.0, 2.0]]))
    with wrong("Negative values .* counts cannot be negative"):
        MultinomialNB().fit(bad, [0, 1])
    with wrong("Negative values .* counts cannot be negative"):
        MultinomialNB().fit(abs(bad), [0, 1]).predict(bad)


def test_categories_that_are_no_codes():
    with wrong("Negative values .* coded 0, 1"):
        CategoricalNB().fit([[0], [-1]], [0, 1])
    with wrong("coded 9007199254740992.*OrdinalEncoder"):
        CategoricalNB().fit([[0], [1e20]], [0, 1])
    with pytest.warns(UserWarning, match="0.5 in row 1, column 0 is rounded down"):
        CategoricalNB().fit([[0], [0.5]], [0, 1])
    fitted = CategoricalNB(handle_unknown="error").fit([[0], [1]], [0, 1])
    with wrong("unknown category 5 in column 0, row 1: training had 0 to 1"):
        fitted.predict([[0], [5]])


def test_binary_features_that_are_not():
    for bad in X, sparse.csr_array(X), X - 1:
        with wrong("must be 0 and 1, or -1 and [+]1. Found .*2"):
            BernoulliNB(binarize=None).fit(bad + bad, Y)
    with wrong("threshold < 0"):
        BernoulliNB(binarize=-1.0).fit(sparse.csr_array(X), Y)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_features_where_the_family_is_dense(container):
    for case in CASES:
        if case.name in ("categorical", "gaussian", "tied", "full"):
            with wrong("Sparse data .* dense data is required.*toarray"):
                case.classifier().fit(container(X), Y)
            with wrong("Sparse data .* dense data is required.*toarray"):
                case.mixture(2).fit(container(X))


# Bad weights


@every_family
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1.0] * 11, r"\(11,\), expected \(12,\)"),
        ([[1.0]] * 12, "1D array or scalar, got 2D"),
        ([1.0] * 11 + [NAN], "sample_weight contains NaN"),
        ([1.0] * 11 + [INF], "sample_weight contains infinity"),
        ([1.0] * 11 + [-2.0], "must not be negative. Found -2"),
        ([0.0] * 12, "zero"),
        (["heavy"] * 12, "'heavy'"),
    ],
)
def test_weights_that_are_none(case, bad, message):
    X, y = case.data(0, n=12)
    with wrong(message):
        case.classifier().fit(X, y, sample_weight=bad)
    with wrong(message):
        case.classifier().partial_fit(X, y, classes=range(K), sample_weight=bad)
    with wrong(message):
        case.mixture(2).fit(X, sample_weight=bad)


# Bad labels


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y .* mixture"),
        ([0, 1], r"inconsistent numbers of samples: \[4, 2\]"),
        (3, r"shape \(\)"),
        (np.zeros((4, 2, 2)), r"shape \(4, 2, 2\)"),
        ([[0, 1], [1], [0], [0]], "different lengths"),
        ([0, 1, 0, INF], "infinity"),
        ([0, 1, None, -INF], "infinity"),
        ([0.5, 1.2, 3.3, 0.1], "continuous"),
        (["a", 1, "a", None], "mixes text and numbers"),
        (np.array(["a", 1, "a", None], dtype=object), "mixes text and numbers"),
        (np.array([b"a", b"b", b"a", b"b"]), "bytes"),
        ([None] * 4, "Every label is missing.*classes=.*mixture"),
        ([NAN] * 4, "Every label is missing.*classes=.*mixture"),
        (pd.Series([None] * 4, dtype="string"), "Every label is missing.*classes=.*mixture"),
    ],
)
def test_labels_that_are_none(y, message):
    with wrong(message):
        BernoulliNB().fit(X, y)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.0, 0.0], "all zero.* row 2"),
        ([1.0, -1.0], "non-negative and finite .* row 2"),
        ([1.0, INF], "non-negative and finite .* row 2"),
        ([1.0, NAN], "non-negative and finite .* row 2"),
        (["a", "b"], "not numeric.*'a'"),
    ],
)
def test_evidence_that_is_none(row, message):
    with wrong(message):
        BernoulliNB().fit(X, [[1, 0], [0, 1], row, [1, 1]])


def test_evidence_with_other_columns_than_classes():
    with wrong("3 columns of evidence but classes names 2"):
        BernoulliNB(classes=["a", "b"]).fit(X, np.ones((4, 3)))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 1, 1], r"twice: \[0, 1, 1\]"),
        ([], r"shape \(0,\)"),
        ("ab", r"shape \(\)"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([0, 2], r"\[1\] in y do not exist in the initial classes \[0, 2\]"),
        (["0", "1"], r"\[0, 1\] in y do not exist"),
    ],
)
def test_classes_that_do_not_fit(classes, message):
    with wrong(message):
        BernoulliNB(classes=classes).fit(X, Y)
    with wrong(message):
        BernoulliNB().partial_fit(X, Y, classes=classes)


def test_partial_fit_needs_classes_and_labels():
    with wrong("classes must be passed on the first call"):
        BernoulliNB().partial_fit(X, Y)
    with wrong("first call to partial_fit needs rows with labels"):
        BernoulliNB(classes=[0, 1]).partial_fit(X, [None] * 4)
    started = BernoulliNB().partial_fit(X, Y, classes=[0, 1])
    with wrong(r"`classes=\[0, 1, 2\]` is not the same as on last call"):
        started.partial_fit(X, Y, classes=[0, 1, 2])
    with wrong(r"\[7\] in y do not exist"):
        started.partial_fit(X, [0, 1, 7, 0])


# Bad parameters

EM_VALUES = {
    "max_iter": [0, 1.5, "many", None],
    "tol": [-1.0, NAN, INF, "small", None],
    "n_init": [0, 1.5, None],
    "init": ["bogus", 3, None],
    "random_state": ["dice", -1, 1.5],
    "assignment": ["firm", None],
    "class_alpha": [-1.0, NAN, INF, [1.0, 1.0]],
    "warm_start": ["yes", None],
    "n_jobs": [1.5, "all"],
    "verbose": ["loud", -1],
    "callback": [3, "print"],
}
CLASSIFIER_VALUES = {"unlabeled_weight": [-1.0, NAN, INF, "half"]}
OWN_VALUES: list[tuple[type, dict[str, list[Any]]]] = [
    (BernoulliNB, {"alpha": [-1.0, NAN, INF, "much", None], "force_alpha": ["yes"]}),
    (BernoulliNB, {"binarize": ["half", [0.0]], "fit_prior": ["yes", 2], "class_prior": [0.5]}),
    (CategoricalNB, {"min_categories": [0, "two"], "handle_unknown": ["ignore", None]}),
    (GaussianNB, {"var_smoothing": [-1.0, NAN, INF, "little"], "priors": [0.5, "flat"]}),
    (tacit.GaussianDiscriminant, {"covariance": ["spherical", None], "var_smoothing": [-1.0]}),
    (MixedNB, {"parts": ["words", {"a": GaussianNB()}]}),
    (tacit.BernoulliMixture, {"n_components": [0, 1.5, "two"], "init": ["labels", "kmeans"]}),
    (tacit.GaussianMixture, {"covariance_type": ["spherical"], "reg_covar": [-1.0, NAN]}),
    (tacit.GaussianMixture, {"weights_init": [0.5], "means_init": ["mean"], "init": ["labels"]}),
]


def parameter_values():
    """Yield each estimator with each parameter value that it must refuse."""
    for case in CASES:
        yield from ((case.classifier(), *pair) for pair in (EM_VALUES | CLASSIFIER_VALUES).items())
        yield from ((case.mixture(2), *pair) for pair in EM_VALUES.items())
    yield from ((make(), *pair) for make, values in OWN_VALUES for pair in values.items())


@pytest.mark.parametrize(
    ("estimator", "name", "values"),
    [pytest.param(*v, id=f"{type(v[0]).__name__}-{v[1]}") for v in parameter_values()],
)
def test_unknown_parameter_values(estimator, name, values):
    for value in values:
        with wrong(f"'{name}' parameter of {type(estimator).__name__} must be .* Got "):
            clone(estimator).set_params(**{name: value}).fit(X, Y)


@every_discrete
@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        ([1.0, 1.0], r"each of the 3 features. Got shape \(2,\)"),
        (np.ones((2, 3)), r"each of the 3 features. Got shape \(2, 3\)"),
        ([1.0, -1.0, 1.0], r"finite and at least 0. Got \[1.0, -1.0, 1.0\]"),
        ([1.0, NAN, 1.0], "finite and at least 0"),
        ([1.0, INF, 1.0], "finite and at least 0"),
        (["a", "b", "c"], "'a'"),
    ],
)
def test_alpha_that_does_not_fit(case, alpha, message):
    for estimator in case.classifier(alpha=alpha), case.mixture(2, alpha=alpha):
        with wrong(message):
            estimator.fit(X, Y)


@pytest.mark.parametrize(("make", "name"), [(BernoulliNB, "class_prior"), (GaussianNB, "priors")])
@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([1.0], r"match number of classes. Got shape \(1,\) for 2"),
        ([[0.5, 0.5]], r"match number of classes. Got shape \(1, 2\) for 2"),
        ([0.5, 0.6], "sum of the priors should be 1. Got 1.1"),
        ([1.5, -0.5], "non-negative"),
        ([NAN, 1.0], "non-negative"),
        ([INF, 0.0], "Got inf"),
        ([1.0, 0.0], "is 0, but rows can have no other"),
        (["a", "b"], "'a'"),
    ],
)
def test_class_priors_that_are_none(make, name, prior, message):
    with wrong(message):
        make(**{name: prior}).fit(X, Y)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2.5, "integral type. Got float64"),
        ([2, 2], r"shape \(3,\) .* Got \(2,\)"),
        (["a", "b", "c"], "integral type"),
    ],
)
def test_min_categories_that_do_not_fit(value, message):
    with wrong(message):
        CategoricalNB(min_categories=value).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weights_init", [1.0], r"shape of \(2,\), got \(1,\)"),
        ("weights_init", [0.6, 0.6], "sum to 1"),
        ("weights_init", [NAN, 1.0], "must be finite"),
        ("means_init", [[1.0, 2.0]], r"shape of \(2, 3\), got \(1, 2\)"),
        ("precisions_init", np.eye(3), r"shape of \(2, 3, 3\), got \(3, 3\)"),
    ],
)
def test_starts_of_a_gaussian_mixture_that_do_not_fit(name, value, message):
    with wrong(message):
        tacit.GaussianMixture(2, random_state=0, **{name: value}).fit(X)


@every_family
@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.ones((20, K + 1)), r"shape \(20, 4\): expected .* 20 rows and 3 classes"),
        (np.ones(20), r"shape \(20,\): expected .* 20 rows and 3 classes"),
        (np.zeros((20, K)), "no row of it all zero"),
        (np.full((20, K), NAN), "finite"),
        (-np.ones((20, K)), "non-negative"),
        ([["a"] * K] * 20, "'a'"),
    ],
)
def test_starts_that_do_not_fit(case, init, message):
    X, y = case.data(0, n=20)
    for start in init, lambda X, K, random_state: init:
        with wrong(message):
            case.classifier(init=start).fit(X, hide(y, 0.5))
        with wrong(message):
            case.mixture(K, init=start).fit(X)


@every_family
def test_a_symmetric_start_is_refused(case):
    X, y = case.data(0, n=20)
    with wrong("Use init='random', or label a row of each class"):
        case.mixture(2, init="uniform").fit(X)
    with wrong("Use init='random', or label a row of each class"):
        case.classifier(init="uniform", classes=range(K)).fit(X, [None] * len(y))


@every_family
def test_a_warm_start_with_other_classes(case):
    X, _ = case.data(0, n=20)
    mixture = case.mixture(2, random_state=0, warm_start=True).fit(X)
    with wrong(r"previous fit had classes \[0, 1\] and 5 features"):
        mixture.set_params(n_components=3).fit(X)


@every_family
def test_samples_that_cannot_be_drawn(case):
    X, y = case.data(0)
    fitted = case.classifier().fit(X, y)
    for bad in 0, -1:
        with wrong(f"'n_samples': {bad}. It must be at least 1"):
            fitted.sample(bad)


def test_an_unknown_engine(monkeypatch):
    monkeypatch.setenv("TACIT_ENGINE", "abacus")
    with wrong("'abacus': set it to 'native' or 'numpy'"):
        CategoricalNB().fit(X, Y)


FRAME = pd.DataFrame(X, columns=["colour", "size", "width"])
ONE = GaussianNB()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "parts is empty"),
        ([("a", ONE)], "must be .name, classifier or family, columns.: .'a'"),
        (["abc"], "must be .name, classifier or family, columns.: 'abc'"),
        ([("a", None, [0])], "Part 'a' is None: expected one of tacit's"),
        ([("a", GaussianNB, [0])], "Part 'a' is .*class.*: expected one of tacit's"),
        ([("a", "drop", [0])], "Part 'a' is 'drop': expected one of tacit's"),
        ([("a", ONE, ["color"])], "no column 'color': did you mean 'colour'. There are .*width"),
        ([("a", ONE, "zzz")], "no column 'zzz'. There are .*width"),
        ([("a", ONE, [0, 7])], r"\[0, 7\] do not fit X with 3 features: index 7"),
        ([("a", ONE, [-9])], r"\[-9\] do not fit X with 3 features"),
        ([("a", ONE, [])], r"\[\] choose nothing out of 3"),
        ([("a", ONE, slice(5, 9))], "choose nothing out of 3"),
        ([("a", ONE, [True, False])], r"\[True, False\] do not fit X with 3"),
        ([("a", ONE, 1.5)], "1.5 do not fit X with 3"),
        ([("a", ONE, [0]), ("b", CategoricalNB(), [0])], "Column 0 is in more than one part"),
        ([("a", ONE, [2]), ("b", ONE, [-1])], "Column 2 is in more than one part"),
        ([("a", ONE, ["size", "size"])], "Column 1 is in more than one part"),
        ([("a", ONE, [0]), ("a", ONE, [1])], r"not unique: \['a', 'a'\]"),
        ([("a__b", ONE, [0])], "must not contain __"),
        ([("init", ONE, [0])], r"conflict .*\['init'\]"),
        ([("a", CategoricalNB(alpha=-1.0), [0])], "alpha.*Got -1"),
        ([("a", MultinomialNB(alpha=[1.0, 1.0]), [0])], "each of the 1 features"),
    ],
)
def test_parts_that_do_not_fit(parts, message):
    for estimator in MixedNB(parts), tacit.MixedMixture(parts, 2):
        with wrong(message):
            estimator.fit(FRAME, Y)


def test_columns_by_name_without_names():
    with wrong("given by name, but X has no column names"):
        MixedNB([("a", ONE, ["size"])]).fit(X, Y)


@pytest.mark.parametrize("nb", [tacit.BernoulliNB(), tacit.MultinomialNB()])
def test_sparse_input_that_is_not_what_it_seems(nb):
    with wrong("sparse and contains NaN or infinity. Missing cells need a dense X"):
        nb.fit(sparse.csr_array([[np.nan, 1.0], [1.0, 1.0]]), [0, 1])
    twice = sparse.csr_array((np.ones(4), [0, 0, 1, 1], [0, 2, 4]), (2, 2))
    a, b = clone(nb).fit(twice, [0, 1]), clone(nb).fit(twice.toarray(), [0, 1])
    np.testing.assert_array_equal(a.feature_count_, b.feature_count_)
    assert twice.nnz == 4  # the caller's matrix is not touched


def test_parts_are_checked_as_estimators_are():
    for part, message in [
        (tacit.GaussianDiscriminant(covariance="bogus"), "'covariance' parameter"),
        (tacit.CategoricalNB(handle_unknown="eror"), "'handle_unknown' parameter"),
        (tacit.GaussianNB(var_smoothing=-1e-5), "'var_smoothing' parameter"),
        (tacit.MixedNB([("a", tacit.GaussianNB(), [0])]), "no mixed one"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            tacit.MixedNB([("a", part, [0])]).fit([[0], [1]], [0, 1])


@pytest.mark.parametrize("columns", [None, True, [[0], [1]], 1.5, []])
def test_columns_that_are_none(columns):
    with wrong("Columns"):
        tacit.MixedNB([("part", tacit.GaussianNB(), columns)]).fit([[0.0, 1], [1, 2]], [0, 1])


def test_starts_of_a_gaussian_mixture_must_be_numbers():
    Z = np.random.default_rng(0).normal(size=(20, 2))
    for name, value, message in [
        ("means_init", [[np.nan, 0], [1, 1]], "finite"),
        ("precisions_init", np.zeros((2, 2, 2)), "positive-definite"),
        ("precisions_init", [[[1, 2], [0, 1]]] * 2, "symmetric"),
    ]:
        with wrong(message):
            tacit.GaussianMixture(2, **{name: value}).fit(Z)
    with wrong("positive"):
        tacit.GaussianMixture(2, covariance_type="diag", precisions_init=np.zeros((2, 2))).fit(Z)


@pytest.mark.parametrize(
    ("classes", "message"),
    [([0, 1, np.nan], "missing label"), (["a", None], "missing label"), (["a", 0], "mixes text")],
)
def test_classes_that_are_none(classes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tacit.MultinomialNB(classes=classes).fit([[1, 0], [0, 1]], [0, 0])
