"""The residual correction: against logistic regression; its files, explanations and reports."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import tacit
from modelfiles import pack, unpack
from tacit import kernels
from tacit.kernels import parallel
from tacit.report.facts import fit_facts, format_facts
from tacit.selection import residual
from tacit.selection.candidates import OutOfFold, Stacked
from tacit.selection.residual import fit_residual


def rows(n, d, K=3, seed=0):
    """Sparse rows of length 1, their classes, and how they were hidden."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.2, rng=rng, format="csr")
    X = sparse.csr_array(
        X.multiply(1 / np.maximum(np.sqrt(X.multiply(X).sum(axis=1)), 1e-9)[:, None])
    )
    truth = (X @ rng.normal(0.0, 3.0, (d, K)) + rng.normal(0.0, 0.5, (n, K))).argmax(axis=1)
    return X, OutOfFold(np.zeros((n, K, 1)), truth, np.arange(n) % 5, np.ones(n))


@pytest.mark.parametrize("d", [20, 300])  # fewer columns than rows, and more
def test_with_a_uniform_offset_it_is_logistic_regression(d, monkeypatch):
    monkeypatch.setattr(residual, "MAX_ITER", 1000)
    monkeypatch.setattr(residual, "PENALTIES", (0.5,))
    X, predictions = rows(120, d)
    even = np.full((120, 3), 1 / 3)
    logs, (stacked,) = fit_residual(
        X, predictions, Stacked.of(np.ones(1), even, predictions.truth, np.ones(120))
    )
    peer = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    np.testing.assert_allclose(logs.T, peer.fit(X, predictions.truth).coef_, atol=2e-4)
    held = predictions.fold == 3
    p = peer.fit(X[~held], predictions.truth[~held]).predict_proba(X[held])
    np.testing.assert_allclose(stacked.posterior[held], p, atol=2e-4)


def test_a_good_ensemble_stays():
    X, predictions = rows(100, 30)
    p = np.eye(3)[predictions.truth] * 0.997 + 0.001
    _, (stacked,) = fit_residual(
        X, predictions, Stacked.of(np.ones(1), p, predictions.truth, np.ones(100))
    )
    np.testing.assert_allclose(stacked.posterior, p, atol=2e-3)


def test_a_calibrated_ensemble_is_not_corrected():
    """Classes drawn from the posterior of the ensemble: there is nothing to learn."""
    X, predictions = rows(2000, 50)
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), 2000)
    truth = (p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    predictions = replace(predictions, truth=truth)
    found = Stacked.of(np.ones(1), p, truth, np.ones(2000))
    logs, (stacked,) = fit_residual(X, predictions, found)
    assert logs is None or np.abs(X @ logs).mean() < 0.1
    assert stacked.loss <= found.loss
    noise = Stacked.of(np.ones(1), p, truth, np.ones(2000))._replace(losses=np.zeros(2000))
    assert fit_residual(X, predictions, noise)[0] is None  # clearly better as it is


@pytest.mark.parametrize("d", [30, 500])
def test_threads_change_no_bit(d, monkeypatch):
    X, predictions = rows(200, d)
    even = Stacked.of(np.ones(1), np.full((200, 3), 1 / 3), predictions.truth, np.ones(200))
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(parallel, "LEAST_WORK", 1)
        with kernels.one_blas_thread(), kernels.kernel_threads(threads):
            logs, (stacked,) = fit_residual(X, predictions, even)
        found.append((logs, stacked.posterior))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_other_ensembles_are_corrected_alike():
    X, predictions = rows(200, 40)
    even = Stacked.of(np.ones(1), np.full((200, 3), 1 / 3), predictions.truth, np.ones(200))
    _, (first, second) = fit_residual(X, predictions, even, even)
    assert second.loss == pytest.approx(first.loss, rel=0.05)


def test_many_rows_are_sampled(monkeypatch):
    X, predictions = rows(400, 300)
    even = Stacked.of(np.ones(1), np.full((400, 3), 1 / 3), predictions.truth, np.ones(400))
    whole, _ = fit_residual(X, predictions, even)
    monkeypatch.setattr(residual, "MAX_WORK", 3 * 200**2)
    logs, (stacked,) = fit_residual(X, predictions, even)
    assert stacked.posterior.shape == (400, 3)
    assert stacked.evaluation.rows == 400
    assert not np.allclose(logs, whole)
    assert ((X @ logs).argmax(axis=1) == predictions.truth).mean() > 0.7


def table(n=600, seed=0):
    """One informative column, and eight redundant ones that are often wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    true, loud = (np.where(rng.random(n) < p, y, 1 - y) for p in (0.9, 0.7))
    noise = rng.random((8, n)) < 0.02
    X = {
        f"loud{j}": [f"v{v}" for v in np.where(flip, 1 - loud, loud)]
        for j, flip in enumerate(noise)
    }
    X["true"] = [f"v{v}" for v in true]
    X["size"] = rng.normal(y * 0.3, 1.0).tolist()
    return X, np.array(["ash", "elm"])[y]


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    labels = [label if i < 200 else None for i, label in enumerate(y.tolist())]
    return X, y, tacit.TableClassifier(random_state=0, components_per_class="auto").fit(X, labels)


def test_redundant_columns_are_corrected(fitted):
    X, y, model = fitted
    plain = tacit.TableClassifier(components_per_class=1).fit(
        X, [label if i < 200 else None for i, label in enumerate(y.tolist())]
    )
    assert model.correction_ is not None
    assert plain.correction_ is None
    assert (model.transduction_ == y)[200:].mean() > (plain.transduction_ == y)[200:].mean() + 0.1
    assert model.score(X, y) > 0.87


def row(X, i):
    return {name: cells[i : i + 1] for name, cells in X.items()}


@pytest.mark.parametrize("gap", [{}, {"size": [None]}, {"true": ["never seen"]}])
def test_explanations_of_rows_add_up(fitted, gap):
    X, _, model = fitted
    one = {**row(X, 7), **gap}
    found = model.explain(one, "ash", "elm")
    log_p = model.predict_log_proba(one)[0]
    assert found.log_odds == pytest.approx(log_p[0] - log_p[1], abs=1e-9)
    assert model.explain(one).probability == pytest.approx(np.exp(log_p.max()))


def test_log_odds_of_values_by_hand(fitted):
    X, _, model = fitted
    found = model.correction_
    added = found.evidence(model.prepare(row(X, 3)))[0]
    start, by_hand = 0, np.zeros(2)
    for column in found.columns:
        cell = X[column.name][3]
        place = (
            np.searchsorted(column.edges[1:-1], cell) if column.edges else column.values.index(cell)
        )
        by_hand += found.logs[start + place] / np.sqrt(len(found.columns))
        start += len(column.values)
    np.testing.assert_allclose(added, by_hand, rtol=1e-12)


def test_rows_come_in_parts_with_the_same_bits(fitted, monkeypatch):
    X, _, model = fitted
    whole = model.predict_proba(X)
    monkeypatch.setattr("tacit.data.rows.CHUNK", 7)
    assert np.array_equal(model.predict_proba(X), whole)


def test_rows_of_next_to_no_weight_teach_nothing():
    X, y = table(300)
    wrong = ["elm" if label == "ash" else "ash" for label in y[200:]]
    model = tacit.TableClassifier(random_state=0)
    weight = np.where(np.arange(300) < 200, 1.0, 1e-9)
    light = model.fit(X, [*y[:200], *wrong], sample_weight=weight).predict_proba(X)
    none = model.fit(X, [*y[:200], *wrong], sample_weight=weight > 0.5).predict_proba(X)
    assert np.abs(light - none).mean() < 0.02


def test_reports_mention_the_correction(fitted):
    X, y, model = fitted
    told = "\n".join(format_facts(fit_facts(model, X, y.tolist(), 0.0)))
    assert f"logistic regression on {len(model.correction_.logs)} values" in told


def test_files_keep_the_correction_and_are_checked(fitted, tmp_path):
    X, model = fitted[0], fitted[2]
    path, bad = tmp_path / "model", tmp_path / "bad"
    model.save(path)
    assert np.array_equal(tacit.load(path).predict_proba(X), model.predict_proba(X))
    content, arrays = unpack(path)
    (name,) = (name for name in arrays if name.endswith("correction_.logs"))
    for wrong in (
        arrays[name][:-1],
        arrays[name][:, :-1],
        arrays[name] * np.nan,
        arrays[name] + 1e9,
    ):
        bad.write_bytes(pack(content, {**arrays, name: wrong}))
        with pytest.raises(tacit.ModelFileError, match="coefficients"):
            tacit.load(bad)
    correction = replace(model.correction_, columns=model.correction_.columns * 2)
    other = deepcopy(model)
    other.correction_ = replace(correction, logs=np.vstack([correction.logs] * 2))
    other.save(bad)
    with pytest.raises(tacit.ModelFileError, match="other columns"):
        tacit.load(bad)
    text = json.dumps(content).replace('"name": "true"', '"name": "other"', 1)
    bad.write_bytes(pack(text, arrays))
    with pytest.raises(tacit.ModelFileError):
        tacit.load(bad)
