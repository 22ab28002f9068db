"""The closed list of classes that a model file can hold, by their names in files.

A class that is not in `RECORDS` is neither written nor made. Most are plain records of arrays; for
estimators and vectorizers this module defines which fields are kept. The names, and the fields of
the `Saved*` records, are part of the file format: they stay when classes are renamed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.estimators import classifiers, mixtures
from tacit.estimators.base import EMEstimator
from tacit.estimators.checkpoints import RECORDS as STATES
from tacit.families.base import check_array
from tacit.frames.classifier import TableClassifier
from tacit.frames.clusters import ClusterMixture
from tacit.frames.columns import Column
from tacit.frames.mixture import TableMixture
from tacit.frames.residual import TableCorrection
from tacit.io.records import DTYPES, Record, plain
from tacit.models.naive_bayes import ClassCounts, NaiveBayes
from tacit.numerics import Array
from tacit.selection.cross_validation import Evaluation, UnlabeledHelp
from tacit.text.classifier import TextClassifier
from tacit.text.parts import TextLogistic
from tacit.text.vectorizer import CountVectorizer
from tacit.text.weighting import TermWeights

__all__ = ["RECORDS", "Saved", "SavedEnsemble", "SavedMember", "SavedTexts", "of_parameters"]

# Longer token patterns can take very long to compile.
LONGEST_PATTERN = 200

# Parameters that are about the process, not about the model.
PROCESS = {"callback", "checkpoint", "checkpoint_every", "n_jobs", "resume", "verbose"}


@dataclass(frozen=True)
class Saved:
    """The record of an estimator, from which all else follows.

    Attributes
    ----------
    estimator : EMEstimator
        Its parameters.
    model, statistics
        The fitted model and its counts, from which the parameters of the distributions follow.
    classes : ndarray of shape (K,), or None
        The names of the classes, if they have any.
    order : ndarray of shape (K,), or None
        The order in which the user named them.
    n_features_in : int
        The number of columns that `predict` takes.
    feature_names_in : ndarray of str, or None
        Their names.
    more : dict
        Other attributes: those of the fit (`FACTS`), and those that its class lists in `_saved`.
    """

    estimator: EMEstimator
    model: NaiveBayes
    statistics: ClassCounts
    classes: npt.NDArray[Any] | None
    order: npt.NDArray[np.int64] | None
    n_features_in: int
    feature_names_in: npt.NDArray[Any] | None
    more: dict[str, Any]


@dataclass(frozen=True)
class SavedGroups:
    """Clusters of rows of a `TableClassifier`; files of early versions have one mixture."""

    mixture: Saved | tuple[Saved, ...]
    shares: Array
    weight: float


@dataclass(frozen=True)
class SavedTextGroups:
    """Clusters of texts of a `TextClassifier`."""

    mixtures: tuple[Saved, ...]
    shares: Array
    weight: float
    weights: TermWeights


@dataclass(frozen=True)
class SavedMember:
    """One member of the ensemble of a `TextClassifier`."""

    view: str
    weights: TermWeights
    model: Saved


@dataclass(frozen=True)
class SavedEnsemble:
    """The record of a `TextClassifier`.

    Attributes
    ----------
    estimator : TextClassifier
        Its parameters.
    vectorizer : CountVectorizer or None
        The vocabulary; None if a column of a table has it.
    classes : ndarray of shape (K,)
        The names of the classes.
    class_shares : ndarray of shape (K,)
        The class proportions of the training texts.
    parts : tuple
        The parts of the ensemble.
    weights : ndarray of shape (C,)
        Their weights.
    log_prior : ndarray of shape (K,)
        The log of the class prior.
    unlabeled_help, evaluation
        Scores on held-out labels.
    """

    estimator: TextClassifier
    vectorizer: CountVectorizer | None
    classes: npt.NDArray[Any]
    class_shares: Array
    parts: tuple[SavedMember | SavedTextGroups | TextLogistic, ...]
    weights: Array
    log_prior: Array
    unlabeled_help: UnlabeledHelp
    evaluation: Evaluation | None


# What only files of v0.1 have.


@dataclass(frozen=True)
class Pool:
    """The weights of members, and what is added for each class."""

    weights: Array
    shift: Array


@dataclass(frozen=True)
class TextCorrection:
    """A regression on words, fitted to the residuals of an ensemble."""

    logs: Array
    weights: TermWeights


@dataclass(frozen=True)
class SavedTexts:
    """The record of a `TextClassifier`: members with class priors, clusters and a regression."""

    estimator: TextClassifier
    vectorizer: CountVectorizer | None
    classes: npt.NDArray[Any]
    class_shares: Array
    members: tuple[SavedMember, ...]
    pool: Pool
    unlabeled_help: UnlabeledHelp
    evaluation: Evaluation | None
    groups: SavedTextGroups | None = None
    correction: TextCorrection | None = None


def of_parameters(cls: type[Any], dropped: tuple[str, ...] = ()) -> Record:
    """Return the record of an estimator class: its parameters, but for those that are not data.

    Parameters that were `dropped` are passed over where older files have them.
    """

    def take(estimator: Any) -> dict[str, Any]:
        given = estimator.get_params(deep=False).items()
        state = np.random.RandomState | np.random.Generator
        kept = {n: v for n, v in given if not (callable(v) or isinstance(v, state))}
        return {name: value for name, value in kept.items() if name not in PROCESS}

    def make(fields: dict[str, Any]) -> Any:
        if PROCESS & set(fields):
            raise ValueError(f"it sets one of {sorted(PROCESS)}")
        estimator = cls(**{name: own for name, own in fields.items() if name not in dropped})
        estimator._validate_params()
        return estimator

    return Record(cls, take, make)


def _take_vectorizer(vectorizer: CountVectorizer) -> dict[str, Any]:
    fields = {n: v for n, v in vectorizer.get_params().items() if n not in PROCESS}
    own = [name for name, value in fields.items() if callable(value) and name != "dtype"]
    if own:
        raise ValueError(f"CountVectorizer has a function as {own[0]}, which cannot be saved.")
    given, words = fields["vocabulary"] is not None, None
    if given or hasattr(vectorizer, "vocabulary_"):
        words = vectorizer.get_feature_names_out().tolist()
    dtype = np.dtype(fields["dtype"]).name
    return {**fields, "dtype": dtype, "vocabulary": given, "words": words}


def _make_vectorizer(fields: dict[str, Any]) -> CountVectorizer:
    given, words, dtype = fields.pop("vocabulary"), fields.pop("words"), fields.pop("dtype")
    if PROCESS & set(fields) or dtype not in DTYPES:
        raise ValueError(f"CountVectorizer sets one of {sorted(PROCESS)}, or dtype {dtype!r}")
    if words is not None and not (
        isinstance(words, list) and words and set(map(type, words)) == {str}
    ):
        raise ValueError("CountVectorizer has a vocabulary that is no list of words")
    vocabulary = words if given else None
    vectorizer = CountVectorizer(**fields, vocabulary=vocabulary, dtype=np.dtype(dtype).type)
    vectorizer._validate_params()
    if [type(n) for n in vectorizer.ngram_range] != [int, int]:
        raise ValueError("CountVectorizer has an ngram_range that is no pair of whole numbers")
    vectorizer._validate_ngram_range()
    if len(vectorizer.token_pattern or "") > LONGEST_PATTERN:
        raise ValueError("CountVectorizer has a token_pattern that is too long")
    re.compile(vectorizer.token_pattern or "")
    if words is not None:
        vectorizer.vocabulary_ = {word: column for column, word in enumerate(words)}
        vectorizer.fixed_vocabulary_ = bool(given)
        if len(vectorizer.vocabulary_) < len(words):
            raise ValueError("CountVectorizer has a word twice in its vocabulary")
    return vectorizer


def _take_weights(weights: TermWeights) -> dict[str, Any]:
    fitted = {"columns": weights.columns_, "weights": weights.weights_}
    return {**weights.get_params(), **fitted, "n_features_in": weights.n_features_in_}


def _make_weights(fields: dict[str, Any]) -> TermWeights:
    columns, weights, d = (fields.pop(name) for name in ("columns", "weights", "n_features_in"))
    made = TermWeights(**fields)
    made._validate_params()
    for name, array, dtype in (("columns", columns, np.int64), ("weights", weights, np.float64)):
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            raise ValueError(f"TermWeights has {name} that are no list of {dtype.__name__}")
    inside = type(d) is int and columns.size and columns[0] >= 0 and columns[-1] < d
    if not (inside and (np.diff(columns) > 0).all()) or weights.shape != columns.shape:
        raise ValueError("TermWeights has columns that are not there, in order and different")
    check_array("weights", weights, columns.shape, least=0.0)
    made.columns_, made.weights_, made.n_features_in_ = columns, weights, d
    return made


RECORDS: dict[str, Record] = {
    **STATES,
    "Saved": plain(Saved),
    "SavedGroups": plain(SavedGroups),
    "SavedTextGroups": plain(SavedTextGroups),
    "SavedEnsemble": plain(SavedEnsemble),
    "TextLogistic": plain(TextLogistic),
    "SavedTexts": plain(SavedTexts, later=("groups", "correction")),
    "SavedMember": plain(SavedMember),
    "Pool": plain(Pool),
    "TextCorrection": plain(TextCorrection),
    "TableCorrection": plain(TableCorrection),
    "TermWeights": Record(TermWeights, _take_weights, _make_weights),
    "TextClassifier": of_parameters(TextClassifier, dropped=("combination",)),
    "NaiveBayes": plain(NaiveBayes),
    "CountVectorizer": Record(CountVectorizer, _take_vectorizer, _make_vectorizer),
    "Column": plain(Column, later=("edges",)),
    "Evaluation": plain(Evaluation, later=("expected_accuracy", "effective_rows")),
    "UnlabeledHelp": plain(UnlabeledHelp),
    "BernoulliNB": of_parameters(classifiers.BernoulliNB),
    "CategoricalNB": of_parameters(classifiers.CategoricalNB),
    "MultinomialNB": of_parameters(classifiers.MultinomialNB),
    "GaussianNB": of_parameters(classifiers.GaussianNB),
    "GaussianDiscriminant": of_parameters(classifiers.GaussianDiscriminant),
    "MixedNB": of_parameters(classifiers.MixedNB),
    "BernoulliMixture": of_parameters(mixtures.BernoulliMixture),
    "CategoricalMixture": of_parameters(mixtures.CategoricalMixture),
    "MultinomialMixture": of_parameters(mixtures.MultinomialMixture),
    "GaussianMixture": of_parameters(mixtures.GaussianMixture),
    "MixedMixture": of_parameters(mixtures.MixedMixture),
    "TableClassifier": of_parameters(TableClassifier),
    "TableMixture": of_parameters(TableMixture),
    "Alike": of_parameters(ClusterMixture),
}
