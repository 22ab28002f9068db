from . import em, families
from .classifiers import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianNB,
    MixedNB,
    MultinomialNB,
)
from .mixtures import (
    BernoulliMixture,
    CategoricalMixture,
    GaussianMixture,
    MixedMixture,
    MultinomialMixture,
    TableMixture,
)
from .modelfile import ModelFileError, load
from .tableclassifier import TableClassifier
from .texts import TextClassifier

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
