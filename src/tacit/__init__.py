"""Naive Bayes and EM for texts and tables where all, some or none of the rows are labelled."""

from tacit import em, families
from tacit.classifiers import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianNB,
    MixedNB,
    MultinomialNB,
)
from tacit.mixtures import (
    BernoulliMixture,
    CategoricalMixture,
    GaussianMixture,
    MixedMixture,
    MultinomialMixture,
    TableMixture,
)
from tacit.modelfile import ModelFileError, load
from tacit.tableclassifier import TableClassifier
from tacit.texts import TextClassifier

__all__ = [
    "BernoulliMixture",
    "BernoulliNB",
    "CategoricalMixture",
    "CategoricalNB",
    "GaussianDiscriminant",
    "GaussianMixture",
    "GaussianNB",
    "MixedMixture",
    "MixedNB",
    "ModelFileError",
    "MultinomialMixture",
    "MultinomialNB",
    "TableClassifier",
    "TableMixture",
    "TextClassifier",
    "em",
    "families",
    "load",
]
