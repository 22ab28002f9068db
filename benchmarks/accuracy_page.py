"""The page of accuracies, accuracy.md: what must hold beside what was found."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import contenders
from contenders import TEXTS
from labelled import SETS, Cell
from provenance import Provenance, origins
from records import FEWER_DRAWS, Results, methods_of
from run import version

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
class Goal:
    """What is asked for, what was found, and whether that is enough; None if there is no goal."""

    what: str
    found: str
    met: bool | None

    def row(self) -> str:
        """Return the line of the page."""
        verdict = {True: "met", False: "**not met**", None: ""}[self.met]
        return f"| {self.what} | {self.found} | {verdict} |"


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


def chance(results: Results, further: Results) -> Iterator[str]:
    """Yield a line for each cell that misses a goal: what other draws say of it."""
    yield "| cell | gain | draws more than 3 below | further draws: gain | more than 3 below |"
    yield "|---" * 5 + "|"
    for place in results.missed():
        row = [results.named(*place)]
        for own in (results, further):
            gains = list(own.gains(*place, own.better(*place)).values())
            below, error = sum(gain < -3 for gain in gains), statistics.stdev(gains)
            error /= len(gains) ** 0.5
            mean = statistics.fmean(gains)
            row += [f"{mean:+.2f} (standard error {error:.2f})", f"{below} of {len(gains)}"]
        yield f"| {' | '.join(row)} |"


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


def page(
    results: Results, further: Results, seconds: dict[str, float] | None, now: Provenance
) -> str:
    """Return the page; times were taken `now`, and records say themselves when."""
    names = ("numpy", "scipy", "scikit-learn", "fasttext-wheel")
    versions = ", ".join(f"{name} {version(name)}" for name in names if version(name))
    absent = [data for data in SETS if data not in results.sets]
    fewer = sorted({name for _, name in FEWER_DRAWS})
    found = [*goals(results), *(time_goals(seconds) if seconds else ())]
    lines = [
        "# How accurate with few labels",
        "",
        f"Written by `make bench-accuracy`. Means over draws of labels ({len(results.draws)}), "
        "which are the same for all contenders; tacit has its defaults on every set. "
        f"Written with {versions}.",
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
    ]
    if seconds:
        lines[-2] += f" These times: {now}."
    if further.by_place:
        lines += [
            "### Chance",
            "",
            f"Cells that miss a goal, on the draws above and on {len(further.draws)} others, which "
            "decide nothing.",
            "",
            *chance(results, further),
            "",
        ]
    lines += [
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
    every = [*results.by_place.values(), *further.by_place.values()]
    lines += ["## Where the figures come from", ""]
    lines += [*origins(record.provenance for record in every), ""]
    return "\n".join(lines)
