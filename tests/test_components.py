"""Classes of several components: against labels of components, against a mixture by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

import tacit
from tacit.components import joined

RNG = np.random.default_rng(0)
# Two classes, of which one lies on both sides of the other.
PLACE = np.repeat([0, 1, 2], 60)
NUMBERS = RNG.normal(np.array([-4.0, 0.0, 4.0])[PLACE][:, None], 0.7, (180, 2))
NAMES = np.array(["outer", "inner", "outer"])[PLACE]
# The same of words: the topics 0 and 2 share a name.
P = np.where(np.arange(9) // 3 == np.arange(3)[:, None], 0.3, 0.05 / 3)
WORDS = np.array([RNG.multinomial(12, P[k] / P[k].sum()) for k in PLACE])


def some(n: int) -> np.ndarray:
    y = NAMES.astype(object)
    for name in np.unique(NAMES):
        rows = RNG.permutation(np.flatnonzero(name == NAMES))
        y[rows[n:]] = None
    return y


ESTIMATORS = {
    "numbers": (tacit.GaussianNB(var_smoothing=1e-3), NUMBERS),
    "covariances": (tacit.GaussianDiscriminant(covariance="full", var_smoothing=1e-3), NUMBERS),
    "words": (tacit.MultinomialNB(alpha=0.1), WORDS),
    "has": (tacit.BernoulliNB(alpha=0.1), WORDS),
    "categories": (tacit.CategoricalNB(alpha=0.1), np.minimum(WORDS, 3)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("labels", [20, 180])
def test_a_class_of_two_topics_is_found(name, labels):
    estimator, X = ESTIMATORS[name]
    y = some(labels)
    model = clone(estimator).set_params(components_per_class=2, random_state=0, n_init=5, tol=1e-4)
    model.fit(X, y)
    assert model.components_per_class_ == 2
    assert model.classes_.tolist() == ["inner", "outer"]
    assert model.label_distributions_.shape == (180, 2)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1.0)
    assert (model.predict(X) == NAMES).mean() > 0.95
    assert (model.transduction_ == NAMES).mean() > 0.95
    assert (np.diff(model.trace_) > -1e-8 * np.abs(model.trace_[1:])).all()
    np.testing.assert_allclose(
        model.predict_log_proba(X), np.log(model.predict_proba(X)), atol=1e-8
    )
    np.testing.assert_allclose(
        logsumexp(model.predict_joint_log_proba(X), axis=1), model.score_samples(X)
    )
    rows, drawn = model.sample(200)
    assert set(drawn) == {"inner", "outer"}
    assert (model.predict(rows) == drawn).mean() > 0.8


def test_one_round_is_the_model_of_all_components():
    """The oracle is the plain model of four classes, to which labels are candidates."""
    y = some(30)
    init = RNG.dirichlet(np.ones(4), 180)
    evidence = np.where([[name in (None, c) for c in ("inner", "outer")] for name in y], 1.0, 0.0)
    plain = tacit.MultinomialNB(classes=np.arange(4), init=init, max_iter=3, tol=0, random_state=0)
    with pytest.warns(Warning, match="did not converge"):
        plain.fit(WORDS, np.repeat(evidence, 2, axis=1))
    ours = tacit.MultinomialNB(components_per_class=2, max_iter=3, tol=0, random_state=0)
    ours._split = lambda *_: lambda *_: init
    with pytest.warns(Warning, match="did not converge"):
        ours.fit(WORDS, y)
    np.testing.assert_allclose(ours.feature_log_prob_, plain.feature_log_prob_)
    np.testing.assert_allclose(ours.trace_, plain.trace_)
    np.testing.assert_allclose(
        ours.predict_proba(WORDS), joined(plain.predict_proba(WORDS), 2, "posterior")
    )


def test_auto_takes_as_many_as_help():
    y = some(40)
    model = tacit.GaussianNB(components_per_class="auto", random_state=0, tol=1e-3)
    assert model.fit(NUMBERS, y).components_per_class_ >= 2
    simple = np.where(PLACE == 1, NUMBERS[:, 0], NUMBERS[:, 0] + 20)[:, None]
    apart = np.where(PLACE == 1, "low", "high").astype(object)
    apart[50:] = None
    apart[[100, 130]] = "low", "high"
    one = tacit.GaussianNB(components_per_class="auto", random_state=0, tol=1e-3)
    assert one.fit(simple[PLACE != 2], apart[PLACE != 2]).components_per_class_ == 1


def test_saved_pickled_and_refused(tmp_path):
    model = tacit.MultinomialNB(components_per_class=2, random_state=0).fit(WORDS, some(30))
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(WORDS), model.predict_proba(WORDS))
    assert again.components_per_class_ == 2
    again.set_params(warm_start=True).fit(WORDS, some(30))
    with pytest.raises(ValueError, match="partial_fit needs components_per_class=1"):
        model.partial_fit(WORDS, NAMES)
    with pytest.raises(ValueError, match="no classes of several components"):
        model.to_sklearn()


def test_priors_evidence_and_hard_assignment():
    y = some(30)
    held = tacit.MultinomialNB(components_per_class=2, class_prior=[0.4, 0.6], random_state=0)
    held.fit(WORDS, y)
    np.testing.assert_allclose(np.exp(held.class_log_prior_), [0.2, 0.2, 0.3, 0.3])
    soft = np.where([[name in (None, c) for c in ("inner", "outer")] for name in y], 1.0, 0.0)
    named = tacit.MultinomialNB(components_per_class=2, random_state=0, classes=["inner", "outer"])
    plain = clone(named).fit(WORDS, y)
    np.testing.assert_allclose(
        named.fit(WORDS, soft).predict_proba(WORDS), plain.predict_proba(WORDS)
    )
    hard = tacit.MultinomialNB(components_per_class=2, assignment="hard", random_state=0)
    assert (hard.fit(WORDS, y).predict(WORDS) == NAMES).mean() > 0.9


def test_texts_of_several_topics():
    """One name for two topics; the explanation is exact, and what marks it is of both."""
    rng = np.random.default_rng(3)
    said = [f"{a} {b}" for a in ["goal", "cup", "team"] for b in ["late", "won", "score"]]
    topics = {
        "out": [said, [f"{a} {b}" for a in ("cello", "violin") for b in ("slow", "loud", "old")]],
        "in": [[f"{a} {b}" for a in ("bread", "soup") for b in ("hot", "fresh", "salt")]],
    }
    texts, y = [], []
    for name, several in topics.items():
        for own in several:
            texts += [" ".join(rng.choice(own, 3)) for _ in range(60)]
            y += [name] * 60
    known = np.where(rng.random(len(y)) < 0.3, y, None)
    for parts in (2, "auto"):
        model = tacit.TextClassifier(components_per_class=parts, random_state=0).fit(texts, known)
        assert (model.transduction_ == y).mean() > 0.95
        p = model.predict_proba(texts[:5])
        for text, own in zip(texts[:5], p, strict=True):
            found = model.explain(text)
            assert found.prior + sum(t.log_odds for t in found.terms) == pytest.approx(
                found.log_odds
            )
            assert found.probability == pytest.approx(own.max())
        words = {feature.value for feature in model.top_features("out", 10)}
        assert words & {"goal", "cup", "team"}
        assert words & {"cello", "violin"}
    assert model.components_per_class_ in (1, 2, 3)


def test_texts_are_saved(tmp_path):
    texts = ["a goal", "a late goal", "a violin", "a slow violin", "the violin", "goal goal"] * 5
    y = ["sport", "sport", "music", "music", None, None] * 5
    model = tacit.TextClassifier(components_per_class=2, random_state=0).fit(texts, y)
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))
    assert again.explain(texts[0]) == model.explain(texts[0])
