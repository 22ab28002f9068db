"""Tables as people have them: kinds of columns, data frames, what explains a label."""

import copy
import dataclasses
import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from tacit import (
    BernoulliNB,
    CategoricalNB,
    MixedNB,
    ModelFileError,
    MultinomialNB,
    TableClassifier,
    TableMixture,
    TextClassifier,
    load,
)
from tacit.data.missing import is_missing
from tacit.families import Gaussian
from tacit.frames.columns import CellError, Column, bin_edges, columns_of, infer
from tacit.frames.values import ColumnValues
from tacit.text import CountVectorizer

TABLE = {
    "no": list(range(1, 41)),
    "day": ["2024-03-01", "2024-04-17 10:00"] * 20,
    "code": [f"A{i}x" for i in range(40)],
    "text": [f"the {w} of day {i} was {w} again" for i, w in enumerate(["game", "song"] * 20)],
    "colour": ["red", "blue", None, "red "] * 10,
    "answer": ["yes", "No", "?", "YES"] * 10,
    "size": [1.5 + (i % 2) + i / 100 for i in range(40)],
    "grade": ["1", "2", "", "3"] * 10,
    "same": ["x"] * 40,
    "gap": [None] * 40,
}
LABELS = ["a" if i == 0 else "b" if i == 1 else None for i in range(40)]


def type_of(cells, name="column"):
    (column,), _ = infer({name: ColumnValues(cells)}, None, CountVectorizer())
    return column.kind


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([None, "", "NA", float("nan"), "null"], "out"),
        (["x"] * 5, "out"),
        (["2024-01-31", "2024-02-01"], "out"),
        (["31.1.2024", "1.2.2024 10:15"], "out"),
        ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], "out"),
        (["yes", "no", "?", "YES"], "yes/no"),
        ([True, False, None], "yes/no"),
        ([0, 1, 1, 0], "yes/no"),
        (["t", "f"], "yes/no"),
        (list(range(100, 120)), "out"),
        ([5, 3, 12, 7, 9, 20, 1, 30, 17, 2], "number"),
        (["1", "2", "3", "2", "1", "3"], "category"),
        (["1.5", "2", "-3e2"], "number"),
        ([1.0, 2.0, None, 1.0, 2.0, 3.0, 3.0], "category"),
        (["1_000", "2_000", "5"], "category"),
        (["inf", "2", "5"], "category"),
        (["red", "blue", "red"], "category"),
        (["strongly agree", "neither agree nor disagree"] * 20, "category"),
        (["a long text of many words, said once"] * 3 + ["and another one here"] * 9, "category"),
        ([f"{i} a different text for each of them" for i in range(9)], "text"),
        (["ten words are enough even if they come again and again"] * 50 + ["or"], "text"),
        ([f"u{i:04}" for i in range(12)], "out"),
        ([f"u{i:04}" for i in range(40)] + ["u0001"], "out"),
        ([f"今日は天気がいい{i}" for i in range(40)], "text"),
        (["yes", "no"] * 20_000 + ["maybe"], "category"),
        ([f"name{i % 30}" for i in range(60)], "text"),
        ([f"name{i % 30}" for i in range(600)], "category"),
    ],
)
def test_rules(cells, kind):
    assert type_of(cells) == kind


def test_numbers_that_are_called_id():
    cells = [5, 3, 12, 7, 9, 20, 1, 30, 17, 2]
    for name in ("id", "customer_id", "CustomerID", "row id"):
        assert type_of(cells, name) == "out"
    for name in ("paid", "grid", "width"):
        assert type_of(cells, name) == "number"


def test_a_late_cell_that_is_no_number():
    assert type_of(
        [i / 7 for i in range(30_000)] + ["about 3 or so", *[i / 3 for i in range(9)]]
    ) == ("text")


def test_what_is_missing():
    for cell in (None, np.nan, pd.NA, pd.NaT, "", "  ", "NA", " ? "):
        assert is_missing(cell)
    for cell in (0, False, "none", "-", "0", "nano"):
        assert not is_missing(cell)


def frames():
    return {
        "dict": TABLE,
        "polars": pl.DataFrame(TABLE, strict=False),
        "pandas": pd.DataFrame(TABLE),
        "arrow": pa.table(TABLE),
    }


def test_feature_types_are_shown():
    model = TableClassifier().fit(TABLE, LABELS)
    assert {c.name: c.kind for c in model.columns_} == {
        **dict.fromkeys(("no", "day", "code", "same", "gap"), "out"),
        "text": "text",
        "colour": "category",
        "answer": "yes/no",
        "size": "number",
        "grade": "category",
    }
    notes = {c.name: c.note for c in model.columns_ if c.note}
    assert notes == {
        "no": "counts the rows",
        "day": "holds dates",
        "code": "identifies the rows",
        "same": "is always 'x'",
        "gap": "is empty",
    }


@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow"])
def test_frames_are_the_same(kind):
    frame, model = frames()[kind], TableClassifier()
    expected = TableClassifier().fit(TABLE, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(frame, LABELS)
    assert [c.kind for c in model.columns_] == [c.kind for c in expected.columns_]
    np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(TABLE))
    assert model.transduction_.tolist() == ["a", "b"] * 20


def test_same_as_mixed_by_hand():
    """With every cell there, the model is MixedNB on the blocks put together by hand."""
    rng = np.random.default_rng(0)
    n, y = 60, rng.integers(2, size=60)
    some = [int(c) if i < 20 else None for i, c in enumerate(y)]
    table = {
        "size": (rng.normal(size=n) + y).tolist(),
        "other": (1000 * rng.normal(size=n)).tolist(),
        "colour": rng.choice(["r", "g", "b"], size=n).tolist(),
        "flag": rng.choice(["yes", "no"], size=n).tolist(),
    }
    codes = np.searchsorted(["b", "g", "r"], table["colour"])
    X = np.column_stack([table["size"], table["other"], codes, np.array(table["flag"]) == "yes"])
    by_hand = MixedNB(
        [
            ("size", Gaussian(var_smoothing=0.01, prior_rows=1.0), [0]),
            ("other", Gaussian(var_smoothing=0.01, prior_rows=1.0), [1]),
            ("colour", CategoricalNB(), [2]),
            ("flag", BernoulliNB(binarize=None), [3]),
        ]
    ).fit(X.astype(float), some)
    ours = TableClassifier(unlabeled_weight=1, numbers="normal").fit(table, some)
    np.testing.assert_allclose(ours.predict_proba(table), by_hand.predict_proba(X), atol=1e-10)
    np.testing.assert_allclose(ours.trace_, by_hand.trace_, rtol=1e-12)


@pytest.mark.parametrize("labels", ["some", "all"])
def test_text_alone_is_multinomial(labels):
    some = LABELS if labels == "some" else ["a", "b"] * 20
    counts = CountVectorizer().fit_transform(TABLE["text"])
    expected = MultinomialNB(alpha=0.01).fit(counts, some)
    ours = TableClassifier(texts="counted", unlabeled_weight=1).fit({"text": TABLE["text"]}, some)
    np.testing.assert_array_equal(
        ours.predict_proba({"text": TABLE["text"]}), expected.predict_proba(counts)
    )
    assert ours.n_iter_ == expected.n_iter_


def test_categories_alone_are_merged_and_equal():
    table = {"a": ["x", "y", "x", "z"] * 50, "b": ["u", "v", "u", "u"] * 50}
    ours = TableMixture(2, random_state=0).fit(table)
    assert ours.converged_
    np.testing.assert_allclose(ours.predict_proba(table).sum(axis=1), 1.0)


@pytest.mark.parametrize("against", [None, "b"])
def test_explanation_adds_up(against):
    rng = np.random.default_rng(1)
    table = {**TABLE, "size": rng.normal(size=40).tolist()}
    y = [["a", "b", "c"][i % 3] if i < 12 else None for i in range(40)]
    model = TableClassifier().fit(table, y)
    log_p = model.predict_log_proba(table)
    for i in range(12):
        row = {name: cells[i] for name, cells in table.items()}
        label = "a" if against else None
        found = model.explain(row, label, against)
        k, other = (model.classes_.tolist().index(c) for c in (found.label, found.against))
        assert found.prior + sum(t.log_odds for t in found.terms) == pytest.approx(found.log_odds)
        assert found.log_odds == pytest.approx(log_p[i, k] - log_p[i, other], abs=1e-9)
        assert found.probability == pytest.approx(np.exp(log_p[i, k]))
        if against is None:
            assert k == log_p[i].argmax()
        sizes = [abs(t.log_odds) for t in found.terms]
        assert sizes == sorted(sizes, reverse=True)
        missing = [t for t in found.terms if is_missing(row[t.column])]
        assert not missing
    assert "total" in str(found)


def test_explain_takes_rows_as_frames_have_them():
    model = TableClassifier().fit(TABLE, LABELS)
    expected = model.explain({name: cells[3] for name, cells in TABLE.items()})
    for row in (frames()["polars"][3:4], frames()["pandas"][3:4], frames()["pandas"].iloc[3]):
        assert model.explain(row) == expected
    with pytest.raises(ValueError, match="Expected one row to explain, got 40"):
        model.explain(TABLE)
    with pytest.raises(ValueError, match="no class 'z': expected one of"):
        model.explain(TABLE["text"] and {k: v[0] for k, v in TABLE.items()}, "z")
    with pytest.raises(ValueError, match="cannot be compared with itself"):
        model.explain({k: v[0] for k, v in TABLE.items()}, "a", "a")


def test_impossible_rows_are_explained():
    table = {"colour": ["r", "g", "b", "r"], "flag": ["y", "n", "y", "n"]}
    model = TableClassifier(alpha=0.0, unlabeled_weight=1.0).fit(table, ["a", "b", "a", "a"])
    row = {"colour": "g", "flag": "y"}
    found = model.explain(row)
    assert found.probability == pytest.approx(model.predict_proba(row).max())
    assert found.log_odds == pytest.approx(np.log(3))  # the prior: both rule the row out
    groups = TableMixture(2, random_state=0).fit({"a": ["x", "y"] * 20, "b": ["u", "v"] * 20})
    odd = groups.explain({"a": "x", "b": "v"})
    p = groups.predict_proba({"a": "x", "b": "v"})[0]
    assert odd.probability == pytest.approx(p.max())
    assert odd.log_odds == pytest.approx(abs(np.log(p[0] / p[1])))


def test_what_marks_a_class():
    model = TableClassifier().fit(TABLE, LABELS)
    assert next(f.value for f in model.top_features("a") if f.column == "text") == "game"
    assert next(f.value for f in model.top_features("b") if f.column == "text") == "song"
    strengths = [f.strength for f in model.top_features("a", 50)]
    assert strengths == sorted(strengths, reverse=True)
    number = next(f for f in model.top_features("a", 50) if f.column == "size")
    assert number.value.startswith("below ")  # the lowest of its bins
    normal = TableClassifier(numbers="normal").fit(TABLE, LABELS)
    number = next(f for f in normal.top_features("a", 50) if f.column == "size")
    assert "on average, others" in number.value


def test_sample():
    model = TableClassifier(random_state=0).fit(TABLE, LABELS)
    table, y = model.sample(5)
    assert list(table) == ["text", "colour", "answer", "size", "grade"]
    assert len(y) == 5
    assert set(table["answer"]) <= {"no", "yes"}
    assert set(" ".join(table["text"]).split()) <= set(model.columns_[3].vectorizer.vocabulary_)
    model.predict({**table, "no": [1] * 5})


def test_new_rows():
    model = TableClassifier().fit(TABLE, LABELS)
    row = {name: cells[0] for name, cells in TABLE.items()}
    known = model.predict_proba(row)
    odd = model.predict_proba({**row, "colour": "never seen", "text": None})
    assert odd.shape == known.shape
    del row["no"], row["gap"]  # which are not used
    np.testing.assert_array_equal(model.predict_proba(row), known)
    with pytest.raises(
        ValueError, match=r"lacks the column 'size', which the model needs: did you mean 'Size'"
    ):
        model.predict({"Size": 1.0, **{k: v for k, v in row.items() if k != "size"}})
    with pytest.raises(CellError, match="Column 'size', row 2: 'big' is no number") as error:
        model.predict({k: [v, "big" if k == "size" else v] for k, v in row.items()})
    assert error.value.row == 1


def test_bad_tables():
    model = TableClassifier()
    with pytest.raises(TypeError, match="Expected a table with named columns"):
        model.fit(np.zeros((3, 2)), [0, 1, None])
    with pytest.raises(ValueError, match="no rows"):
        model.fit({"a": []}, [])
    with pytest.raises(ValueError, match="equally long"):
        model.fit({"a": [1, 2], "b": [1]}, [0, 1])
    with pytest.raises(ValueError, match="'a' occurs more than once"):
        model.fit(pd.DataFrame([[1, 2]], columns=["a", "a"]), [0])
    with pytest.raises(ValueError, match=r"No column is left to learn from \(a is always '1'"):
        model.fit({"a": [1, 1]}, [0, 1])
    with pytest.raises(ValueError, match=r"no column 'agee': did you mean 'age'"):
        TableClassifier(kinds={"agee": "number"}).fit({"age": [1, 2]}, [0, 1])
    with pytest.raises(ValueError, match="kind 'numeric' is none of"):
        TableClassifier(kinds={"age": "numeric"}).fit({"age": [1, 2]}, [0, 1])
    with pytest.raises(CellError, match="row 2: 'x' is no number"):
        TableClassifier(kinds={"age": "number"}).fit({"age": [1, "x"]}, [0, 1])
    with pytest.raises(ValueError, match="yes/no needs two values"):
        TableClassifier(kinds={"age": "yes/no"}).fit({"age": [1, 2, 3]}, [0, 1, 1])


def test_a_refit_that_fails_leaves_the_model(tmp_path):
    model = TableClassifier().fit(TABLE, LABELS)
    expected = model.predict_proba(TABLE)
    with pytest.raises(ValueError, match="No column is left"):
        model.fit({"a": [1, 1]}, [0, 1])
    np.testing.assert_array_equal(model.predict_proba(TABLE), expected)
    fresh = TableClassifier()
    with pytest.raises(TypeError, match="mixes text and numbers"):
        fresh.fit(TABLE, ["a", 1] * 20)
    with pytest.raises(NotFittedError):
        fresh.predict(TABLE)
    model.fit(TABLE, pd.Series(LABELS, name=5)).save(tmp_path / "model")
    assert load(tmp_path / "model").label_name_ == "5"


def test_a_warm_start_keeps_the_columns():
    model = TableClassifier(warm_start=True, unlabeled_weight=1.0).fit(TABLE, LABELS)
    columns = model.columns_
    other = {**TABLE, "text": [text.replace("game", "match") for text in TABLE["text"]]}
    model.fit(other, LABELS)
    assert model.columns_ is columns


def test_criteria_of_a_dict():
    table = {"a": ["x", "y", "x"], "b": [1.0, 2.5, 1.1], "c": [3.0, 1.0, 2.9]}
    model = TableMixture(2, random_state=0, var_smoothing=0.1).fit(table)
    frame = pd.DataFrame(table)
    for name in ("aic", "bic", "icl", "score"):
        assert getattr(model, name)(table) == getattr(model, name)(frame)
    four = {name: cells * 2 for name, cells in table.items()}
    assert model.bic(four) == pytest.approx(
        2 * model.bic(table) - model.n_parameters() * (2 * np.log(3) - np.log(6))
    )


def test_feature_types_can_be_given():
    kinds = {"grade": "number", "no": "number", "code": "out", "colour": "text"}
    model = TableClassifier(kinds=kinds).fit(TABLE, LABELS)
    assert {c.name: c.kind for c in model.columns_ if c.name in kinds} == kinds
    assert {c.note for c in model.columns_ if c.name in kinds} == {"as you said"}


def test_scikit_learn_around_it():
    frame = pd.DataFrame(TABLE)
    y = np.array(["a", "b"] * 20)
    assert cross_val_score(TableClassifier(), frame, y, cv=3).mean() == 1.0
    assert (
        cross_val_score(TableClassifier(), pl.DataFrame(TABLE, strict=False), y, cv=3).mean() == 1
    )
    vectorizer = CountVectorizer(stop_words="english")
    model = clone(TableClassifier(vectorizer=vectorizer, kinds={"no": "out"}))
    assert model.get_params()["vectorizer__stop_words"] == "english"
    model.fit(frame, y)
    assert "the" not in model.columns_[3].vectorizer.vocabulary_
    assert not hasattr(vectorizer, "vocabulary_")


@pytest.mark.parametrize("kind", ["classifier", "mixture"])
def test_model_files(kind, tmp_path):
    model = TableClassifier(vectorizer=CountVectorizer(stop_words="english"), kinds={"no": "out"})
    model = TableMixture(2, random_state=0) if kind == "mixture" else model
    labels = pl.Series("topic", [["a", "b"][i % 2] if i < 12 else None for i in range(40)])
    model.fit(TABLE, labels)
    path, again = tmp_path / "model", tmp_path / "again"
    model.save(path)
    loaded = load(path)
    loaded.save(again)
    assert path.read_bytes() == again.read_bytes()
    np.testing.assert_array_equal(loaded.predict_proba(TABLE), model.predict_proba(TABLE))
    assert [(c.name, c.kind, c.note) for c in loaded.columns_] == [
        (c.name, c.kind, c.note) for c in model.columns_
    ]
    row = {name: cells[5] for name, cells in TABLE.items()}
    assert loaded.explain(row) == model.explain(row)
    if kind == "classifier":
        assert loaded.label_name_ == "topic"
        assert str(loaded.unlabeled_help_) == str(model.unlabeled_help_)
        assert loaded.top_features("a") == model.top_features("a")
    pickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(pickled.predict_proba(TABLE), model.predict_proba(TABLE))


def test_hostile_columns_are_refused(tmp_path):
    model = TableClassifier(unlabeled_weight=1.0).fit(TABLE, LABELS)
    path = tmp_path / "model"
    text = model.columns_[3]
    short = clone(text.vectorizer).set_params(vocabulary=["game", "song"])
    short.fit(["game song"])
    for swap in (
        dataclasses.replace(text, vectorizer=short),
        Column("text", "number"),
        Column("text", "category", categories=("a",)),
    ):
        broken = copy.copy(model)
        broken._columns = tuple(swap if c is text else c for c in model.columns_)
        with pytest.raises(ValueError, match="cannot be saved"):
            broken.save(path)
    for fields in ({"kind": "text"}, {"kind": "fish"}, {"kind": "yes/no"}):
        with pytest.raises(ValueError, match="Column 'x'"):
            Column("x", **fields)


cell = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**20), st.floats(), st.text(max_size=8),
    st.sampled_from(["yes", "no", "1", "2.5", "2024-01-01", "red apple", "?"]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 30).flatmap(
    lambda n: st.lists(st.lists(cell, min_size=n, max_size=n), min_size=1, max_size=4)
))  # fmt: skip
def test_any_table_is_fitted_or_refused(columns):
    table = {f"c{i}": cells for i, cells in enumerate(columns)}
    n = len(columns[0])
    y = [i % 2 if i < 4 else None for i in range(n)]
    try:
        model = TableClassifier().fit(table, y)
    except ValueError as error:
        assert "No column is left" in str(error) or "beyond" in str(error)  # noqa: PT017
        return
    p = model.predict_proba(table)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert columns_of(model.sample(3)[0]).keys() <= table.keys()


# Texts by a classifier of their own, beside other columns.

TOPICS = {"sport": "goal cup team score match", "music": "violin cello piano song choir"}


def reviews(n=120, seed=0):
    """Return a table whose text, colour and size are each informative of the class."""
    rng = np.random.default_rng(seed)
    y = rng.choice(sorted(TOPICS), n)
    words = {name: text.split() for name, text in TOPICS.items()}
    both = sorted({word for own in words.values() for word in own} | {"the", "a", "of", "and"})
    texts = [
        " ".join([*rng.choice(words[name], 2), *rng.choice(both, 4)]) if rng.random() < 0.9 else ""
        for name in y
    ]
    colour = [
        rng.choice(["red", "blue"], p=[0.7, 0.3] if name == "sport" else [0.3, 0.7]) for name in y
    ]
    size = [float(rng.normal(3 if name == "sport" else 0, 2)) for name in y]
    table = {"note": texts, "colour": colour, "size": size}
    known = np.where(np.arange(n) < 30, y, None)
    return table, known, y


def test_a_text_alone_is_what_its_classifier_says():
    table, known, _ = reviews()
    texts = {"note": table["note"]}
    model = TableClassifier(kinds={"note": "text"}, random_state=0).fit(texts, known)
    alone = TextClassifier(random_state=0).fit(table["note"], known)
    np.testing.assert_allclose(
        model.predict_proba(texts), alone.predict_proba(table["note"]), rtol=1e-9
    )
    np.testing.assert_allclose(model.label_distributions_, alone.label_distributions_, rtol=1e-9)
    assert str(model.unlabeled_help_) == str(alone.unlabeled_help_)
    ours, theirs = model.explain({"note": "the goal"}), alone.explain("the goal")
    assert ours.log_odds == pytest.approx(theirs.log_odds)


def test_texts_beside_other_columns():
    table, known, y = reviews()
    model = TableClassifier(random_state=0).fit(table, known)
    assert list(model.texts_) == list(model.text_weights_) == ["note"]
    assert model.score(table, y) > TableClassifier().fit({"note": table["note"]}, known).score(
        table, y
    )
    p = model.predict_proba(table)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(table))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(table)), p)
    unlabelled = [i for i, name in enumerate(known) if name is None]
    np.testing.assert_allclose(model.label_distributions_[unlabelled], p[unlabelled], rtol=1e-7)
    for i in range(0, 120, 13):
        found = model.explain({name: cells[i] for name, cells in table.items()})
        log_p = np.log(p[i])
        k, other = (model.classes_.tolist().index(c) for c in (found.label, found.against))
        assert found.log_odds == pytest.approx(log_p[k] - log_p[other], abs=1e-8)
        assert found.prior + sum(t.log_odds for t in found.terms) == pytest.approx(found.log_odds)
    marks = {(feature.column, feature.value) for feature in model.top_features("sport", 20)}
    assert ("note", "goal") in marks
    drawn, labels = model.sample(50)
    assert set(drawn) == {"note", "colour", "size"}
    assert (model.predict(drawn) == labels).mean() > 0.7


@pytest.mark.parametrize("threads", [1, 2])
def test_tables_with_texts_are_saved_and_have_the_same_bits(tmp_path, threads):
    table, known, _ = reviews()
    model = TableClassifier(n_jobs=threads, random_state=0).fit(table, known)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    one = TableClassifier(n_jobs=1, random_state=0).fit(table, known)
    for other in (again, one, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(table), model.predict_proba(table))
    assert again.explain({"note": "goal", "colour": "red", "size": 1.0}) == model.explain(
        {"note": "goal", "colour": "red", "size": 1.0}
    )
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_two_texts_have_weights():
    """The same text twice counts about once."""
    table, known, _ = reviews()
    texts = {"note": table["note"], "copy": table["note"]}
    kinds = {"note": "text", "copy": "text"}
    model = TableClassifier(kinds=kinds, random_state=0).fit(texts, known)
    assert sum(model.text_weights_.values()) < 1.7
    alone = TableClassifier(kinds={"note": "text"}, random_state=0).fit(
        {"note": table["note"]}, known
    )
    agree = model.predict(texts) == alone.predict({"note": table["note"]})
    assert agree.mean() > 0.95


def test_labelled_words_of_tables():
    table, known, y = reviews()
    words = {"goal": "sport", "cup": "sport", "violin": "music", "piano": "music"}
    model = TableClassifier(word_labels=words, random_state=0).fit(table, [None] * 120)
    assert (model.transduction_ == y).mean() > 0.8
    beside = TableClassifier(word_labels={"goal": "sport"}, random_state=0).fit(table, known)
    assert (beside.transduction_ == y).mean() > 0.8
    with pytest.raises(ValueError, match=r"word_labels names \['unheard'\]: expected words"):
        TableClassifier(word_labels={"unheard": "sport"}).fit(table, known)


def test_numbers_in_bins():
    assert bin_edges(np.array([1.0, 1.0, np.nan])) == ()
    tight = np.array([1.0, np.nextafter(1.0, 2.0)])
    assert len(bin_edges(tight)) >= 2
    edges = bin_edges(np.arange(1000.0))
    column = Column("size", "number", edges=edges)
    codes = column.to_bins(np.array([[-5.0], [0.0], [999.0], [1e9], [np.nan]]))
    assert codes[:4, 0].tolist() == [0.0, 0.0, 4.0, 4.0]
    assert np.isnan(codes[4, 0])
    assert (
        np.bincount(column.to_bins(np.arange(1000.0)[:, None])[:, 0].astype(int)).tolist()
        == [200] * 5
    )
    assert column.values[0] == "below 200"
    assert column.values[-1] == "from 800 on"
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    skewed = {"x": np.where(y == 0, rng.exponential(1, 200), rng.normal(0.5, 0.1, 200)).tolist()}
    some = [int(k) if i % 2 else None for i, k in enumerate(y)]
    assert not TableClassifier().fit(skewed, some).columns_[0].edges  # which finds more
    model = TableClassifier(numbers="bins").fit(skewed, some)
    assert model.columns_[0].edges
    drawn, _ = model.sample(100)
    assert min(skewed["x"]) <= min(drawn["x"]) <= max(drawn["x"]) <= max(skewed["x"])
    for fields in ({"edges": (1.0,)}, {"edges": (2.0, 1.0)}, {"edges": (0.0, np.nan)}):
        with pytest.raises(ValueError, match="bin edges that do not rise"):
            Column("size", "number", **fields)
    with pytest.raises(ValueError, match="has what another kind has"):
        Column("size", "out", edges=(1.0, 2.0))


def test_predictions_do_not_depend_on_memory():
    table, known, _ = reviews()
    table = {**table, "again": table["size"], "more": table["size"]}
    model = TableClassifier(random_state=0).fit(table, known)
    assert model.temperature_ > 1
    expected, density = model.predict_proba(table), model.score_samples(table)
    for value in (-np.inf, np.nan, 1.0):
        dirt = [np.full(120, value) for _ in range(50)]
        del dirt
        np.testing.assert_array_equal(model.predict_proba(table), expected)
        np.testing.assert_array_equal(model.score_samples(table), density)
    assert np.isfinite(density).all()


def test_texts_in_any_order_are_saved(tmp_path):
    table, known, _ = reviews()
    texts = {"zebra": table["note"], "ant": [f"the {text}" for text in table["note"]]}
    model = TableClassifier(kinds=dict.fromkeys(texts, "text")).fit(texts, known)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert list(again.texts_) == list(again.text_weights_) == ["zebra", "ant"]
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))


def test_held_out_labels_do_not_leak_through_texts():
    """Labels are random; each row has a twin without a label that shares its only word."""
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b"], 60)
    rows = np.r_[np.arange(60), np.arange(60)]
    table = {
        "text": [f"w{i}" for i in rows],
        "code": [f"c{i}" for i in rows],
    }
    model = TableClassifier(kinds={"text": "text", "code": "category"})
    told = model.fit(table, [*y, *[None] * 60]).unlabeled_help_
    assert told.em.accuracy < 0.8


TWICE = {name: cells[::-1] * 2 for name, cells in reviews()[0].items()}


@pytest.mark.parametrize(
    ("X", "y", "weight"),
    [
        (TWICE, ["sport", "music"] * 120, np.full(240, -1.0)),
        (TWICE, ["a", 1] * 120, None),
        ({"z": ["same"] * 240}, ["sport", "music"] * 120, None),
    ],
    ids=["weight", "labels", "columns"],
)
def test_a_failed_refit_changes_nothing(X, y, weight):
    table, known, _ = reviews()
    model = TableClassifier(random_state=0).fit(table, known)
    expected, state = model.predict_proba(table), set(model.__dict__)
    with pytest.raises((ValueError, TypeError)):
        model.fit(X, y, weight)
    np.testing.assert_array_equal(model.predict_proba(table), expected)
    assert set(model.__dict__) == state


def test_warm_starts_batches_and_starts_keep_the_selected_settings():
    table, known, _ = reviews()
    model = TableClassifier(random_state=0, warm_start=True).fit(table, known)
    selected = model.columns_, model.texts_, model.temperature_, model.alpha_
    other, more, _ = reviews(seed=7)
    model.fit(other, more)
    assert (model.columns_, model.texts_, model.temperature_, model.alpha_) == selected
    model.partial_fit(table, known)
    assert model.temperature_ == selected[2]
    start = np.random.default_rng(0).dirichlet(np.ones(2), 120)
    TableClassifier(random_state=0, init=start).fit(table, known)


def test_prepared_tables_are_predicted():
    table, known, _ = reviews()
    for texts in ("pooled", "counted"):
        for numbers in ("auto", "normal"):
            model = TableClassifier(random_state=0, texts=texts, numbers=numbers)
            rows = model.prepare(table)
            model.fit(rows, known)
            np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(table))


def test_rows_of_no_weight_are_not_there():
    table, known, _ = reviews()
    texts = table["note"]
    weight = np.where(np.arange(120) % 3 == 1, 0.0, 1.0)
    kept = [i for i in range(120) if weight[i]]
    alone = TextClassifier().fit([texts[i] for i in kept], known[kept])
    model = TextClassifier().fit(texts, known, sample_weight=weight)
    assert str(model.unlabeled_help_) == str(alone.unlabeled_help_)


def test_words_that_cannot_be():
    table, known, _ = reviews()
    with pytest.raises(ValueError, match="missing label"):
        TableClassifier(word_labels={"goal": None}).fit(table, known)
    with pytest.raises(ValueError, match='need texts="pooled"'):
        TableClassifier(word_labels={"goal": "sport"}, texts="counted").fit(table, known)
    model = TableClassifier(word_labels={"goal": "sport", "violin": "music"}, unlabeled_weight=0)
    assert model.fit(table, [None] * 120).transduction_.shape == (120,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature_", 0.5),
        ("temperature_", np.nan),
        ("alpha_", -1.0),
        ("unlabeled_weight_", np.inf),
    ],
)
def test_hostile_numbers_are_refused(tmp_path, name, value):
    table, known, _ = reviews()
    model = TableClassifier(random_state=0).fit(table, known)
    setattr(model, name, value)
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="expected a number from"):
        load(tmp_path / "model")
