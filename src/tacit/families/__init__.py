"""Families p(x | y): one small file each, all behind the contract of `Family`."""

from tacit.families.base import Family
from tacit.families.bernoulli import Bernoulli
from tacit.families.categorical import Categorical
from tacit.families.discriminant import Discriminant
from tacit.families.gaussian import Gaussian
from tacit.families.given import Given
from tacit.families.mixed import Mixed
from tacit.families.multinomial import Multinomial

__all__ = [
    "Bernoulli",
    "Categorical",
    "Discriminant",
    "Family",
    "Gaussian",
    "Given",
    "Mixed",
    "Multinomial",
]
