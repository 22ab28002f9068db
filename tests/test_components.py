"""Classes of several components: against labels of components, against a mixture by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

import tacit
from modelfiles import GOLDEN
from tacit.estimators.components import sum_components
from tacit.frames import candidates

PLACE = np.repeat([0, 1, 2], 60)
NAMES = np.array(["outer", "inner", "outer"])[PLACE]


def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and counts of words of two classes, a row for each place."""
    rng = np.random.default_rng(0)
    # One class lies on both sides of the other.
    numbers = rng.normal(np.array([-4.0, 0.0, 4.0])[PLACE][:, None], 0.7, (180, 2))
    # The same of words: the topics 0 and 2 share a name.
    p = np.where(np.arange(9) // 3 == np.arange(3)[:, None], 0.3, 0.05 / 3)
    return numbers, np.array([rng.multinomial(12, p[k] / p[k].sum()) for k in PLACE])


NUMBERS, WORDS = drawn()


def some(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the names of n rows of each class, and None for the others."""
    y = NAMES.astype(object)
    for name in np.unique(NAMES):
        rows = rng.permutation(np.flatnonzero(name == NAMES))
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
def test_a_class_of_two_topics_is_found(name, labels, rng):
    estimator, X = ESTIMATORS[name]
    y = some(labels, rng)
    model = clone(estimator).set_params(components_per_class=2, random_state=0, n_init=5, tol=1e-4)
    model.fit(X, y)
    assert model.components_per_class_ == 2
    assert model.classes_.tolist() == ["inner", "outer"]
    assert model.label_distributions_.shape == (180, 2)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1.0)
    assert (model.label_distributions_[[name is not None for name in y]].max(axis=1) == 1).all()
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


def test_one_round_is_the_model_of_all_components(rng):
    """The oracle is the plain model of four classes, to which labels are candidates."""
    y = some(30, rng)
    init = rng.dirichlet(np.ones(4), 180)
    evidence = np.where([[name in (None, c) for c in ("inner", "outer")] for name in y], 1.0, 0.0)
    plain = tacit.MultinomialNB(classes=np.arange(4), init=init, max_iter=3, tol=0, random_state=0)
    with pytest.warns(Warning, match="did not converge"):
        plain.fit(WORDS, np.repeat(evidence, 2, axis=1))
    ours = tacit.MultinomialNB(components_per_class=2, max_iter=3, tol=0, random_state=0)
    ours._component_start = lambda *_: lambda *_: init
    with pytest.warns(Warning, match="did not converge"):
        ours.fit(WORDS, y)
    np.testing.assert_allclose(ours.feature_log_prob_, plain.feature_log_prob_)
    np.testing.assert_allclose(ours.trace_, plain.trace_)
    np.testing.assert_allclose(
        ours.predict_proba(WORDS), sum_components(plain.predict_proba(WORDS), 2, "posterior")
    )


def test_auto_takes_as_many_as_help(rng):
    y = some(40, rng)
    model = tacit.GaussianNB(components_per_class="auto", random_state=0, tol=1e-3)
    assert model.fit(NUMBERS, y).components_per_class_ >= 2
    simple = np.where(PLACE == 1, NUMBERS[:, 0], NUMBERS[:, 0] + 20)[:, None]
    apart = np.where(PLACE == 1, "low", "high").astype(object)
    apart[50:] = None
    apart[[100, 130]] = "low", "high"
    one = tacit.GaussianNB(components_per_class="auto", random_state=0, tol=1e-3)
    assert one.fit(simple[PLACE != 2], apart[PLACE != 2]).components_per_class_ == 1


def test_saved_pickled_and_refused(tmp_path, rng):
    model = tacit.MultinomialNB(components_per_class=2, random_state=0).fit(WORDS, some(30, rng))
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(WORDS), model.predict_proba(WORDS))
    assert again.components_per_class_ == 2
    again.set_params(warm_start=True).fit(WORDS, some(30, rng))
    with pytest.raises(ValueError, match="partial_fit needs components_per_class=1"):
        model.partial_fit(WORDS, NAMES)
    with pytest.raises(ValueError, match="no classes of several components"):
        model.to_sklearn()


def test_priors_evidence_and_hard_assignment(rng):
    y = some(30, rng)
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


def exclusive_or(n: int, known: int) -> tuple[dict[str, list[object]], np.ndarray, np.ndarray]:
    """A table whose class is none of its columns but whether two of them agree."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 2, (2, n))
    names = np.where(first == second, "same", "other")
    table = {
        "first": np.array(["left", "right"])[first].tolist(),
        "second": np.array(["up", "down"])[second].tolist(),
        "noise": rng.normal(size=n).round(2).tolist(),
        "colour": np.array(["red", "green", "blue"])[rng.integers(0, 3, n)].tolist(),
    }
    return table, names, np.where(np.arange(n) < known, names, None)


def test_dependent_columns_of_a_table(tmp_path):
    table, names, y = exclusive_or(500, 150)
    model = tacit.TableClassifier(random_state=0).fit(table, y)
    assert model.components_per_class_ > 1
    assert (model.transduction_ == names).mean() > 0.98
    assert (model.label_distributions_[:150].max(axis=1) == 1).all()
    plain = tacit.TableClassifier(random_state=0, components_per_class=1).fit(table, y)
    assert plain.components_per_class_ == 1
    assert (plain.transduction_[150:] == names[150:]).mean() < 0.7
    p = model.predict_proba(table)
    np.testing.assert_allclose(p[150:], model.label_distributions_[150:], rtol=1e-12)
    assert {feature.column for feature in model.top_features("same", 20)} <= set(table)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(tacit.load(tmp_path / "model").predict_proba(table), p)
    rows, drawn = model.sample(300)
    agree = (np.array(rows["first"]) == "left") == (np.array(rows["second"]) == "up")
    assert (agree == (drawn == "same")).mean() > 0.9
    with pytest.raises(ValueError, match="components_per_class=1"):
        model.partial_fit(table, y)
    batches = tacit.TableClassifier(random_state=0).partial_fit(table, y, classes=["other", "same"])
    assert batches._n_components == 1


@pytest.mark.parametrize("texts", [False, True])
def test_tables_of_components_are_explained(texts):
    table, names, y = exclusive_or(200, 80)
    if texts:
        said = {"same": "agree match alike", "other": "differ apart"}
        rng = np.random.default_rng(2)
        table["text"] = [
            " ".join(rng.choice((said[name] + " the a of it").split(), 5)) for name in names
        ]
    model = tacit.TableClassifier(random_state=0, components_per_class=3, numbers="normal")
    model.fit(table, y)
    p = model.predict_proba(table)
    for i in range(0, 200, 20):
        found = model.explain({name: cells[i] for name, cells in table.items()}, "same", "other")
        np.testing.assert_allclose(found.probability, p[i, 1])
        np.testing.assert_allclose(found.log_odds, np.log(p[i, 1] / p[i, 0]))
        total = found.prior + sum(term.log_odds for term in found.terms)
        np.testing.assert_allclose(total, found.log_odds)
    rows, _ = model.sample(5)
    assert set(rows) == set(table)


def test_one_component_where_held_out_labels_ask_for_no_more():
    rng = np.random.default_rng(3)
    k = rng.integers(0, 2, 400)
    cells = (rng.random((400, 6)) < np.where(k, 0.7, 0.3)[:, None]).astype(int)
    table = {f"c{j}": np.array(["no", "yes"])[cells[:, j]].tolist() for j in range(6)}
    y = np.where(np.arange(400) < 120, k, -1)
    model = tacit.TableClassifier(random_state=0, missing_label=-1).fit(table, y)
    assert model.components_per_class_ == 1


@pytest.mark.parametrize("texts", [False, True])
def test_candidates_are_fitted_to_a_sample_of_unlabelled_rows(texts, monkeypatch):
    table, names, y = exclusive_or(900, 150)
    if texts:
        rng = np.random.default_rng(4)
        table["text"] = [
            " ".join(rng.choice([name, "the", "a", "of"], 4, p=[0.1, 0.3, 0.3, 0.3]))
            for name in names
        ]
    monkeypatch.setattr(candidates, "MAX_UNLABELED", 200)
    model = tacit.TableClassifier(random_state=0).fit(table, y)
    assert model.components_per_class_ > 1
    assert (model.transduction_ == names).mean() > 0.98
    assert model.label_distributions_.shape == (900, 2)


@pytest.mark.parametrize("case", ["named", "all labelled", "no weight", "evidence", "words"])
def test_a_class_that_no_row_belongs_to(case):
    table, names, y = exclusive_or(200, 80)
    settings, weight = {"classes": ["nobody", "other", "same"]}, None
    if case == "all labelled":
        y = names
    elif case == "no weight":
        y[:3], weight = "nobody", np.where(np.arange(200) < 3, 0.0, 1.0)
    elif case == "evidence":
        known = [name is not None for name in y]
        y = np.where(
            np.array(known)[:, None], np.array(["nobody", "other", "same"]) == y[:, None], 1
        )
    elif case == "words":
        settings = {"word_labels": {"hockey": "nobody"}, "kinds": {"text": "text"}}
        table["text"] = ["hockey", "goal", "violin", "the cello"] * 50
    for parts in ("auto", 2):
        model = tacit.TableClassifier(random_state=0, components_per_class=parts, **settings)
        model.fit(table, y, sample_weight=weight)
        assert model.classes_.tolist() == ["nobody", "other", "same"]
        assert np.isfinite(model.predict_proba(table)).all()


def test_ctrl_c_before_the_rounds_leaves_the_model(monkeypatch):
    table, _, y = exclusive_or(200, 80)
    model = tacit.TableClassifier(random_state=0, components_per_class=1).fit(table, y)
    before = model.predict_proba(table)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tacit.TableClassifier, "_single_component", stop)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(components_per_class=3, unlabeled_weight=1.0).fit(table, y)
    monkeypatch.undo()
    model.set_params(components_per_class=1)
    np.testing.assert_array_equal(model.predict_proba(table), before)
    batches = tacit.TableClassifier(random_state=0)
    monkeypatch.setattr(tacit.TableClassifier, "_check_shape", stop)
    with pytest.raises(KeyboardInterrupt):
        batches.partial_fit(table, y, classes=["other", "same"])
    monkeypatch.undo()
    assert batches.fit(table, y).components_per_class_ > 1


def test_the_class_prior_of_candidates_is_that_of_all_rows(monkeypatch):
    """Labelled rows are half of either class, the others are nearly all of one."""
    rng = np.random.default_rng(5)
    k = (rng.random(2000) < np.where(np.arange(2000) < 200, 0.5, 0.1)).astype(int)
    guess = np.where(rng.random((4, 2000)) < 0.8, k, rng.integers(0, 2, (4, 2000)))
    table = {f"c{j}": np.array(["no", "yes"])[cells].tolist() for j, cells in enumerate(guess)}
    y, found = np.where(np.arange(2000) < 200, k, -1), []
    decide = candidates.CandidateEvaluator.can_decide

    def can_decide(evaluator, candidate):
        decided = decide(evaluator, candidate)
        found.append(evaluator.class_prior)
        return decided

    monkeypatch.setattr(candidates.CandidateEvaluator, "can_decide", can_decide)
    for most in (10**6, 200):
        monkeypatch.setattr(candidates, "MAX_UNLABELED", most)
        tacit.TableClassifier(random_state=0, missing_label=-1).fit(table, y)
    np.testing.assert_allclose(found[1], found[0], atol=0.04)
    assert found[1][1] < 0.25


@pytest.mark.parametrize("uncertain", [False, True])
def test_candidates_count_labelled_rows_once_for_all_alphas(monkeypatch, uncertain):
    """With the same bits as if counted anew; with uncertain labels counts depend on alpha."""
    rng = np.random.default_rng(6)
    k = rng.integers(0, 2, 200)
    codes = np.where(rng.random((3, 200)) < 0.6, k, rng.integers(0, 4, (3, 200)))
    cells = np.where(rng.random(codes.shape) < 0.1, "", np.array(list("abcd"))[codes])
    table = {
        "size": (rng.normal(size=200) + k).tolist(),
        **{f"c{j}": c for j, c in enumerate(cells)},
    }
    y = np.eye(2)[k]
    y[90:] = 1.0
    if uncertain:
        y[::3] = 0.5 * y[::3] + 0.25
    fits, makes = [], candidates.fit_folds

    def counted(*given):
        for fit in makes(*given):
            fits.append(fit)
            yield fit

    monkeypatch.setattr(candidates, "fit_folds", counted)
    model = tacit.TableClassifier(random_state=0)
    found, once = model.fit(table, y).predict_proba(table), len(fits)
    begin = candidates.CandidateEvaluator.__init__

    def counts_anew(self, *given):
        begin(self, *given)
        self.reuse_counts = False

    monkeypatch.setattr(candidates.CandidateEvaluator, "__init__", counts_anew)
    np.testing.assert_array_equal(model.fit(table, y).predict_proba(table), found)
    assert (2 * once == len(fits)) == uncertain


def test_a_file_from_before_components_warms_up():
    path = next(path for path in GOLDEN if path.name == "texts-TableClassifier.safetensors")
    model = tacit.load(path).set_params(warm_start=True)
    assert not hasattr(model, "components_per_class_")
    rows = json.loads((path.parent / "expected.json").read_text())[path.name]["X"]
    model.fit(rows, ["sport", "music", None, "sport"])
    assert model.components_per_class_ == 1
