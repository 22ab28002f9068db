"""Families p(x | y): one small file each, all behind the contract of `Family`.

A new family is one file and its name here. `RECORDS` maps the names that files use (model files,
checkpoints) to families and their statistics; each family declares its own.
"""

from tacit.families import bernoulli, categorical, discriminant, gaussian, given, mixed, multinomial
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

FAMILIES = bernoulli, categorical, discriminant, gaussian, given, mixed, multinomial
RECORDS = {name: record for family in FAMILIES for name, record in family.RECORDS.items()}
