"""What each part of a text ensemble is worth, and how defaults fare on sets left out.

``make bench-parts`` fits the parts of `TextClassifier` once for each set and draw of labels,
without each fold and to all rows, and then stacks them in several ways: without one of them, with
other expected weights, with another penalty. Choosing the best way on all sets but one, and
measuring it on that one, is what a default chosen on these sets can be expected to do elsewhere.
Writes parts.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
import labelled
from contenders import Task, division
from labelled import SETS, Cell
from parallel import in_processes
from provenance import Provenance, origins

from tacit.data.labels import encode
from tacit.numerics import Array, log, normalize
from tacit.selection import stacking
from tacit.selection.candidates import OutOfFold, clipped, contradict
from tacit.selection.cross_validation import Evaluation
from tacit.selection.ensemble import cross_validate
from tacit.selection.stacking import log_odds_scale
from tacit.text.parts import Settings, TextRows, learners
from tacit.text.vectorizer import CountVectorizer

PAGE = Path(__file__).with_suffix(".md")
ROWS, DRAWS, SAMPLE = 4_000, 2, 1_500
CELLS = [Cell(size, True) for size in (1, 4, 16, 64, 256)] + [Cell(50, False), Cell(200, False)]


@dataclass(frozen=True)
class Fitted:
    """The parts of an ensemble fitted to a draw of labels: what each tells of which rows."""

    key: str
    cell: str
    names: tuple[str, ...]
    expected: Array
    predictions: OutOfFold | None
    counts: Array
    sample: Array  # of the training rows, (n, K, C)
    test: Array
    truth: Array


Weighing = Callable[[Fitted], Array]


def fitted(key: str, draw: int, rows: int) -> list[Fitted]:
    """Return the parts fitted to all cells of a draw of a set."""
    data, found = labelled.load(key, rows), []
    assert data is not None
    parts = division(key, rows, data.part(draw))
    vectorizer = CountVectorizer(n_jobs=1)
    X, new = vectorizer.fit_transform(parts.X_train), vectorizer.transform(parts.X_test)
    settings = Settings(1.0, 0, 1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in (cell for cell in CELLS if str(cell) in map(str, data.cells())):
            task = Task(parts, data.labels(cell, draw, parts.train))
            codes = [None if code < 0 else code for code in task.codes.tolist()]
            labels = encode(codes, np.arange(len(data.classes)))
            of_rows = TextRows(X, labels, np.ones(len(codes)), len(codes))
            each = learners(settings, of_rows, 1)
            selected = cross_validate(each, of_rows)
            known = [one.fit(of_rows.weight) for one in each]
            some = np.linspace(0, len(codes) - 1, SAMPLE).astype(np.intp)
            sample, test = (
                np.stack([clipped(part.evidence(own)) for part in known], axis=2)
                for own in (X[np.unique(some)], new)
            )
            found.append(
                Fitted(
                    key,
                    str(cell),
                    tuple(part.name for part in known),
                    np.array([one.expected for one in each]),
                    None if selected is None else selected.predictions,
                    np.bincount(task.y, minlength=len(data.classes)),
                    *(sample, test, task.truth),
                )
            )
    return found


def stacked(fit: Fitted, expected: Array) -> Evaluation:
    """Return how the parts predict test rows, stacked from these expected weights; NaN: without."""
    kept, K = ~np.isnan(expected), len(fit.counts)
    expected = np.where(kept, expected, 0.0)
    expected = expected / max(expected.sum(), 1e-9)
    prior = np.full(K, 1.0 / K)
    if fit.predictions is None:
        weights = expected / log_odds_scale(fit.sample)
    else:
        scale = log_odds_scale(fit.predictions.log_joint)
        weights = fit.predictions.stack(kept, expected, scale).weights
        prior = (fit.counts + 1.0) / (fit.counts + 1.0).sum()
        mean = normalize(fit.sample @ weights + log(prior))[0].mean(axis=0)
        prior = mean if contradict(fit.counts, mean) else prior
    return Evaluation.of(normalize(fit.test @ weights + log(prior))[0], fit.truth)


def without(name: str) -> Weighing:
    """Return the expected weights without a part."""
    return lambda fit: np.where(np.array(fit.names) == name, np.nan, fit.expected)


def weighed(**expected: float) -> Weighing:
    """Return other expected weights, by the first word of a part's name; 0 for others."""
    return lambda fit: np.array([expected.get(name.split()[0], 0.0) for name in fit.names])


WEIGHINGS: dict[str, Weighing] = {
    "the defaults": lambda fit: fit.expected,
    "without topics": without("topics"),
    "without words": without("words"),
    "without informative words": without("informative words"),
    "without clusters": without("clusters"),
    "without logistic regression": without("logistic regression"),
    "topics alone expected": weighed(topics=1.0),
    "topics and clusters expected": weighed(topics=0.7, clusters=0.3),
    "topics 1/2, words and clusters 1/4": weighed(topics=0.5, words=0.25, clusters=0.25),
    "topics, words and clusters alike": weighed(topics=1.0, words=1.0, clusters=1.0),
    "all alike": weighed(topics=1.0, words=1.0, clusters=1.0, informative=1.0, logistic=1.0),
}
PENALTIES = (0.5, 1.0, 4.0, 8.0)


def measured(fits: Iterable[Fitted]) -> Iterator[tuple[str, str, str, float, float]]:
    """Yield set, cell, way of stacking, accuracy and log-loss of each fit."""
    for fit in fits:
        for name, weigh in WEIGHINGS.items():
            found = stacked(fit, weigh(fit))
            yield fit.key, fit.cell, name, found.accuracy, found.log_loss
        for penalty in PENALTIES:
            stacking.PENALTY, default = penalty, stacking.PENALTY
            found = stacked(fit, fit.expected)
            stacking.PENALTY = default
            yield fit.key, fit.cell, f"penalty {penalty:g}", found.accuracy, found.log_loss


def figures(key: str, draw: int, rows: int) -> list[tuple[str, str, str, float, float]]:
    """Return all figures of a draw of a set."""
    return list(measured(fitted(key, draw, rows)))


def page(records: Sequence[tuple[str, str, str, float, float]], rows: int, origin: Any) -> str:
    """Return the page."""
    table: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for key, cell, name, accuracy, loss in records:
        table.setdefault((name, key, cell), []).append((100 * accuracy, loss))
    means = {place: np.mean(own, axis=0) for place, own in table.items()}
    names = list(dict.fromkeys(name for name, _, _ in means))
    keys = list(dict.fromkeys(key for _, key, _ in means))
    cells = [str(cell) for cell in CELLS if any(str(cell) == own for _, _, own in means)]

    def mean(name: str, of: Iterable[str], wanted: Iterable[str] = cells) -> Array:
        own = [means[name, k, c] for k, c in product(of, wanted) if (name, k, c) in means]
        return np.mean(own, axis=0)

    lines = [
        "# What the parts of a text ensemble are worth",
        "",
        f"Written by `make bench-parts`: at most {rows:,} texts of each set, the mean over sets "
        "and cells; accuracy in points less that of the defaults, with its standard error over "
        "sets, and log-loss.",
        "",
        f"| stacking | accuracy | (s.e.) | log-loss | {' | '.join(cells)} |",
        "|---" * (len(cells) + 4) + "|",
    ]
    base = names[0]
    for name in names:
        by_set = np.array([mean(name, [key])[0] - mean(base, [key])[0] for key in keys])
        error = by_set.std(ddof=1) / len(keys) ** 0.5 if len(keys) > 1 else np.nan
        whole = f"{by_set.mean():+.2f} | {error:.2f}"
        if name == base:
            whole = f"{mean(name, keys)[0]:.2f} | "
        each = [mean(name, keys, [cell])[0] - mean(base, keys, [cell])[0] for cell in cells]
        if name == base:
            each = [mean(name, keys, [cell])[0] for cell in cells]
        form = "{:.1f}" if name == base else "{:+.2f}"
        of_cells = " | ".join(form.format(one) for one in each)
        lines.append(f"| {name} | {whole} | {mean(name, keys)[1]:.3f} | {of_cells} |")
    left_out = []
    for key in keys if len(keys) > 1 else []:
        rest = [other for other in keys if other != key]
        best = max(names, key=lambda name: mean(name, rest)[0])
        left_out.append((key, best, mean(best, [key])[0], mean(base, [key])[0]))
    if left_out:
        lines += [
            "",
            "## Chosen on all sets but one",
            "",
            "The way of stacking with the best accuracy on all other sets, on the one left out.",
            "",
            "| set | chosen | accuracy | the defaults |",
            "|---|---|---|---|",
        ]
        lines += [f"| {k} | {best} | {a:.1f} | {b:.1f} |" for k, best, a, b in left_out]
        chosen, default = (np.mean([row[i] for row in left_out]) for i in (2, 3))
        lines += [f"| mean | | {chosen:.2f} | {default:.2f} |"]
    return "\n".join([*lines, "", "## Where the figures come from", "", *origins([origin]), ""])


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what the command line asks for, and return the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [key for key in SETS if (data := labelled.load(key)) is not None and data.texts]
    parser.add_argument("--sets", nargs="+", default=known, choices=known, metavar="SET")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of labels")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--rows", type=int, default=ROWS, help="of each set, at most")
    parser.add_argument("--quick", action="store_true", help="writes nothing")
    asked, records = parser.parse_args(arguments), []
    units = [(key, draw, asked.rows) for draw, key in product(range(asked.draws), asked.sets)]
    for i, new in enumerate(in_processes(figures, units, asked.jobs)):
        records += new
        sys.stderr.write(f"{i + 1} of {len(units)}\n")
    order = {key: i for i, key in enumerate(SETS)}
    records.sort(key=lambda record: order[record[0]])
    text = page(records, asked.rows, Provenance.here())
    if not asked.quick:
        PAGE.write_text(text, encoding="utf-8")
    return text


if __name__ == "__main__":
    sys.stdout.write(main())
