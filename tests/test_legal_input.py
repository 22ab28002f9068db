"""Labels and tables in every form that people have them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import tacit
from cases import CASES, K, hide
from robust import (
    NAN,
    B,
    X,
    check_sane,
    every_discrete,
    every_family,
    every_sparse,
    few_rounds,
    same_bits,
)
from tacit import BernoulliNB, CategoricalNB, MixedNB


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


def test_nan_that_numpy_made_text():
    with pytest.warns(UserWarning, match="missing_label='nan'"):
        tacit.MultinomialNB().fit(X, np.array(["a", "b", np.nan, "a"]))


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
    size = tacit.GaussianNB()
    parts = [
        ("f", BernoulliNB(), ["flag"]),
        ("k", CategoricalNB(), "kind"),
        ("s", size, ["size"]),
    ]
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


@pytest.mark.parametrize(
    "columns",
    [(0, 1), np.array([0, 1]), [True, True, False], pd.Index(["a", "b"]), ("a", "b"), slice(0, 2)],
)
def test_columns_may_be_said_in_many_ways(columns):
    frame = pd.DataFrame({"a": [0.0, 1.0, 5.0], "b": [1.0, 0.0, 7.0], "c": [9.0, 9.0, 9.0]})
    nb = tacit.MixedNB([("part", tacit.GaussianNB(), columns)]).fit(frame, [0, 0, 1])
    np.testing.assert_array_equal(nb._model.family.parts[0].columns, [0, 1])


def test_labels_in_pandas_own_dtypes():
    y = pd.Series([1, 2, pd.NA, 1], dtype="Int64")
    nb = tacit.MultinomialNB().fit([[1, 0], [0, 1], [1, 1], [2, 0]], y)
    assert nb.classes_.dtype.kind == "i"
    evidence = pd.DataFrame({"a": [1, 0, pd.NA, 1], "b": [0, 1, pd.NA, 1]}, dtype="Int64")
    named = tacit.MultinomialNB(classes=["a", "b"]).fit([[1, 0], [0, 1], [1, 1], [2, 0]], evidence)
    np.testing.assert_array_equal(named.transduction_[:2], ["a", "b"])
