"""Words against scikit-learn's CountVectorizer, the oracle."""

import gzip
import re
import sys
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction import text as of_sklearn

from real_data import data_file
from tacit import kernels
from tacit.text import CountVectorizer, vectorizer

TEXTS = [
    "The cat sat on the mat; the CAT's mat_2 was flat.",
    "",
    "İstanbul ΣΊΣΥΦΟΣ Straße ﬁne naïve café CAFÉ Ⓐ x² 10th K2",
    "Москва слезам НЕ верит 東京は夜の七時 東京 हिन्दी में नमस्ते 𝔘nicode 😀 emoji😀word",
    "a b c I x-ray e-mail foo.bar user@example.com the and of",
    "tab\tnew\nline\x00nul\u2028sep\u00a0space soft\u00adhyphen zero\u200bwidth",
]


def same(texts, new=(), **settings_):
    """Compare both on texts, and what they then make of new ones."""
    theirs, expected = of_sklearn.CountVectorizer(**settings_), None
    try:
        expected = theirs.fit_transform(texts)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error)[:40])):
            CountVectorizer(**settings_).fit_transform(texts)
        return
    found = [CountVectorizer(**settings_, n_jobs=jobs) for jobs in (1, 3)]
    for ours in found:
        X = ours.fit_transform(texts)
        assert ours.vocabulary_ == theirs.vocabulary_
        assert (expected != X).nnz == 0
        assert (X.dtype, X.indices.dtype, X.indptr.dtype, type(X)) == (
            expected.dtype,
            expected.indices.dtype,
            expected.indptr.dtype,
            type(expected),
        )
        assert (ours.transform(texts) != expected).nnz == 0
        assert (ours.transform(list(new)) != theirs.transform(list(new))).nnz == 0
        assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())


@pytest.mark.parametrize(
    "settings_",
    [
        {},
        {"lowercase": False},
        {"strip_accents": "unicode"},
        {"strip_accents": "ascii"},
        {"strip_accents": str.swapcase},
        {"stop_words": "english"},
        {"stop_words": ["the", "cat", "москва"], "ngram_range": (1, 3)},
        {"ngram_range": (2, 2)},
        {"token_pattern": r"\w+"},
        {"token_pattern": r"(?u)\b\w{3,}\b", "binary": True},
        {"token_pattern": r"[a-zA-Z]+"},
        {"token_pattern": r"\b[a-zA-Z]+\b"},
        {"token_pattern": r"\b[A-Za-z][A-Za-z]+\b", "lowercase": False},
        {"token_pattern": r"[^\s]+"},
        {"token_pattern": r"\b\w\d+"},
        {"min_df": 2},
        {"max_df": 1},
        {"max_features": 5},
        {"max_df": 0.5, "min_df": 1, "max_features": 3, "ngram_range": (1, 2)},
        {"vocabulary": ["cat", "mat", "mat_2", "café"]},
        {"vocabulary": {"mat": 1, "cat": 0}},
        {"dtype": np.float32},
        {"analyzer": "char", "ngram_range": (1, 2)},
        {"tokenizer": str.split, "token_pattern": None},
        {"preprocessor": str.upper},
    ],
)
def test_the_same_as_scikit_learn(settings_):
    same(TEXTS, new=["A new cat, старая Москва", ""], **settings_)


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(st.text(max_size=40), min_size=1, max_size=6),
    lowercase=st.booleans(),
    pattern=st.sampled_from([r"(?u)\b\w\w+\b", r"\w+", r"[a-zA-Z]+", r"\b[a-zA-Z]{2,}\b"]),
    last=st.integers(1, 2),
    accents=st.sampled_from([None, "ascii", "unicode"]),
)
def test_the_same_on_any_text(texts, lowercase, pattern, last, accents):
    settings_ = {"lowercase": lowercase, "token_pattern": pattern, "strip_accents": accents}
    same(texts, **settings_, ngram_range=(1, last))


@pytest.mark.parametrize("accents", [None, "ascii", "unicode"])
def test_every_character(accents):
    """Each code point between letters and by itself: what becomes of it, and is it of a word."""
    points = [chr(c) for c in range(sys.maxunicode + 1)]
    pieces = [points[at : at + 5000] for at in range(0, len(points), 5000)]
    lines = ["".join(f"Ab{c}c {c}{c} " for c in piece) for piece in pieces]
    same(lines, strip_accents=accents)


def test_many_texts_in_many_tasks():
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(5000)])
    texts = [" ".join(rng.choice(words, 30)) for _ in range(1000)]
    same(texts, new=texts[:10])
    same(np.array(texts), max_features=50)


@pytest.mark.parametrize(
    ("name", "every"),
    [("20newsgroups/20news-bydate.jsonl", 100), ("alignment/en-es/corpus.tsv", 5)],
)
def test_the_same_on_real_texts(name, every):
    """English posts with all their headers; Spanish sentences."""
    with gzip.open(data_file(f"{name}.gz"), "rt", encoding="utf-8") as lines:
        texts = list(islice(lines, 0, None, every))
    for settings_ in {}, {"strip_accents": "unicode", "min_df": 2}, {"lowercase": False}:
        same(texts, new=texts[:5], **settings_)


def test_bytes_and_missing_texts():
    ours = CountVectorizer()
    X = ours.fit_transform([b"caf\xc3\xa9 cat", "cat"])
    assert sorted(ours.vocabulary_) == ["café", "cat"]
    assert X.sum() == 3
    with pytest.warns(UserWarning, match="2 of 3 texts are missing \\(the first is text 1\\)"):
        X = ours.fit_transform(["one two", None, np.nan])
    assert X.sum(axis=1).tolist() == [[2], [0], [0]]
    with pytest.raises(UnicodeDecodeError):
        ours.fit(["fine", b"\xff"])
    with pytest.raises(ValueError, match="string object received"):
        ours.fit("no list")
    with pytest.raises(ValueError, match="empty vocabulary"):
        ours.fit(["", "?"])


def test_it_is_an_estimator():
    ours = CountVectorizer(min_df=2, n_jobs=1)
    assert clone(ours).get_params() == ours.get_params()
    names = set(of_sklearn.CountVectorizer().get_params()) | {"n_jobs"}
    assert set(ours.get_params()) == names


@pytest.mark.skipif(kernels.native() is None, reason="there are no kernels")
def test_what_is_counted_natively(monkeypatch):
    def fail(*_):
        raise AssertionError("scikit-learn was asked")

    monkeypatch.setattr(of_sklearn.CountVectorizer, "_count_vocab", fail)
    for settings_ in (
        {},
        {"ngram_range": (1, 2)},
        {"stop_words": "english"},
        {"strip_accents": "ascii"},
    ):
        CountVectorizer(**settings_).fit(TEXTS)


@pytest.mark.parametrize("pattern", [r"\w", r"\w\w\w+", r"\b[a-zA-Z]+", r"\w{0,}", r"\w+?"])
def test_patterns_that_are_left_to_re(pattern):
    assert vectorizer.pattern_of(pattern) is None
