"""How accurate with few labels, against naive Bayes and others: ``make bench-accuracy``.

Every contender sees the same draws of labels, and tacit has its defaults on every set. Writes
accuracy.md, which holds the figures against what issue 5 asks for, and accuracy.json with all of
them. Nothing here is a model or reads data: see contenders.py and labelled.py.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
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
from contenders import BASELINES, STRICTER, TABLES, TEXTS, Task
from labelled import SETS, Cell, Labelled
from run import medians, processor, version

import tacit

HERE = Path(__file__).parent
STORE = HERE.parent / "build" / "accuracy.jsonl"
FIGURES = HERE / "accuracy.json"
NAMES = ("accuracy", "log_loss", "calibration_error", "seconds", "enough")  # as Record has them
DRAWS = 10
ENOUGH = 16  # labels a class from which single draws, calibration and log-loss are judged
# What takes longest, where it does: so many of the draws only.
FEWER_DRAWS = {("20newsgroups", name): 3 for name in ("logistic C=1", "logistic C=30", "fastText")}
QUICK = 120  # rows of each set, to see whether everything runs

NEWSGROUPS_ROW = {
    **{1: 0.50, 2: 0.58, 4: 0.65, 8: 0.70, 16: 0.73},
    **{32: 0.75, 64: 0.76, 128: 0.78, 256: 0.795, 512: 0.81},
}
PUBLISHED = {
    **{1: 0.389, 2: 0.483, 4: 0.615, 8: 0.661, 16: 0.712},
    **{32: 0.735, 64: 0.755, 128: 0.770, 256: 0.789, 512: 0.808},
}
AT_LEAST = {  # set, labels a class, accuracy
    ("webkb", 1): 0.55,
    ("webkb", 60): 0.80,
    ("sms", 1): 0.95,
    ("r8", 16): 0.90,
}

METHODS = """\
- **tacit**: `TextClassifier` or `TableClassifier`, with its defaults.
- **NB raw**: scikit-learn's supervised `MultinomialNB` on the counts of the words of the labelled
  rows, alpha of 0.001, 0.01, 0.1, 0.3, 1, 3 by cross-validation in 5 folds (accuracy, then
  log-loss); 0.1 where every class has one label only, the best of them there. On tables a category
  counts once, and so does one of five bins of a number (credit); pixels are counts as they are.
- **NB same**: as NB raw, on the weights that tacit gives words in its first view, with idf from all
  rows to train on.
- **NB own**: tacit on the labelled rows alone. On tables that is naive Bayes with alpha by
  cross-validation, as above; on texts a pool of three models, and more than a baseline.
- **NB weighted**: as NB raw, on log(1 + tf) sqrt(idf) with idf from all rows and the mass of a row
  growing as its length to the power of 0.7. It is not part of the baseline.
- **self-training**: `SelfTrainingClassifier(MultinomialNB())` on counts.
- **label spreading**: `LabelSpreading(kernel="knn")` on TF-IDF.
- **logistic**: `LogisticRegression` on TF-IDF, idf from all rows.
- **fastText**: on the labelled rows, with the rate (1.0) and epochs (25) of its tutorial."""


@dataclass(frozen=True)
class Record:
    """What one contender did in one draw."""

    key: str  # of the set
    cell: str
    draw: int
    method: str
    accuracy: float
    log_loss: float
    calibration_error: float
    seconds: float
    enough: bool  # every class has 16 labels, or all that it has

    @property
    def place(self) -> tuple[str, str, int, str]:
        """What it is a record of."""
        return self.key, self.cell, self.draw, self.method


Place = tuple[str, str, int, str]


@dataclass(frozen=True)
class Goal:
    """What is asked for, what was found, and whether that is enough; None if there is no goal."""

    what: str
    found: str
    met: bool | None

    def row(self) -> str:
        """Return the line of the page."""
        verdict = {True: "met", False: "**not met**", None: ""}[self.met]
        return f"| {self.what} | {self.found} | {verdict} |"


def methods_of(data: Labelled) -> list[str]:
    """Return the contenders for a set that are installed."""
    return [name for name in (TEXTS if data.texts else TABLES) if name not in contenders.absent()]


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
    units: list[tuple[str, int, int | None, set[Place]]], jobs: int
) -> Iterator[list[Record]]:
    """Yield the records of each draw of each set as they are there, `jobs` at a time."""
    if jobs == 1:
        for unit in units:
            yield measure(*unit)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork would share the threads of the kernels
    with ProcessPoolExecutor(jobs, mp_context=fresh) as pool:
        for done in as_completed([pool.submit(measure, *unit) for unit in units]):
            yield done.result()


def stored(path: Path | None) -> dict[Place, Record]:
    """Return what runs before have measured: here, or as it is published."""
    if path is None:
        return {}
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [Record(**json.loads(line)) for line in lines]
    else:
        records = list(published(json.loads(FIGURES.read_text(encoding="utf-8"))))
    return {record.place: record for record in records}


def published(found: dict[str, Any]) -> Iterator[Record]:
    """Yield the records behind what `figures` returned."""
    for key, cells in found["sets"].items():
        for cell, methods in cells.items():
            for method, lists in methods.items():
                for draw, values in enumerate(zip(*(lists[name] for name in NAMES), strict=True)):
                    yield Record(key, cell, draw, method, *values)


def lines_of(records: Iterable[Record]) -> str:
    """Return records as `stored` reads them."""
    return "".join(json.dumps(asdict(record)) + "\n" for record in records)


class Results:
    """What has been measured, and what follows from it."""

    def __init__(self, records: Iterable[Record], draws: int, few: int | None) -> None:
        self.few, self.draws = few, draws
        self.by_place = {record.place: record for record in records if record.draw < draws}

    @cached_property
    def sets(self) -> dict[str, Labelled]:
        """The sets of which something was measured."""
        seen = {key for key, *_ in self.by_place}
        known = *SETS, *labelled.OTHERS
        found = {key: labelled.load(key, self.few) for key in known if key in seen}
        return {key: data for key, data in found.items() if data is not None}

    def of(self, key: str, cell: Cell | str, method: str) -> dict[int, Record]:
        """Return the records of a contender in a cell, by draw."""
        found = (self.by_place.get((key, str(cell), i, method)) for i in range(self.draws))
        return {record.draw: record for record in found if record is not None}

    def mean(self, key: str, cell: Cell | str, method: str, what: str = "accuracy") -> float | None:
        """Return the mean of a figure of a cell over its draws, None where there is none."""
        values = [getattr(record, what) for record in self.of(key, cell, method).values()]
        return statistics.fmean(values) if values else None

    def cells(self, extra: bool = False, stricter: bool = False) -> Iterator[tuple[str, Cell]]:
        """Yield the cells that tacit and the baseline were measured in."""
        for key, data in self.sets.items():
            for cell in data.cells():
                if all(
                    self.of(key, cell, name) for name in ("tacit", *self.baseline(key, stricter))
                ) and (extra or not cell.extra):
                    yield key, cell

    def enough(self, stricter: bool = False) -> list[tuple[str, Cell]]:
        """Return the cells in all draws of which every class has 16 labels, or all it has."""
        return [
            (key, cell)
            for key, cell in self.cells(stricter=stricter)
            if all(record.enough for record in self.of(key, cell, "tacit").values())
        ]

    def baseline(self, key: str, stricter: bool = False) -> tuple[str, ...]:
        """Return what tacit is held against on a set."""
        texts = self.sets[key].texts
        if not stricter:
            return BASELINES[texts]
        return tuple(name for name in STRICTER if name in (TEXTS if texts else TABLES))

    def better(self, key: str, cell: Cell, stricter: bool = False) -> str:
        """Return the most accurate contender of the baseline in a cell on average."""
        of = self.baseline(key, stricter)
        means = {name: self.mean(key, cell, name) for name in of}
        return max(means, key=lambda name: means[name] or 0.0)

    def gains(self, key: str, cell: Cell, other: str) -> dict[int, float]:
        """Return how many points tacit is above another in each draw that both have."""
        ours, theirs = self.of(key, cell, "tacit"), self.of(key, cell, other)
        return {i: 100 * (ours[i].accuracy - theirs[i].accuracy) for i in ours if i in theirs}

    def gain(self, key: str, cell: Cell, stricter: bool = False) -> float:
        """Return how many points tacit is above the baseline in a cell, on average."""
        return statistics.fmean(self.gains(key, cell, self.better(key, cell, stricter)).values())

    def named(self, key: str, cell: Cell) -> str:
        """Return what a cell is called."""
        return f"{self.sets[key].name}, {cell}"


def goals(results: Results) -> Iterator[Goal]:
    """Yield what issue 5 asks for beside what was found."""
    targets = [
        *((("20newsgroups", size), least) for size, least in NEWSGROUPS_ROW.items()),
        *AT_LEAST.items(),
    ]
    for (key, size), least in targets:
        found = results.mean(key, Cell(size, True), "tacit")
        if found is not None:
            name, of = results.sets[key].name, ""
            if key == "20newsgroups":
                of = f" (published: {PUBLISHED[size]:.3f})"
            yield Goal(
                f"{name}, {size} a class: at least {least:.3f}{of}", f"{found:.3f}", found >= least
            )
    yield from against(results)
    if enough := results.enough():
        error = statistics.fmean(
            results.mean(*place, "tacit", "calibration_error") or 0.0 for place in enough
        )
        yield Goal(
            "16 labels a class or more: expected calibration error at most .05 on average",
            f"{error:.4f} ({len(enough)} cells)",
            error <= 0.05,
        )
    yield from against(results, stricter=True)


def against(results: Results, stricter: bool = False) -> Iterator[Goal]:
    """Yield what issue 5 asks for against a baseline; a stricter one is no goal."""
    cells, enough = list(results.cells(stricter=stricter)), results.enough(stricter)
    mark = "(stricter) " if stricter else ""

    def goal(what: str, found: str, met: bool) -> Goal:
        return Goal(mark + what, found, None if stricter else met)

    if cells:
        gains = {(key, cell): results.gain(key, cell, stricter) for key, cell in cells}
        worst, mean = min(gains, key=lambda place: gains[place]), statistics.fmean(gains.values())
        below = sum(gain < -0.5 for gain in gains.values())
        yield goal(
            "no cell more than 0.5 points below the baseline",
            f"worst {gains[worst]:+.2f} ({results.named(*worst)}); {below} of {len(gains)} cells "
            "are further below",
            below == 0,
        )
        yield goal(
            "all cells together at least 7 points above the baseline",
            f"{mean:+.2f} ({len(gains)} cells)",
            mean >= 7,
        )
    if enough:
        draws = {
            (key, cell, draw): gain
            for key, cell in enough
            for draw, gain in results.gains(key, cell, results.better(key, cell, stricter)).items()
        }
        last = min(draws, key=lambda place: draws[place])
        below = sum(gain < -3 for gain in draws.values())
        yield goal(
            "16 labels a class or more: no draw more than 3 points below the baseline",
            f"worst {draws[last]:+.2f} ({results.named(*last[:2])}, draw {last[2]}); {below} of "
            f"{len(draws)} draws are further below",
            below == 0,
        )
        ours = [results.mean(*place, "tacit", "log_loss") or 0.0 for place in enough]
        theirs = [
            min(
                results.mean(*place, name, "log_loss") or 0.0
                for name in results.baseline(place[0], stricter)
            )
            for place in enough
        ]
        lower = sum(a < b for a, b in zip(ours, theirs, strict=True))
        yield goal(
            "16 labels a class or more: log-loss below that of the baseline on average",
            f"{statistics.fmean(ours):.3f} against {statistics.fmean(theirs):.3f} (the lowest "
            f"in each cell); below in {lower} of {len(enough)} cells",
            statistics.fmean(ours) < statistics.fmean(theirs),
        )


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


def time_goals(seconds: dict[str, float]) -> Iterator[Goal]:
    """Yield how long a fit takes, as a multiple of what scikit-learn takes."""
    for name, took in seconds.items():
        if name != "scikit-learn":
            ratio = took / seconds["scikit-learn"]
            found = f"{ratio:.2f} ({took:.2f} s against {seconds['scikit-learn']:.2f} s)"
            met = None if "one thread" in name else ratio <= 1
            yield Goal(
                "20 Newsgroups, `TextClassifier().fit` from strings, time as a multiple of "
                f"scikit-learn's: at most 1; {name}",
                found,
                met,
            )


def table(results: Results, key: str) -> Iterator[str]:
    """Yield the lines on a set: its cells, and the mean accuracy of each contender."""
    data = results.sets[key]
    names = [name for name in methods_of(data) if any(m == name for *_, m in results.by_place)]
    marks = {name: "*" if (key, name) in FEWER_DRAWS else "" for name in names}
    yield f"| labels | {' | '.join(name + marks[name] for name in names)} | gain |"
    yield "|---" * (len(names) + 2) + "|"
    for cell in data.cells():
        means = [results.mean(key, cell, name) for name in names]
        found = [mean for mean in means if mean is not None]
        if not found:
            continue
        shown = [
            "" if mean is None else f"**{mean:.3f}**" if mean == max(found) else f"{mean:.3f}"
            for mean in means
        ]
        both = (key, cell) in set(results.cells(extra=True))
        gain = f"{results.gain(key, cell):+.1f}" if both else ""
        yield f"| {cell} | {' | '.join(shown)} | {gain} |"


def calibration(results: Results) -> Iterator[str]:
    """Yield the lines on probabilities: a mean over the cells of a set where labels are enough."""
    names = list(TEXTS)
    yield f"| set | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for key, data in results.sets.items():
        cells = [cell for own, cell in results.enough() if own == key]
        row = []
        for name in names:
            pairs = [
                [results.mean(key, cell, name, what) for cell in cells]
                for what in ("calibration_error", "log_loss")
            ]
            there = cells and all(value is not None for pair in pairs for value in pair)
            means = [statistics.fmean(v or 0.0 for v in pair) for pair in pairs] if there else []
            row.append(f"{means[0]:.3f} / {means[1]:.2f}" if means else "")
        if cells:
            yield f"| {data.name} | {' | '.join(row)} |"


def better_tools(results: Results) -> Iterator[str]:
    """Yield the cells in which another contender is half a point above tacit, on the same draws."""
    for key, data in results.sets.items():
        for cell in data.cells():
            means = {}
            for name in methods_of(data):
                gains = results.gains(key, cell, name)
                if name not in ("tacit", *results.baseline(key)) and gains:
                    means[name] = -statistics.fmean(gains.values())
            ahead = {name: gain for name, gain in means.items() if gain > 0.5}
            if ahead:
                order = sorted(ahead, key=lambda name: -ahead[name])
                said = ", ".join(f"{name} {ahead[name]:+.1f}" for name in order)
                yield f"- {results.named(key, cell)}: {said}"


def page(results: Results, seconds: dict[str, float] | None) -> str:
    """Return the page."""
    names = ("numpy", "scipy", "scikit-learn", "fasttext-wheel")
    versions = ", ".join(f"{name} {version(name)}" for name in names if version(name))
    absent = [data for data in SETS if data not in results.sets]
    fewer = sorted({name for _, name in FEWER_DRAWS})
    found = [*goals(results), *(time_goals(seconds) if seconds else ())]
    lines = [
        "# How accurate with few labels",
        "",
        f"Written by `make bench-accuracy`. Means over draws of labels ({results.draws}), "
        "which are the same for all contenders; tacit has its defaults on every set. "
        f"{processor()}, Python {platform.python_version()}, {versions}.",
        "",
        "Rows to train on are those of the draw, labelled, and all others without a label. 20 "
        "Newsgroups (without headers; posts of fewer than three words are left out) and R8 have "
        "rows to test on; WebKB is tested on one of four universities in turn; of the other sets a "
        "third, drawn at random, is tested on. Labels of each class: a class with fewer rows gives "
        "all of them, and the cell exists if at least half of the classes have more rows than "
        "that. Labels at random: the cell exists if they are at most three quarters of the rows; a "
        "class that was not drawn cannot be found. A larger cell of a draw has the labels of a "
        "smaller one too.",
        "",
        METHODS,
        "",
        "The baseline is supervised naive Bayes on raw counts (NB raw) and on the same weighting "
        "(NB same on texts, NB own on tables), in each cell the more accurate of the two on "
        "average; the gain is that of tacit over it, in points. Stricter lines, which "
        "are no goals, hold tacit against the best of all NB columns: on texts NB own, too, which "
        "was the baseline before NB same was there, but is no naive Bayes on one weighting. 16 "
        "labels a class or more are there if every class has 16 in each draw, or all its rows; so "
        "draws at random can count. The cells that only 20 Newsgroups (2, 8, 32, 128, 512 a class) "
        "and WebKB (60) have count in their own goals alone. Probabilities below 2e-16 count as "
        "2e-16 in the log-loss.",
        "",
    ]
    if results.few is not None:
        lines += [
            f"A trial run on at most {results.few} rows of each set: the figures say nothing.",
            "",
        ]
    if absent:
        lines += [f"Not measured: {', '.join(absent)}.", ""]
    if contenders.absent():
        lines += ["fastText is not installed (`pip install tacit[bench]`): it has no column.", ""]
    lines += [
        "## What must hold",
        "",
        "| what | found | |",
        "|---|---|---|",
        *(goal.row() for goal in found),
        "",
        "The time of scikit-learn is that of CountVectorizer once and of GridSearchCV of "
        "MultinomialNB over 5 alphas in 5 folds, on all training posts and labels.",
        "",
        "## Accuracy",
        "",
        f"*: 3 draws only, as these take longest ({', '.join(fewer)}).",
        "",
    ]
    for key, data in results.sets.items():
        train, test = data.divide(0)
        size = f"{len(train):,} rows to train on, {len(test):,} to test on in the first draw"
        lines += [f"### {data.name}", "", f"{len(data.classes)} classes; {size}.", ""]
        lines += [*table(results, key), ""]
    lines += ["## Probabilities", "", "Expected calibration error (15 bins) / log-loss in nats, "]
    lines[-1] += "over the cells with 16 labels a class or more."
    lines += ["", *calibration(results), "", "## Where another tool is better", ""]
    lines += ["By more than half a point, on the draws that both have.", ""]
    lines += [*(list(better_tools(results)) or ["Nowhere."]), ""]
    return "\n".join(lines)


def figures(results: Results, seconds: dict[str, float] | None) -> dict[str, Any]:
    """Return all figures, by set, cell and contender, a list over the draws."""
    found: dict[str, Any] = {}
    for key, data in results.sets.items():
        for cell, method in product(data.cells(), methods_of(data)):
            own = results.of(key, cell, method).values()
            if own:
                place = found.setdefault(key, {}).setdefault(str(cell), {})
                place[method] = {name: [getattr(record, name) for record in own] for name in NAMES}
    return {"draws": results.draws, "sets": found, "fit_seconds": seconds}


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


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what the command line asks for, and return the page."""
    asked = options(arguments)
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
            sys.stderr.write(f"{key}: skipped, as its data are not beside the project\n")
    if store is not None:
        store.parent.mkdir(exist_ok=True)
        store.write_text(lines_of(records.values()), encoding="utf-8")
    for i, new in enumerate(measured(units, asked.jobs)):
        records |= {record.place: record for record in new}
        if store is not None:
            with store.open("a", encoding="utf-8") as file:
                file.write(lines_of(new))
        took = sum(record.seconds for record in new)
        where = f"{new[0].key}, draw {new[0].draw}"
        sys.stderr.write(f"{i + 1} of {len(units)}: {where}, {took:.1f} s\n")
    results = Results(records.values(), draws, few)
    seconds = timing(few, 1 if asked.quick else asked.turns) if asked.turns else None
    text = page(results, seconds)
    if not asked.quick:
        (HERE / "accuracy.md").write_text(text, encoding="utf-8")
        whole = compact(figures(results, seconds)) + "\n"
        FIGURES.write_text(whole, encoding="utf-8")
    return text


if __name__ == "__main__":
    sys.stdout.write(main())
