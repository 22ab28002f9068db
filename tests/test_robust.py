"""Bad input says what was found and what to do; odd but legal input gives finite, right results."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import tacit
from cases import CASES, K, hide, mixed_parts
from tacit import BernoulliNB, CategoricalNB, GaussianNB, MixedNB, MultinomialNB

NAN, INF = np.nan, np.inf
DISCRETE = ["bernoulli", "categorical", "multinomial"]

every_family = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_discrete = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in DISCRETE], ids=lambda case: case.name
)
every_sparse = pytest.mark.parametrize("make", [BernoulliNB, MultinomialNB])
few_rounds = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Four documents of three words, and labels; B is the same as zeros and ones.
X = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
Y = np.array([0, 1, 0, 1])
B = (X > 0).astype(float)


def wrong(match: str) -> Any:
    """Expect an error that a user can act on."""
    return pytest.raises((ValueError, TypeError), match=match)


def arrays(value: Any) -> list[np.ndarray]:
    """Return every array and number in a fitted estimator or a part of it."""
    if isinstance(value, np.ndarray | float | int):
        return [np.asarray(value)]
    if isinstance(value, dict):
        return [array for part in value.values() for array in arrays(part)]
    if isinstance(value, list | tuple):
        return [array for part in value for array in arrays(part)]
    if type(value).__module__.startswith("tacit"):
        return arrays(vars(value))
    return []


def check_sane(estimator: Any, *tables: Any) -> None:
    """No NaN in what was fitted nor in what is predicted, and probabilities sum to one."""
    for array in arrays(estimator):
        assert array.dtype.kind != "f" or not np.isnan(array).any()
    for table in tables:
        proba = estimator.predict_proba(table)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)
        assert not np.isnan(estimator.predict_joint_log_proba(table)).any()
        assert not np.isnan(estimator.score_samples(table)).any()


def same_bits(a: Any, b: Any, *tables: Any) -> None:
    for table in tables:
        np.testing.assert_array_equal(a.predict_proba(table), b.predict_proba(table))
        np.testing.assert_array_equal(a.score_samples(table), b.score_samples(table))
    np.testing.assert_array_equal(a.trace_, b.trace_)


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
    with wrong(r"fit before had classes \[0, 1\] and 5 features"):
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
        ([("a", ONE, ["color"])], "no column 'color'. Did you mean 'colour'. It has .*'width'"),
        ([("a", ONE, "zzz")], "no column 'zzz'. It has .*'width'"),
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


# Legal labels


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["a", None, "b", "a"], ["a", "b"]),
        (["a", NAN, "b", "a"], ["a", "b"]),
        (np.array(["a", None, "b", "a"], dtype=object), ["a", "b"]),
        (pd.Series(["a", None, "b", "a"]), ["a", "b"]),
        (pd.Series(["a", None, "b", "a"], dtype=object), ["a", "b"]),
        (pd.Series(["a", None, "b", "a"], dtype="category"), ["a", "b"]),
        (pd.Categorical(["a", None, "b", "a"]), ["a", "b"]),
        (pd.Series([1, None, 2, 1], dtype="Int64"), [1, 2]),
        (pd.Series([1, None, 2, 1], dtype="Float64"), [1, 2]),
        (pd.Series([True, None, False, True], dtype="boolean"), [False, True]),
        ([True, None, False, True], [False, True]),
        ([1, NAN, 2, 1], [1, 2]),
        (np.array([1, NAN, 2, 1], dtype=np.float32), [1, 2]),
    ],
)
def test_missing_labels_of_any_type(y, classes):
    nb = BernoulliNB().fit(B, y)
    assert nb.classes_.tolist() == classes
    known = [1, 0, 1] if classes == [False, True] else [0, 1, 0]
    np.testing.assert_array_equal(nb.transduction_[[0, 2, 3]], nb.classes_[known])
    assert nb.transduction_[1] in classes
    same_bits(nb, BernoulliNB(classes=classes).fit(B, y), B)
    assert nb.class_count_.sum() == pytest.approx(4)


@pytest.mark.parametrize(
    ("y", "marks"),
    [
        ([0, -1, 1, 0], -1),
        ([0.0, -1.0, 1.0, 0.0], -1),
        (np.array([0, -1, 1, 0], dtype=np.int8), [-1, 9]),
        (["a", "?", "b", "a"], "?"),
        (np.array(["a", "", "b", "a"]), ["?", ""]),
        (pd.Series(["a", "?", "b", "a"]), ("?", None)),
        (pd.Series(["a", "?", "b", "a"], dtype="category"), {"?"}),
    ],
)
def test_marks_of_missing_labels(y, marks):
    nb = BernoulliNB(missing_label=marks).fit(B, y)
    assert len(nb.classes_) == 2
    np.testing.assert_array_equal(
        nb.label_distributions_, BernoulliNB().fit(B, [0, None, 1, 0]).label_distributions_
    )


def test_minus_one_is_a_class_but_looks_like_a_mark():
    with pytest.warns(UserWarning, match="set missing_label=-1"):
        assert BernoulliNB().fit(B, [0, 1, -1, 0]).classes_.tolist() == [-1, 0, 1]
    for y, classes in (([1, -1, 1, -1], None), ([0, 1, -1, 0], [-1, 0, 1])):  # no warning
        assert -1 in BernoulliNB(classes=classes).fit(B, y).classes_


def test_labels_as_a_column():
    column = pd.DataFrame({"label": ["a", None, "b", "a"]})
    for y in column, column.to_numpy():
        with pytest.warns(UserWarning, match=r"column-vector y .* ravel\(\)"):
            same_bits(BernoulliNB().fit(B, y), BernoulliNB().fit(B, column["label"]), B)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evidence_says_what_labels_say(case):
    """One-hot is a label, all equal and NaN are none, scale and class order do not matter."""
    X, y = case.data(1)
    labels = hide(y, 0.5)
    evidence = np.array([np.full(K, NAN) if v is None else 3.0 * np.eye(K)[v] for v in labels])
    evidence[np.flatnonzero(np.isnan(evidence[:, 0]))[::2]] = 1e-300
    names = np.array(["c", "a", "b"])
    by_label = case.classifier().fit(X, [None if v is None else names[v] for v in labels])
    for form in evidence, evidence.tolist(), pd.DataFrame(evidence), evidence.astype(object):
        by_evidence = case.classifier(classes=names).fit(X, form)
        assert by_evidence.classes_.tolist() == ["a", "b", "c"]
        same_bits(by_evidence, by_label, X)


# Legal features


@few_rounds
@every_family
def test_the_form_of_a_table_does_not_matter(case):
    X, y = case.data(2, missing=0.1)
    labels = hide(y, 0.5)
    wide = np.zeros((2 * len(X), 2 * X.shape[1]))
    wide[::2, ::2] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    expected = case.classifier(max_iter=10).fit(X, labels).predict_proba(X)
    for form in (
        np.asfortranarray(X),
        wide[::2, ::2],
        frozen,
        X[::-1][::-1],
        X.tolist(),
        X.astype(object),
        pd.DataFrame(X, columns=list("abcde")).astype("Float64"),
    ):
        fitted = case.classifier(max_iter=10).fit(form, labels)  # the layout may change BLAS's way
        np.testing.assert_allclose(fitted.predict_proba(form), expected, rtol=1e-9, atol=1e-12)


@every_discrete
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool", "float32"])
def test_the_type_of_numbers_does_not_matter(case, dtype):
    table = (B if dtype == "bool" else X).astype(dtype)
    labels = [0, 1, None, None]
    same_bits(
        case.classifier().fit(table, labels),
        case.classifier().fit(table.astype(float), labels),
        table,
    )


def test_nullable_columns_hold_missing_cells():
    frame = pd.DataFrame(
        {
            "flag": pd.Series([True, None, False, True], dtype="boolean"),
            "kind": pd.Series([0, 1, None, 1], dtype="Int64"),
            "size": pd.Series([0.5, None, 2.0, 1.0], dtype="Float32"),
        }
    )
    parts = [("f", BernoulliNB(), ["flag"]), ("k", CategoricalNB(), "kind"), ("s", ONE, ["size"])]
    nb = MixedNB(parts).fit(frame, [0, 1, 0, None])
    check_sane(nb, frame)
    table = frame.astype("Float64").to_numpy(dtype=float, na_value=NAN)
    by_number = [(name, part, [j]) for j, (name, part, _) in enumerate(parts)]
    np.testing.assert_array_equal(
        nb.label_distributions_, MixedNB(by_number).fit(table, [0, 1, 0, None]).label_distributions_
    )


@every_sparse
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("form", ["matrix", "array"])
def test_sparse_forms(make, kind, form):
    labels = [0, 1, None, None]
    expected = make().fit(X, labels).predict_proba(X)
    table = getattr(sparse, f"{kind}_{form}")(X)
    for dtype in "float64", "float32", "int8", "uint8":
        nb = make().fit(table.astype(dtype), labels)
        np.testing.assert_allclose(nb.predict_proba(table), expected, rtol=1e-12)


@every_sparse
def test_sparse_input_with_long_indices_and_explicit_zeros(make):
    labels = [0, 1, None, None]
    expected = make().fit(X, labels).predict_proba(X)
    full = np.indices(X.shape).reshape(2, -1)  # a cell is stored even if it is zero
    stored = sparse.csr_array((X.ravel(), (full[0], full[1])), X.shape)
    assert stored.nnz == X.size
    halves = sparse.coo_array((np.tile(X.ravel() / 2, 2), np.tile(full, 2)), X.shape)
    long = sparse.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    for table in stored, halves, long:
        nb = make().fit(table, labels)
        np.testing.assert_allclose(nb.predict_proba(table), expected, rtol=1e-12)


# Edge cases


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
    nb, without = case.classifier().fit(holes, labels), case.classifier().fit(X, labels)
    check_sane(nb, holes, np.nan_to_num(holes))
    np.testing.assert_allclose(nb.predict_proba(holes), without.predict_proba(X), atol=1e-3)


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
    unknown = np.isnan(evidence).all(axis=1) | (evidence == evidence[:, :1]).all(axis=1)
    assert nb.class_count_.sum() == pytest.approx(np.sum(weight[~unknown]) + weight[unknown].sum())
    mixture = case.mixture(3, n_init=2, **settings, **smoothing).fit(X, sample_weight=weight)
    check_sane(mixture, X, np.nan_to_num(X))
    assert np.isfinite([mixture.bic(X), mixture.aic(X), mixture.icl(X)]).all()


# The same bits


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


# Hooks


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


def test_sums_of_squares_do_not_cancel():
    """Clusters that are far apart and tight, from a start halfway between them."""
    rng = np.random.default_rng(0)
    for far in (1e5, 1e8):
        Z = np.r_[rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + far]
        for covariance in ("diag", "tied", "full"):
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


@pytest.mark.parametrize("nb", [tacit.BernoulliNB(), tacit.MultinomialNB()])
def test_sparse_input_that_is_not_what_it_seems(nb):
    with wrong("sparse and contains NaN: missing cells need a dense X"):
        nb.fit(sparse.csr_array([[np.nan, 1.0], [1.0, 1.0]]), [0, 1])
    twice = sparse.csr_array((np.ones(4), [0, 0, 1, 1], [0, 2, 4]), (2, 2))
    a, b = clone(nb).fit(twice, [0, 1]), clone(nb).fit(twice.toarray(), [0, 1])
    np.testing.assert_array_equal(a.feature_count_, b.feature_count_)
    assert twice.nnz == 4  # the caller's matrix is not touched


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


def test_parts_are_checked_as_estimators_are():
    for part, message in [
        (tacit.GaussianDiscriminant(covariance="bogus"), "'covariance' parameter"),
        (tacit.CategoricalNB(handle_unknown="eror"), "'handle_unknown' parameter"),
        (tacit.GaussianNB(var_smoothing=-1e-5), "'var_smoothing' parameter"),
        (tacit.MixedNB([("a", tacit.GaussianNB(), [0])]), "no mixed one"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            tacit.MixedNB([("a", part, [0])]).fit([[0], [1]], [0, 1])


@pytest.mark.parametrize(
    "columns",
    [(0, 1), np.array([0, 1]), [True, True, False], pd.Index(["a", "b"]), ("a", "b"), slice(0, 2)],
)
def test_columns_may_be_said_in_many_ways(columns):
    frame = pd.DataFrame({"a": [0.0, 1.0, 5.0], "b": [1.0, 0.0, 7.0], "c": [9.0, 9.0, 9.0]})
    nb = tacit.MixedNB([("part", tacit.GaussianNB(), columns)]).fit(frame, [0, 0, 1])
    np.testing.assert_array_equal(nb._model.family.parts[0].columns, [0, 1])


@pytest.mark.parametrize("columns", [None, True, [[0], [1]], 1.5, []])
def test_columns_that_are_none(columns):
    with wrong("Columns"):
        tacit.MixedNB([("part", tacit.GaussianNB(), columns)]).fit([[0.0, 1], [1, 2]], [0, 1])


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


def test_labels_in_pandas_own_dtypes():
    y = pd.Series([1, 2, pd.NA, 1], dtype="Int64")
    nb = tacit.MultinomialNB().fit([[1, 0], [0, 1], [1, 1], [2, 0]], y)
    assert nb.classes_.dtype.kind == "i"
    evidence = pd.DataFrame({"a": [1, 0, pd.NA, 1], "b": [0, 1, pd.NA, 1]}, dtype="Int64")
    named = tacit.MultinomialNB(classes=["a", "b"]).fit([[1, 0], [0, 1], [1, 1], [2, 0]], evidence)
    np.testing.assert_array_equal(named.transduction_[:2], ["a", "b"])


@pytest.mark.parametrize(
    ("classes", "message"),
    [([0, 1, np.nan], "missing label"), (["a", None], "missing label"), (["a", 0], "mixes text")],
)
def test_classes_that_are_none(classes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tacit.MultinomialNB(classes=classes).fit([[1, 0], [0, 1]], [0, 0])
