"""Whether the figures that tacit states about a fit are true: ``make bench-trust``.

Fits with default settings to sets whose labels are known, most of them hidden from the fit. What
is stated (the 95 % interval of the accuracy on new rows, probabilities, whether unlabelled rows
help) is compared with what the hidden labels and a test set say. Writes trust.md, made by
trust_page.py, and trust.json with all records.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
import labelled
from contenders import Task, division
from data import DATA
from labelled import OTHERS, SETS, Cell, Labelled, Rows
from parallel import in_processes
from provenance import Provenance
from records import lines_of
from trust_page import SIZES, Fit, Place, page

import tacit
from tacit.report.facts import help_facts, used_scores

PAGE = Path(__file__).with_suffix(".md")
FIGURES = Path(__file__).with_suffix(".json")
STORE = Path(__file__).parents[1] / "build" / "trust.jsonl"
DRAWS = 5
ROWS = 4_000


def cells(data: Labelled, draw: int, train: Rows) -> Iterator[tuple[int, bool, Rows]]:
    """Yield labels a class, whether they are balanced, and the training rows that keep theirs."""
    for cell in (cell for cell in data.cells() if cell.each and cell.size in SIZES):
        kept = data.labels(cell, draw, train)
        if 4 * len(kept) <= 3 * len(train):
            yield cell.size, True, kept
            yield cell.size, False, data.labels(Cell(len(kept), False), draw, train)


def places(key: str, rows: int, draw: int) -> set[Place]:
    """Return what there is to be measured in a draw of a set."""
    data = labelled.load(key, rows)
    if data is None:
        return set()
    train, _ = data.divide(data.part(draw))
    return {(key, rows, draw, size, balanced) for size, balanced, _ in cells(data, draw, train)}


def measure(key: str, rows: int, draw: int, wanted: set[Place]) -> list[Fit]:
    """Return the records of a draw of a set that are wanted."""
    data, found = labelled.load(key, rows), []
    assert data is not None
    parts = division(key, rows, data.part(draw))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size, balanced, kept in cells(data, draw, parts.train):
            place = key, rows, draw, size, balanced
            if place in wanted:
                found.append(Fit(*place, **measure_fit(Task(parts, kept))))
    return found


def measure_fit(task: Task) -> dict[str, Any]:
    """Fit with and without unlabelled rows, and return the figures of a record."""
    parts, data = task.of, task.of.data
    names, y = np.array(data.classes), data.y[parts.train]
    hidden = np.flatnonzero(task.codes < 0)
    counts = np.bincount(task.y, minlength=len(names))[np.unique(y)]
    make = tacit.TextClassifier if data.texts else tacit.TableClassifier
    began = time.perf_counter()
    model = make(random_state=0, n_jobs=1).fit(parts.X_train, task.names)
    seconds = time.perf_counter() - began
    # unlabeled_weight=0 would not do: it also switches the selection of settings off for tables.
    alone = make(random_state=0, n_jobs=1)
    alone.fit(data.take(parts.train[task.kept]), names[task.y].tolist())
    predicted_alone = alone.predict(data.take(parts.train[hidden]))
    p = model.predict_proba(parts.X_test)
    unlabelled = help_facts(model.unlabeled_help_, model.classes_.tolist())
    assert unlabelled is not None
    figures = {
        "texts": data.texts,
        "labels": len(task.kept),
        "classes": len(counts),
        "unlabelled_classes": int((counts == 0).sum()),
        "single_classes": int((counts == 1).sum()),
        "hidden": len(hidden),
        "tested": len(parts.test),
        "probability": float(model.label_distributions_[hidden].max(axis=1).mean()),
        "accuracy": float((model.transduction_[hidden] == names[y[hidden]]).mean()),
        "test_probability": float(p.max(axis=1).mean()),
        "test_accuracy": float((model.classes_[p.argmax(axis=1)] == names[task.truth]).mean()),
        "accuracy_without": float((predicted_alone == names[y[hidden]]).mean()),
        "weight": float(unlabelled["weight"]),
        "seconds": seconds,
    }
    stated = used_scores(unlabelled)
    if stated is not None:
        figures |= {"held_out": stated["rows"], "estimate": stated["accuracy"]}
        figures |= dict(zip(("low", "high"), stated["accuracy_interval"], strict=True))
        figures["stated_without"] = unlabelled["supervised"]["accuracy"]
        figures["stated_with"] = unlabelled["em"]["accuracy"]
    return {key: round(v, 5) if isinstance(v, float) else v for key, v in figures.items()}


def published(fits: list[Fit]) -> str:
    """Return all records as JSON, one a line; their provenance is a place in the list of all."""
    known = sorted({fit.provenance for fit in fits if fit.provenance is not None})
    numbers = {one: i for i, one in enumerate(known)}
    records = [asdict(f) | {"provenance": f.provenance and numbers[f.provenance]} for f in fits]
    inner = ",\n  ".join(map(json.dumps, records))
    origin = json.dumps([asdict(one) for one in known])
    return f'{{\n "provenances": {origin},\n "records": [\n  {inner}\n ]\n}}\n'


def stored(path: Path) -> dict[Place, Fit]:
    """Return what runs before have measured."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    fits = [
        Fit(**{**r, "provenance": Provenance(**r["provenance"])}) for r in map(json.loads, lines)
    ]
    return {fit.place: fit for fit in fits}


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what was said on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*SETS, *OTHERS]
    parser.add_argument("--sets", nargs="+", default=[*SETS], choices=known, metavar="SET")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of labels")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--rows", type=int, default=ROWS, help="of each set, at most")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="measure only what build/trust.jsonl does not hold yet; without this all that is "
        "asked for is measured anew, and the rest of the page is taken from there",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what the command line asks for, and return the page."""
    asked, now, records, units = options(arguments), Provenance.here(), stored(STORE), []
    for draw, key in product(range(asked.draws), asked.sets):
        wanted = places(key, asked.rows, draw)
        if not wanted and draw == 0:
            sys.stderr.write(f"{key}: skipped, too small or not in {DATA} (see TACIT_DATA)\n")
        wanted -= set(records) if asked.resume else set()
        records = {place: fit for place, fit in records.items() if place not in wanted}
        if wanted:
            units.append((key, asked.rows, draw, wanted))
    STORE.parent.mkdir(exist_ok=True)
    STORE.write_text(lines_of(records.values()), encoding="utf-8")
    for i, new in enumerate(in_processes(measure, units, asked.jobs)):
        fits = [replace(fit, provenance=now) for fit in new]
        records |= {fit.place: fit for fit in fits}
        with STORE.open("a", encoding="utf-8") as file:
            file.write(lines_of(fits))
        took = sum(fit.seconds for fit in fits)
        where = f"{fits[0].key}, draw {fits[0].draw}"
        sys.stderr.write(f"{i + 1} of {len(units)}: {where}, {len(fits)} fits in {took:.1f} s\n")
    order = {key: i for i, key in enumerate([*SETS, *OTHERS])}
    measured = [fit for fit in records.values() if fit.rows == asked.rows]
    measured.sort(key=lambda fit: (order[fit.key], *fit.place[1:]))
    text = page(measured, asked.rows)
    PAGE.write_text(text, encoding="utf-8")
    FIGURES.write_text(published(measured), encoding="utf-8")
    return text


if __name__ == "__main__":
    sys.stdout.write(main())
