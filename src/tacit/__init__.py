"""Naive Bayes and EM for texts and tables where all, some or none of the rows are labelled."""

from tacit import em, families
from tacit.classifiers import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianNB,
    MixedNB,
    MultinomialNB,
    TableClassifier,
)
from tacit.mixtures import (
    BernoulliMixture,
    CategoricalMixture,
    GaussianMixture,
    MixedMixture,
    MultinomialMixture,
    TableMixture,
)

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
    "MultinomialMixture",
    "MultinomialNB",
    "TableClassifier",
    "TableMixture",
    "em",
    "families",
]
