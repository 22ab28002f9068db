"""TextClassifier: few labels, many texts."""

import json
import pickle
import warnings

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

import tacit
from modelfiles import at, pack, unpack
from tacit import TextClassifier, kernels
from tacit.modelfile import ModelFileError
from tacit.selection import stacking
from tacit.selection.candidates import OutOfFold, Stacked
from tacit.selection.cross_validation import Evaluation
from tacit.selection.ensemble import Selected
from tacit.text import CountVectorizer
from tacit.text.parts import WordModel
from tacit.tuning import SemiSupervisedSplit

TOPICS = {
    "sport": "goal match cup team striker coach league referee penalty season",
    "music": "violin cello piano concert melody opera choir orchestra tempo score",
    "food": "bread butter soup recipe oven flour sugar kitchen taste cheese",
}
COMMON = ["the", "a", "of", "and", "to", "in", "was", "for", "on", "with", "at", "by", "it"]


def corpus(n=240, seed=0, prior=(1 / 3, 1 / 3, 1 / 3), length=12):
    """Return texts and their topics; a third of the words are the topic's."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    y = rng.choice(len(names), size=n, p=prior)
    texts = []
    for k in y:
        own = rng.choice(TOPICS[names[k]].split(), size=rng.integers(1, length // 2))
        other = rng.choice(COMMON, size=rng.integers(2, length))
        texts.append(" ".join(rng.permutation([*own, *other])))
    return texts, np.array(names)[y]


def some(y, n, seed=0):
    """Return the labels with so many of each class kept, others None."""
    rng = np.random.default_rng(seed)
    of_each = [np.flatnonzero(y == k) for k in dict.fromkeys(y)]
    kept = np.concatenate([rng.choice(rows, n, replace=False) for rows in of_each])
    partly = y.astype(object)
    partly[np.setdiff1d(np.arange(len(y)), kept)] = None
    return partly


@pytest.mark.parametrize("labels", [1, 4, 20])
def test_finds_topics(labels):
    texts, y = corpus(400, prior=(0.6, 0.3, 0.1))
    model = TextClassifier().fit(texts, some(y, labels))
    assert (model.transduction_ == y).mean() > 0.95
    fresh, truth = corpus(200, seed=1)
    p = model.predict_proba(fresh)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(fresh, truth) > 0.95
    np.testing.assert_allclose(np.exp(model.predict_log_proba(fresh)), p)
    assert (model.evaluation_ is None) == (labels == 1)
    assert model.unlabeled_help_.weight == 1.0


def test_what_the_figures_are():
    texts, y = corpus()
    model = TextClassifier().fit(texts, some(y, 10))
    helped = model.unlabeled_help_
    assert helped.em.rows == helped.supervised.rows == 30
    assert helped.em.log_loss <= helped.supervised.log_loss
    assert model.evaluation_.accuracy == helped.em.accuracy
    assert "held-out labels" in str(helped)


def test_labels_alone_when_texts_without_a_label_mislead():
    """Unlabelled texts fall into clusters that have nothing to do with the classes."""
    rng = np.random.default_rng(0)
    texts, y = [], []
    for i in range(300):
        cluster = rng.choice(list(TOPICS))
        words = rng.choice(TOPICS[cluster].split(), size=12)
        y.append(["good", "bad"][i % 2])
        said = {"good": "fine great nice", "bad": "poor awful worse"}[y[-1]].split()
        texts.append(" ".join([*words, rng.choice(said)]))
    y = np.array(y)
    labels = some(y, 30)
    model = TextClassifier().fit(texts, labels)
    alone = TextClassifier(unlabeled_weight=0).fit(texts, labels)
    assert (model.transduction_ == y).mean() >= (alone.transduction_ == y).mean() - 0.02
    assert not any(part.name == "clusters" for part in alone.ensemble_.parts)
    assert alone.unlabeled_help_.weight == 0.0
    kept = [i for i, label in enumerate(labels) if label is not None]
    same = TextClassifier().fit([texts[i] for i in kept], labels[kept])
    shared = [text for text in texts[:20] if set(text.split()) <= set(same.vectorizer_.vocabulary_)]
    assert shared
    np.testing.assert_allclose(alone.predict_proba(shared), same.predict_proba(shared), atol=1e-6)


def test_all_labels():
    texts, y = corpus()
    model = TextClassifier().fit(texts, y)
    assert (model.transduction_ == y).all()
    assert model.evaluation_.accuracy > 0.95
    assert model.unlabeled_help_.em is None
    assert [part.name for part in model.ensemble_.parts][-1] == "logistic regression"


def test_every_member_is_fitted_by_em_with_its_guarantee():
    texts, y = corpus()
    model = TextClassifier().fit(texts, some(y, 5))
    models = [part.model for part in model.ensemble_.parts if isinstance(part, WordModel)]
    assert len(models) == 3
    for one in models:
        assert (np.diff(one.trace_) >= -1e-6 * abs(one.trace_[0])).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_same_bits(threads):
    texts, y = corpus()
    one = TextClassifier(n_jobs=1).fit(texts, some(y, 5))
    other = TextClassifier(n_jobs=threads).fit(texts, some(y, 5))
    np.testing.assert_array_equal(one.predict_proba(texts), other.predict_proba(texts))


def test_the_class_prior_is_that_of_the_texts_if_labels_contradict_it():
    """Equally many labels of classes that are not equally frequent; and a quarter of each class."""
    texts, y = corpus(900, prior=(0.8, 0.15, 0.05))
    true = np.array([(y == name).mean() for name in sorted(TOPICS)])

    def prior(labels):
        model = TextClassifier().fit(texts, labels)
        return np.exp(model.ensemble_.log_prior)

    np.testing.assert_allclose(prior(some(y, 12)), true, atol=0.05)
    kept = np.isin(np.arange(len(y)), np.argsort(y, kind="stable")[::4])
    counts = np.array([(y[kept] == name).sum() for name in sorted(TOPICS)]) + 1
    np.testing.assert_allclose(prior(np.where(kept, y, None)), counts / counts.sum())


def test_parts_have_expected_weights_where_no_label_can_be_held_out():
    texts, y = corpus()
    model = TextClassifier().fit(texts, some(y, 1))
    assert [part.name for part in model.ensemble_.parts] == ["topics", "words", "clusters"]
    counts = model.vectorizer_.transform(texts)
    each = np.stack([part.evidence(counts) for part in model.ensemble_.parts], axis=2)
    spread = model.ensemble_.weights * stacking.log_odds_scale(each)
    np.testing.assert_allclose(spread, [0.6, 0.2, 0.2])
    found = model.explain(texts[0])
    assert found.prior + sum(t.log_odds for t in found.terms) == pytest.approx(found.log_odds)


def test_temperature_makes_filled_labels_as_sure_as_held_out_ones():
    evidence = np.random.default_rng(0).normal(size=(200, 3, 1))
    stacked = Stacked(np.array([2.0]), *[None] * 4)
    selected = Selected(np.arange(9), None, stacked, np.arange(200), evidence)
    log_prior = np.log([0.2, 0.3, 0.5])
    left_out = 2.0 * evidence[:, :, 0] + log_prior
    assert selected.temperature(3.0 * left_out, log_prior) == pytest.approx(3.0)
    assert selected.temperature(0.5 * left_out, log_prior) == 1.0  # it is not too sure
    texts, y = corpus(400, length=4)
    model = TextClassifier(random_state=0).fit(texts, some(y, 10))
    filled = model.label_distributions_.argmax(axis=1)
    assert (filled == model.predict_proba(texts).argmax(axis=1)).mean() > 0.97


def test_accuracy_is_of_all_rows_where_labels_are_balanced_and_others_are_not():
    """Rare classes are as often labelled as others, and are told from them more seldom."""
    texts, y = corpus(900, prior=(0.9, 0.05, 0.05), length=5)
    model = TextClassifier(random_state=0).fit(texts, some(y, 20))
    found = model.evaluation_
    recall = np.average(found.recall, weights=np.exp(model.ensemble_.log_prior))
    assert found.accuracy == pytest.approx(recall)
    assert found.effective_rows < found.rows
    low, _ = found.interval
    assert low <= (model.transduction_ == y).mean()


def test_a_label_that_is_the_only_one_of_its_class_counts_as_an_error():
    texts, y = corpus(300, prior=(0.6, 0.37, 0.03))
    labels = np.where(np.arange(300) < 60, y, None)
    food = np.flatnonzero(labels == "food")
    labels[food[1:]] = None
    n = sum(label is not None for label in labels)
    model = TextClassifier(unlabeled_weight=0, random_state=0).fit(texts, labels)
    found = model.evaluation_  # labels alone do not contradict their own proportions
    assert found.rows == n - 1
    assert found.effective_rows == pytest.approx(n)
    assert found.accuracy == pytest.approx(found.confusion.trace() / n)


def test_what_is_clearly_better():
    said = np.zeros((20, 2))
    flat, better, lucky = (
        Stacked(np.ones(1), Evaluation.of(said + 0.5, np.zeros(20, int)), losses, said, np.ones(20))
        for losses in (np.ones(20), np.tile([0.7, 0.9], 10), np.r_[0.0, np.full(19, 1.02)])
    )
    assert better.beats(flat)
    assert lucky.loss < flat.loss
    assert not lucky.beats(flat)


def test_explanation_adds_up():
    texts, y = corpus()
    model = TextClassifier().fit(texts, some(y, 8))
    log_p = model.predict_log_proba(texts[:20])
    names = model.classes_.tolist()
    for text, row in zip(texts, log_p, strict=False):
        found = model.explain(text)
        k, other = names.index(found.label), names.index(found.against)
        assert k == row.argmax()
        assert found.log_odds == pytest.approx(row[k] - row[other], abs=1e-9)
        assert found.prior + sum(t.log_odds for t in found.terms) == pytest.approx(found.log_odds)
        assert found.probability == pytest.approx(np.exp(row[k]))
        assert {t.value for t in found.terms} <= set(text.split())
    with pytest.raises(ValueError, match="no class 'art': expected one of"):
        model.explain("a goal", "art")


def test_top_features():
    texts, y = corpus()
    model = TextClassifier().fit(texts, some(y, 8))
    for name, words in TOPICS.items():
        assert {feature.value for feature in model.top_features(name, 5)} <= set(words.split())


def test_labelled_words_with_and_without_labelled_texts():
    texts, y = corpus()
    words = {"goal": "sport", "violin": "music", "bread": "food"}
    alone = TextClassifier(word_labels=words).fit(texts)
    assert (alone.transduction_ == y).mean() > 0.9
    assert alone.label_distributions_.shape == (len(texts), 3)
    beside = TextClassifier(word_labels={"goal": "sport"}).fit(texts, some(y, 3))
    assert (beside.transduction_ == y).mean() > 0.9
    assert beside.unlabeled_help_.em.rows == 9  # words are never held out
    with pytest.raises(ValueError, match=r"word_labels names \['unheard'\]: expected words"):
        TextClassifier(word_labels={"unheard": "sport"}).fit(texts, y)
    with pytest.raises(ValueError, match="y has two axes"):
        TextClassifier(word_labels=words).fit(texts, np.ones((len(texts), 3)))


def test_prior_shift():
    texts, y = corpus(400)
    model = TextClassifier().fit(texts, some(y, 20))
    fresh, truth = corpus(400, seed=5, prior=(0.8, 0.15, 0.05))
    adapted = model.adapt_prior(fresh)
    prior = [(truth == name).mean() for name in model.classes_]
    np.testing.assert_allclose(adapted.class_shares_, prior, atol=0.06)
    losses = [log_loss(truth, m.predict_proba(fresh), labels=m.classes_) for m in (adapted, model)]
    assert losses[0] <= losses[1]
    again = adapted.adapt_prior(fresh)
    np.testing.assert_allclose(again.class_shares_, adapted.class_shares_, atol=1e-3)
    np.testing.assert_allclose(model.class_shares_.sum(), 1.0)


def test_containers_of_texts():
    texts, y = corpus(60)
    expected = TextClassifier().fit(texts, some(y, 3)).predict_proba(texts)
    for form in (np.array(texts), np.array(texts, object), pl.Series(texts), tuple(texts)):
        found = TextClassifier().fit(form, some(y, 3)).predict_proba(form)
        np.testing.assert_array_equal(found, expected)


def test_weights_and_evidence():
    texts, y = corpus(60)
    labels = some(y, 3)
    twice = TextClassifier().fit(texts, labels, sample_weight=np.ones(60))
    np.testing.assert_array_equal(
        twice.predict_proba(texts), TextClassifier().fit(texts, labels).predict_proba(texts)
    )
    evidence = np.ones((60, 3))
    for i, label in enumerate(labels):
        if label is not None:
            evidence[i] = np.array(sorted(TOPICS)) == label
    evidence[-1] = [1, 1, 0]
    soft = TextClassifier(classes=sorted(TOPICS)).fit(texts, evidence)
    assert soft.label_distributions_[-1, 2] == 0.0
    np.testing.assert_allclose(soft.label_distributions_.sum(axis=1), 1.0)


def test_a_class_without_labels_is_possible():
    texts, y = corpus()
    labels = some(y, 5)
    labels[labels == "food"] = None
    model = TextClassifier(classes=sorted(TOPICS), random_state=0).fit(texts, labels)
    assert model.classes_.tolist() == sorted(TOPICS)
    assert np.isfinite(model.predict_proba(texts)).all()


def test_texts_of_no_known_word_get_the_class_prior():
    texts, y = corpus()
    model = TextClassifier().fit(texts, some(y, 5))
    p = model.predict_proba(["", "zzz yyy"])
    np.testing.assert_allclose(p[0], p[1])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_model_files(tmp_path):
    texts, y = corpus()
    model = TextClassifier(vectorizer=CountVectorizer(ngram_range=(1, 2))).fit(texts, some(y, 5))
    path, again = tmp_path / "model", tmp_path / "again"
    model.save(path)
    loaded = tacit.load(path)
    loaded.save(again)
    assert path.read_bytes() == again.read_bytes()
    np.testing.assert_array_equal(loaded.predict_proba(texts), model.predict_proba(texts))
    assert loaded.explain(texts[0]) == model.explain(texts[0])
    assert str(loaded.unlabeled_help_) == str(model.unlabeled_help_)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(texts), model.predict_proba(texts)
    )
    rng, whole = np.random.default_rng(0), path.read_bytes()
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            p = tacit.load(path).predict_proba(texts[:5])
        except ModelFileError:
            continue
        assert p.shape == (5, 3)


def test_parameters_are_checked():
    texts, y = corpus(30)
    for setting in ({"unlabeled_weight": -1}, {"vectorizer": "words"}, {"word_labels": ["goal"]}):
        with pytest.raises(ValueError, match="parameter of TextClassifier"):
            clone(TextClassifier(**setting)).fit(texts, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TextClassifier().fit(texts, y[:-1])
    with pytest.raises(ValueError, match="Every label is missing"):
        TextClassifier().fit(texts)


@pytest.mark.skipif(kernels.native() is None, reason="compares the kernels with NumPy")
def test_without_kernels_it_is_the_same(monkeypatch):
    texts, y = corpus(80)
    expected = TextClassifier().fit(texts, some(y, 4)).predict_proba(texts)
    monkeypatch.setattr(kernels, "native", lambda: None)
    found = TextClassifier().fit(texts, some(y, 4)).predict_proba(texts)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_stacking_weights_minimise_the_loss():
    rng = np.random.default_rng(0)
    n, K = 400, 3
    truth = rng.integers(K, size=n)
    good = rng.normal(size=(n, K)) + 2.0 * np.eye(K)[truth]
    useless = rng.normal(size=(n, K))
    joints = np.stack([5 * good, useless], axis=2)
    scale = stacking.log_odds_scale(joints)
    prior = np.bincount(truth) / n
    counts, log_prior = stacking.balanced_weight(truth, prior), np.log([0.2, 0.3, 0.5])
    found = stacking.fit_weights(joints, truth, np.array([0.5, 0.5]), scale, counts, log_prior)
    assert found[0] > 5 * found[1] * scale[1] / scale[0]

    def loss(w):
        joint = joints @ w + log_prior
        right = joint[np.arange(n), truth]
        away = w * scale - 0.5
        return (counts * (logsumexp(joint, axis=1) - right)).sum() + (away**2).sum()

    for step in 0.01 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
        assert loss(np.maximum(found + step / scale, 0)) >= loss(found) - 1e-6


@pytest.mark.parametrize("alpha", ["auto", "background"])
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_relative_smoothing_and_tempering(alpha, form):
    texts, y = corpus(80)
    X = CountVectorizer().fit_transform(texts)
    X = X if form == "sparse" else X.toarray().astype(float)
    labels = some(y, 3)
    settings = {"alpha": alpha, "tempering": 0.5, "max_iter": 30, "tol": 1e-4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = tacit.MultinomialNB(**settings).fit(X, labels)
        scaled = tacit.MultinomialNB(**settings).fit(X * 3.0, labels)
    assert one.score(X, y) > 0.9
    # Smoothing is relative to the words that there are: three times as many, three times as much.
    np.testing.assert_allclose(
        scaled._model.family.alpha, 3.0 * one._model.family.alpha, rtol=1e-12
    )
    words = np.asarray(X.sum(axis=0)).ravel()
    share = np.full(len(words), 1 / len(words))
    share = share if alpha == "auto" else (share + words / words.sum()) / 2
    np.testing.assert_allclose(one._model.family.alpha, 0.2 * words.sum() / 3 * share)
    assert (np.diff(one.trace_) >= -1e-6 * abs(one.trace_[0])).all()


def test_many_labels_of_one_class_and_one_of_another_do_not_decide():
    """Held-out labels are all of one class: they cannot show that the other never occurs."""
    texts, y = corpus(300, prior=(0.5, 0.5, 0.0))
    labels = np.full(300, None, dtype=object)
    labels[np.flatnonzero(y == "sport")[:20]] = "sport"
    labels[np.flatnonzero(y == "music")[:1]] = "music"
    model = TextClassifier().fit(texts, labels)
    assert model.evaluation_ is None
    assert (model.transduction_ == y).mean() > 0.95


@pytest.mark.parametrize("seed", [None, 40, 42, 66])
def test_evidence_alone(seed):
    """Classes begin with the rows whose evidence favours them, and not anywhere."""
    texts, y = corpus(120, prior=(0.5, 0.5, 0.0))
    evidence = np.ones((120, 2))
    for k, name in enumerate(["music", "sport"]):
        evidence[np.flatnonzero(y == name)[:5], k] = 9.0
    model = TextClassifier(classes=["music", "sport"], random_state=seed).fit(texts, evidence)
    assert (model.transduction_ == y).mean() > 0.9


def test_score_and_cross_validation_know_missing_labels():
    texts, y = corpus(90)
    labels = some(y, 6)
    model = TextClassifier().fit(texts, labels)
    assert model.score(texts, labels) == model.score(
        [t for t, label in zip(texts, labels, strict=True) if label is not None],
        [label for label in labels if label is not None],
    )
    scores = cross_val_score(TextClassifier(), texts, labels, cv=SemiSupervisedSplit(3))
    assert scores.mean() > 0.9


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    texts, y = corpus(60)
    model = TextClassifier().fit(texts, some(y, 3))
    before = model.predict_proba(texts)
    with pytest.raises(ValueError, match="Every label is missing"):
        model.fit(["other words", "than before"], [None, None])
    np.testing.assert_array_equal(model.predict_proba(texts), before)


def test_labels_in_arrow_beside_labelled_words():
    texts, y = corpus(60)
    labels = pl.Series(some(y, 3).tolist())
    words = {"goal": "sport"}
    expected = TextClassifier(word_labels=words).fit(texts, labels.to_list())
    found = TextClassifier(word_labels=words).fit(texts, labels)
    np.testing.assert_array_equal(found.predict_proba(texts), expected.predict_proba(texts))


def test_one_class_and_a_class_that_never_is():
    texts, _ = corpus(30)
    model = TextClassifier().fit(texts, ["all"] * 30)
    np.testing.assert_array_equal(model.predict_proba(texts), np.ones((30, 1)))
    texts, y = corpus(60, prior=(0.5, 0.5, 0.0))
    model = TextClassifier(classes=["food", "music", "sport"]).fit(texts, y)
    adapted = model.adapt_prior(texts)
    assert np.isfinite(adapted.predict_proba(texts)).all()
    assert adapted.top_features("sport")


def test_relative_smoothing_in_a_part_is_refused():
    part = [("words", tacit.MultinomialNB(alpha="auto"), [0, 1])]
    with pytest.raises(ValueError, match="expected a number in a part"):
        tacit.MixedNB(part).fit([[1, 0], [0, 1]], [0, 1])


def test_models_are_compared_by_the_same_class_prior():
    """A model that always predicts one class is not evaluated on this class alone."""
    truth = np.arange(40) % 2
    right = np.eye(2)[truth] * 1.4
    always = np.tile([5.0, 0.0], (40, 1))
    said = np.stack([right, always], axis=2)
    held = [np.arange(20), np.arange(20, len(truth))]
    predictions = OutOfFold.of([said[:20], said[20:]], truth, np.ones(len(truth)), held)
    one, prior = np.ones(2), np.array([0.5, 0.5])
    alone, other = (predictions.stack(np.arange(2) == i, one, one, prior) for i in range(2))
    assert alone.loss < other.loss
    assert alone.evaluation.accuracy == 1.0


def ragbag(n=400, seed=0):
    """Return texts of six topics, each class having three: they share no words."""
    rng = np.random.default_rng(seed)
    words = [[f"topic{t}word{i}" for i in range(30)] for t in range(6)]
    topic = rng.integers(0, 6, n)
    own = [rng.choice(words[t], size=6) for t in topic]
    texts = [" ".join([*some, *rng.choice(COMMON, size=6)]) for some in own]
    return texts, np.array(["even", "odd"])[topic % 2]


def clusters_of(model):
    return next((part for part in model.ensemble_.parts if part.name == "clusters"), None)


@pytest.fixture(scope="module")
def clustered():
    texts, y = ragbag()
    return texts, y, TextClassifier().fit(texts, some(y, 10))


def test_clusters_of_texts_help(clustered):
    texts, y, model = clustered
    fresh, truth = ragbag(seed=1)
    evidence = clusters_of(model).evidence(model.vectorizer_.transform(fresh))
    assert (model.classes_[evidence.argmax(axis=1)] == truth).mean() > 0.9
    alone = TextClassifier(unlabeled_weight=0.0).fit(texts, some(y, 10))
    assert clusters_of(alone) is None
    assert model.score(fresh, truth) > max(alone.score(fresh, truth), 0.9)


def test_log_odds_of_clusters_by_hand(clustered):
    """p(y | x) = sum_g p(g | x) p(y | g), the first by log p(x, g) over the root of ten words."""
    texts, y, model = clustered
    found, counts = clusters_of(model), model.vectorizer_.transform(texts)
    parts = []
    for mixture in found.mixtures:
        joint = mixture.predict_joint_log_proba(found.weights.transform(counts)) / np.sqrt(10)
        parts.append(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)) / 4)
    p, labels = np.hstack(parts), some(y, 10)
    mass = np.stack([p[labels == name].sum(axis=0) for name in model.classes_], axis=1)
    mass += 0.1 / 4 * np.array([0.5, 0.5])
    ratios = mass / mass.sum(axis=1, keepdims=True) / 0.5
    np.testing.assert_allclose(found.class_ratios, ratios)
    np.testing.assert_allclose(found.evidence(counts), np.log(p @ ratios))


def test_explanations_with_clusters_add_up(clustered):
    texts, _, model = clustered
    assert clusters_of(model) is not None
    for text in (*texts[:3], "topic0word1 topic1word1", "", "unheard of"):
        found, p = model.explain(text), model.predict_proba([text])[0]
        assert found.log_odds == pytest.approx(np.log(p.max() / p.min()))
        assert found.log_odds == pytest.approx(found.prior + sum(t.log_odds for t in found.terms))


def test_files_keep_clusters(clustered, tmp_path):
    texts, _, model = clustered
    model.save(tmp_path / "model")
    same = tacit.load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_proba(texts), model.predict_proba(texts))
    same.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    content, arrays = unpack(tmp_path / "model")

    def refused(*path, value):
        other = json.loads(json.dumps(content))
        *inner, last = path
        at(other["model"]["SavedEnsemble"]["parts"]["tuple"], inner)[last] = value
        (tmp_path / "other").write_bytes(pack(other, arrays))
        with pytest.raises(ModelFileError):
            tacit.load(tmp_path / "other")

    place = [part.name for part in model.ensemble_.parts].index("clusters")
    clusters = place, "SavedTextGroups"
    refused(*clusters, "weight", value=-1.0)
    refused(*clusters, "mixtures", value={"tuple": []})
    refused(*clusters, "weights", "TermWeights", "length_scale", value={"number": "inf"})
    refused(*clusters, "weights", "TermWeights", "n_features_in", value=7)
    regression = len(model.ensemble_.parts) - 1, "TextLogistic"
    refused(*regression, "intercepts", value=None)
    refused(*regression, "weights", "TermWeights", "n_features_in", value=7)


def test_no_clusters_of_few_unlabelled_texts_or_of_many_classes(clustered):
    texts, y, _ = clustered
    labels = y.astype(object)
    labels[:30] = None
    assert clusters_of(TextClassifier().fit(texts, labels)) is None
    many = np.array([f"{name} {i % 6}" for i, name in enumerate(y)])
    assert clusters_of(TextClassifier().fit(texts, some(many, 3))) is None


def test_next_to_no_evidence_is_not_scaled_up():
    told = np.random.default_rng(0).normal(size=(50, 3, 2)) * [1e-5, 2.0]
    scale = stacking.log_odds_scale(told)
    assert scale[0] == 1.0
    assert scale[1] == pytest.approx(told[:, :, 1].std(axis=1).mean())


def test_texts_of_many_words_are_explained_exactly_and_saved(tmp_path):
    """Naive Bayes on plain words is thousands of nats sure of a text of 1,500 words."""
    rng = np.random.default_rng(0)
    own = [[f"{name}{i}" for i in range(2000)] for name in "ab"]
    texts = [" ".join(rng.choice(own[i % 2], 400)) for i in range(60)]
    y = np.array(["a", "b"] * 30, dtype=object)
    model = TextClassifier(random_state=0).fit(texts, np.where(np.arange(60) < 40, y, None))
    text = " ".join(own[0][:1500])
    log_p = model.predict_log_proba([text])[0]
    assert model.explain(text).log_odds == pytest.approx(log_p[0] - log_p[1], rel=1e-9)
    few = TextClassifier(random_state=0).fit(texts, np.where(np.arange(60) < 2, y, None))
    few.save(tmp_path / "model")
    np.testing.assert_array_equal(
        tacit.load(tmp_path / "model").predict_proba(texts), few.predict_proba(texts)
    )


def test_weights_count_in_the_class_prior_and_in_the_accuracy():
    texts, y = corpus(120, prior=(0.5, 0.5, 0.0), length=4)
    weight = np.where(y == "sport", 3.0, 1.0)
    model = TextClassifier(random_state=0).fit(texts, y, sample_weight=weight)
    counts = np.array([weight[y == name].sum() for name in model.classes_])
    counts = counts * 120 / counts.sum() + 1
    np.testing.assert_allclose(np.exp(model.ensemble_.log_prior), counts / counts.sum())
    found = model.evaluation_
    mass = np.array([weight[y == name].sum() for name in model.classes_])
    assert found.accuracy == pytest.approx(np.average(found.recall, weights=mass))
    assert found.effective_rows == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert found.accuracy == model.unlabeled_help_.supervised.accuracy
    with pytest.raises(ValueError, match="No row has both a label and a weight"):
        TextClassifier(unlabeled_weight=0, classes=["a", "b"]).fit(texts)
