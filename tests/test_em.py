"""The loop itself, and the theorems of the notes."""

import itertools
import pickle
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

import tacit
from cases import CASES, K, hide
from hmm import HMM, random_params
from tacit import em, engine, kernels
from tacit.families import Bernoulli
from tacit.models.naive_bayes import NaiveBayes

every_family = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def bernoulli_data(seed=0, n=30, d=4):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < rng.uniform(0.1, 0.9, d)).astype(float)
    return X, rng.dirichlet(np.ones(2), n)


# --- Estimates from complete data


def test_theorem_2_counts_over_their_sum_maximise():
    """S9: no optimiser finds a distribution with a larger sum of c log q than c / N."""
    c = np.array([3.0, 0.5, 7.0, 2.0])
    found = minimize(lambda z: -(c * np.log(softmax(z))).sum(), np.zeros(4), tol=1e-14)
    np.testing.assert_allclose(softmax(found.x), c / c.sum(), atol=1e-6)
    assert (c * np.log(c / c.sum())).sum() >= -found.fun


def test_theorem_1_ratios_of_counts_maximise_the_likelihood():
    """S9: a numerical optimiser over all parameters ends at C (2) and (3)."""
    X, _ = bernoulli_data()
    y = np.arange(len(X)) % 3
    nb = tacit.BernoulliNB(alpha=0.0).fit(X, y)
    d = X.shape[1]

    def minus_log_likelihood(z):
        prior, p = softmax(z[:3]), 1 / (1 + np.exp(-z[3:].reshape(3, d)))
        return -np.log(prior[y]).sum() - np.log(np.where(X == 1, p[y], 1 - p[y])).sum()

    found = minimize(minus_log_likelihood, np.zeros(3 + 3 * d), tol=1e-12)
    np.testing.assert_allclose(softmax(found.x[:3]), np.exp(nb.class_log_prior_), atol=1e-5)
    p = 1 / (1 + np.exp(-found.x[3:].reshape(3, d)))
    np.testing.assert_allclose(p, np.exp(nb.feature_log_prob_), atol=1e-5)
    assert nb.log_likelihood_ >= -found.fun - 1e-9


def test_a_zero_count_is_a_probability_of_exactly_zero():
    """S10: 0 log 0 = 0, and a class without rows is legal."""
    X = [[1, 0, 1], [1, 0, 0], [0, 1, 1]]
    nb = tacit.BernoulliNB(alpha=0.0, classes=["a", "b", "none"]).fit(X, ["a", "a", "b"])
    p = np.exp(nb.feature_log_prob_)
    np.testing.assert_array_equal(p[:2], [[1, 0, 0.5], [0, 1, 1]])
    np.testing.assert_array_equal(np.exp(nb.class_log_prior_) * 3, [2, 1, 0])
    assert np.isfinite(nb.log_likelihood_)
    np.testing.assert_array_equal(nb.predict_proba(X), [[1, 0, 0], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(nb.predict_proba([[0, 0, 0]]), [[2 / 3, 1 / 3, 0]])  # impossible
    assert np.isneginf(nb.score_samples([[0, 0, 0]]))


@pytest.mark.parametrize(("class_alpha", "expected"), [(0.0, [0.75, 0.25]), (1.0, [4 / 6, 2 / 6])])
def test_smoothing_of_the_class_prior(class_alpha, expected):
    """S12: (count + 1) / (m + k), on or off."""
    nb = tacit.BernoulliNB(class_alpha=class_alpha).fit([[0], [1], [1], [0]], [0, 0, 0, 1])
    np.testing.assert_allclose(np.exp(nb.class_log_prior_), expected)


def test_hand_worked_formulas():
    """S1, S11 and S13: H's and W's estimates, Laplace's correction and W (14), by hand."""
    X, y = [[1, 0], [1, 1], [0, 1], [0, 0], [0, 1]], [1, 1, 1, 0, 0]
    plain = tacit.BernoulliNB(alpha=0.0).fit(X, y)
    np.testing.assert_allclose(np.exp(plain.class_log_prior_), [2 / 5, 3 / 5])
    np.testing.assert_allclose(np.exp(plain.feature_log_prob_), [[0, 1 / 2], [2 / 3, 2 / 3]])
    laplace = tacit.BernoulliNB(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(np.exp(laplace.feature_log_prob_), [[1 / 4, 2 / 4], [3 / 5, 3 / 5]])
    smoothed = tacit.BernoulliNB(alpha=0.5).fit(X, y)
    np.testing.assert_allclose(np.exp(smoothed.feature_log_prob_), [[0.5 / 3, 0.5], [2.5 / 4] * 2])
    # H: P(C = 1 | a) by normalising the two products.
    one, zero = 3 / 5 * 3 / 5 * 3 / 5, 2 / 5 * 1 / 4 * 1 / 2
    np.testing.assert_allclose(laplace.predict_proba([[1, 1]]), [[zero, one] / np.add(zero, one)])


def test_hand_worked_multinomial():
    """S3: L's estimates with Laplace's correction; no multinomial coefficient (trap 6)."""
    nb = tacit.MultinomialNB(class_alpha=1.0).fit([[2, 1, 0], [0, 1, 3]], [0, 1])
    np.testing.assert_allclose(
        np.exp(nb.feature_log_prob_), np.divide([[3, 2, 1], [1, 2, 4]], [[6], [7]])
    )
    joint = nb.predict_joint_log_proba([[1, 1, 0]])
    np.testing.assert_allclose(joint, np.log([[1 / 2 * 3 / 6 * 2 / 6, 1 / 2 * 1 / 7 * 2 / 7]]))


# --- EM for naive Bayes

POLITICS_AND_SPORT = np.array(
    [[1, 1, -1, -1], [-1, -1, 1, 1], [1, 1, -1, -1], [-1, -1, 1, 1], [-1, -1, 1, 1]]
)


@pytest.mark.parametrize("seed", range(25))
def test_the_example_of_politics_and_sport(seed):
    """S21: C (7)-(9) to 1e-12 from random starts, features in {-1, +1}, up to the swap."""
    for binarize in (0.0, None):
        mixture = tacit.BernoulliMixture(2, n_init=1, tol=0.0, random_state=seed, binarize=binarize)
        mixture.fit(POLITICS_AND_SPORT)
        np.testing.assert_allclose(mixture.weights_, [3 / 5, 2 / 5], atol=1e-12)
        p = np.exp(mixture.feature_log_prob_)
        np.testing.assert_allclose(p, [[0, 0, 1, 1], [1, 1, 0, 0]], atol=1e-12)


def test_the_example_from_random_responsibilities():
    """S20, S21: whichever class is which depends on the start alone (label switching)."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        init = rng.dirichlet([1, 1], 5)
        found = tacit.BernoulliMixture(2, init=init, tol=0.0).fit(POLITICS_AND_SPORT)
        swapped = tacit.BernoulliMixture(2, init=init[:, ::-1], tol=0.0).fit(POLITICS_AND_SPORT)
        np.testing.assert_allclose(sorted(found.weights_), [2 / 5, 3 / 5], atol=1e-12)
        np.testing.assert_allclose(found.weights_, swapped.weights_[::-1], atol=1e-12)


def test_the_jackpot_example():
    """S22: alpha of shape [K] and beta of shape [V, K]; W's share of spam and word 37."""
    V, j = 40, 37
    ham = np.zeros((99 * 20, V))
    ham[:198, j] = 1  # once in ten
    spam = np.zeros((20, V))
    spam[:5, j] = 1  # once in four
    nb = tacit.BernoulliNB(alpha=0.0).fit(np.vstack([ham, spam]), [0] * len(ham) + [1] * len(spam))
    alpha, beta = np.exp(nb.class_log_prior_), np.exp(nb.feature_log_prob_).T
    np.testing.assert_allclose(alpha, [0.99, 0.01])
    assert beta.shape == (V, 2)
    np.testing.assert_allclose(beta[j], [0.1, 0.25])


def test_uniform_start_is_the_first_iteration_of_the_note():
    """S15: W Fig. 2 from alpha = 1/K, beta = 1/2: the first round, by hand."""
    X, y = np.array([[1, 0], [0, 1], [1, 1], [1, 0]]), [1, 0, None, None]
    nb = tacit.BernoulliNB(init="uniform", max_iter=1, callback=lambda *told: True).fit(X, y)
    delta = np.array([[0, 1], [1, 0], [0.5, 0.5], [0.5, 0.5]])  # (21) and (22)
    np.testing.assert_allclose(np.exp(nb.class_log_prior_), delta.mean(axis=0))  # (23)
    beta = (1 + X.T @ delta) / (2 + delta.sum(axis=0))  # (24)
    np.testing.assert_allclose(np.exp(nb.feature_log_prob_).T, beta)


def test_uniform_start_without_labels_is_refused():
    """Trap 1: the point is symmetric."""
    with pytest.raises(ValueError, match="init='random'"):
        tacit.BernoulliMixture(2, init="uniform").fit(POLITICS_AND_SPORT)
    with pytest.raises(ValueError, match="init='random'"):
        tacit.BernoulliMixture(2, init=np.ones((5, 2))).fit(POLITICS_AND_SPORT)
    with pytest.raises(ValueError, match="'b', 'c'"):
        tacit.BernoulliNB(init="uniform", classes=["a", "b", "c"]).fit([[0], [1]], ["a", None])


def test_hard_em_by_hand():
    """S16: fill in the most probable label, estimate, repeat."""
    X, y = CASES[0].data(seed=3)
    labels = hide(y, 0.7)
    nb = tacit.BernoulliNB(assignment="hard").fit(X, labels)
    known = np.array([label is not None for label in labels])
    filled, model = None, tacit.BernoulliNB().fit(X[known], y[known])
    for _ in range(50):
        guess = np.where(known, y, model.predict(X))
        if filled is not None and (guess == filled).all():
            break
        filled, model = guess, tacit.BernoulliNB().fit(X, guess)
    np.testing.assert_allclose(nb.feature_log_prob_, model.feature_log_prob_, rtol=1e-12)
    np.testing.assert_allclose(nb.objective_, model.objective_, rtol=1e-12)


def test_classes_without_labels_are_found():
    """A class that only `classes` names takes part and can win rows."""
    rng = np.random.default_rng(0)
    p = np.array([[0.9, 0.9, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9, 0.1, 0.1],
                  [0.1, 0.1, 0.1, 0.1, 0.9, 0.9]])  # fmt: skip
    truth = np.arange(600) % 3
    X = rng.random((600, 6)) < p[truth]
    labels = [v if v < 2 and i < 60 else None for i, v in enumerate(truth.tolist())]
    nb = tacit.BernoulliNB(classes=[0, 1, 2], random_state=0, n_init=5).fit(X, labels)
    assert (nb.transduction_ == truth).mean() > 0.9


# --- EM in general form


@every_family
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_theorems_3_and_4(case, missing):
    """S18: maximize attains the arg max of Q, and L(a) - L(b) >= Q(a, b) - Q(b, b)."""
    rng = np.random.default_rng(0)
    X, _ = case.data(seed=1, n=60, missing=missing)
    model = NaiveBayes(case.family(0.0, 0.2).bind(X))
    rows = model.rows(X, weight=rng.uniform(0.2, 2, len(X)))
    candidates = [model.start(rows, rng.dirichlet(np.ones(K), len(X))) for _ in range(6)]

    def L(params):  # noqa: N802
        return model.expect(params, rows).log_likelihood

    for old in candidates[:2]:
        at_old = em.q(model, [rows], old, old)
        best = model.maximize(model.expect(old, rows))
        assert em.q(model, [rows], best, old) >= at_old  # Theorem 3
        np.testing.assert_allclose(em.lower_bound(model, [rows], old, old), L(old))
        for params in [*candidates, best]:
            value = em.q(model, [rows], params, old)
            assert value <= em.q(model, [rows], best, old) + 1e-9
            assert L(params) - L(old) >= value - at_old - 1e-9  # Theorem 4
            bound = em.lower_bound(model, [rows], params, old)
            assert bound <= L(params) + 1e-9
            if np.isfinite(value):
                np.testing.assert_allclose(bound - L(old), value - at_old, atol=1e-8)


def test_q_is_a_sum_over_rows_and_classes():
    """S18: C (11) written out."""
    X, R = bernoulli_data()
    model = NaiveBayes(Bernoulli(alpha=0.0))
    rows = model.rows(X)
    old, new = model.start(rows, R), model.start(rows, R[::-1])
    delta, joint = model.posterior(old, rows)[0], model.log_joint_rows(new, rows.features)
    np.testing.assert_allclose(em.q(model, [rows], new, old), (delta * joint).sum())
    halves = [rows.take(slice(0, 11)), rows.take(slice(11, 30))]
    np.testing.assert_allclose(em.q(model, halves, new, old), em.q(model, [rows], new, old))


@every_family
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    alpha=st.sampled_from([0.0, 1e-3, 1.0]),
    class_alpha=st.sampled_from([0.0, 1.0]),
    missing=st.sampled_from([0.0, 0.3]),
    hidden=st.sampled_from([0.3, 0.8]),
    assignment=st.sampled_from(["soft", "hard"]),
    unlabeled_weight=st.sampled_from([0.0, 0.1, 1.0, 3.0]),
)
def test_theorem_5_the_objective_never_falls(
    case, seed, alpha, class_alpha, missing, hidden, assignment, unlabeled_weight
):
    """S19: on random data, smoothing, weights, missing labels and cells (trap 4)."""
    X, y = case.data(seed=seed, n=45, missing=missing)
    weight = np.random.default_rng(seed).uniform(0.0, 2.0, len(y))
    # Variances must not vanish, or the likelihood has no bound.
    smoothing = {"alpha": alpha} if case.smoothed else {"var_smoothing": 1e-3}
    if case.name == "mixed":
        smoothing["var_smoothing"] = 1e-3
    rounds = []
    nb = case.classifier(
        class_alpha=class_alpha, assignment=assignment, unlabeled_weight=unlabeled_weight,
        max_iter=25, callback=lambda number, objective, seconds: rounds.append(objective),
        **smoothing,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        nb.fit(X, hide(y, hidden, seed), sample_weight=weight)
    np.testing.assert_array_equal(nb.trace_, rounds)
    rises = np.diff(nb.trace_)
    assert (rises >= -1e-9 * np.abs(nb.trace_[1:])).all()
    assert np.isfinite(nb.trace_).all()
    assert nb.objective_ == nb.trace_[-1]
    np.testing.assert_allclose(nb.lower_bounds_ * nb.class_count_.sum(), nb.trace_, rtol=1e-9)


@every_family
def test_the_objective_is_what_it_says(case):
    """Trap 2 and 4: weighted log-likelihood of C (10) and C (4), plus the log prior."""
    X, y = case.data(seed=1, n=60)
    labels = hide(y, 0.5)
    weight = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    smoothing = {} if case.smoothed else {"var_smoothing": 0.0}
    if case.name == "mixed":
        smoothing["var_smoothing"] = 0.0
    nb = case.classifier(class_alpha=0.5, unlabeled_weight=0.3, **smoothing)
    nb.fit(X, labels, sample_weight=weight)
    joint = nb.predict_joint_log_proba(X)
    known = np.array([label is not None for label in labels])
    expected = weight[known] @ joint[known, y[known]]
    expected += 0.3 * weight[~known] @ nb.score_samples(X[~known])
    np.testing.assert_allclose(nb.log_likelihood_, expected, rtol=1e-10)
    prior = nb._model.family.log_prior(nb._params.features) + 0.5 * nb.class_log_prior_.sum()
    np.testing.assert_allclose(nb.objective_, expected + prior, rtol=1e-10)


# --- The loop


@dataclass(frozen=True)
class Tosses(em.Statistics):
    heads: float
    tails: float


class Falling:
    """A model whose M-step goes the wrong way."""

    def expect(self, p, tosses):
        heads, tails = tosses
        return Tosses(heads * np.log(p) + tails * np.log(1 - p), heads, tails)

    def maximize(self, tosses):
        return tosses.tails / (tosses.heads + tosses.tails)

    def log_prior(self, p):
        return 0.0


def test_a_fall_is_an_error():
    """S19: the program itself checks."""
    with pytest.raises(em.AscentError, match="round 1"):
        em.fit(Falling(), [(3, 1)], 0.6)
    with pytest.raises(em.AscentError, match="nan"):
        em.fit(Falling(), [(float("nan"), 1)], 0.6)


def test_fully_observed_data_is_one_round():
    """S17: C Fig. 3 is the same call with the statistics fixed."""
    X, _ = bernoulli_data()
    model = NaiveBayes(Bernoulli())
    fixed = model.count(model.rows(X), np.eye(2)[np.arange(len(X)) % 2])
    found = em.fit(model, [], fixed=fixed)
    assert (len(found.trace), found.converged) == (1, True)
    np.testing.assert_array_equal(found.params.features.log_p, model.maximize(fixed).features.log_p)
    np.testing.assert_allclose(found.log_likelihood, model.log_joint(found.params, fixed))


def test_what_the_loop_refuses():
    with pytest.raises(ValueError, match="start"):
        em.fit(Falling(), [(3, 1)])
    with pytest.raises(ValueError, match="max_iter"):
        em.fit(Falling(), [(3, 1)], 0.25, max_iter=0)


def test_the_loop_returns_params_with_their_statistics():
    X, R = bernoulli_data()
    model = NaiveBayes(Bernoulli())
    rows = model.rows(X)
    found = em.fit(model, [rows], model.start(rows, R), max_iter=4)
    again = model.maximize(found.statistics)
    np.testing.assert_array_equal(again.features.log_p, found.params.features.log_p)
    assert len(found.trace) == 4
    assert not found.converged
    here = model.expect(found.params, rows).log_likelihood + model.log_prior(found.params)
    assert found.objective == found.trace[-1] == here


class ReadWhenAsked(Sequence):
    """Chunks that are counted when they are read."""

    def __init__(self, chunks):
        self.chunks, self.read = chunks, 0

    def __len__(self):
        return len(self.chunks)

    def __getitem__(self, place):
        chunk = self.chunks[place]
        self.read += 1
        return chunk


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_chunks_are_read_when_there_is_a_thread_for_them(n_jobs):
    chunks, read = ReadWhenAsked([[i] for i in range(10)]), []
    done = engine.map_chunks(lambda chunk: (read.append(chunks.read), chunk[0])[1], chunks, n_jobs)
    for number, found in enumerate(done):
        assert found == number
        assert chunks.read <= number + 1 + n_jobs
    assert len(read) == 10


@pytest.mark.parametrize(("n_chunks", "n_jobs", "inside"), [(1, 2, 2), (2, 2, 1), (2, 8, 4)])
def test_kernels_have_the_threads_that_chunks_leave(n_chunks, n_jobs, inside):
    found = engine.map_chunks(lambda _: kernels.threads(10**9), range(n_chunks), n_jobs)
    assert list(found) == [inside] * n_chunks


@every_family
def test_rows_that_were_used_can_be_pickled(case):
    X, y = case.data(1)
    model = NaiveBayes(case.family(1.0, 1e-3).bind(X))
    rows = model.rows(X)
    start = model.start(rows, np.eye(K)[y])
    before = model.expect(start, rows)
    after = model.expect(start, pickle.loads(pickle.dumps(rows)))
    assert before.log_likelihood == after.log_likelihood


def test_tol_bounds_what_is_left():
    """A slow run stops within tol of its limit, where a rule on the last rise stops short."""
    X, _ = CASES[1].data(seed=3, n=200)
    far = tacit.CategoricalMixture(3, n_init=1, random_state=1, tol=1e-13, max_iter=10**5).fit(X)
    for tol in (1e-4, 1e-6):
        near = tacit.CategoricalMixture(3, n_init=1, random_state=1, tol=tol, max_iter=10**5).fit(X)
        assert near.n_iter_ < far.n_iter_
        assert far.objective_ - near.objective_ <= 3 * tol * len(X)


def test_callback_is_told_and_can_stop():
    X, R = bernoulli_data()
    told = []

    def stop_at_three(number, objective, seconds):
        told.append((number, objective, seconds))
        return number == 3

    mixture = tacit.BernoulliMixture(2, init=R, tol=0.0, callback=stop_at_three).fit(X)
    assert [number for number, *_ in told] == [1, 2, 3]
    assert [objective for _, objective, _ in told] == mixture.trace_.tolist()
    assert mixture.n_iter_ == 3
    assert not mixture.converged_


# --- Models whose hidden variable is not one label a row


def brute_force(params, words):
    """Sum over all paths."""
    total = 0.0
    for path in itertools.product(range(len(params.start)), repeat=len(words)):
        p = params.start[path[0]] * params.emit[path[0], words[0]]
        for t in range(1, len(words)):
            p *= params.move[path[t - 1], path[t]] * params.emit[path[t], words[t]]
        total += p
    return np.log(total)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_a_hidden_markov_model_through_the_same_contract(alpha):
    """S17: paths instead of labels; the loop, the check, Q and the bound hold as they are."""
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 3, size=n) for n in (4, 6, 5, 3, 6, 5)]
    model, start = HMM(alpha), random_params(rng, 2, 3)
    chunks = [sequences[:2], sequences[2:]]
    total = sum(model.expect(start, chunk).log_likelihood for chunk in chunks)
    np.testing.assert_allclose(total, sum(brute_force(start, words) for words in sequences))
    found = em.fit(model, chunks, start, max_iter=2000)
    assert found.converged
    assert (np.diff(found.trace) >= -1e-9).all()
    other = random_params(rng, 2, 3)
    change = em.q(model, chunks, other, start) - em.q(model, chunks, start, start)
    new = sum(model.expect(other, chunk).log_likelihood for chunk in chunks)
    assert new - total >= change
    np.testing.assert_allclose(em.lower_bound(model, chunks, other, start), total + change)
    one = em.fit(model, [sequences], start, max_iter=5)
    two = em.fit(model, chunks, start, max_iter=5, n_jobs=2)
    np.testing.assert_allclose(one.trace, two.trace, rtol=1e-12)


@pytest.mark.parametrize("stop", [1, 8, 48])
def test_taking_up_a_run_gives_the_same_bits(stop):
    rng = np.random.default_rng(0)
    X = (rng.random((200, 6)) < rng.random((2, 6))[rng.integers(0, 2, 200)]).astype(float)
    model = NaiveBayes(Bernoulli(alpha=0.5))
    rows = model.rows(X)
    start = model.start(rows, rng.dirichlet(np.ones(3), 200))
    saved = {}
    rounds = {"max_iter": 70, "tol": 0.0}
    whole = em.fit(
        model, [rows], start, **rounds, save=lambda p: saved.update({len(p.objectives) - 1: p})
    )
    assert list(saved) == list(range(1, 70))
    again = em.fit(model, [rows], None, **rounds, progress=saved[stop])
    assert again.trace == whole.trace
    np.testing.assert_array_equal(again.statistics.classes, whole.statistics.classes)
    np.testing.assert_array_equal(again.params.features.log_p, whole.params.features.log_p)


def test_interrupted_keeps_the_last_whole_round():
    rng = np.random.default_rng(0)
    model = NaiveBayes(Bernoulli(alpha=0.5))
    rows = model.rows((rng.random((50, 6)) < 0.4).astype(float))
    start = model.start(rows, rng.dirichlet(np.ones(3), 50))

    def interrupt(done):
        if done.number == 3:
            raise KeyboardInterrupt

    found = em.fit(model, [rows], start, callback=interrupt, tol=0.0)
    expected = em.fit(model, [rows], start, max_iter=3, tol=0.0)
    assert found.interrupted
    assert not found.converged
    assert found.trace == expected.trace
    np.testing.assert_array_equal(found.params.features.log_p, expected.params.features.log_p)
