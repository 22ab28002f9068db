"""Clusters of the rows of a table (`groups_`): log-odds, explanations, files; model selection."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

import tacit
from modelfiles import pack, unpack
from tacit.frames import candidates, selection
from tacit.report.facts import fit_facts, format_facts


def table(n=600, seed=0):
    """Rows of twelve clusters, each of one class, of which single columns say little."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 12, n)
    own = rng.integers(0, 3, (12, 16))
    cells = np.where(rng.random((n, 16)) < 0.8, own[group], rng.integers(0, 3, (n, 16)))
    X = {f"x{j}": [f"v{cell}" for cell in column] for j, column in enumerate(cells.T)}
    X["size"] = (own[group, 0] + rng.normal(0.0, 0.3, n)).tolist()
    return X, np.array(["red", "blue"])[rng.permutation(12)[group] % 2]


def partly(y, known):
    """Return the first labels, the rest missing."""
    return [label if i < known else None for i, label in enumerate(y.tolist())]


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return X, y, tacit.TableClassifier(random_state=0).fit(X, partly(y, 60))


def test_clusters_of_unlabelled_rows_help(fitted):
    X, y, model = fitted
    without = tacit.TableClassifier(unlabeled_weight=0.0).fit(X, partly(y, 60))
    right = model.transduction_ == y
    assert right[60:].mean() > (without.transduction_ == y)[60:].mean() + 0.05
    assert model.groups_ is not None
    assert model.unlabeled_help_.weight == 1.0
    assert model.unlabeled_help_.em.accuracy > model.unlabeled_help_.supervised.accuracy


def test_log_odds_of_clusters_by_hand(fitted):
    """p(y | x) = sum_g p(g | x) p(y | g), the first by log p(x, g) over the root of 17 columns."""
    X, y, model = fitted
    groups, parts = model.groups_, []
    assert [mixture.numbers for mixture in groups.mixtures] == ["bins", "normal"] * 2
    for mixture in groups.mixtures:
        joint = mixture.predict_joint_log_proba(X) / np.sqrt(17)
        p = np.exp(joint - joint.max(axis=1, keepdims=True))
        parts.append(p / p.sum(axis=1, keepdims=True) / 4)
    p = np.hstack(parts)
    codes = (y[:60] == "red").astype(int)
    counts = np.array([(codes == k).sum() + 1.0 for k in range(2)])
    prior = counts / counts.sum()
    mass = np.stack([p[:60][codes == k].sum(axis=0) for k in range(2)], axis=1)
    mass += 0.1 / 4 * prior
    ratios = mass / mass.sum(axis=1, keepdims=True) / prior
    np.testing.assert_allclose(groups.class_ratios, ratios)
    log_odds = groups.weight * np.log(p @ ratios)
    np.testing.assert_allclose(groups.evidence(model.prepare(X)), log_odds)


def test_labels_of_new_rows_are_those_of_the_fit(fitted):
    X, _, model = fitted
    new = model.predict_proba(X)
    np.testing.assert_allclose(model.label_distributions_[60:], new[60:], atol=1e-12)


@pytest.mark.parametrize("gap", [False, True])
def test_explanations_add_up(fitted, gap):
    X, _, model = fitted
    for i in (0, 100, 399):
        row = {name: [cells[i]] for name, cells in X.items()}
        if gap:
            row["x3"] = row["size"] = [None]
        p = model.predict_proba(row)[0]
        found = model.explain(row)
        assert found.log_odds == pytest.approx(np.log(p.max() / p.min()))
        assert found.log_odds == pytest.approx(found.prior + sum(t.log_odds for t in found.terms))


def test_files_keep_clusters(fitted, tmp_path):
    X, _, model = fitted
    path = tmp_path / "model.safetensors"
    model.save(path)
    same = tacit.load(path)
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    same.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_files_whose_clusters_do_not_fit_are_refused(fitted, tmp_path):
    *_, model = fitted
    model.save(tmp_path / "model")
    content, arrays = unpack(tmp_path / "model")
    none = {"tuple": []}
    for name, value in ("weight", 1e308), ("weight", -1.0), ("mixture", None), ("mixture", none):
        other = json.loads(json.dumps(content))
        other["model"]["Saved"]["more"]["dict"]["groups_"]["SavedGroups"][name] = value
        (tmp_path / "other").write_bytes(pack(other, arrays))
        with pytest.raises(tacit.ModelFileError):
            tacit.load(tmp_path / "other")
    kept = content["model"]["Saved"]["more"]["dict"]["groups_"]["SavedGroups"]
    first = kept["mixture"]["tuple"][0]
    first["Saved"]["estimator"]["Alike"]["n_components"] = 5  # which has no effect
    (tmp_path / "other").write_bytes(pack(content, arrays))
    assert len(tacit.load(tmp_path / "other").groups_.class_ratios) == len(
        model.groups_.class_ratios
    )


def test_many_rows_come_in_parts(fitted, monkeypatch):
    X, _, model = fitted
    whole = model.predict_proba(X)
    monkeypatch.setattr("tacit.data.rows.CHUNK", 7)
    np.testing.assert_array_equal(model.predict_proba(X), whole)


def test_clusters_unrelated_to_classes_do_little_harm():
    """Many copies of one column, which is independent of the classes."""
    apart = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 300)
        said = np.where(rng.random((6, 300)) < 0.7, y, 1 - y)
        same = np.tile(rng.integers(0, 5, 300), (20, 1))
        X = {f"x{j}": [f"v{v}" for v in column] for j, column in enumerate((*said, *same))}
        found = tacit.TableClassifier(random_state=0).fit(X, partly(y, 100)).transduction_
        plain = tacit.TableClassifier(components_per_class=1).fit(X, partly(y, 100)).transduction_
        apart.append((found == y)[100:].mean() - (plain == y)[100:].mean())
    assert np.mean(apart) > -0.03


def test_no_clusters_with_one_column_or_a_given_number_of_components():
    X, y = table()
    one = tacit.TableClassifier().fit({"x0": X["x0"]}, partly(y, 60))
    given = tacit.TableClassifier(components_per_class=1).fit(X, partly(y, 60))
    labelled = tacit.TableClassifier().fit(X, y.tolist())
    assert one.groups_ is given.groups_ is labelled.groups_ is None


def test_a_warm_start_keeps_its_clusters(fitted):
    X, y, _ = fitted
    model = tacit.TableClassifier(random_state=0, warm_start=True).fit(X, partly(y, 60))
    first = model.groups_
    again = model.fit(X, partly(y, 60))
    assert again.groups_ is first
    np.testing.assert_allclose(again.label_distributions_[60:], again.predict_proba(X)[60:])


def test_reports_mention_clusters(fitted):
    X, y, model = fitted
    facts = fit_facts(model, X, partly(y, 60), 1.0)
    assert facts["clusters"] == len(model.groups_.class_ratios)
    assert any("clusters of rows" in line for line in format_facts(facts))


def test_the_order_of_columns_does_not_matter(fitted):
    X, y, model = fitted
    other = {name: X[name] for name in reversed(X)}
    again = tacit.TableClassifier(random_state=0).fit(other, partly(y, 60))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)


def test_no_clusters_of_few_unlabelled_rows(fitted):
    X, y, _ = fitted
    model = tacit.TableClassifier(random_state=0).fit(X, partly(y, 570))
    assert model.groups_ is None


def test_rows_of_no_weight_are_as_if_they_were_not_there(fitted):
    X, y, _ = fitted
    weight = np.where(np.arange(600) < 400, 1.0, 0.0)
    fewer = {name: cells[:400] for name, cells in X.items()}
    model = tacit.TableClassifier(kinds={"size": "out"}, random_state=0)  # bins know all cells
    zero = clone(model).fit(X, partly(y, 60), sample_weight=weight)
    gone = clone(model).fit(fewer, partly(y[:400], 60))
    np.testing.assert_allclose(zero.predict_proba(X), gone.predict_proba(X), atol=1e-9)


def test_neighbour_smoothing_of_another_length_is_refused():
    with pytest.raises(ValueError, match="beside"):
        tacit.families.Categorical(1.0, 2, beside=(0.5,)).bind(np.zeros((1, 1)))


def test_clusters_of_numbers_keep_distances():
    """Nine clouds of numbers as on a chessboard, in which neither number alone says anything."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 3, (900, 2))
    x = place + rng.normal(0.0, 0.15, (900, 2))
    y = np.array(["black", "white"])[place.sum(axis=1) % 2]
    X = {"x": x[:, 0].tolist(), "y": x[:, 1].tolist()}
    model = tacit.TableClassifier(random_state=0).fit(X, partly(y, 60))
    plain = tacit.TableClassifier(components_per_class=1).fit(X, partly(y, 60))
    right, by_columns = ((m.transduction_ == y)[60:].mean() for m in (model, plain))
    assert right > max(0.9, by_columns + 0.1)


def test_fewer_than_20_held_out_labels_do_not_choose(monkeypatch):
    """The defaults are used, unless held-out labels clearly speak against unlabelled rows.

    They only set the temperature.
    """
    X, y = table()
    model = tacit.TableClassifier(random_state=0).fit(X, partly(y, 18))
    assert model.temperature_ * model.groups_.weight == pytest.approx(2.0 * np.sqrt(17))
    assert model.temperature_ > np.sqrt(17)
    assert model.unlabeled_weight_ == model.unlabeled_help_.weight == 0.1
    assert model.unlabeled_help_.em.rows == model.unlabeled_help_.supervised.rows == 18
    monkeypatch.setattr(candidates, "TEMPERATURE_PENALTY", 0.1)
    loose = tacit.TableClassifier(random_state=0).fit(X, partly(y, 18))
    assert loose.temperature_ > model.temperature_


def test_twice_the_temperature_where_no_label_can_be_held_out(monkeypatch):
    """The labels are the same; texts, which are calibrated by themselves, are left alone.

    So are batches, which may bring labels yet.
    """
    X, y = table()
    first = [int(np.argmax(y == name)) for name in ("red", "blue")]
    labels = [label if i in first else None for i, label in enumerate(y.tolist())]

    def fit(**options):
        return tacit.TableClassifier(random_state=0, **options).fit(X, labels)

    model, beside = fit(), fit(kinds={"x0": "text"})
    assert model.temperature_ == pytest.approx(2.0 * np.sqrt(17))
    assert model.groups_.weight == 1.0
    assert beside.temperature_ == pytest.approx(np.sqrt(16))
    assert beside.groups_.weight == 2.0
    batch = tacit.TableClassifier(random_state=0).partial_fit(X, labels, ["blue", "red"])
    assert batch.temperature_ == pytest.approx(np.sqrt(17))
    monkeypatch.setattr(selection, "UNTESTED_TEMPERATURE", 1.0)
    surer = fit()
    assert (surer.transduction_ == model.transduction_).all()
    odds, more = (np.ptp(m.predict_log_proba(X), axis=1) for m in (model, surer))
    np.testing.assert_allclose(2.0 * odds, more)


def test_20_to_39_held_out_labels_choose_but_learn_no_weights():
    """From 20 on they choose bins or not; weights are still the expected ones."""
    rng, wide = np.random.default_rng(0), np.arange(600) % 2
    numbers = rng.normal(size=(6, 600)) * (1.0 + 3.0 * wide)  # one class lies around the other
    X, y = {f"x{j}": own.tolist() for j, own in enumerate(numbers)}, np.array(["in", "out"])[wide]
    fits = {n: tacit.TableClassifier(random_state=0).fit(X, partly(y, n)) for n in (19, 20, 39, 40)}
    binned = {n: all(column.edges for column in fit.columns_) for n, fit in fits.items()}
    assert binned == {19: True, 20: False, 39: False, 40: False}
    products = [fit.temperature_ * fit.groups_.weight for fit in fits.values()]
    assert np.isclose(products, 2.0 * np.sqrt(6)).tolist() == [True, True, True, False]
    right = {n: (fit.transduction_ == y)[40:].mean() for n, fit in fits.items()}
    assert right[20] > right[19]


def test_20_to_39_held_out_labels_leave_alpha_and_the_unlabelled_weight():
    """Two of four values speak for a class for certain: with more labels alpha would be smaller."""
    rng, code = np.random.default_rng(0), np.arange(600) % 2
    X = {f"x{j}": [f"v{v}" for v in 2 * code + rng.integers(0, 2, 600)] for j in range(2)}
    X |= {f"n{j}": [f"v{v}" for v in rng.integers(0, 9, 600)] for j in range(6)}
    y = np.array(["even", "odd"])[code]
    some, more = (tacit.TableClassifier(random_state=0).fit(X, partly(y, n)) for n in (30, 60))
    assert some.alpha_ == 1.0 > more.alpha_
    assert some.unlabeled_weight_ == some.unlabeled_help_.weight == 0.1


def test_20_to_39_held_out_labels_set_the_temperature_and_forbid_what_misleads():
    """Nine copies of a column that is right two times in three, and noise that makes clusters."""
    rng, code = np.random.default_rng(0), np.arange(600) % 2
    told = np.where(rng.random(600) < 0.65, code, 1 - code)
    X = {f"x{j}": [f"v{v}" for v in told] for j in range(9)}
    X["noise"] = [f"v{v}" for v in rng.integers(0, 3, 600)]
    model = tacit.TableClassifier(random_state=0).fit(X, partly(np.array(["a", "b"])[code], 30))
    assert model.temperature_ > 1.5 * np.sqrt(10)
    assert model.unlabeled_weight_ == 0.0


def test_few_held_out_labels_never_lower_the_temperature():
    """All of them are found, by one column of many, but so few may be chance."""
    rng, y = np.random.default_rng(0), np.array(["left", "right"])[np.arange(600) % 2]
    X = {f"x{j}": [f"v{cell}" for cell in rng.integers(0, 3, 600)] for j in range(16)}
    model = tacit.TableClassifier(random_state=0).fit({**X, "told": y.tolist()}, partly(y, 30))
    assert model.temperature_ == pytest.approx(np.sqrt(17))


def test_one_outlier_does_not_set_the_temperature():
    """A number far out on the wrong side: naive Bayes is sure of the wrong class by many nats."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 2, 330)
    X = {
        f"c{j}": [f"v{v}" for v in np.where(rng.random(330) < 0.5, code, rng.integers(0, 3, 330))]
        for j in range(4)
    }
    X |= {f"n{j}": (code + rng.normal(size=330)).tolist() for j in range(2)}
    X["n0"][3] = 60.0 if code[3] == 0 else -60.0
    labels = partly(np.array(["a", "b"])[code], 30)
    model = tacit.TableClassifier(numbers="normal", random_state=0).fit(X, labels)
    assert model.temperature_ < 10


def test_an_outlier_does_not_hide_the_clusters():
    rng = np.random.default_rng(0)
    place = rng.integers(0, 3, (900, 2))
    x = place + rng.normal(0.0, 0.15, (900, 2))
    x[777, 0] = -99999.0
    y = np.array(["black", "white"])[place.sum(axis=1) % 2]
    X = {"x": x[:, 0].tolist(), "y": x[:, 1].tolist()}
    model = tacit.TableClassifier(random_state=0).fit(X, partly(y, 60))
    assert (model.transduction_ == y)[60:].mean() > 0.9


def test_a_row_without_cells_is_explained(fitted):
    X, _, model = fitted
    row = dict.fromkeys(X)
    p = model.predict_proba({name: [None] for name in X})[0]
    found = model.explain(row)
    assert found.terms == ()
    assert found.log_odds == pytest.approx(np.log(p.max() / p.min()))


def test_numbers_of_rows_without_weight_are_none():
    """The only numbers are in rows of no weight: groups see bins alone."""
    rng = np.random.default_rng(0)
    X = {"a": [None] * 40 + rng.normal(size=20).tolist(), "b": rng.choice(list("xyz"), 60).tolist()}
    X["c"] = rng.choice(list("uv"), 60).tolist()
    weight = np.where(np.arange(60) < 40, 1.0, 0.0)
    model = tacit.TableClassifier(random_state=0).fit(X, ["p", "q"] * 5 + [None] * 50, weight)
    assert np.isfinite(model.predict_proba(X)).all()
    assert {mixture.numbers for mixture in model.groups_.mixtures} == {"bins"}
    family = tacit.families.Gaussian(shared=True).bind(np.array([[1.0], [2.0]]))
    found = family.maximize(family.count(family.encode(np.array([[np.nan]])), np.ones((1, 2))))
    assert np.isfinite(found.variance).all()


def test_no_clusters_if_there_are_more_classes():
    X, _ = table()
    many = np.array([f"class {i % 60}" for i in range(600)])
    assert tacit.TableClassifier(random_state=0).fit(X, partly(many, 300)).groups_ is None
