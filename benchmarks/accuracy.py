"""How accurate with few labels, against naive Bayes and others: ``make bench-accuracy``.

Every contender sees the same draws of labels, and tacit has its defaults on every set. Writes
accuracy.md, which holds the figures against what issue 5 asks for, and accuracy.json with all of
them. Nothing here is a model or reads data: see contenders.py and labelled.py; what is made of the
records is in records.py and accuracy_page.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
import contenders
import labelled
from accuracy_page import page
from contenders import TEXTS, Task
from data import DATA
from labelled import SETS
from parallel import in_processes
from provenance import Provenance
from records import (
    DRAWS,
    ENOUGH,
    FEWER_DRAWS,
    FIGURES,
    FURTHER,
    NAMES,
    Place,
    Record,
    Results,
    lines_of,
    methods_of,
    stored,
)
from run import medians

import tacit

HERE = Path(__file__).parent
STORE = HERE.parent / "build" / "accuracy.jsonl"
QUICK = 120  # rows of each set, to see whether everything runs


def places(key: str, draw: int, few: int | None) -> Iterator[Place]:
    """Yield what there is to be measured in a draw of a set."""
    data = labelled.load(key, few)
    if data is not None:
        for cell, method in product(data.cells(), methods_of(data)):
            if draw < FEWER_DRAWS.get((key, method), DRAWS):
                yield key, str(cell), draw, method


def measure(key: str, draw: int, few: int | None, wanted: set[Place]) -> list[Record]:
    """Return the records of a draw of a set that are wanted."""
    data, found = labelled.load(key, few), []
    assert data is not None
    rows = contenders.division(key, few, data.part(draw))
    of_class = np.bincount(data.y[rows.train], minlength=len(data.classes))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of contenders that have not converged
        for cell in data.cells():
            task = Task(rows, data.labels(cell, draw, rows.train))
            kept = np.bincount(task.y, minlength=len(data.classes))
            enough = bool((kept >= np.minimum(of_class, ENOUGH)).all())
            for name in methods_of(data):
                if (key, str(cell), draw, name) not in wanted:
                    continue
                began = time.perf_counter()
                seen = task.judge(TEXTS[name](task))
                took = time.perf_counter() - began
                said = (seen.accuracy, seen.log_loss, seen.calibration_error, took)
                figures = (round(figure, 5) for figure in said)
                found.append(Record(key, str(cell), draw, name, *figures, enough))
    return found


def measured(
    units: list[tuple[str, int, int | None, set[Place]]], jobs: int, provenance: Provenance
) -> Iterator[list[Record]]:
    """Yield the records of each draw of each set as they are there, `jobs` at a time."""
    for found in in_processes(measure, units, jobs):
        yield [replace(record, provenance=provenance) for record in found]


def timing(few: int | None, turns: int) -> dict[str, float] | None:
    """Return the median seconds that fits to 20 Newsgroups from strings take, taking turns."""
    posts = labelled.newsgroup_posts()
    if posts is None:
        return None
    step = 1 if few is None else len(posts[0]) // (2 * few)
    texts, labels = posts[0][::step], posts[1][::step]
    kept = np.random.default_rng(0).random(len(labels)) < 0.1
    tenth = [label if keep else None for label, keep in zip(labels, kept, strict=True)]

    def theirs() -> object:
        X = CountVectorizer().fit_transform(texts)
        search = GridSearchCV(MultinomialNB(), {"alpha": [0.001, 0.01, 0.1, 0.3, 1.0]}, cv=5)
        return search.fit(X, labels)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return medians(
            {
                "scikit-learn": theirs,
                "a tenth of the labels": lambda: tacit.TextClassifier().fit(texts, tenth),
                "all labels": lambda: tacit.TextClassifier().fit(texts, labels),
                "a tenth of the labels, one thread": lambda: tacit.TextClassifier(n_jobs=1).fit(
                    texts, tenth
                ),
                "all labels, one thread": lambda: tacit.TextClassifier(n_jobs=1).fit(texts, labels),
            },
            turns,
        )


def figures(
    results: Results, further: Results, seconds: dict[str, float] | None, now: Provenance
) -> dict[str, Any]:
    """Return all figures; a record's provenance is its place in the list of all of them."""
    records = chain(results.by_place.values(), further.by_place.values())
    known = {record.provenance for record in records if record.provenance is not None}
    places: dict[Provenance | None, int] = {one: i for i, one in enumerate(sorted(known))}
    return {
        "draws": len(results.draws),
        "provenances": [asdict(one) for one in sorted(known)],
        "sets": listed(results, places),
        "further": listed(further, places),
        "fit_seconds": seconds,
        "fit_provenance": asdict(now) if seconds else None,
    }


def listed(results: Results, places: dict[Provenance | None, int]) -> dict[str, Any]:
    """Return figures by set, cell and contender, a list over the draws."""
    found: dict[str, Any] = {}
    for key, data in results.sets.items():
        for cell, method in product(data.cells(), methods_of(data)):
            own = results.of(key, cell, method).values()
            if own:
                lists = {name: [getattr(record, name) for record in own] for name in NAMES}
                lists["provenance"] = [places.get(record.provenance) for record in own]
                found.setdefault(key, {}).setdefault(str(cell), {})[method] = lists
    return found


def compact(value: Any, depth: int = 0) -> str:
    """Return JSON with a line for each contender, so that two runs can be compared."""
    if not isinstance(value, dict) or depth == 4 or not value:
        return json.dumps(value)
    indent = "\n" + " " * (depth + 1)
    own = (f"{json.dumps(key)}: {compact(inner, depth + 1)}" for key, inner in value.items())
    return "{" + indent + ("," + indent).join(own) + "\n" + " " * depth + "}"


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what was said on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*SETS]
    parser.add_argument("--sets", nargs="+", default=known, choices=known, metavar="SET")
    parser.add_argument("--methods", nargs="+", default=[*TEXTS], choices=[*TEXTS], metavar="NAME")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of labels, at most 10")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--turns", type=int, default=5, help="to take the time; 0 for none")
    parser.add_argument(
        "--resume",
        action="store_true",
        help=f"measure only what {STORE.relative_to(HERE.parent)} does not hold yet; without this "
        "all that is asked for is measured anew, and the rest of the page is taken from there or, "
        f"where there is no such file, from {FIGURES.name}",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a draw on a few rows of each set, to see whether it runs: writes nothing",
    )
    return parser.parse_args(arguments)


def together(
    records: dict[Place, Record],
    units: list[tuple[str, int, int | None, set[Place]]],
    jobs: int,
    store: Path | None,
    now: Provenance,
) -> dict[Place, Record]:
    """Measure units, store what comes of them, and return it with what there was."""
    for i, new in enumerate(measured(units, jobs, now)):
        records = records | {record.place: record for record in new}
        if store is not None:
            with store.open("a", encoding="utf-8") as file:
                file.write(lines_of(new))
        took = sum(record.seconds for record in new)
        where = f"{new[0].key}, draw {new[0].draw}"
        sys.stderr.write(f"{i + 1} of {len(units)}: {where}, {took:.1f} s\n")
    return records


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what the command line asks for, and return the page."""
    asked, now = options(arguments), Provenance.here()
    few, store = (QUICK, None) if asked.quick else (None, STORE)
    draws = 1 if asked.quick else min(asked.draws, DRAWS)
    records, units = stored(store), []
    for key, draw in product(asked.sets, range(draws)):
        wanted = {place for place in places(key, draw, few) if place[3] in asked.methods}
        if asked.resume:
            wanted -= set(records)
        records = {place: record for place, record in records.items() if place not in wanted}
        if wanted:
            units.append((key, draw, few, wanted))
        elif draw == 0 and labelled.load(key, few) is None:
            sys.stderr.write(f"{key}: skipped, as {DATA} does not have it (see TACIT_DATA)\n")
    if store is not None:
        store.parent.mkdir(exist_ok=True)
        store.write_text(lines_of(records.values()), encoding="utf-8")
    records = together(records, units, asked.jobs, store, now)
    results = Results(records.values(), draws, few)
    missed = [place for place in results.missed() if draws == DRAWS]
    units = []
    for (key, cell), draw in product(missed, range(DRAWS, FURTHER)):
        wanted = {(key, str(cell), draw, name) for name in ("tacit", *results.baseline(key))}
        anew = key in asked.sets and "tacit" in asked.methods and not asked.resume
        wanted -= set() if anew else set(records)
        if wanted:
            units.append((key, draw, few, wanted))
    records = together(records, units, asked.jobs, store, now)
    shown = {(key, str(cell)) for key, cell in missed}
    others = (record for record in records.values() if (record.key, record.cell) in shown)
    further = Results(others, FURTHER, few, DRAWS)
    seconds = timing(few, 1 if asked.quick else asked.turns) if asked.turns else None
    text = page(results, further, seconds, now)
    if not asked.quick:
        (HERE / "accuracy.md").write_text(text, encoding="utf-8")
        whole = compact(figures(results, further, seconds, now)) + "\n"
        FIGURES.write_text(whole, encoding="utf-8")
    return text


if __name__ == "__main__":
    sys.stdout.write(main())
