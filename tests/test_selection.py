"""Model selection of the plain classifiers by held-out labels, and prior shift."""

import numpy as np
import pytest

import tacit


def clusters(n, rng, prior=(0.5, 0.5)):
    """Return word counts of two topics, and the topics."""
    y = rng.choice(2, n, p=prior)
    p = np.array([[0.3, 0.3, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1, 0.3, 0.3]])
    return np.array([rng.multinomial(8, p[k]) for k in y]), y


def some(y, n):
    known = np.array([None] * len(y), dtype=object)
    known[:n] = y[:n]
    return known


@pytest.mark.parametrize(
    "estimator",
    [tacit.MultinomialNB, tacit.BernoulliNB, tacit.CategoricalNB, tacit.GaussianNB],
)
def test_the_weight_of_unlabelled_rows(estimator, rng):
    X, y = clusters(600, rng)
    known = some(y, 20)
    model = estimator(unlabeled_weight="auto").fit(X, known)
    report = model.unlabeled_help_
    assert report.weight in (0.0, 0.1, 1.0)
    assert report.em.rows == report.supervised.rows == 20
    same = estimator(unlabeled_weight=report.weight).fit(X, known)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))


def test_rows_that_hurt_are_left_out(tmp_path, rng):
    """The clusters are not the classes: those differ in one column, the clusters in all others."""
    n = 600
    y, cluster = rng.choice(2, n), rng.choice(2, n)
    X = (rng.random((n, 21)) < np.where(cluster, 0.9, 0.1)[:, None]).astype(int)
    X[:, 0] = rng.random(n) < np.where(y, 0.9, 0.1)
    model = tacit.BernoulliNB(unlabeled_weight="auto").fit(X, some(y, 60))
    assert model.unlabeled_help_.weight == 0
    assert "left out" in str(model.unlabeled_help_)
    model.save(tmp_path / "model")
    assert tacit.load(tmp_path / "model").unlabeled_help_.weight == 0


def test_no_label_can_be_held_out(rng):
    X, y = clusters(40, rng)
    all_known = tacit.MultinomialNB(unlabeled_weight="auto").fit(X, y)
    assert all_known.unlabeled_help_.supervised is None
    one_each = np.array([None] * 40, dtype=object)
    one_each[[int(np.argmin(y)), int(np.argmax(y))]] = 0, 1
    assert tacit.MultinomialNB(unlabeled_weight="auto").fit(X, one_each).unlabeled_help_.weight == 1
    batches = tacit.MultinomialNB(unlabeled_weight="auto")
    batches.partial_fit(X, some(y, 20), classes=[0, 1]).partial_fit(X, some(y, 0))


@pytest.mark.parametrize("parts", [1, 2])
def test_prior_shift(parts, tmp_path, rng):
    X, y = clusters(2000, rng)
    model = tacit.MultinomialNB(components_per_class=parts, random_state=0, tol=1e-3).fit(
        X, some(y, 1000)
    )
    new, truth = clusters(2000, rng, prior=(0.85, 0.15))
    other = model.adapt_prior(new)
    prior = np.exp(other.class_log_prior_).reshape(2, -1).sum(axis=1)
    np.testing.assert_allclose(prior, np.bincount(truth) / 2000, atol=0.05)
    assert other.score(new, truth) >= model.score(new, truth)
    other.save(tmp_path / "model")
    np.testing.assert_array_equal(
        tacit.load(tmp_path / "model").predict_proba(new), other.predict_proba(new)
    )
    np.testing.assert_allclose(np.exp(model.class_log_prior_).sum(), 1.0)


def test_prior_shift_of_tables():
    rng = np.random.default_rng(0)

    def table(n, p):
        y = rng.random(n) < p
        size = rng.normal(np.where(y, 2.0, 0.0), 1.0)
        words = [f"{'goal' if k else 'song'} of the day {i % 7}" for i, k in enumerate(y)]
        return {"size": size.tolist(), "note": words}, y

    X, y = table(300, 0.5)
    known = np.where(np.arange(300) < 60, y, None)
    model = tacit.TableClassifier(kinds={"note": "text"}).fit(X, known)
    new, truth = table(500, 0.1)
    prior = np.exp(model.adapt_prior(new).class_log_prior_)
    np.testing.assert_allclose(prior, [1 - truth.mean(), truth.mean()], atol=0.05)


def test_prior_shift_of_tempered_tables(monkeypatch):
    """A temperature divides the log-odds of the estimated prior as well."""
    rng = np.random.default_rng(0)
    y = rng.random(600) < 0.8
    told = np.where(rng.random(600) < 0.85, y, ~y)  # once, and nine times
    X = {f"x{j}": [f"v{v}" for v in told] for j in range(9)}
    names = np.where(y, "often", "seldom")
    known = np.where(np.arange(600) < 300, names, None)
    model = tacit.TableClassifier(components_per_class=1, random_state=0).fit(X, known)
    assert model.temperature_ > 3

    def prior():
        return np.exp(model.adapt_prior(X).class_log_prior_)

    np.testing.assert_allclose(prior(), [0.8, 0.2], atol=0.05)
    monkeypatch.setattr(tacit.TableClassifier, "_prior_of_posteriors", lambda self, prior: prior)
    assert prior()[0] < 0.6


def test_bins_are_smoothed_over_their_neighbours():
    """With one label a class, a number is more like one in the next bin than one further away."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) + 1.5 * np.repeat([[-1.0], [1.0]], 150, axis=0)
    y = ["low", *[None] * 149, "high", *[None] * 149]
    found = tacit.TableClassifier(unlabeled_weight=0.0).fit(
        {f"x{j}": column.tolist() for j, column in enumerate(X.T)}, y
    )
    right = found.transduction_ == np.repeat(["low", "high"], 150)
    assert right.mean() > 0.9
