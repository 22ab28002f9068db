"""Classifiers that are compared on few labels: tacit with its defaults, naive Bayes, and others.

Each takes a :class:`Task` and returns probabilities of all classes for the rows to test on. All of
them see the same rows and labels. What depends on the rows alone (counts of words, neighbours) is
found once for all draws of a division; it changes no result, only the time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import labelled
import numpy as np
import numpy.typing as npt
from labelled import Labelled, Rows
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

import tacit
from tacit.data.labels import encode
from tacit.selection.cross_validation import Evaluation, cross_validate, folds
from tacit.text.parts import MEMBERS
from tacit.text.weighting import TermWeights

try:
    import fasttext
except ImportError:
    fasttext = None

Array = npt.NDArray[np.float64]

ALPHAS = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0)
# Where no class has a label to spare for cross-validation. Of the grid it is the best on average
# there on the five sets of texts: what suits the baseline.
ALPHA_UNTRIED = 0.1


class Division:
    """Rows to train on and rows to test on, and what is made of them before any label is seen."""

    def __init__(self, data: Labelled, part: int) -> None:
        self.data = data
        self.train, self.test = data.divide(part)
        self.X_train, self.X_test = data.take(self.train), data.take(self.test)

    @cached_property
    def counts(self) -> tuple[Any, Any]:
        """The counts of words, to train on and to test on."""
        vectorizer = CountVectorizer()
        return vectorizer.fit_transform(self.X_train), vectorizer.transform(self.X_test)

    @cached_property
    def tfidf(self) -> tuple[Any, Any]:
        """TF-IDF, the document frequencies being those of all rows to train on."""
        train, test = self.counts
        model = TfidfTransformer().fit(train)
        return model.transform(train), model.transform(test)

    @cached_property
    def weighted(self) -> tuple[Any, Any]:
        """Counts as log(1 + tf) sqrt(idf), the mass of a row growing as its length ** 0.7."""
        train, test = self.counts
        idf = TfidfTransformer(smooth_idf=True).fit(train).idf_
        return tuple(_weighted(X, np.sqrt(idf)) for X in (train, test))

    @cached_property
    def same(self) -> tuple[Any, Any]:
        """Counts as tacit weighs them in its first view, with what all rows to train on tell."""
        train, test = self.counts
        weights = TermWeights(**MEMBERS["topics"].weights).fit(train)
        return weights.transform(train), weights.transform(test)

    @cached_property
    def cells(self) -> tuple[Any, Any]:
        """The cells of a table as counts: see `_cells`."""
        return _cells(self.X_train, self.X_test)

    @cached_property
    def prepared(self) -> Any:
        """A table with its columns encoded, so that thirty fits need not look at the cells anew."""
        return tacit.TableClassifier(n_jobs=1)._prepared(self.X_train, reset=True)

    @cached_property
    def neighbours(self) -> tuple[Any, Any]:
        """Which rows are the nearest in TF-IDF, as `kernel="knn"` of LabelSpreading finds them."""
        train, test = self.tfidf
        search = NearestNeighbors(n_neighbors=LabelSpreading().n_neighbors, n_jobs=1).fit(train)
        return search.kneighbors_graph(train), search.kneighbors_graph(test).T.tocsr()


@lru_cache(maxsize=4)  # the universities of WebKB take turns
def division(key: str, few: int | None, part: int) -> Division:
    """Return a division of a set, that of before if it is the same."""
    data = labelled.load(key, few)
    assert data is not None
    return Division(data, part)


@dataclass(frozen=True, eq=False)
class Task:
    """A division and which of its training rows have labels."""

    of: Division
    kept: Rows

    @property
    def y(self) -> Rows:
        """The classes of the rows that are labelled."""
        return self.of.data.y[self.of.train[self.kept]]

    @property
    def truth(self) -> Rows:
        """The classes of the rows to test on."""
        return self.of.data.y[self.of.test]

    @property
    def codes(self) -> Rows:
        """The classes of the rows to train on, -1 where there is no label."""
        codes = np.full(len(self.of.train), -1)
        codes[self.kept] = self.y
        return codes

    @property
    def names(self) -> list[str | None]:
        """The labels of the rows to train on, by name."""
        return [self.of.data.classes[k] if k >= 0 else None for k in self.codes]

    def judge(self, p: Array) -> Evaluation:
        """Judge probabilities of the rows to test on.

        The least is that of scikit-learn's log_loss, so that rows that underflow do not decide it.
        """
        return Evaluation.of(np.maximum(p, np.finfo(np.float64).eps), self.truth)

    def spread(self, p: Any, classes: Iterable[Any]) -> Array:
        """Return the columns of a model in the order of all classes; others have probability 0."""
        found = np.zeros((len(self.of.test), len(self.of.data.classes)))
        names = {name: k for k, name in enumerate(self.of.data.classes)}
        found[:, [names[k] if isinstance(k, str) else int(k) for k in classes]] = p
        return found


def defaults(task: Task) -> Array:
    """Return what tacit says with its defaults."""
    make = tacit.TextClassifier if task.of.data.texts else tacit.TableClassifier
    model = make(random_state=0, n_jobs=1).fit(task.of.X_train, task.names)
    return task.spread(model.predict_proba(task.of.X_test), model.classes_)


def without_unlabelled(task: Task) -> Array:
    """Return what tacit says without the rows that have no label.

    Texts: the defaults, fitted to the labelled rows alone. Tables: with alpha by cross-validation.
    """
    if task.of.data.texts:
        texts = [task.of.X_train[i] for i in task.kept]
        names = [task.of.data.classes[k] for k in task.y]
        model = tacit.TextClassifier(random_state=0, n_jobs=1).fit(texts, names)
    else:
        labels = encode(task.names)
        model = tacit.TableClassifier(unlabeled_weight=0.0, n_jobs=1)

        def judged(alpha: float) -> Evaluation | None:
            return cross_validate(model.set_params(alpha=alpha), task.of.prepared, labels)

        model.set_params(alpha=_best_alpha(judged, untried=model.alpha))
        model.fit(task.of.X_train, task.names)
    return task.spread(model.predict_proba(task.of.X_test), model.classes_)


def naive_bayes(task: Task) -> Array:
    """Return what supervised naive Bayes says on raw counts: words, or the cells of a table."""
    return _naive_bayes(task, *(task.of.counts if task.of.data.texts else task.of.cells))


def weighted_naive_bayes(task: Task) -> Array:
    """Return what supervised naive Bayes says on the weights of issue 5, document by document."""
    return _naive_bayes(task, *task.of.weighted)


def same_naive_bayes(task: Task) -> Array:
    """Return what supervised naive Bayes says on the weights that tacit gives words."""
    return _naive_bayes(task, *task.of.same)


def self_training(task: Task) -> Array:
    """Return what SelfTrainingClassifier(MultinomialNB()) says."""
    train, test = task.of.counts
    model = SelfTrainingClassifier(MultinomialNB()).fit(train, task.codes)
    return task.spread(model.predict_proba(test), model.classes_)


def label_spreading(task: Task) -> Array:
    """Return what LabelSpreading(kernel="knn") on TF-IDF says; rows that nothing reaches: all."""

    def kernel(X: Any, new: Any) -> Any:
        return task.of.neighbours[0 if new is X else 1]

    # The kernel knows the rows already: it is handed numbers in their place.
    train, test = np.arange(len(task.of.train)), np.arange(len(task.of.test))
    model = LabelSpreading(kernel=kernel).fit(train[:, None], task.codes)
    p = model.predict_proba(test[:, None])
    return task.spread(np.where(np.isfinite(p), p, 1.0 / p.shape[1]), model.classes_)


def logistic(C: float) -> Callable[[Task], Array]:
    """Return logistic regression on TF-IDF with a penalty."""

    def contender(task: Task) -> Array:
        train, test = task.of.tfidf
        train, test = _seen(train[task.kept], test)  # the weights of other words would be 0
        model = LogisticRegression(C=C, max_iter=1000).fit(train, task.y)
        return task.spread(model.predict_proba(test), model.classes_)

    return contender


def fast_text(task: Task) -> Array:
    """Return what fastText says, with the rate and the epochs of its tutorial.

    With its defaults (rate 0.1, 5 epochs) it hardly learns from so few. The lines are shuffled, as
    it goes through them in order.
    """
    words = CountVectorizer().build_analyzer()
    lines = [
        f"__label__{k} {' '.join(words(task.of.X_train[i]))}\n"
        for i, k in zip(task.kept, task.y, strict=True)
    ]
    np.random.default_rng(0).shuffle(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labelled"
        path.write_text("".join(lines), encoding="utf-8", newline="\n")
        model = fasttext.train_supervised(str(path), lr=1.0, epoch=25, thread=1, verbose=0)
    p = np.zeros((len(task.of.test), len(task.of.data.classes)))
    for i, text in enumerate(task.of.X_test):
        # What its predict calls: that fails with NumPy 2 or, for a list, says one p for all labels.
        for own, label in model.f.predict(" ".join(words(text)) + "\n", -1, 0.0, "strict"):
            p[i, int(label.removeprefix("__label__"))] = own
    return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


# Of each: what the page calls it, and what it is. The first is the one that is measured.
TEXTS: dict[str, Callable[[Task], Array]] = {
    "tacit": defaults,
    "NB raw": naive_bayes,
    "NB own": without_unlabelled,
    "NB same": same_naive_bayes,
    "NB weighted": weighted_naive_bayes,
    "self-training": self_training,
    "label spreading": label_spreading,
    "logistic C=1": logistic(1.0),
    "logistic C=30": logistic(30.0),
    "fastText": fast_text,
}
TABLES = {name: TEXTS[name] for name in ("tacit", "NB raw", "NB own")}
# Supervised naive Bayes on raw counts and on the same weighting, for tables and for texts; and all
# there is of it, with what tacit makes of labelled texts alone, a pool of several.
BASELINES = {False: ("NB raw", "NB own"), True: ("NB raw", "NB same")}
STRICTER = ("NB raw", "NB own", "NB same", "NB weighted")


def absent() -> list[str]:
    """Return the contenders that are not installed."""
    return ["fastText"] if fasttext is None else []


def _best_alpha(judged: Callable[[float], Evaluation | None], untried: float) -> float:
    """Return the alpha with the most labels found, the least log-loss where they are as many."""
    found = {alpha: judged(alpha) for alpha in ALPHAS}
    tried = {alpha: e for alpha, e in found.items() if e is not None}
    if not tried:
        return untried
    return min(tried, key=lambda alpha: (-tried[alpha].accuracy, tried[alpha].log_loss))


def _naive_bayes(task: Task, train: Any, test: Any) -> Array:
    """Return what scikit-learn's MultinomialNB says, with alpha by cross-validation in 5 folds.

    Words that no labelled row has are left out, as where it is all that one has: they would speak
    for the class with the fewest words.
    """
    X, test = _seen(train[task.kept], test)
    classes, y = np.unique(task.y, return_inverse=True)
    held = list(folds(y, 5))

    def judged(alpha: float) -> Evaluation | None:
        p = []
        for rows in held:
            rest = np.delete(np.arange(len(y)), rows)
            p.append(MultinomialNB(alpha=alpha).fit(X[rest], y[rest]).predict_proba(X[rows]))
        return Evaluation.of(np.vstack(p), y[np.concatenate(held)]) if held else None

    model = MultinomialNB(alpha=_best_alpha(judged, ALPHA_UNTRIED)).fit(X, task.y)
    return task.spread(model.predict_proba(test), classes)


def _seen(train: Any, test: Any) -> tuple[Any, Any]:
    """Return the columns that are not all zero in the rows to train on."""
    columns = np.unique(train.indices)
    return train[:, columns], test[:, columns]


def _weighted(X: Any, idf: Array) -> Any:
    weighted = X.astype(np.float64)
    weighted.data = np.log1p(weighted.data) * idf[weighted.indices]
    mass = np.asarray(weighted.sum(axis=1)).ravel()
    return sparse.diags_array(np.maximum(mass, 1e-300) ** -0.3).tocsr() @ weighted


def _cells(train: dict[str, list[Any]], test: dict[str, list[Any]]) -> tuple[Any, Any]:
    """Return the cells of a table as counts, for a multinomial model.

    A table of whole numbers is counts already. Otherwise a category counts once where it is, and so
    does one of five bins of a number (more than ten of which differ); a missing cell counts not.
    """
    if all(isinstance(cell, int) for cells in train.values() for cell in cells):
        both = (np.column_stack(list(table.values())) for table in (train, test))
        return tuple(sparse.csr_array(X.astype(np.float64)) for X in both)
    blocks = []
    for name, cells in train.items():
        given = [np.array([cell is not None for cell in side[name]]) for side in (train, test)]
        encoder, columns = _encoder(cells), []
        for side, there in zip((cells, test[name]), given, strict=True):
            column = np.array(side, dtype=object)[:, None]
            if isinstance(encoder, KBinsDiscretizer):
                column = np.where(there[:, None], column, 0).astype(float)
            if not columns:
                encoder.fit(column[there])
            coded = encoder.transform(column)
            columns.append(sparse.diags_array(there.astype(float)).tocsr() @ coded)
        blocks.append(columns)
    return tuple(sparse.hstack(side, format="csr") for side in zip(*blocks, strict=True))


def _encoder(cells: list[Any]) -> Any:
    try:
        numbers = {float(cell) for cell in cells if cell is not None}
    except ValueError:
        numbers = set()
    if len(numbers) > 10:
        return KBinsDiscretizer(5, encode="onehot", quantile_method="averaged_inverted_cdf")
    return OneHotEncoder(handle_unknown="ignore")
