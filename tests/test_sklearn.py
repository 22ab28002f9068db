"""scikit-learn's own checks of its conventions, for every estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tacit

ESTIMATORS = [
    tacit.BernoulliNB(),
    tacit.CategoricalNB(),
    tacit.MultinomialNB(),
    tacit.GaussianNB(),
    tacit.GaussianDiscriminant(),
    tacit.GaussianDiscriminant(covariance="full"),
    tacit.GaussianDiscriminant(covariance="diag"),
    tacit.MixedNB([("all", tacit.GaussianNB(), slice(0, None))]),
    tacit.BernoulliMixture(2),
    tacit.CategoricalMixture(2),
    tacit.MultinomialMixture(2),
    tacit.GaussianMixture(2),
    tacit.MixedMixture([("all", tacit.families.Gaussian(), slice(0, None))], 2),
]


# The checks set max_iter to a few rounds, which is what this warning is for.
@pytest.mark.filterwarnings("ignore:Categories are whole numbers")  # some checks pass fractions
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
