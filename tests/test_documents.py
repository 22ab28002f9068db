"""Texts in columns of Arrow: the same words and counts as for the list of the same texts."""

import ctypes
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import kernels
from tacit.text import CountVectorizer, documents

TEXTS = [
    "The cat sat on the mat; the CAT's mat_2 was flat.",
    "",
    "İstanbul ΣΊΣΥΦΟΣ Σ Straße ﬁne naïve café CAFÉ Ⓐ x² ½ 10th K2",
    None,
    "Москва слезам НЕ верит 東京は夜の七時 東京 हिन्दी में नमस्ते 𝔘nicode 😀 emoji😀word",
    "short",
    "twelve bytes",
    "thirteen byte",
    "tab\tnew\nline\x00nul\u2028sep\u00a0space soft\u00adhyphen zero\u200bwidth",
    None,
]
SETTINGS = [
    {},
    {"lowercase": False},
    {"strip_accents": "unicode", "ngram_range": (1, 2)},
    {"strip_accents": "ascii", "lowercase": False},
    {"strip_accents": str.swapcase},
    {"stop_words": ["the", "москва"], "token_pattern": r"\b[a-zA-Z]+\b"},
    {"token_pattern": r"[^\s]+"},
]


class Foreign:
    """Texts of a library that nobody here knows, by one of the two ways in."""

    def __init__(self, texts, way):
        self.texts = texts
        setattr(self, way, getattr(texts, way))


def chunks(texts, kind):
    """Return texts in a chunk for each three, in the middle of longer ones, and an empty one."""
    parts = [texts[at : at + 3] for at in range(0, len(texts), 3)]
    padded = [pa.array(["before" * 5, None, *part, "after"], kind) for part in parts]
    sliced = [array.slice(2, len(array) - 3) for array in padded]
    return pa.chunked_array([*sliced, pa.array([], kind)], kind)


FORMS = {
    "polars": pl.Series,
    "polars chunked": lambda t: pl.concat([pl.Series(t[:4], dtype=pl.String)] * 2).slice(4),
    "pandas": lambda t: pd.Series(t, dtype="string[pyarrow]"),
    "pandas as it is": pd.Series,
    "pandas Arrow": lambda t: pd.Series(t, dtype=pd.ArrowDtype(pa.large_string())),
    "pandas objects": lambda t: pd.Series(t, dtype=object),
    "array": pa.array,
    "large": lambda t: pa.array(t, pa.large_utf8()),
    "views": lambda t: pa.array(t, pa.string_view()),
    "chunked": lambda t: chunks(t, pa.utf8()),
    "chunked large": lambda t: chunks(t, pa.large_utf8()),
    "chunked views": lambda t: chunks(t, pa.string_view()),
    "foreign array": lambda t: Foreign(pa.array(t), "__arrow_c_array__"),
    "foreign stream": lambda t: Foreign(pl.Series(t), "__arrow_c_stream__"),
}


def check_same(column, texts, **settings_):
    """Compare a column with the list of its texts, for several numbers of threads."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(missing|token_pattern)")
        theirs = CountVectorizer(**settings_, n_jobs=1)
        try:
            expected = theirs.fit_transform([text or "" for text in texts])
            expected.sort_indices()
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:16]):
                CountVectorizer(**settings_).fit(column)
            return
        for threads in (1, 2, 5):
            ours = CountVectorizer(**settings_, n_jobs=threads)
            for found in ours.fit_transform(column), theirs.transform(column):
                assert list(theirs.vocabulary_.items()) == list(ours.vocabulary_.items())
                found.sort_indices()
                for name in "indptr", "indices", "data":
                    np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("settings_", SETTINGS, ids=str)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_same_as_a_list(form, settings_):
    texts = (TEXTS[:4] if form is FORMS["polars chunked"] else TEXTS) * 1
    check_same(form(texts), texts, **settings_)


def test_many_texts_in_many_tasks():
    rng = np.random.default_rng(0)
    words = np.array([f"wörd{i}" * (1 + i % 4) for i in range(3000)])
    texts = [" ".join(rng.choice(words, rng.integers(0, 40))) for _ in range(1500)]
    check_same(pl.Series(texts), texts)
    check_same(chunks(texts, pa.string_view()), texts, ngram_range=(1, 2))


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=30), max_size=8),
    kind=st.sampled_from([pa.utf8(), pa.large_utf8(), pa.string_view()]),
    accents=st.sampled_from([None, "ascii", "unicode"]),
    lowercase=st.booleans(),
)
def test_the_same_on_any_text(texts, kind, accents, lowercase):
    settings_ = {"strip_accents": accents, "lowercase": lowercase, "token_pattern": r"\w+"}
    check_same(chunks(texts, kind), texts, **settings_)


@pytest.mark.parametrize("form", [pl.Series, pa.array, lambda t: chunks(t, pa.string_view())])
def test_missing_texts(form):
    with pytest.warns(UserWarning, match="2 of 3 texts are missing \\(the first is text 1\\)"):
        X = CountVectorizer().fit_transform(form(["one two", None, None]))
    assert X.sum(axis=1).tolist() == [[2], [0], [0]]
    with pytest.warns(UserWarning, match="2 of 2"), pytest.raises(ValueError, match="empty vocab"):
        CountVectorizer().fit(pl.Series([None, None]))


def test_without_kernels(monkeypatch):
    monkeypatch.setenv("TACIT_ENGINE", "numpy")
    check_same(pl.Series(["one Two", "two"]), ["one Two", "two"])


def test_what_is_no_column_of_texts():
    frame = {"text": ["one", "two"]}
    for table in pl.DataFrame(frame), pd.DataFrame(frame), pa.table(frame), np.array([["a"]]):
        with pytest.raises(ValueError, match="pass one column of it"):
            CountVectorizer().fit(table)
    for column in pl.Series([1, 2]), pl.Series(["a"], dtype=pl.Categorical), pa.array([b"bytes"]):
        with pytest.raises(ValueError, match=r"expected strings .* cast it"):
            CountVectorizer().fit(column)
    with pytest.raises(TypeError, match="Text 1 is 5: expected str or bytes"):
        CountVectorizer().fit(["one", 5])
    assert CountVectorizer().fit(pd.Series(["one", "two"], dtype="category")).vocabulary_


def test_neither_polars_nor_pyarrow_is_imported(monkeypatch):
    column = pl.Series(["one", "two"])
    for name in "polars", "pyarrow":
        monkeypatch.setitem(sys.modules, name, None)
    assert CountVectorizer().fit(column).vocabulary_ == {"one": 0, "two": 1}


# Producers that break their word.


def broken(values, offsets, kind):
    """Return an array of strings over any bytes and offsets, which pyarrow does not look at."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def not_utf8(text):
    """Return what is said of a text that is not UTF-8: the kernel names it, Python the byte."""
    return f"text {text} is not valid UTF-8" if kernels.native() else "codec can't decode"


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",  # no first byte
        b"caf\xc3",  # ends within a character
        b"\xc0\xaf",  # longer than it need be
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",  # half a surrogate
        b"\xf4\x90\x80\x80",  # behind the last character
        b"\xf8\x88\x80\x80\x80",
        b"\xe2\x28\xa1",
        b"\xce\xa3 \xff",  # behind a letter that is lowered by Python
    ],
)
def test_what_is_not_utf8(data):
    with pytest.raises(UnicodeDecodeError):
        data.decode()
    column = broken(data, np.array([0, 0, len(data)], np.int32), pa.utf8())
    with pytest.raises(ValueError, match=not_utf8(1)):
        CountVectorizer().fit(column)
    with pytest.raises(UnicodeDecodeError):
        CountVectorizer(token_pattern=r"\S+").fit(column)


def test_an_error_in_a_thread_reaches_the_caller():
    """Wherever the text is, and whoever reads it; and threads are there for the next job."""
    n = 20_000
    words, offsets = b"ab " * n, np.arange(0, 3 * n + 1, 3, dtype=np.int32)
    whole = CountVectorizer(n_jobs=3)
    for place in 0, n // 2, n - 1:
        wrong = words[: 3 * place] + b"\xff\xff " + words[3 * place + 3 :]
        with pytest.raises(ValueError, match=not_utf8(place)):
            CountVectorizer(n_jobs=3).fit(broken(wrong, offsets, pa.utf8()))
        assert whole.fit_transform(broken(words, offsets, pa.utf8())).sum() == n


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=8) | st.text(max_size=3).map(lambda t: t.encode("utf-8", "replace")))
def test_what_is_utf8_is_what_python_decodes(data):
    column = broken(b"ab " + data, np.array([0, 3 + len(data)], np.int32), pa.utf8())
    try:
        texts = [(b"ab " + data).decode()]
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match=not_utf8(0)):
            CountVectorizer().fit(column)
    else:
        check_same(column, texts)


@pytest.mark.parametrize("kind", [pa.utf8(), pa.large_utf8()])
@pytest.mark.parametrize("offsets", [[0, 3, 1], [0, -5, 3]])
def test_offsets_that_go_back(kind, offsets):
    column = broken(b"abc", np.array(offsets, "i4" if kind == pa.utf8() else "i8"), kind)
    with pytest.raises(ValueError, match=r"text [01] of the Arrow column lies outside"):
        CountVectorizer().fit(column)


@pytest.mark.parametrize("view", [(-1, 0, 0, 0), (20, 0, 1, 0), (20, 0, -1, 0), (20, 0, 0, 8)])
def test_views_of_nothing(view):
    views = np.array([view], np.int32)
    buffers = [None, pa.py_buffer(views), pa.py_buffer(b"twenty-five bytes of text")]
    column = pa.Array.from_buffers(pa.string_view(), 1, buffers)
    with pytest.raises(ValueError, match="text 0 of the Arrow column lies outside"):
        CountVectorizer().fit(column)


class Stream(ctypes.Structure):
    """The C structure of a stream; what a function is not given for is a null pointer."""

    CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    _fields_ = (
        ("get_schema", CALL),
        ("get_next", CALL),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


class Broken:
    """A producer whose stream is what the test makes it."""

    def __init__(self, name=b"arrow_array_stream", **functions):
        self.released = 0
        types = dict(Stream._fields_)
        functions.setdefault("release", self.release)
        self.stream = Stream(**{key: types[key](value) for key, value in functions.items()})
        self.name = name

    def release(self, _):
        self.released += 1

    def __arrow_c_stream__(self, requested_schema=None):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p] * 2
        return make(ctypes.addressof(self.stream), self.name, None, None)


def test_streams_that_fail():
    why = ctypes.create_string_buffer(b"no")
    fails = {"get_schema": lambda *_: 5, "get_next": lambda *_: 5}
    failing = Broken(**fails, get_last_error=lambda _: ctypes.addressof(why))
    with pytest.raises(ValueError, match="cannot be read: no"):
        documents.read(failing)
    assert failing.released == 1
    with pytest.raises(ValueError, match="released already"):
        documents.read(failing)
    with pytest.raises(ValueError, match="cannot be read: error 5"):
        documents.read(Broken(**fails))
    with pytest.raises(ValueError, match="have no type"):
        documents.read(Broken(get_schema=lambda *_: 0, get_next=lambda *_: 0))
    with pytest.raises(ValueError, match="have no reader"):
        documents.read(Broken())
    with pytest.raises(ValueError, match="incorrect name"):
        documents.read(Broken(name=b"another"))


@pytest.mark.parametrize("given_", [lambda *_: None, lambda *_: ("one", "two"), lambda *_: (1,)])
def test_what_is_no_capsule(given_):
    for way in "__arrow_c_stream__", "__arrow_c_array__":
        producer = type("Producer", (), {way: given_})()
        with pytest.raises((ValueError, TypeError)):
            documents.read(producer)


def strings_then(last, **changed):
    """Return a producer of one array, with fields of its structure changed, and of what follows."""
    names = ["length", "null_count", "offset", "n_buffers", "n_children", "buffers"]
    answers = [0, last]

    def get_schema(_, schema):
        pa.utf8()._export_to_c(schema)
        return 0

    def get_next(_, array):
        if len(answers) == 2:
            pa.array(["one", "two"])._export_to_c(array)
            fields = (ctypes.c_int64 * len(names)).from_address(array)
            for name, value in changed.items():
                fields[names.index(name)] = value
        return answers.pop(0)

    return Broken(get_schema=get_schema, get_next=get_next)


def test_a_stream_that_fails_in_the_middle():
    assert documents.listed(documents.read(strings_then(0))) == ["one", "two"]
    with pytest.raises(ValueError, match="cannot be read: error 7"):
        documents.read(strings_then(7))


@pytest.mark.parametrize(
    "changed",
    [
        {"length": -1},
        {"length": 2**62},
        {"offset": -1},
        {"offset": 2**63 - 1},
        {"n_buffers": 2},
        {"n_buffers": -1},
        {"buffers": 0},
    ],
)
def test_arrays_that_cannot_be(changed):
    with pytest.raises(ValueError, match="lies outside of its buffers"):
        documents.read(strings_then(0, **changed))
