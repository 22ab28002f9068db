"""Splits for cross-validation, scores and learning curves where labels are missing."""

import re
import sys
from itertools import chain
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn import naive_bayes
from sklearn.base import clone
from sklearn.feature_extraction import text
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from tacit import GaussianNB, MultinomialNB, TableClassifier
from tacit.data.labels import encode
from tacit.tuning import LearningCurve, SemiSupervisedSplit, learning_curve

N = 90
TRUTH = np.arange(N) % 3


def drawn():
    """Return rows of three classes, and whether the label of each is missing."""
    rng = np.random.default_rng(5)
    return rng.normal(size=(N, 3)) + 1.5 * TRUTH[:, None], rng.random(N) < 0.5


X, MISSING = drawn()
NUMBERS = [None if m else int(k) for k, m in zip(TRUTH, MISSING, strict=True)]
NAMES = [None if k is None else "abc"[k] for k in NUMBERS]
WORDS = [["song", "piano"], ["ball", "goal"]]
TEXTS = [f"{WORDS[k][i // 2 % 2]} of day {i % 7}" for i, k in enumerate(TRUTH % 2)]

FORMS = {
    "list": NUMBERS,
    "objects": np.array(NUMBERS, dtype=object),
    "truth values": np.array([None if k is None else k == 0 for k in NUMBERS], dtype=object),
    "NaN": np.where(MISSING, np.nan, TRUTH),
    "pandas objects": pd.Series(NUMBERS, dtype=object, index=np.arange(N)[::-1]),
    "pandas Int64": pd.Series(NUMBERS, dtype="Int64"),
    "polars": pl.Series(NUMBERS),
    "names": NAMES,
    "names as objects": np.array(NAMES, dtype=object),
    "names in pandas": pd.Series(NAMES),
    "names as categories": pd.Series(NAMES, dtype="category"),
    "names in polars": pl.Series(NAMES),
}


def expected(y, cv):
    """Return the accuracy on each fold, done by hand with codes."""
    codes = encode(y).codes
    scores = []
    for train, test in cv.split(X, y):
        model = GaussianNB(missing_label=-1).fit(X[train], codes[train])
        scores.append((model.predict(X[test]) == codes[test]).mean())
    return scores


def test_folds_hold_every_label_once_and_no_row_without_one():
    cv = SemiSupervisedSplit(4)
    assert cv.get_n_splits(X, NUMBERS) == 4
    assert repr(cv) == "SemiSupervisedSplit(missing_label=None, n_splits=4, random_state=0)"
    pairs = list(cv.split(X, NUMBERS))
    tests = np.concatenate([test for _, test in pairs])
    np.testing.assert_array_equal(np.sort(tests), np.flatnonzero(~MISSING))
    shares = np.array([np.bincount(TRUTH[test], minlength=3) for _, test in pairs])
    assert (np.ptp(shares, axis=0) <= 1).all()
    for train, test in pairs:
        np.testing.assert_array_equal(np.union1d(train, test), np.arange(N))
        assert len(train) + len(test) == N


def test_folds_repeat_and_depend_on_the_seed():
    first, again, other = (
        [test.tolist() for _, test in SemiSupervisedSplit(3, random_state=seed).split(X, NAMES)]
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_the_only_label_of_a_class_is_never_held_out():
    y = ["a", "a", "b", None, "a"]
    tests = [test.tolist() for _, test in SemiSupervisedSplit(3).split(np.zeros(5), y)]
    assert sorted(chain.from_iterable(tests)) == [0, 1, 4]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "'y' parameter should not be None"),
        ([None] * 4, "Every label is missing. Label some rows"),
        (["a", "a", None, None], "n_splits=3 folds need as many.*found 2.*set n_splits lower"),
        (["a", "b", "c", "d"], "found 0"),
        (["a", "b", None], "inconsistent numbers of samples"),
    ],
)
def test_labels_that_cannot_be_split(y, message):
    with pytest.raises(ValueError, match=message):
        list(SemiSupervisedSplit(3).split(np.zeros((4, 1)), y))


@pytest.mark.parametrize("n_splits", [1, 0, 2.5, "5", None])
def test_number_of_folds_is_checked(n_splits):
    with pytest.raises(ValueError, match="n_splits must be a whole number, at least 2"):
        SemiSupervisedSplit(n_splits)


@pytest.mark.parametrize("form", FORMS)
def test_cross_val_score_is_right_for_labels_of_any_type(form):
    y, cv = FORMS[form], SemiSupervisedSplit(3)
    scores = cross_val_score(GaussianNB(), X, y, cv=cv, error_score="raise")
    np.testing.assert_array_equal(scores, expected(y, cv))
    assert 0.5 < scores.mean() < 1


@pytest.mark.parametrize("form", FORMS)
def test_scorers_of_scikit_learn(form):
    """They refuse numbers among objects, as the documentation says."""
    y, cv = FORMS[form], SemiSupervisedSplit(3)
    how = {"cv": cv, "scoring": ["accuracy", "neg_log_loss", "f1_macro"], "error_score": "raise"}
    if form in ("objects", "pandas objects", "truth values"):
        with pytest.raises(ValueError, match=r"unknown|Unknown"):
            cross_validate(GaussianNB(), X, y, **how)
    else:
        found = cross_validate(GaussianNB(), X, y, **how)
        np.testing.assert_array_equal(found["test_accuracy"], expected(y, cv))


def test_a_mark_of_missing_labels():
    y = np.where(MISSING, -1, TRUTH)
    cv = SemiSupervisedSplit(3, missing_label=-1)
    scores = cross_val_score(GaussianNB(missing_label=-1), X, y, cv=cv, scoring="accuracy")
    np.testing.assert_array_equal(scores, expected(NUMBERS, SemiSupervisedSplit(3)))
    theirs = SelfTrainingClassifier(naive_bayes.GaussianNB())
    assert cross_val_score(theirs, X, y, cv=cv).mean() > 0.5
    with pytest.warns(UserWarning, match="set missing_label=-1"):
        next(SemiSupervisedSplit(3).split(X, y))


def test_a_grid_of_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    grid = {"gaussiannb__unlabeled_weight": [0.0, 0.3, 1.0]}
    cv = SemiSupervisedSplit(3)
    search = GridSearchCV(pipeline, grid, cv=cv, error_score="raise").fit(X, NUMBERS)
    without = clone(pipeline).set_params(gaussiannb__unlabeled_weight=0.0)
    one = cross_val_score(without, X, NUMBERS, cv=cv)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(one.mean())
    assert search.best_estimator_[-1].transduction_.shape == (N,)
    assert search.score(X, np.array(NUMBERS, dtype=object)) > 0.5


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_in_cross_validation(frame):
    table = frame({"text": TEXTS, "size": X[:, 0]})
    y = [None if m else ["song", "ball"][k] for k, m in zip(TRUTH % 2, MISSING, strict=True)]
    scores = cross_val_score(
        TableClassifier(unlabeled_weight=1.0), table, y, cv=SemiSupervisedSplit(2)
    )
    np.testing.assert_array_equal(scores, 1.0)


@pytest.mark.parametrize("form", FORMS)
def test_score_counts_known_labels(form, rng):
    y = FORMS[form]
    model = GaussianNB().fit(X, y)
    weight = rng.random(N)
    codes = encode(y).codes
    right = encode(model.predict(X), model.classes_).codes == codes
    known = codes >= 0
    assert model.score(X, y) == pytest.approx(right[known].mean())
    weighted = np.average(right[known], weights=weight[known])
    assert model.score(X, y, sample_weight=weight.tolist()) == pytest.approx(weighted)


def test_score_of_complete_labels_is_that_of_scikit_learn():
    model = GaussianNB().fit(X, TRUTH)
    assert model.score(X, TRUTH) == accuracy_score(TRUTH, model.predict(X))
    assert model.score(X[:3], [7, 7, 7]) == 0  # a class that is new is not found
    assert GaussianNB(missing_label=2).fit(X, TRUTH).score(X[:3], [2, 2, 0]) == 0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([None] * N, "Every label is missing: there is nothing to compare with"),
        (np.eye(3)[TRUTH], "expected one label a row"),
        (NUMBERS[1:], "inconsistent numbers of samples"),
    ],
)
def test_labels_that_score_cannot_take(y, message):
    with pytest.raises(ValueError, match=message):
        GaussianNB().fit(X, NUMBERS).score(X, y)


class Watched(GaussianNB):
    """A classifier that notes what it is fitted to and what it is asked."""

    seen: ClassVar[list] = []

    def fit(self, X, y):
        self.seen.append([self.unlabeled_weight, X, encode(y, [0, 1, 2]).codes])
        return super().fit(X, y)

    def predict_proba(self, X):
        self.seen.append(X)
        return super().predict_proba(X)


def row_numbers(rows):
    return [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows]


def test_what_a_curve_is_made_of():
    """Each label is kept, hidden or held out; nothing else is known to the models."""
    Watched.seen.clear()
    curve = learning_curve(
        Watched(var_smoothing=0.1), X, FORMS["NaN"], labels=(5, 1, 64), n_draws=2
    )
    assert (curve.labels, curve.skipped) == ((1, 5), (64,))
    count = np.bincount(TRUTH[~MISSING])
    held = np.rint(count / 3)
    last, drawn = set(), []
    for i, size in enumerate((1, 5, 1, 5)):
        both, without, test, same = Watched.seen[4 * i : 4 * i + 4]
        assert (both[0], without[0]) == (1.0, 0.0)
        np.testing.assert_array_equal(both[1], without[1])
        np.testing.assert_array_equal(both[2], without[2])
        np.testing.assert_array_equal(test, same)
        rest, tested = row_numbers(both[1]), row_numbers(test)
        assert sorted(rest + tested) == list(range(N))
        assert not MISSING[tested].any()
        np.testing.assert_array_equal(np.bincount(TRUTH[tested]), held)
        kept = both[2] >= 0
        np.testing.assert_array_equal(both[2][kept], TRUTH[rest][kept])
        assert np.bincount(both[2][kept]).tolist() == [size] * 3
        names = set(np.array(rest)[kept].tolist())
        assert size == 1 or last < names  # larger sizes keep what smaller ones had
        last = names
        drawn.append(tested)
        model = GaussianNB(unlabeled_weight=0.0, missing_label=-1, var_smoothing=0.1)
        p = model.fit(both[1], both[2]).predict_proba(test)
        place = i % 2, i // 2
        right = p.argmax(axis=1) == TRUTH[tested]
        assert curve.accuracy_without[place] == pytest.approx(right.mean())
        loss = log_loss(TRUTH[tested], p)
        assert curve.log_loss_without[place] == pytest.approx(loss)
    assert drawn[0] == drawn[1] != drawn[2] == drawn[3]


def same(one, other):
    for name in ("accuracy", "log_loss", "accuracy_without", "log_loss_without"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)


def test_the_same_seed_gives_the_same_curve():
    first, again, other = (
        learning_curve(GaussianNB(), X, NAMES, labels=(2, 4), n_draws=3, random_state=seed)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.log_loss, again.log_loss)
    same(first, again)
    assert first.accuracy.shape == (2, 3)
    assert (first.log_loss != other.log_loss).all()


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"truth values"}))
def test_a_curve_of_labels_of_any_type(form):
    how = {"labels": (2,), "n_draws": 2}
    same(
        learning_curve(GaussianNB(), X, FORMS[form], **how),
        learning_curve(GaussianNB(), X, NUMBERS, **how),
    )


def test_a_curve_of_rows_of_any_type():
    how = {"y": [["song", "ball"][k] for k in TRUTH % 2], "labels": (4,), "n_draws": 2}
    counts = text.CountVectorizer(vocabulary=[*WORDS[0], *WORDS[1]]).fit_transform(TEXTS)
    dense = learning_curve(MultinomialNB(), counts.toarray(), **how)
    for form in (sparse.csc_array, sparse.coo_array):
        same(learning_curve(MultinomialNB(), form(counts), **how), dense)
    texts = make_pipeline(text.CountVectorizer(vocabulary=[*WORDS[0], *WORDS[1]]), MultinomialNB())
    for form in (list, pd.Series, pl.Series, np.array):
        same(learning_curve(texts, form(TEXTS), **how), dense)
    columns = {"text": TEXTS, "size": X[:, 0].tolist()}
    tables = TableClassifier(unlabeled_weight=1.0, kinds={"text": "text"})
    of_dict = learning_curve(tables, columns, **how)
    for form in (pd.DataFrame, pl.DataFrame, pa.table):
        same(learning_curve(tables, form(columns), **how), of_dict)


def test_rows_are_dropped_where_there_is_no_weight():
    grid = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=SemiSupervisedSplit(2))
    how = {"labels": (4,), "n_draws": 2}
    dropped = learning_curve(grid, X, NUMBERS, **how)
    weighed = learning_curve(GaussianNB(), X, NUMBERS, **how)
    np.testing.assert_array_equal(dropped.accuracy, weighed.accuracy)
    np.testing.assert_allclose(dropped.log_loss_without, weighed.log_loss_without, rtol=1e-6)


def test_marks_and_names_of_the_classifier_hold():
    y = np.where(MISSING, 9, TRUTH)
    model = GaussianNB(missing_label=9, classes=[0, 1, 2, 3], var_smoothing=1e-3)
    curve = learning_curve(make_pipeline(StandardScaler(), model), X, y, labels=(4,), n_draws=2)
    assert (curve.accuracy > 0.3).all()
    with pytest.raises(ValueError, match=r"\[9\] in y do not exist"):
        learning_curve(model.set_params(missing_label=None), X, y)


def test_a_class_keeps_what_it_has():
    y = np.where(np.arange(N) == 2, 2, TRUTH % 2)  # one label of class 2, never held out
    curve = learning_curve(GaussianNB(var_smoothing=0.01), X, y, labels=(1, 4), n_draws=2)
    assert curve.labels == (1, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_draws": 1}, "n_draws must be a whole number, at least 2"),
        ({"labels": (0, 1)}, "each of labels must be a whole number, at least 1; got 0"),
        ({"labels": (64, 100)}, r"labels=\(64, 100\): no class has so many, at most \d+"),
        ({"labels": ()}, r"labels=\(\): no class"),
        ({"test_size": 1.0}, "test_size must be between 0 and 1, got 1.0"),
        ({"test_size": 0.01}, "too few labels to hold out a part of 0.01"),
        ({"y": [None] * N}, "Every label is missing. Label some rows"),
        ({"y": list(range(N))}, "too few labels to hold out"),
        ({"y": NUMBERS[1:]}, "inconsistent numbers of samples"),
        ({"X": {"a": [1.0]}}, "inconsistent numbers of samples"),
        ({"y": np.full((N, 3), [0.2, 0.3, 0.5])}, "y holds evidence"),
    ],
)
def test_curves_that_cannot_be_drawn(change, message):
    with pytest.raises(ValueError, match=message):
        learning_curve(**{"estimator": GaussianNB(), "X": X, "y": NUMBERS, **change})


def curve():
    accuracy = np.array([[0.5, 0.7], [0.9, 0.9]])
    return LearningCurve((1, 16), accuracy, 1 - accuracy, accuracy - 0.1, 9 * accuracy, (64, 256))


def test_a_curve_as_text():
    assert str(curve()).splitlines() == [
        " labels              accuracy                            log loss",
        "a class     labelled rows          all rows     labelled rows          all rows",
        "      1     50.0% ± 10.0%     60.0% ± 10.0%     5.400 ± 0.900     0.400 ± 0.100",
        "     16      80.0% ± 0.0%      90.0% ± 0.0%     8.100 ± 0.000     0.100 ± 0.000",
        "skipped, as no class has so many: 64, 256",
    ]


def test_a_curve_as_a_plot():
    matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib: tacit[plot]")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ax = curve().plot()
    _, names = ax.get_legend_handles_labels()
    assert names == ["all rows, labelled or not", "labelled rows only"]
    np.testing.assert_allclose(ax.containers[0].lines[0].get_ydata(), [0.6, 0.9])
    np.testing.assert_allclose(ax.containers[1].lines[0].get_ydata(), [0.5, 0.8])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "16"]
    assert ax.get_xscale() == "log"
    _, own = plt.subplots()
    assert curve().plot(own) is own
    for axes in (ax, own):
        axes.figure.canvas.draw()
        plt.close(axes.figure)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=re.escape('pip install "tacit[plot]"')):
        curve().plot()
