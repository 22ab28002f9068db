from . import em, families
from .estimators.classifiers import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianNB,
    MixedNB,
    MultinomialNB,
)
from .estimators.mixtures import (
    BernoulliMixture,
    CategoricalMixture,
    GaussianMixture,
    MixedMixture,
    MultinomialMixture,
)
from .frames.classifier import TableClassifier
from .frames.mixture import TableMixture
from .modelfile import ModelFileError, load, save
from .text.classifier import TextClassifier

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
    "save",
]
