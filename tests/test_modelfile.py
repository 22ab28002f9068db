"""Model files: what is saved is what is loaded, and nothing else is."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tacit
from cases import CASES, K, hide
from modelfiles import GOLDEN, at, is_read_or_refused, pack, places, unpack
from robust import every_family, few_rounds
from tacit.io.records import decode, encode, plain
from tacit.modelfile.registry import RECORDS, of_parameters
from tacit.text import CountVectorizer

pytestmark = few_rounds


def fitted(case, seed=0, missing=0.1):
    """Return rows, and estimators of the case that were fitted in several ways."""
    X, y = case.data(seed, 50, missing)
    some = hide(y, 0.5)
    stream = case.classifier(classes=[2, 0, 1], random_state=1).partial_fit(X[:30], some[:30])
    return X, [
        case.classifier(random_state=1, max_iter=20).fit(X, some),
        case.classifier(random_state=1).fit(X, y),
        stream,
        case.mixture(K, random_state=1, n_init=2, max_iter=20).fit(X),
    ]


def again(model, directory):
    """Return the model after a way through a file."""
    model.save(directory / "model")
    return tacit.load(directory / "model")


def equal(a, b):
    """Return whether attributes are the same, to the bit."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and (
            a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
        )
    return type(a) is type(b) and a == b


def same_predictions(a, b, X):
    for method in ("predict", "predict_proba", "predict_joint_log_proba", "score_samples"):
        assert equal(getattr(a, method)(X), getattr(b, method)(X))
    for x, y in zip(a.sample(7), b.sample(7), strict=True):
        assert equal(x, y)


@every_family
def test_a_loaded_model_is_the_same_to_the_bit(case, tmp_path):
    X, models = fitted(case)
    for model in models:
        loaded = again(model, tmp_path)
        same_predictions(model, loaded, X)
        public = {n: v for n, v in vars(model).items() if n[0] != "_" and n[-1] == "_"}
        for name in ("label_distributions_", "transduction_"):  # about the training rows
            public.pop(name, None)
            assert not hasattr(loaded, name)
        public.pop("named_params_", None)  # records, compared by what they predict
        assert all(equal(value, getattr(loaded, name)) for name, value in public.items())
        before = (tmp_path / "model").read_bytes()
        loaded.save(str(tmp_path / "model"))
        assert (tmp_path / "model").read_bytes() == before


@every_family
def test_a_pickled_model_predicts_the_same(case):
    X, models = fitted(case)
    for model in models:
        model.predict_proba(X)  # fills the caches of the params
        same_predictions(model, pickle.loads(pickle.dumps(model)), X)


@every_family
def test_a_loaded_model_goes_on_where_it_stopped(case, tmp_path):
    X, (fit, _, stream, mixture) = fitted(case)
    y = hide(case.data(0, 50, 0.1)[1], 0.5)
    evidence = np.eye(K)[np.arange(50) % K] + 0.5  # in the order of `classes`
    for labels in (y, evidence):
        loaded = again(stream, tmp_path).partial_fit(X[30:], labels[30:])
        same_predictions(stream.partial_fit(X[30:], labels[30:]), loaded, X)
    for model, labels in ((fit, y), (mixture, None)):
        model.set_params(warm_start=True, max_iter=3)
        loaded = again(model, tmp_path)
        same_predictions(model.fit(X, labels), loaded.fit(X, labels), X)
        assert equal(model.trace_, loaded.trace_)


NAMES = [
    ["é", "日本", "a\0b"],
    np.array(["x", "longer", "y"], dtype=object),
    np.array(["x", "y", "z"], dtype="<U9"),
    [10, -3, 7],
    np.array([1, 2, 3], dtype=np.uint8),
    [0.0, 1.0, 5.0],
    [False, True],
    pd.Series(["u", "v", "w"], dtype="string"),
    pd.Series([4, 5, 6], dtype="Int64"),
]


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_class_names(names, tmp_path):
    y = list(names) * 4
    X = np.arange(len(y) * 2.0).reshape(-1, 2) % 5
    for classes in (None, names):
        model = tacit.GaussianNB(classes=classes).fit(X, np.array(y) if classes is None else y)
        loaded = again(model, tmp_path)
        assert equal(model.classes_, loaded.classes_)
        assert equal(model.predict(X), loaded.predict(X))


def test_names_of_columns(tmp_path):
    table = pd.DataFrame({"colour": [0.0, 1, 1, 0], "größe": [1.0, 2.0, np.nan, 0.5]})
    parts = [("c", tacit.CategoricalNB(), "colour"), ("s", tacit.families.Gaussian(), ["größe"])]
    model = tacit.MixedNB(parts).fit(table, ["a", "b", None, None])
    loaded = again(model, tmp_path)
    same = model.predict_proba(table) == loaded.predict_proba(table)
    assert same.all()
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table.rename(columns={"colour": "color"}))


@pytest.mark.parametrize(
    "columns", [[0, 1], slice(0, 2), slice(None, None, 2), np.array([True, False, True]), 2, -1]
)
def test_columns_of_parts(columns, tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = tacit.MixedNB([("some", tacit.GaussianNB(), columns)]).fit(X, np.arange(20) % 2)
    assert equal(model.predict_proba(X), again(model, tmp_path).predict_proba(X))


def test_parameters(tmp_path):
    X, y = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, None, None]
    model = tacit.MultinomialNB(
        alpha=[0.5, np.float32(2)], class_prior=(0.25, 0.75), missing_label={None, "?"},
        classes=range(2), n_jobs=1, verbose=0, callback=print, tol=1, random_state=np.int64(3),
    )  # fmt: skip
    kept = again(model.fit(X, y), tmp_path).get_params()
    assert kept["alpha"] == [0.5, 2.0]
    assert kept["class_prior"] == (0.25, 0.75)
    assert kept["missing_label"] == {None, "?"}
    assert (kept["classes"], kept["tol"], kept["random_state"]) == ([0, 1], 1, 3)
    assert (kept["n_jobs"], kept["callback"]) == (None, None)

    def start(X, K, rng):
        return np.eye(K)[np.arange(len(X)) % K]

    mixture = tacit.GaussianMixture(2, init=start, random_state=np.random.RandomState(0)).fit(X)
    kept = again(mixture, tmp_path).get_params()
    assert (kept["init"], kept["random_state"]) == ("kmeans", None)


@pytest.mark.parametrize("alpha", [0.0, 1e-12])
def test_what_is_impossible_stays_impossible(alpha, tmp_path):
    X, y = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]), [0, 1]
    for make in (tacit.BernoulliNB, tacit.MultinomialNB, tacit.CategoricalNB):
        model = make(alpha=alpha, classes=[0, 1, 2]).fit(X, y)
        loaded = again(model, tmp_path)
        assert equal(model.predict_joint_log_proba(X), loaded.predict_joint_log_proba(X))
        assert equal(model.predict_proba(X[::-1]), loaded.predict_proba(X[::-1]))


def test_what_cannot_be_saved_is_said(tmp_path):
    target, X = tmp_path / "model", np.arange(8.0).reshape(4, 2)
    target.write_bytes(b"old")
    with pytest.raises(ValueError, match="not fitted"):
        tacit.GaussianNB().save(target)
    model = tacit.GaussianNB().fit(X, [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"missing_label is .*date.* cannot be saved"):
        model.set_params(missing_label=pd.Timestamp("2020-01-01").date()).save(target)
    changed = (
        tacit.GaussianDiscriminant().fit(X + X % 3, [0, 1, 0, 1]).set_params(covariance="diag")
    )
    with pytest.raises(ValueError, match="not those of the fit"):
        changed.save(target)
    with pytest.raises(ValueError, match="too long"):
        model.set_params(missing_label="x" * 5_000_000).save(target)

    class Mine(tacit.GaussianNB):
        pass

    with pytest.raises(TypeError, match="Mine is not a class of tacit"):
        Mine().fit(X, [0, 1, 0, 1]).save(target)
    with pytest.raises(FileNotFoundError):
        model.set_params(missing_label=None).save(tmp_path / "none" / "model")
    assert target.read_bytes() == b"old"


def test_vectorizers_are_kept():
    texts = ["Ein Haus, ein Baum", "le bœuf 日本 語", "a b c haus"]
    for settings_ in (
        {},
        {"ngram_range": (1, 2), "stop_words": ["ein"], "min_df": 1, "binary": True},
        {"vocabulary": {"haus": 1, "baum": 0}},
        {"token_pattern": r"\d+|\w", "dtype": np.float32, "lowercase": False},
        {"analyzer": "char", "max_features": 70, "strip_accents": "unicode"},
    ):
        vectorizer = CountVectorizer(**settings_).fit(texts)
        tree, arrays = encode(vectorizer, RECORDS)
        loaded = decode(json.loads(json.dumps(tree)), arrays, RECORDS)
        a, b = vectorizer.transform(texts), loaded.transform(texts)
        assert a.dtype == b.dtype
        assert (a.toarray() == b.toarray()).all()
        assert (
            loaded.get_feature_names_out().tolist() == vectorizer.get_feature_names_out().tolist()
        )
    unfitted = decode(*encode(CountVectorizer(), RECORDS), RECORDS)
    assert not hasattr(unfitted, "vocabulary_")
    with pytest.raises(ValueError, match="function as tokenizer"):
        encode(CountVectorizer(tokenizer=str.split, token_pattern=None), RECORDS)


@dataclass(frozen=True)
class Column:
    name: str
    share: float
    values: tuple[str, ...]
    words: CountVectorizer | None


class Framed(tacit.MultinomialNB):
    _saved: ClassVar[dict[str, Any]] = {"_columns": tuple[Column, ...]}


def test_an_estimator_may_have_more_to_keep(tmp_path, monkeypatch):
    monkeypatch.setitem(RECORDS, "Column", plain(Column))
    monkeypatch.setitem(RECORDS, "Framed", of_parameters(Framed))
    model = Framed().fit([[1, 0], [0, 1]], ["a", "b"])
    words = CountVectorizer().fit(["one two three"])
    many = tuple(map(str, range(100)))
    model._columns = Column("kind", 0.5, many, None), Column("text", 1, (), words)
    first, second = again(model, tmp_path)._columns
    assert first == model._columns[0]
    assert second.words.vocabulary_ == words.vocabulary_
    content, arrays = unpack(tmp_path / "model")
    content["model"]["Saved"]["more"]["dict"]["_columns"]["tuple"][0]["Column"]["name"] = 3
    (tmp_path / "model").write_bytes(pack(content, arrays))
    with pytest.raises(tacit.ModelFileError, match="Column has name=3: expected str"):
        tacit.load(tmp_path / "model")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_files_are_read(path):
    expected = json.loads((path.parent / "expected.json").read_text())[path.name]
    model = tacit.load(path)
    assert type(model).__name__ in path.name
    np.testing.assert_allclose(model.predict_proba(expected["X"]), expected["p"], rtol=1e-9)


def test_there_is_a_golden_file_of_every_estimator():
    names = {path.stem.split("-")[1] for path in GOLDEN}
    ours = tacit.estimators.base.EMEstimator, tacit.TextClassifier
    saved = {name for name, record in RECORDS.items() if issubclass(record.type, ours)}
    assert names | {"Alike"} == saved  # which is in files of tables, as alike-TableClassifier


# What is not a model file.


def header(text: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text + data


FOREIGN = {
    "nothing": (b"", "header too small"),
    "text": (b"label,text\nspam,hello\n", "too long"),
    "pickle": (pickle.dumps(tacit.GaussianNB()), "too long"),
    "a claim": (header(b"{}", length=1 << 62), "too long"),
    "a claim below the limit": (header(b"{}", length=1 << 20), "header"),
    "other tensors": (header(b'{"__metadata__":{"format":"pt"}}'), "no 'tacit'"),
    "no metadata": (header(b"{}"), "no 'tacit'"),
    "no JSON": (pack("{", {}), "Expecting"),
    "no object": (pack("[]", {}), "format"),
    "depth": (pack("[" * 100_000, {}), "recursion"),
    "a key twice": (pack('{"format":1,"format":1}', {}), "twice"),
    "NaN": (pack('{"format":NaN}', {}), "NaN"),
    "digits": (pack('{"format":' + "9" * 10_000 + "}", {}), "digits"),
    "a later format": (pack('{"format":2,"version":"9"}', {}), "format 2.*upgrade"),
    "no format": (pack('{"format":true}', {}), "format"),
    "no estimator": (pack('{"format":1,"version":"","model":{"tuple":[]}}', {}), "estimator"),
    "escapes": (pack('{"format":1,"version":"","model":{"\\u001b[2J\\ud800":1}}', {}), r"x1b\[2J"),
    "an import": (pack('{"format":1,"version":"","model":{"os.system":{}}}', {}), "unknown kind"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_other_files_are_refused(name, tmp_path):
    content, match = FOREIGN[name]
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(tacit.ModelFileError, match=match) as found:
        tacit.load(path)
    assert str(path) in str(found.value)
    assert "\n" not in str(found.value)


def test_no_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        tacit.load(tmp_path / "none")
    with pytest.raises(tacit.ModelFileError, match="not a regular file"):
        tacit.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tacit.ModelFileError, match="not a regular file"):
        tacit.load(tmp_path / "pipe")


def golden(name: str) -> Path:
    return next(path for path in GOLDEN if name in path.name and "components" not in path.name)


def set_to(array, value):
    changed = array.copy()
    changed.flat[0] = value
    return changed


WORDS, COUNTS = "statistics.features.words", "statistics.features.counts"
DAMAGE = [
    ("MultinomialNB", WORDS, lambda a: set_to(a, np.nan), "NaN or infinity"),
    ("MultinomialNB", WORDS, lambda a: set_to(a, -1.0), "at least 0"),
    ("MultinomialNB", WORDS, lambda a: set_to(a, 1e6), "sums to"),
    ("MultinomialNB", WORDS, lambda a: np.full_like(a, 1e308), "sums to"),
    ("MultinomialNB", WORDS, lambda a: a.astype(np.float32), "words"),
    ("MultinomialNB", WORDS, lambda a: a[:, :-1].copy(), "shape"),
    ("MultinomialNB", WORDS, lambda a: None, "missing"),
    ("MultinomialNB", "more.spare", lambda a: np.zeros(3), "nothing refers"),
    ("MultinomialNB", "order", lambda a: np.zeros(3, np.int64), "order"),
    ("MultinomialNB", "classes", lambda a: a[::-1].copy(), "class names"),
    ("MultinomialNB", "classes", lambda a: set_to(a, 1 << 30), "no text"),
    ("BernoulliNB", "statistics.classes", lambda a: set_to(a, np.inf), "NaN or infinity"),
    ("BernoulliNB", "model.family.alpha", lambda a: set_to(a, -1.0), "alpha"),
    ("CategoricalNB", COUNTS, lambda a: a[:, :-1].copy(), "counts has shape"),
    ("gaussian-GaussianNB", "model.family.spread", lambda a: -a, "spread"),
    ("gaussian-GaussianNB", "statistics.features.squares", lambda a: a - np.inf, "squares"),
    ("gaussian-GaussianNB", "statistics.features.pilot", lambda a: set_to(a, 1e200), "mean holds"),
    ("full-GaussianD", "statistics.features.scatter", lambda a: -a, "variance holds"),
    ("full-GaussianD", "statistics.features.scatter", lambda a: np.full_like(a, 1e9), "singular"),
    ("full-GaussianD", "statistics.features.weight", lambda a: a * 1e305, "variance holds"),
    ("tied-GaussianD", "statistics.features.weight", np.zeros_like, "NaN or infinity"),
    ("MixedNB", "model.family.parts.0.columns", lambda a: a + 99, "parameters|columns"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "array", "change", "match"), DAMAGE)
def test_damaged_arrays_are_refused(name, array, change, match, tmp_path):
    content, arrays = unpack(golden(name))
    arrays[array] = change(arrays.get(array))
    kept = {name: array for name, array in arrays.items() if array is not None}
    (tmp_path / "model").write_bytes(pack(content, kept))
    with pytest.raises(tacit.ModelFileError, match=match):
        tacit.load(tmp_path / "model")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_truncated_files_are_refused(path, tmp_path):
    data = path.read_bytes()
    for size in {*range(0, len(data), 97), len(data) - 1}:
        (tmp_path / "model").write_bytes(data[:size])
        with pytest.raises(tacit.ModelFileError):
            tacit.load(tmp_path / "model")


# Fuzzing: whatever a file holds, it is a model that predicts, or it is refused.

fuzz = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@fuzz
@given(st.sampled_from(GOLDEN), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4))))
def test_flipped_bytes(tmp_path, path, changes):
    data = bytearray(path.read_bytes())
    for place, new in changes:
        start = int(place * len(data))
        data[start : start + len(new)] = new
    (tmp_path / "model").write_bytes(data)
    is_read_or_refused(tmp_path / "model")


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    | st.sampled_from(["soft", "C", "F", "list", "characters", -1, 0, 1, 2, 3, 5, 1e308, 1 << 62])
)  # fmt: skip
tags = st.sampled_from([*RECORDS, "tuple", "set", "slice", "dict", "number", "array", "words"])
trees = st.recursive(
    scalars, lambda t: st.lists(t, max_size=3) | st.dictionaries(tags | st.text(max_size=2), t)
)


@fuzz
@given(st.sampled_from(GOLDEN), st.data())
def test_mutated_trees(tmp_path, path, data):
    content, arrays = unpack(path)
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from([path for path in places(content) if path]))
        other = at(content, data.draw(st.sampled_from(list(places(content)))))
        new = data.draw(trees | st.just(json.loads(json.dumps(other))))
        holder, key = at(content, where[:-1]), where[-1]
        if isinstance(holder, dict) and data.draw(st.booleans()):
            renamed = data.draw(tags | st.sampled_from(list(holder)))
            holder[renamed] = holder.pop(key)
        else:
            holder[key] = new
    (tmp_path / "model").write_bytes(pack(json.dumps(content), arrays))
    is_read_or_refused(tmp_path / "model")


@fuzz
@given(st.sampled_from(GOLDEN), st.data())
def test_mutated_arrays(tmp_path, path, data):
    content, arrays = unpack(path)
    names = sorted(arrays)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(names))
        array = arrays[name]
        value = data.draw(st.floats() | st.sampled_from([1e308, 1e-320, -1e150, 1e155]))
        dtype = data.draw(st.sampled_from(["?", "u1", "u4", "i8", "f4", "f8"]))
        with np.errstate(all="ignore"):
            arrays[name] = data.draw(
                st.sampled_from(
                    [
                        set_to(array, np.array(value).astype(array.dtype)),
                        arrays[data.draw(st.sampled_from(names))],
                        np.ascontiguousarray(array.T),
                        np.zeros_like(array),
                        array.astype(dtype),
                    ]
                )
            )
    (tmp_path / "model").write_bytes(pack(content, arrays))
    is_read_or_refused(tmp_path / "model")


LIMITED = """
import resource, sys
import tacit
tacit.load(sys.argv[1])
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (256 << 20), -1))
for path in sys.argv[2:]:
    try:
        print(type(tacit.load(path)))
    except tacit.ModelFileError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_hostile_files_take_little_memory_and_time(tmp_path):
    content, arrays = unpack(golden("MultinomialNB"))
    text = json.dumps(content)
    wide = {**arrays, "classes": np.full((3, 1 << 20), 97, np.uint32)}
    deep = text.replace('"missing_label": null', '"missing_label": ' + "[" * 900 + "]" * 900)
    long = text.replace('"missing_label": null', '"missing_label": [' + "[]," * 1_000_000 + "1]")
    sizes = text.replace('n_features_in": 5', 'n_features_in": 4611686018427387904')
    many = '": 4611686018427387904'
    mixed, parts = unpack(golden("MixedNB"))
    columns = json.dumps(mixed).replace('n_features_in": 5', f"n_features_in{many}")
    columns = columns.replace('width": 5', f"width{many}")
    hostile = {
        "columns": pack(columns, parts),
        "claim": header(b"{}", length=(1 << 22) - 9),
        "shape": header(
            b'{"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]}}'
        ),
        "empty shape": header(
            b'{"a":{"dtype":"F64","shape":[0,4611686018427387904],"data_offsets":[0,0]}}'
        ),
        "wide": pack(content, wide),
        "deep": pack(deep, arrays),
        "long": pack(long, arrays),
        "sizes": pack(sizes, arrays),
    }
    assert len({text, deep, long, sizes}) == 4
    for name, data in hostile.items():
        (tmp_path / name).write_bytes(data)
    paths = [str(tmp_path / name) for name in hostile]
    command = [sys.executable, "-c", LIMITED, str(golden("MultinomialNB")), *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(hostile), done.stdout


# scikit-learn's own.


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "mixed"], ids=lambda c: c.name)
def test_to_sklearn_predicts_the_same(case):
    X, y = case.data(0, 60)
    for model in (case.classifier().fit(X, hide(y, 0.5)), case.mixture(K, random_state=0).fit(X)):
        if not hasattr(model, "to_sklearn"):
            continue
        twin = model.to_sklearn()
        assert type(twin).__module__.startswith("sklearn.")
        np.testing.assert_allclose(twin.predict_proba(X), model.predict_proba(X), atol=1e-12)
        assert equal(twin.predict(X), model.predict(X))
        if hasattr(twin, "partial_fit"):
            before = model.predict_proba(X)
            twin.partial_fit(X, y)
            assert equal(model.predict_proba(X), before)


def test_to_sklearn_exists_where_scikit_learn_has_the_model():
    have = {name for name in tacit.__all__ if hasattr(getattr(tacit, name), "to_sklearn")}
    expected = {"BernoulliNB", "CategoricalNB", "MultinomialNB", "GaussianNB", "GaussianMixture"}
    assert have == expected
