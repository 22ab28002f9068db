"""Term weights: sublinear counts, idf, length, and informative words."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_selection import mutual_info_classif

from tacit.text.weighting import TermWeights, informative_words


def counts(seed=0, n=60, d=40):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(d, 0.3), 2)
    y = np.arange(n) % 2
    X = np.stack([rng.multinomial(rng.integers(3, 60), p[k]) for k in y])
    return sparse.csr_array(X.astype(float)), y


def test_formula():
    X, _ = counts()
    dense, n = X.toarray(), X.shape[0]
    rows = (dense > 0).sum(axis=0)
    kept = np.flatnonzero(rows > 1)
    weighted = np.log1p(dense[:, kept]) * np.log((1 + n) / rows[kept]) ** 0.75
    weighted *= (weighted > 0).sum() / weighted.sum()
    length = weighted.sum(axis=1, keepdims=True)
    expected = weighted * (1 + length / 10) ** -1
    found = TermWeights().fit_transform(X)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
    assert found.sum(axis=1).max() < 10  # no text counts for more


def test_length_exponent_one_leaves_lengths_alone():
    X, _ = counts(1)
    plain = TermWeights(length_scale=np.inf).fit_transform(X)
    np.testing.assert_allclose(
        TermWeights(length_exponent=1.0).fit_transform(X).toarray(), plain.toarray()
    )


def test_no_row_goes_empty():
    X = sparse.csr_array([[2, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 0, 3]])
    found = TermWeights().fit(X)
    assert found.columns_.tolist() == [0, 1, 2]  # 0: the only word of its row; 3 is not
    assert (found.transform(X).sum(axis=1) > 0).all()
    names = found.get_feature_names_out(["a", "b", "c", "d"])
    assert names.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["all zero", "one row", "new words"])
def test_odd_rows(kind):
    X, _ = counts(2)
    if kind == "all zero":
        found = TermWeights().fit_transform(sparse.csr_array((3, 4)))
        assert found.nnz == 0
    elif kind == "one row":
        assert np.isfinite(TermWeights().fit_transform(X[[0]]).toarray()).all()
    else:
        weights = TermWeights().fit(X)
        empty = weights.transform(sparse.csr_array((5, X.shape[1])))
        assert empty.shape == (5, len(weights.columns_))
        assert empty.nnz == 0


def test_dense_is_sparse_and_zeros_that_are_stored_count_for_nothing():
    X, _ = counts(3)
    expected = TermWeights().fit_transform(X).toarray()
    np.testing.assert_array_equal(TermWeights().fit_transform(X.toarray()).toarray(), expected)
    stored = X.copy()
    stored.data = stored.data.copy()
    stored.data[::3] = 0.0
    clean = stored.copy()
    clean.eliminate_zeros()
    np.testing.assert_allclose(
        TermWeights().fit_transform(stored).toarray(), TermWeights().fit_transform(clean).toarray()
    )


def test_informative_words_are_those_of_most_mutual_information():
    X, y = counts(4)
    present = (X.toarray() > 0).astype(int)
    information = mutual_info_classif(present, y, discrete_features=True)
    best = np.argsort(-information, kind="stable")[:7]
    assert set(informative_words(X, y, 7)) == set(best)
    partly = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    some = mutual_info_classif(present[partly >= 0], y[partly >= 0], discrete_features=True)
    np.testing.assert_allclose(
        np.sort(some[informative_words(X, partly, 7)]), np.sort(some)[-7:], atol=1e-12
    )


def test_words_need_labels():
    X, y = counts(5)
    assert len(TermWeights(words=5).fit(X, y).columns_) == 5
    with pytest.raises(ValueError, match="needs labels"):
        TermWeights(words=5).fit(X)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("idf", -1), ("length_scale", 0), ("length_exponent", 2), ("words", 0)],
)
def test_settings_are_checked(setting, value):
    X, y = counts()
    with pytest.raises(ValueError, match=f"The '{setting}' parameter"):
        clone(TermWeights(**{setting: value})).fit(X, y)


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="Negative values"):
        TermWeights().fit(np.array([[1.0, -1.0], [1.0, 0.0]]))
